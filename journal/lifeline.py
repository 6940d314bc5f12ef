"""Makes a child process end with its parent.

Fault model: the parent may be killed at any moment, also before the child asks for the signal. Must
never know what the process does.
"""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> bool:
    """Make the kernel kill this process when its parent ends; return whether the parent is alive.

    The kernel sends the signal when the thread that forked this process ends.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent
