"""Ctrl-C for a command that speaks to a peer: it ends between two steps, never within one.

A KeyboardInterrupt may be raised between any two instructions: when bytes have arrived and are not
read yet, for instance. The client then lost the answer in them, and waits for it in vain. Must
never know what the steps are.
"""

import signal
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Final, TypeVar

SLICE_SECONDS: Final = 0.2
"""How long a wait is at most before the command looks whether it must end."""

Found = TypeVar("Found")


class Interruption:
    """A context manager in which the first SIGINT is noted (`has_come`); the second one raises
    KeyboardInterrupt, so that a step that hangs can be ended, too.

    Without effect where SIGINT is ignored, and in other threads than the main one.
    """

    def __init__(self) -> None:
        self.has_come = False
        self._before: object = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._is_raised:
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._is_raised:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def _is_raised(self) -> bool:
        return self._before is signal.default_int_handler

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.has_come:
            raise KeyboardInterrupt
        self.has_come = True

    def wait(self, step: Callable[[float], Found | None], seconds: float | None) -> Found | None:
        """Return what `step` finds, which takes the seconds that it may wait; None after `seconds`
        (None: without limit), and soon after SIGINT."""
        deadline = None if seconds is None else monotonic() + seconds
        while not self.has_come:
            left = SLICE_SECONDS if deadline is None else max(deadline - monotonic(), 0.0)
            found = step(min(left, SLICE_SECONDS))
            if found is not None or left == 0.0:
                return found
        return None
