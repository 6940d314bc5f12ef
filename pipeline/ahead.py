"""Runs a function over items in several threads, and yields the results in order.

The consumer's thread advances the source iterator, so only one thread reads. With several readers,
each small read would wait for the interpreter, and threads would mostly wait for each other. Must
never know what the function does.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

AHEAD: Final = 3
"""How many items or results are queued, so that neither the threads nor the consumer wait."""

S = TypeVar("S")
T = TypeVar("T")


def in_order(source: Iterator[S], work: Callable[[S], T], threads: int) -> Iterator[T]:
    """Yield `work(item)` for each item of the source, in order, computed by `threads` threads.

    An exception of `work` or of the source is raised after all results before it. The source is
    closed at the end.
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
