"""Working ahead of whoever takes the results: several works at once, their results in order.

Decompressing leaves other threads of Python alone, so that a second processor is of use. Each work
has a lane that has room for some of its results, so memory is bounded however slowly they are
taken. Must never know what the works are.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class _Lane(Generic[T]):
    """The results of one work on their way; at most `room` of them wait, but always one may."""

    def __init__(
        self, work: Callable[[], Iterable[T]], size_of: Callable[[T], int], room: int
    ) -> None:
        self._work: Final = work
        self._size_of: Final = size_of
        self._room: Final = room
        self._changed: Final = threading.Condition()
        self._waiting: Final[deque[tuple[T, int]]] = deque()
        self._held = 0
        self._is_over = False
        self._is_unwanted = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work, as far as somebody wants its results."""
        error: BaseException | None = None
        try:
            # A work that is not begun has nothing to put away.
            for result in () if self._is_unwanted else self._work():
                if not self._put(result):
                    break
        except BaseException as caught:
            error = caught
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify()

    def _put(self, result: T) -> bool:
        """Have a result wait to be taken; whether more are wanted."""
        size = self._size_of(result)
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_unwanted or not self._waiting or self._held + size <= self._room
            )
            self._waiting.append((result, size))
            self._held += size
            self._changed.notify()
            return not self._is_unwanted

    def results(self) -> Iterator[T]:
        """What the work gives, in order; raises what the work raised."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_over)
                if not self._waiting:
                    break
                result, size = self._waiting.popleft()
                self._held -= size
                self._changed.notify()
            yield result
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Tell the work that nobody wants its results."""
        with self._changed:
            self._is_unwanted = True
            self._changed.notify()


def in_order(
    works: Iterable[Callable[[], Iterable[T]]],
    threads: int,
    size_of: Callable[[T], int],
    room: int,
) -> Iterator[T]:
    """What the first work gives, then what the next one gives, and so on.

    So many of them run at once, and have `room` each for results that nobody took, by their size.
    Raises what a work raises, behind all results that come before it.
    """
    upcoming = iter(works)
    lanes: deque[_Lane[T]] = deque()
    pool = ThreadPoolExecutor(threads, "decoding")

    def begin(count: int) -> None:
        for work in islice(upcoming, count):
            lane = _Lane(work, size_of, room)
            lanes.append(lane)
            pool.submit(lane.run)

    try:
        # One more, for the thread that is done before its results are taken.
        begin(threads + 1)
        while lanes:
            yield from lanes[0].results()
            lanes.popleft()
            begin(1)
    finally:
        for lane in lanes:
            lane.abandon()
        pool.shutdown(cancel_futures=True)
