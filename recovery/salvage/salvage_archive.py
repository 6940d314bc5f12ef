"""Segments of an archive that stand in for damaged or missing ones in a salvage (ADR 67).

Data flow: the segments that may have missing events are fetched and checked whole; hashes then
prove that they are of the same history; the others are refused, with a sentence. Invariant: no
segment is used that contradicts a sound block of the source, or whose chain does not join it.
Fault model: any object and any manifest may be missing, damaged, unreachable, or of another
journal. Does not change the source or the archive.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.manifest import ArchiveEntry, encode_manifest
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage, UnknownVersion, manifest_name, segment_first_lsn
from daybook.journal.disk import Disk, File, RealDisk
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.read_only import ReadOnly
from daybook.journal.segments.segment import read_segment_header, segment_names
from daybook.journal.segments.segment_check import SegmentCheck, check_segment, sound_header
from daybook.journal.segments.sound_blocks import Gap
from daybook.recovery.salvage.salvage_report import Borrowed


class Needs(msgspec.Struct):
    """The wanted parts of an archive: the gaps, the segments with a broken chain or a damaged
    header, and the events between the base and the first segment (the last of the former, the first
    of the latter).
    """

    gaps: Sequence[Gap]
    broken: frozenset[str]
    headers: frozenset[str]
    base_lsn: int
    first_lsn: int

    def why(self, entry: ArchiveEntry) -> str:
        """Return why an archived segment is wanted, "" if it is not."""
        if self.base_lsn < entry.last_lsn < self.first_lsn:
            return "it is missing"
        for gap in self.gaps:
            is_last = gap.last_lsn < gap.first_lsn
            if gap.first_lsn <= entry.last_lsn and (is_last or entry.first_lsn <= gap.last_lsn):
                return gap.what
        if entry.segment in self.headers:
            return "its header is damaged"
        return "the chain of hashes is broken in it" if entry.segment in self.broken else ""


class Evidence(msgspec.Struct):
    """The proofs of the source about its history.

    `hashes` are those of its sound blocks, by the last event; `ends` those of the last sound blocks
    before gaps and at the ends of segments, by the event that follows; `states` those of blocks
    that the index and snapshots name.
    """

    hashes: Mapping[int, bytes]
    ends: Mapping[int, bytes]
    states: Mapping[int, bytes]


class MendedDisk(ReadOnly):
    """The segments of a source, some of them from a folder instead. For reading only."""

    def __init__(self, source: RealDisk, folder: RealDisk, borrowed: Sequence[str]) -> None:
        self._source: Final = source
        self._folder: Final = folder
        self._borrowed: Final = frozenset(borrowed)

    def open(self, name: str) -> File:
        """Open a file. Raises OSError."""
        return (self._folder if name in self._borrowed else self._source).open(name)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted({*self._source.names(), *self._borrowed})


class _Fetched(msgspec.Struct):
    """An archived segment that is whole: why it is wanted, and its content.

    `proof` names the proof of all of it, in the source or behind it; `wrong` the contradiction.
    """

    entry: ArchiveEntry
    why: str
    previous: str
    end: str
    hashes: dict[int, bytes]
    proof: str = ""
    wrong: str = ""


class Lender:
    """An archive that a salvage may take segments from; they are copied to a folder.

    `owner` is the id of the data directory whose archive it must be. `say` is called with a
    sentence about everything that cannot be used.
    """

    def __init__(
        self, archive: Archive, owner: str, source: RealDisk, folder: Path,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._archive: Final = archive
        self._owner: Final = owner
        self._source: Final = source
        self._names: Final = segment_names(source)
        self._folder: Final = RealDisk(folder)
        self._say: Final = say

    def borrow(
        self, needs: Needs, evidence: Evidence, progress: Callable[[int], None]
    ) -> tuple[Disk, list[Borrowed]]:
        """Return the source with segments of the archive, and which.

        Raises ArchiveError if the archive cannot be listed, and OSError of the folder.
        """
        fetched = list(self._fetch(needs, evidence, progress))
        carried, sound = dict(self._carried()), sorted(evidence.hashes)
        for each in fetched:
            self._judge(each, evidence, _span(sound, each.entry), carried)
        taken: list[Borrowed] = []
        for run in _runs(fetched):
            taken += self._taken(run, evidence)
        names = [each.segment for each in taken]
        return MendedDisk(self._source, self._folder, names), taken

    def _fetch(
        self, needs: Needs, evidence: Evidence, progress: Callable[[int], None]
    ) -> Iterator[_Fetched]:
        entries, faults = self._archive.listed()
        for fault in faults:
            self._say(f"{fault.url} is not used: {fault.what}")
        strangers = set()
        for entry in entries:
            why = needs.why(entry)
            if why and entry.owner != self._owner:
                strangers.add(entry.owner)
            elif why:
                try:
                    yield self._copied(entry, why, evidence, progress)
                except (JournalError, Damage) as error:
                    self._refuse(entry, str(error))
        for owner in sorted(strangers):
            self._say(
                f"the archive {self._archive.url} is of data directory {owner}, not of "
                f"{self._owner}: its segments are not used"
            )

    def _refuse(self, entry: ArchiveEntry, why: str) -> None:
        self._say(f"segment {entry.segment} of the archive is not used: {why}")
        for name in (entry.segment, manifest_name(entry.segment)):
            with suppress(FileNotFoundError):
                self._folder.remove(name)

    def _copied(
        self, entry: ArchiveEntry, why: str, evidence: Evidence, progress: Callable[[int], None]
    ) -> _Fetched:
        """Fetch a segment and check all of it. Raises JournalError, Damage and OSError."""
        name = entry.segment
        with (self._folder.path / name).open("wb") as file:
            for piece in self._archive.pieces(entry):
                file.write(piece)
        (self._folder.path / manifest_name(name)).write_bytes(encode_manifest(entry))
        found = _Fetched(entry, why, "", "", {})

        def see(block: Block) -> None:
            at = block.last_lsn
            if block.count and (at in evidence.hashes or at in evidence.states):
                found.hashes[at] = block.hash

        try:
            header = sound_header(self._folder, [name])
            check = check_segment(
                self._folder, name, [name], header, progress=progress, observe=see
            )
        except OSError as error:
            raise ArchiveError(self._archive.url, f"{name}: {error}") from error
        self._compare(entry, check)
        found.previous, found.end = check.carried_hash, check.end_hash
        return found

    def _compare(self, entry: ArchiveEntry, check: SegmentCheck) -> None:
        """Raise Damage if a segment is damaged or contradicts its manifest."""
        if check.faults:
            fault = check.faults[0]
            raise Damage(f"offset {fault.offset} (LSN {fault.lsn}): {fault.what}")
        said = entry.first_lsn, entry.last_lsn, entry.data_id, entry.previous_hash, entry.last_hash
        is_so = (
            check.first_lsn, check.last_lsn, check.data_id, check.carried_hash, check.end_hash,
        )  # fmt: skip
        if said != is_so:
            raise Damage("its manifest does not agree with it")

    def _carried(self) -> Iterator[tuple[int, str]]:
        """Yield which hash each segment of the source follows, by its first event."""
        for name in self._names:
            with suppress(Damage, UnknownVersion, OSError):
                file = self._source.open(name)
                try:
                    header = read_segment_header(file)
                finally:
                    file.close()
                if header.first_lsn == segment_first_lsn(name):
                    yield header.first_lsn, header.previous_hash.hex()

    def _judge(
        self, found: _Fetched, evidence: Evidence, sound: Sequence[int], carried: Mapping[int, str]
    ) -> None:
        """Note the proof of a segment, and contradictions.

        `sound` are the ends of sound blocks of the source in it, `carried` as from `_carried`.
        """
        entry = found.entry
        behind = next((name for name in self._names if name > entry.segment), "")
        for lsn in sound:
            if found.hashes.get(lsn) != evidence.hashes[lsn]:
                found.wrong = f"the block with event {lsn} in the source is sound, and another one"
                return
            found.proof = "sound blocks of the source are in it"
        if behind and (segment_first_lsn(behind) or 0) <= entry.last_lsn:
            found.wrong = f"it reaches into {behind} of the source"
        elif (after := carried.get(entry.last_lsn + 1)) is not None:
            if after == found.end:
                found.proof = f"{behind} of the source carries its hash"
            else:
                found.wrong = f"{behind} of the source carries the hash of another segment"
        elif any(found.hashes.get(lsn) == evidence.states[lsn] for lsn in evidence.states):
            found.proof = found.proof or "a sound state of the source carries the hash of its block"

    def _taken(self, run: list[_Fetched], evidence: Evidence) -> Iterator[Borrowed]:
        """Yield the segments of a run, whose hashes are joined, that are of the same history."""
        proven = max((at for at, each in enumerate(run) if each.proof), default=-1)
        first = run[0]
        continues = evidence.ends.get(first.entry.first_lsn, b"").hex() == first.previous
        differs = next((each for each in run if each.wrong), None)
        for at, each in enumerate(run):
            proof, wrong = each.proof, each.wrong
            if at < proven:
                proof = proof or "the next segment carries its hash"
            elif at > proven and differs is not None:
                wrong = wrong or f"the next segment is not of this history: {differs.wrong}"
            elif at > proven and (proven >= 0 or continues):
                proof = "it carries the hash of the block before it; there is no segment behind it"
            if wrong or not proof:
                self._refuse(each.entry, wrong or "no hash shows that it is of the same history")
                continue
            entry = each.entry
            yield Borrowed(
                entry.segment, entry.first_lsn, entry.last_lsn, entry.bytes, each.why, proof
            )


def _span(lsns: Sequence[int], entry: ArchiveEntry) -> Sequence[int]:
    """Return those of sorted events that are in a segment."""
    return lsns[bisect_left(lsns, entry.first_lsn) : bisect_right(lsns, entry.last_lsn)]


def _runs(fetched: Sequence[_Fetched]) -> Iterator[list[_Fetched]]:
    """Yield segments in runs: in each one every segment carries the hash of the one before."""
    run: list[_Fetched] = []
    for each in sorted(fetched, key=lambda each: each.entry.first_lsn):
        if run and (
            run[-1].entry.last_lsn + 1 != each.entry.first_lsn or run[-1].end != each.previous
        ):
            yield run
            run = []
        run.append(each)
    if run:
        yield run
