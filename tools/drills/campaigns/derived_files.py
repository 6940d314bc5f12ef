"""Damages derived files between a crash and the next start (ADR 69).

The index, snapshots and catalogs only save time, so a start must come to the same state without
them, and say that it rebuilds the index. Damages files of scratch data alone, while no broker runs.
Must never know the content of the files.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.journal.data_directory import DERIVED, INDEX, TABLES
from daybook.tools.drills.reports.report import Tried

PAGE_BYTES: Final = 4096
SAID: Final = "the index is rebuilt"
"""The log line of a broker that does that."""


def _remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def _empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def _cut(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _tear(path: Path, chance: random.Random) -> None:
    """Change the first bytes of each page, as a disk that lost every write to them."""
    content = bytearray(path.read_bytes())
    for start in range(0, len(content), PAGE_BYTES):
        piece = content[start : start + 8]
        content[start : start + 8] = bytes(byte ^ 0xA5 for byte in piece)
    path.write_bytes(content)


def _turn_bit(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


Harm = Callable[[Path, random.Random], None]
HARMS: Final[dict[str, Harm]] = {
    "removed": _remove, "emptied": _empty, "cut to half": _cut, "torn": _tear,
    "a bit turned": _turn_bit,
}  # fmt: skip
WHOLE: Final = "all of it removed"
OF_THE_INDEX: Final = (WHOLE, "removed", "emptied", "cut to half", "torn")
"""Damages that make each start build another index.

A bit need not: a broker may find it only when it reads the row, and it then stops, so that the next
start does (`drill bit-rot`).
"""


class Wounds:
    """Damages derived files; `tried` has how often which of them, and how often all came out right.

    The ways to damage the index come one after the other, in an order drawn by chance.
    """

    def __init__(self, seed: int) -> None:
        self._chance: Final = random.Random(f"derived {seed}")
        self._ways: Final = self._chance.sample(OF_THE_INDEX, len(OF_THE_INDEX))
        self._count = 0
        self._tried: Final[dict[str, Tried]] = {}
        self._open: list[Tried] = []

    @property
    def tried(self) -> list[Tried]:
        """The damages by file and kind."""
        return [each for _, each in sorted(self._tried.items())]

    def inflict(self, data: Path) -> str:
        """Damage one file of each kind; return how the index was damaged, "" if there is none."""
        how = ""
        tables = data / INDEX / TABLES
        for name in DERIVED:
            place = data / name
            files = [place] if place.is_file() else sorted(place.rglob("*"))
            files = [path for path in files if path.is_file() and path != tables]
            if files:
                path = self._chance.choice(files)
                kind = self._chance.choice(list(HARMS))
                HARMS[kind](path, self._chance)
                self._note(f"other files of the {name}" if name == INDEX else name, kind)
        if tables.is_file() and tables.stat().st_size:
            how = self._ways[self._count % len(self._ways)]
            self._count += 1
            if how == WHOLE:
                shutil.rmtree(data / INDEX)
            else:
                HARMS[how](tables, self._chance)
            self._note(f"the {INDEX}", how)
        return how

    def _note(self, what: str, how: str) -> None:
        name = f"derived files, {what}: {how}"
        tried = self._tried.setdefault(name, Tried(name))
        tried.count += 1
        self._open.append(tried)

    def healed(self) -> None:
        """Record that a broker has served since without faults."""
        for tried in self._open:
            tried.right += 1
        self._open.clear()
