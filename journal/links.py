"""How many names an open file has, asked for without its times.

A kernel that keeps fine timestamps (Linux 6.13 and newer) notes that somebody has seen the times of
a file. The next write then changes them, and the next fdatasync may have to write the inode too:
another write to the disk for each block. `os.fstat` asks for the times; this asks for the links
alone. Must never know whose file it is.
"""

import ctypes
import os
from struct import Struct
from typing import Any, Final

_AT_EMPTY_PATH: Final = 0x1000
_NLINK: Final = 0x4
_Result: Final = ctypes.c_char * 256
# Mask, block size, attributes, links.
_RESULT: Final = Struct("=IIQI")
_STATX: Final[Any] = getattr(ctypes.CDLL(None), "statx", None)


def link_count(descriptor: int) -> int:
    """Return how many names an open file has; 0 after it was deleted. Raises OSError."""
    if _STATX is not None:
        result = _Result()
        if _STATX(descriptor, b"", _AT_EMPTY_PATH, _NLINK, result) == 0:
            mask, _, _, links = _RESULT.unpack_from(result)
            if mask & _NLINK:
                return int(links)
    # An old kernel, or a container that refuses the call, or no such descriptor.
    return os.fstat(descriptor).st_nlink
