"""Handles Ctrl-C while Spark runs a query: cancels its jobs and raises KeyboardInterrupt.

PySpark's own handler uses the connection to the JVM that waits for the result, which breaks both
and logs tracebacks. Must never know the queries.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from pyspark import SparkContext

CANCEL_SECONDS: Final = 0.1


class Interrupts:
    """Handles SIGINT until `close`, if it was created in the main thread."""

    def __init__(self, context: SparkContext) -> None:
        self._context: Final = context
        self._asking = False
        self._ended: Final = threading.Event()
        self._cancelling: threading.Thread | None = None
        self._installed: Final = threading.current_thread() is threading.main_thread()
        if self._installed:
            signal.signal(signal.SIGINT, self._interrupt)

    def close(self) -> None:
        """Restore Python's handler of SIGINT."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Run a query of Spark in this context; raises KeyboardInterrupt after Ctrl-C."""
        self._ended.clear()
        self._asking = True
        try:
            yield
        except Exception:
            # After Ctrl-C, Spark only reports that its jobs were cancelled.
            if self._cancelling is None:
                raise
        finally:
            self._asking = False
            self._ended.set()
        if self._cancelling is not None:
            # Otherwise it could cancel the next query.
            self._cancelling.join()
            self._cancelling = None
            raise KeyboardInterrupt

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._asking or self._cancelling is not None:
            raise KeyboardInterrupt
        # Another thread has its own connection to the JVM.
        self._cancelling = threading.Thread(target=self._cancel, daemon=True)
        self._cancelling.start()

    def _cancel(self) -> None:
        """Cancel until the query has ended: while Spark plans, there are no jobs to cancel yet."""
        while not self._ended.wait(CANCEL_SECONDS):
            self._context.cancelAllJobs()
