"""How much memory there is: that of the machine, or less where a control group allows less.

Linux tells it in files: `/proc/meminfo`, and the limits of control groups, version 2 (`memory.max`)
and 1 (`memory.limit_in_bytes`), of which the lowest on the way up counts. Fault model: a file may
be missing or say something else; then it says nothing.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path("/")
FALLBACK_BYTES: Final = 1 << 30
"""What is taken for the memory of a machine that does not tell."""


def available(root: Path = ROOT) -> int:
    """Bytes of memory that this process and its children can have."""
    told = [_of_machine(root), *_of_groups(root)]
    return min((size for size in told if size > 0), default=FALLBACK_BYTES)


def resident(root: Path = ROOT) -> int:
    """Bytes of memory that this process has now, 0 if nobody tells."""
    return _kibibytes(root / "proc/self/status", "VmRSS:")


def _of_machine(root: Path) -> int:
    return _kibibytes(root / "proc/meminfo", "MemTotal:")


def _kibibytes(path: Path, name: str) -> int:
    """The number behind a name in a file of /proc, in bytes; 0 if it is not there."""
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdigit():
            return 1024 * int(words[1])
    return 0


def _of_groups(root: Path) -> Iterator[int]:
    """The limits of the control groups that this process is in, those above them included."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _upwards(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _upwards(mount: Path, path: str, name: str) -> Iterator[int]:
    # In a container the path may be that of the machine, of which only the end is mounted: so the
    # top of what is mounted counts in any case.
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
