"""Ending with one's parent: a process that works for another must not outlive it.

Fault model: the parent may be killed at any moment, also before this asks for the signal. Must
never know what the process does.
"""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> bool:
    """Have this process killed when its parent ends; answers whether the parent still lives.

    It is the end of the thread that made this process that counts.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent
