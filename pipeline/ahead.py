"""Working ahead of whoever takes the results: several works at once, their results in order.

Decompressing leaves other threads of Python alone, so that a second processor is of use. Each work
has a lane that holds a few of its results, so memory is bounded however slowly they are taken. Must
never know what the works are.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import Empty, Queue
from typing import Final, Generic, TypeVar

WAITING: Final = 2
"""Results of one work that wait to be taken."""

T = TypeVar("T")


class _End:
    """Stands behind the last result of a work; `error` is what ended it, if anything did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error: Final = error


class _Lane(Generic[T]):
    """The results of one work on their way."""

    def __init__(self, work: Callable[[], Iterable[T]], stopped: threading.Event) -> None:
        self._work: Final = work
        self._stopped: Final = stopped
        self._queue: Final[Queue[T | _End]] = Queue(WAITING)

    def run(self) -> None:
        """Do the work, as far as somebody wants its results."""
        error: BaseException | None = None
        try:
            if self._stopped.is_set():
                return
            for result in self._work():
                self._queue.put(result)
                if self._stopped.is_set():
                    return
        except BaseException as caught:
            error = caught
        self._queue.put(_End(error))

    def results(self) -> Iterator[T]:
        """What the work gives, in order; raises what the work raised."""
        while not isinstance(result := self._queue.get(), _End):
            yield result
        if result.error is not None:
            raise result.error

    def drain(self) -> None:
        """Make room for a work that waits for some, so that it sees that it is to stop."""
        while True:
            try:
                self._queue.get_nowait()
            except Empty:
                return


def in_order(works: Iterable[Callable[[], Iterable[T]]], threads: int) -> Iterator[T]:
    """What the first work gives, then what the next one gives, and so on.

    So many of them run at once. Raises what a work raises, behind all results that come before it.
    """
    stopped = threading.Event()
    upcoming = iter(works)
    lanes: deque[_Lane[T]] = deque()
    pool = ThreadPoolExecutor(threads, "decoding")

    def begin(count: int) -> None:
        for work in islice(upcoming, count):
            lane = _Lane(work, stopped)
            lanes.append(lane)
            pool.submit(lane.run)

    try:
        begin(threads)
        while lanes:
            yield from lanes[0].results()
            lanes.popleft()
            begin(1)
    finally:
        stopped.set()
        for lane in lanes:
            lane.drain()
        pool.shutdown(cancel_futures=True)
