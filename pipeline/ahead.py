"""Working ahead of whoever takes the results: several works at once, their results in order.

Threads take turns in advancing the source, and then work on what they got. A turn is a burst of
small reads, each of which would wake a thread that waits for the interpreter and not let it in;
who waits for a turn sleeps. Must never know what the works are.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from typing import Final, Generic, TypeVar

AHEAD: Final = 1
"""Results that may wait to be taken while every thread is at work on another."""

S = TypeVar("S")
T = TypeVar("T")


class _Failure:
    """Stands for a result where there is none."""

    def __init__(self, error: BaseException) -> None:
        self.error: Final = error


class _Crew(Generic[S, T]):
    """Threads, and the results that wait to be taken, by number.

    `_turn` is held to advance the source, `_changed` to look at or change what follows it.
    """

    def __init__(self, source: Iterator[S], work: Callable[[S], T], threads: int) -> None:
        self._source: Final = source
        self._work: Final = work
        self._room: Final = threading.Semaphore(threads + AHEAD)
        self._turn: Final = threading.Lock()
        self._changed: Final = threading.Condition()
        self._results: Final[dict[int, T | _Failure]] = {}
        self._begun = 0
        self._is_over = False
        self._threads: Final = [
            threading.Thread(target=self._run, name=f"decoding_{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def results(self) -> Iterator[T]:
        """What works give, in order; raises what one raised, or the source, in its place."""
        number = 0
        while True:
            with self._changed:
                while number not in self._results:
                    if self._is_over and number == self._begun:
                        return
                    self._changed.wait()
                result = self._results.pop(number)
            if isinstance(result, _Failure):
                raise result.error
            self._room.release()
            number += 1
            yield result

    def stop(self) -> None:
        """Have the threads end, and wait until they did."""
        with self._changed:
            self._is_over = True
        for _ in self._threads:
            self._room.release()
        for thread in self._threads:
            thread.join()
        if isinstance(self._source, Generator):
            self._source.close()

    def _run(self) -> None:
        while True:
            self._room.acquire()
            with self._turn:
                if self._is_over:
                    return
                try:
                    item = next(self._source)
                except StopIteration:
                    self._end()
                    return
                except BaseException as error:
                    self._put(self._begin(), _Failure(error))
                    return
                number = self._begin()
            try:
                self._put(number, self._work(item))
            except BaseException as error:
                self._put(number, _Failure(error))

    def _begin(self) -> int:
        with self._changed:
            self._begun += 1
            return self._begun - 1

    def _put(self, number: int, result: "T | _Failure") -> None:
        with self._changed:
            self._results[number] = result
            if isinstance(result, _Failure):
                self._is_over = True
            self._changed.notify()

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()


def in_order(source: Iterator[S], work: Callable[[S], T], threads: int) -> Iterator[T]:
    """What `work` makes of each item of the source, in the order of the items.

    So many threads work at once, and a few results wait. Raises what a work raises, or the source,
    behind all results that come before it. The source is closed at the end.
    """
    crew = _Crew(source, work, threads)
    try:
        yield from crew.results()
    finally:
        crew.stop()
