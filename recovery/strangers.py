"""What lies in a folder that is to become a data directory: nothing of anybody else's.

A broker that is started on the wrong folder, a home directory say, would fill it with files of its
own, and make those that it finds part of every backup and deletion. So a folder without a journal
must have nothing in it but what a first start finds there for good reason.
"""

from pathlib import Path
from typing import Final

from daybook.journal.data_directory import CONFIG, INDEX_LOCK, JOURNAL, LAST_WORDS, LOCK, USERS
from daybook.journal.disk import RealDisk
from daybook.journal.segment import segment_names

FIRST: Final = frozenset(
    {
        LOCK, LAST_WORDS, JOURNAL, INDEX_LOCK, USERS, CONFIG,
        "lost+found", ".snapshot", ".keep", ".gitkeep",
    }
)  # fmt: skip
"""What may be there before the first start: from a first start that was killed, from `daybook init`
and `daybook user add`, and from file systems."""
NAMED_MAX: Final = 3


def strangers(path: Path, *, data_id: str, journal: str) -> list[str]:
    """Names in a folder without a journal that are not Daybook's; raises OSError.

    A folder that has the file `data_id`, or segments in the folder `journal`, is a data directory.
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


def named(names: list[str]) -> str:
    """Some of the names, for a sentence."""
    some = ", ".join(f"'{name}'" for name in names[:NAMED_MAX])
    return some if len(names) <= NAMED_MAX else f"{some} and {len(names) - NAMED_MAX:,} more"
