"""Foreign files: a folder that has any cannot become a data directory.

A broker started on a wrong folder, for example a home directory, would mix its files with the files
there, and both would share every backup and deletion. So a folder without a journal may contain
only files that can be there before a first start.
"""

from pathlib import Path
from typing import Final

from daybook.journal.data_directory import (
    CONFIG,
    CUT,
    DATA_ID,
    INDEX_LOCK,
    JOURNAL,
    LAST_WORDS,
    LOCK,
    NODE,
    NODE_SOCKET,
    USERS,
)
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names

FIRST: Final = frozenset(
    {
        LOCK, LAST_WORDS, JOURNAL, INDEX_LOCK, USERS, CONFIG, NODE, NODE_SOCKET, CUT,
        "lost+found", ".snapshot", ".keep", ".gitkeep",
    }
)  # fmt: skip
"""The files that may be there before the first start: from a first start that was killed, from
`daybook init` and `daybook user add`, and from file systems.
"""
NAMED_MAX: Final = 3


def strangers(path: Path, *, data_id: str, journal: str) -> list[str]:
    """Return the names in a folder that are not Daybook's, none for a data directory.

    A folder that has the file `data_id`, or segments in the folder `journal`, is a data directory.
    Raises OSError.
    """
    if not path.is_dir() or (path / data_id).exists():
        return []
    inside = path / journal
    if inside.is_dir() and segment_names(RealDisk(inside)):
        return []
    found = {each.name for each in path.iterdir()} - FIRST
    if inside.is_dir() and any(inside.iterdir()):
        found.add(journal)
    return sorted(found)


def wrong_folder(path: Path) -> str:
    """Return why a folder cannot become a data directory; "" if it can, or is one. Raises
    OSError."""
    foreign = strangers(path, data_id=DATA_ID, journal=JOURNAL)
    if not foreign:
        return ""
    return (
        f"{path} is not a data directory of Daybook, and it is not empty ({named(foreign)}): name"
        " an empty or a new folder, or the right data directory. Nothing was changed"
    )


def named(names: list[str]) -> str:
    """Format up to NAMED_MAX of the names for a sentence."""
    some = ", ".join(f"'{name}'" for name in names[:NAMED_MAX])
    return some if len(names) <= NAMED_MAX else f"{some} and {len(names) - NAMED_MAX:,} more"
