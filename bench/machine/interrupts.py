"""SIGTERM and SIGINT as an exception that never comes while a process starts or stops."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """The user wants the benchmark to end; its measurements so far are still reported."""


class Interrupts:
    """Turns SIGTERM and SIGINT into an exception, but never while a process starts or stops.

    An exception in the middle of either would leave a process behind.
    """

    def __init__(self) -> None:
        """Take over both signals, until `release`."""
        self._shielded = False
        self._pending = ""
        self._before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGTERM, signal.SIGINT)
        }

    def release(self) -> None:
        """Restore the previous handlers of both signals."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._pending = f"interrupted by {signal.Signals(number).name}"
        if not self._shielded:
            raise Interrupted(self._pending)

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Let the block end first; raise an interrupt that came meanwhile afterwards."""
        self._shielded = True
        already = self._pending
        try:
            yield
        finally:
            self._shielded = False
        if self._pending != already:
            raise Interrupted(self._pending)
