"""Whether an archive and a live journal are one history, and how far: one rule for all readers.

The archive of a journal has its id, and their common segments are equal: each segment carries the
hash of the one before it, also where the archive ends and the live journal begins. A fork may also
be read after the archive of its source, up to where it departs from it. Only manifests, headers and
footers are read; a damaged one proves neither, and readers of the blocks report it.

Must never know: what a column means, where archives are.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Final

import msgspec

from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.blocks.format import (
    Damage,
    Footer,
    SegmentHeader,
    manifest_name,
    segment_first_lsn,
)
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import open_segment, segment_names

WHOLE_COPY: Final = (
    "'journal archive fetch TARGET' makes a directory of the archive alone, which can be asked"
)


class Joint(msgspec.Struct, frozen=True):
    """Which archived segments belong to the history of a live journal.

    A fork departs from the history of its source at event `departs`, 0 without a fork. `wrong`
    says why archive and journal cannot be read as one, "" if they can; `is_foreign` is set if the
    archive is that of another data directory.
    """

    entries: tuple[ArchiveEntry, ...]
    departs: int = 0
    wrong: str = ""
    is_foreign: bool = False


def joint(entries: Sequence[ArchiveEntry], live: Disk) -> Joint:
    """Compare the manifests of an archive with a live journal.

    The manifests must have been read before, for a broker may archive more meanwhile.
    """
    if not entries:
        return Joint(())
    journal = _Live(live)
    if not journal.headers:
        return Joint(tuple(entries))
    owner, ours = entries[-1].owner, journal.headers[max(journal.headers)].data_id.hex()
    departs = journal.departure(entries, owner) if owner != ours else 0
    strangers = {each.owner for each in entries if each.owner != owner}
    if strangers or (owner != ours and not departs):
        other = min(strangers - {ours}, default=owner)
        wrong = f"it is the archive of another data directory ({other}), not of this one ({ours})"
        return Joint((), 0, wrong, is_foreign=True)
    kept = tuple(each for each in entries if not departs or each.first_lsn < departs)
    differs = next(filter(None, map(journal.difference, kept)), "")
    if not differs and not departs:
        differs = journal.end_before(kept[-1])
    return Joint(kept, departs, differs)


def misfit(one: ArchiveEntry, other: ArchiveEntry) -> str:
    """Return why a segment cannot come after another one, "" if it can, even with a gap between."""
    if one.owner != other.owner:
        return f"{one.segment} and {other.segment} come from different data directories"
    if other.first_lsn <= one.last_lsn:
        return f"{other.segment} begins within {one.segment}, which ends at LSN {one.last_lsn}"
    if other.first_lsn == one.last_lsn + 1 and other.previous_hash != one.last_hash:
        return f"{other.segment} does not carry the hash of the last block of {one.segment}"
    return ""


class _Live:
    """The headers and footers of a live journal; `headers` has only sound ones."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._names: Final = segment_names(disk)
        self._firsts: Final = [segment_first_lsn(name) or 0 for name in self._names]
        self.headers: Final[Mapping[int, SegmentHeader]] = dict(self._headers())

    def _headers(self) -> "list[tuple[int, SegmentHeader]]":
        found = []
        for name in self._names:
            # Also if it was removed meanwhile.
            with (
                suppress(JournalError, OSError),
                closing(open_segment(self._disk, name)) as segment,
            ):
                found.append((segment.header.first_lsn, segment.header))
        return found

    def _footer(self, first_lsn: int) -> Footer | None:
        """Return the footer of a segment; None if it is not sealed, or damaged."""
        name = self._names[self._firsts.index(first_lsn)]
        with (
            suppress(JournalError, Damage, OSError),
            closing(open_segment(self._disk, name)) as segment,
        ):
            return segment.footer()
        return None

    def departure(self, entries: Sequence[ArchiveEntry], owner: str) -> int:
        """Return the first event of a fork that its source, the owner of an archive, does not have;
        0 without proof that the owner is the source."""
        shared = [lsn for lsn, header in self.headers.items() if header.data_id.hex() == owner]
        if shared:
            return next((lsn for lsn in self._firsts if lsn > max(shared)), 0)
        # All that the fork shares with its source has left; the hash is proof.
        first = self.headers.get(self._firsts[0])
        before = next((each for each in entries if each.last_lsn + 1 == self._firsts[0]), None)
        if first is None or before is None or not first.is_fork:
            return 0
        return self._firsts[0] if first.previous_hash.hex() == before.last_hash else 0

    def difference(self, entry: ArchiveEntry) -> str:
        """Return how an archived segment contradicts the live journal, "" if it does not."""
        at = bisect_right(self._firsts, entry.first_lsn)
        follows = self._firsts[at] if at < len(self._firsts) else 0
        before = self._firsts[at - 1] if at else 0
        if before == entry.first_lsn:
            fits = self._is_same(entry, follows)
        else:
            fits = not before or self._may_follow(before, entry)
        if fits and follows:
            fits = entry.last_lsn < follows
            header = self.headers.get(follows)
            if header is not None and entry.last_lsn + 1 == follows:
                fits = fits and header.previous_hash.hex() == entry.last_hash
        return "" if fits else _differs(entry)

    def _is_same(self, entry: ArchiveEntry, follows: int) -> bool:
        """Return whether the segment of that name is the archived one, as far as anything shows."""
        header = self.headers.get(entry.first_lsn)
        said = (entry.data_id, entry.previous_hash)
        if header is not None and (header.data_id.hex(), header.previous_hash.hex()) != said:
            return False
        if follows in self.headers and entry.last_lsn + 1 == follows:
            # The next segment carries its hash.
            return True
        footer = self._footer(entry.first_lsn)
        ends = (entry.last_lsn, entry.last_hash)
        return footer is None or (footer.last_lsn, footer.last_hash.hex()) == ends

    def _may_follow(self, before: int, entry: ArchiveEntry) -> bool:
        """Return whether an archived segment may stand behind the live one that begins there."""
        footer = self._footer(before)
        if footer is None or footer.last_lsn + 1 < entry.first_lsn:
            return True
        ends = (footer.last_lsn + 1, footer.last_hash.hex())
        return ends == (entry.first_lsn, entry.previous_hash)

    def end_before(self, newest: ArchiveEntry) -> str:
        """Return that the live journal ends before its archive does, "" if it does not."""
        name = self._names[-1]
        if newest.first_lsn < self._firsts[-1] or manifest_name(name) in self._disk.names():
            # A segment with a manifest was fetched, and others may follow it.
            return ""
        is_sealed = self._footer(self._firsts[-1]) is not None or self._size(name) == newest.bytes
        if newest.first_lsn == self._firsts[-1] and is_sealed:
            return ""
        return (
            f"it ends with event {newest.last_lsn}, and the live journal ends before that, in "
            f"segment {name}: the data directory is an older copy, or lost its end. {WHOLE_COPY}; "
            "a broker that starts on the older copy needs another archive"
        )

    def _size(self, name: str) -> int:
        with suppress(OSError), closing(self._disk.open(name)) as file:
            return file.size()
        return 0


def _differs(entry: ArchiveEntry) -> str:
    return (
        f"its segment {entry.segment}, events {entry.first_lsn} to {entry.last_lsn}, is not a "
        f"part of the live journal's history: either a broker ran on an older copy of the data "
        f"directory, or a segment was replaced. {WHOLE_COPY}"
    )
