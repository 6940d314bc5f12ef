"""Where an archive may be: outside the data directory whose segments it stores.

If the archive were the folder of the segments, a segment would be "archived" onto itself and then
removed; an archive that contains the data directory would mix its objects with other files. Folders
are compared by identity, not by name, so symbolic links, `..` and mounts do not hide an overlap.

Must never know the content of an archive.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import BASE, INDEX, JOURNAL

LOCAL_PREFIXES: Final = ("file://", "local://", "file:", "local:")


def local_folder(url: str) -> Path | None:
    """Return the folder of the local file system that a URL names, None if it names another."""
    # In a chain of URLs the last one is the place of the files.
    place = url.rpartition("::")[2]
    for prefix in LOCAL_PREFIXES:
        if place.startswith(prefix):
            return Path(place.removeprefix(prefix) or "/").expanduser().absolute()
    return None if "://" in place else Path(place).expanduser().absolute()


def overlap(url: str, data: Path) -> str:
    """Return an error text if the archive at a URL and a data directory overlap, else "".

    Neither needs to exist. The text gives the remedy.
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
    """Yield the parent folders of a folder, with links resolved."""
    yield from Path(os.path.realpath(folder)).parents


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are the same folder, whatever their names."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False
