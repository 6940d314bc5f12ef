"""Ctrl-C while Spark works: its jobs are cancelled, and the question ends as KeyboardInterrupt.

PySpark's own handler talks to the JVM on the connection that waits for the answer, which breaks
both and is logged with tracebacks. Must never know what was asked.
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
    """Has SIGINT to itself from its making to `close`, if that is in the main thread."""

    def __init__(self, context: SparkContext) -> None:
        self._context: Final = context
        self._asking = False
        self._ended: Final = threading.Event()
        self._cancelling: threading.Thread | None = None
        self._installed: Final = threading.current_thread() is threading.main_thread()
        if self._installed:
            signal.signal(signal.SIGINT, self._interrupt)

    def close(self) -> None:
        """Leave SIGINT to Python."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Within it Spark is asked something; raises KeyboardInterrupt behind it, if need be."""
        self._ended.clear()
        self._asking = True
        try:
            yield
        except Exception:
            # That its jobs were cancelled is what Spark has to say then.
            if self._cancelling is None:
                raise
        finally:
            self._asking = False
            self._ended.set()
        if self._cancelling is not None:
            # Else it might cancel what is asked next.
            self._cancelling.join()
            self._cancelling = None
            raise KeyboardInterrupt

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._asking or self._cancelling is not None:
            raise KeyboardInterrupt
        # A thread of its own has a connection of its own.
        self._cancelling = threading.Thread(target=self._cancel, daemon=True)
        self._cancelling.start()

    def _cancel(self) -> None:
        """Cancel until the question has ended: while Spark plans there is nothing to cancel yet."""
        while not self._ended.wait(CANCEL_SECONDS):
            self._context.cancelAllJobs()
