"""Working ahead of whoever takes the results: several works at once, their results in order.

Items come from an iterator that is advanced by whoever takes the results. A burst of small reads
wakes a thread that waits for the interpreter at each of them, and does not let it in: with one
thread for all reading there are fewer who wait. Must never know what the works are.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

AHEAD: Final = 3
"""Items or results that wait, so that neither threads nor the reader do."""

S = TypeVar("S")
T = TypeVar("T")


def in_order(source: Iterator[S], work: Callable[[S], T], threads: int) -> Iterator[T]:
    """What `work` makes of each item of the source, in the order of the items.

    So many threads work at once, and a few items and results wait. Raises what a work raises, or
    the source, behind all results that come before it. The source is closed at the end.
    """
    pending: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads, "decoding")
    error: BaseException | None = None
    is_over = False
    try:
        while True:
            while not is_over and len(pending) < threads + AHEAD:
                try:
                    pending.append(pool.submit(work, next(source)))
                except StopIteration:
                    is_over = True
                except Exception as caught:
                    is_over, error = True, caught
            if not pending:
                break
            yield pending.popleft().result()
        if error is not None:
            raise error
    finally:
        pool.shutdown(cancel_futures=True)
        if isinstance(source, Generator):
            source.close()
