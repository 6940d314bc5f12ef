"""The available memory: that of the machine, or less if a control group has a lower limit.

It is read from files of Linux: `/proc/meminfo`, and the limits of control groups, version 2
(`memory.max`) and 1 (`memory.limit_in_bytes`); the lowest limit of a group and its parents is used.
Fault model: a file may be missing or invalid; then it is ignored.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path("/")
FALLBACK_BYTES: Final = 1 << 30
"""The assumed memory if it cannot be read."""


def available(root: Path = ROOT) -> int:
    """Return how many bytes of memory this process and its children can use."""
    told = [_of_machine(root), *_of_groups(root)]
    return min((size for size in told if size > 0), default=FALLBACK_BYTES)


def resident(root: Path = ROOT) -> int:
    """Return how many bytes of memory this process uses now, 0 if unknown."""
    return _kibibytes(root / "proc/self/status", "VmRSS:")


def _of_machine(root: Path) -> int:
    return _kibibytes(root / "proc/meminfo", "MemTotal:")


def _kibibytes(path: Path, name: str) -> int:
    """Return the number after a name in a file of /proc, in bytes; 0 if it is missing."""
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdigit():
            return 1024 * int(words[1])
    return 0


def _of_groups(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control groups and their parents."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _upwards(mount: Path, path: str, name: str) -> Iterator[int]:
    # In a container the path may be that of the machine, of which only the last part is mounted, so
    # the top of the mount is always included.
    group = PurePosixPath(path.lstrip("/"))
    for folder in (group, *group.parents):
        if ".." not in folder.parts:
            text = _read(mount / folder / name).strip()
            yield int(text) if text.isdigit() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
