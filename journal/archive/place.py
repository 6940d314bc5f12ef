"""Where an archive may lie: apart from the data directory whose segments it takes.

An archive inside the data directory would have segments "archived" under their own names and then
removed, and one around it could be filled with files that are not its own. The comparison is by
what folders are, not by what they are called: symbolic links, `..` and mounts change nothing.

Must never know what an archive holds.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import BASE, INDEX, JOURNAL

LOCAL_PREFIXES: Final = ("file://", "local://", "file:", "local:")


def local_folder(url: str) -> Path | None:
    """Return the folder of the local file system that a URL names, None if it names another."""
    # Of a chain of URLs the last one says where things are.
    place = url.rpartition("::")[2]
    for prefix in LOCAL_PREFIXES:
        if place.startswith(prefix):
            return Path(place.removeprefix(prefix) or "/").expanduser().absolute()
    return None if "://" in place else Path(place).expanduser().absolute()


def overlap(url: str, data: Path) -> str:
    """Say how the archive at a URL and a data directory overlap; empty if they lie apart.

    Neither needs to exist. The sentence says what to do.
    """
    folder = local_folder(url) if url else None
    if folder is None:
        return ""
    kept = [data, *(data / name for name in (JOURNAL, BASE, INDEX))]
    found = ""
    if any(_is_same(folder, each) for each in kept):
        found = "is"
    elif any(_is_same(around, each) for around in _around(folder) for each in kept):
        found = "is inside"
    elif any(_is_same(around, folder) for each in kept for around in _around(each)):
        found = "contains"
    if not found:
        return ""
    return (
        f"archive-directory {folder} {found} the data directory {data}, whose segments would be "
        "lost when they leave; name a directory apart from it"
    )


def _around(folder: Path) -> Iterator[Path]:
    """The folders around one, links followed."""
    yield from Path(os.path.realpath(folder)).parents


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths are the same folder, however they are called."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False
