"""Makes a child process end with its parent, and keeps signals away from threads.

Fault model: the parent may be killed at any moment, also before the child asks for the signal. Must
never know the work of the process or the thread.
"""

import ctypes
import os
import signal
from typing import Final

MEANT_FOR_THE_BROKER: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> bool:
    """Make the kernel kill this process when its parent ends; return whether the parent is alive.

    The kernel sends the signal when the thread that forked this process ends.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent


def leave_signals_to_others() -> None:
    """Block the signals that stop or reload a broker in this thread: other threads handle them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, MEANT_FOR_THE_BROKER)
