"""The catalogs of a journal: which spans of it have one, and the blocks that one names (ADR 64).

Fault model: catalogs may be missing, damaged, or of another journal; then the span has none, and
`notes` says so. Must never know what is looked for.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import (
    BLOCK_HEADER_BYTES,
    TRAILER_BYTES,
    Damage,
    peek_trailer_hash,
    segment_first_lsn,
    segment_name,
    unpack_block_header,
)
from daybook.journal.data_directory import ARCHIVE_CATALOGS, CATALOGS
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import Segment, open_segment, segment_names
from daybook.paging.catalogs.catalog_file import SUFFIX, CatalogFile, Description
from daybook.paging.tables.layout import LAYOUT

NOTES_MAX: Final = 5


class Span(NamedTuple):
    """A run of events; `catalog` is None where it must be read."""

    first_lsn: int
    last_lsn: int | None
    catalog: CatalogFile | None


class NotCatalogued(Exception):
    """A catalog does not have what is asked for; the text says what."""


class BlockQuestion(Protocol):
    """A search, as far as catalogs answer it; `version` changes when it grows."""

    version: int

    def numbers(self, catalog: CatalogFile) -> set[int]:
        """Return the numbers of the blocks that may matter. Raises Damage, and NotCatalogued if the
        catalog cannot say it."""
        ...


class Catalogs:
    """The catalogs of a data directory, for one journal: with its archive, if `disk` has that."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Read the descriptions of all catalogs, and note the faults of each."""
        self._disk: Final = disk
        self.notes: list[str] = []
        self._segment: Segment | None = None
        self._firsts: Final = [segment_first_lsn(name) or 0 for name in segment_names(disk)]
        self._spans: list[Span] = []
        if not self._firsts:
            return
        try:
            self._spans = _Chain(self, directory).spans()
        except (JournalError, OSError) as error:
            # Reading says the same where it matters, and not before.
            self.note(f"no catalogs are used: {error}")
            self._spans = [Span(self._firsts[0], None, None)]

    @property
    def disk(self) -> Disk:
        """The segments."""
        return self._disk

    def data_id(self) -> bytes:
        """Return the id of the data directory, from the newest segment: others may be archived."""
        segment = self._open_segment(segment_name(self._firsts[-1]))
        return segment.header.data_id

    @property
    def any(self) -> bool:
        """Whether there is any sound catalog."""
        return any(span.catalog is not None for span in self._spans)

    def uncatalogued(self) -> int:
        """Return how many events must be read, besides those in the newest segment."""
        newest = self._firsts[-1] if self._firsts else 0
        return sum(
            newest - span.first_lsn if span.last_lsn is None else span.last_lsn - span.first_lsn + 1
            for span in self._spans
            if span.catalog is None and span.first_lsn < newest
        )

    def pass_over(self, path: Path, wrong: str) -> None:
        """Note why a catalog is not used."""
        self.note(f"the catalog {path} is passed over: {wrong}")

    def note(self, text: str) -> None:
        """Note what cost time; some of many are enough."""
        if len(self.notes) < NOTES_MAX and text not in self.notes:
            self.notes.append(text)

    def spans(self, from_lsn: int, to_lsn: int | None = None) -> Iterator[Span]:
        """Yield the spans that have events from one to another."""
        firsts = [span.first_lsn for span in self._spans]
        for span in self._spans[max(bisect_right(firsts, from_lsn) - 1, 0) :]:
            if to_lsn is not None and span.first_lsn > to_lsn:
                return
            yield span

    def spans_back(self, to_lsn: int) -> Iterator[Span]:
        """Yield the spans up to the one with an event, the last one first."""
        firsts = [span.first_lsn for span in self._spans]
        yield from reversed(self._spans[: bisect_right(firsts, to_lsn)])

    def give_up(self, span: Span, damage: Damage) -> Span:
        """Return a span as one that must be read, because its catalog is damaged."""
        assert span.catalog is not None
        self.pass_over(span.catalog.path, str(damage))
        read = span._replace(catalog=None)
        # It may have been given up before, by a question within a question.
        self._spans = [read if each is span else each for each in self._spans]
        return read

    def near(self, lsn: int) -> tuple[int, int]:
        """Return where the block with an event is, or one before it; (0, 0) if nothing says it."""
        for span in self.spans_back(lsn):
            catalog = span.catalog
            if catalog is None:
                continue
            if self.segment_of(catalog.told.first_lsn) != self.segment_of(lsn):
                break
            try:
                return catalog.block(catalog.number_at(min(lsn, catalog.told.last_lsn)))
            except Damage as damage:
                self.give_up(span, damage)
        return 0, 0

    def blocks(
        self, catalog: CatalogFile, question: BlockQuestion, done: int, to_lsn: int | None
    ) -> Iterator[Block]:
        """Yield the blocks that a catalog names behind an event, in order.

        The question may come to look for more meanwhile. Raises Damage, NotCatalogued, and
        JournalError.
        """
        version = -1
        waiting: list[int] = []
        last = -1
        while True:
            if version != question.version:
                version = question.version
                found = question.numbers(catalog)
                waiting = sorted((each for each in found if each > last), reverse=True)
            if not waiting:
                return
            last = waiting.pop()
            first_lsn, _ = catalog.block(last)
            if to_lsn is not None and first_lsn > to_lsn:
                return
            block = self.block(catalog, last)
            if block.last_lsn > done:
                yield block

    def block(self, catalog: CatalogFile, number: int) -> Block:
        """Read a block that a catalog names. Raises Damage, JournalError."""
        first_lsn, offset = catalog.block(number)
        segment = self._open(catalog.told)
        raw = segment.block_at(offset, with_heap=True, with_hash=False)
        if raw.header.first_lsn != first_lsn:
            raise Damage("it names another block than there is")
        return Block(segment.codec(), raw, segment.name)

    def block_with(self, lsn: int) -> Block | None:
        """Return the block with an event; None if the span of the event has no catalog."""
        for span in self.spans(lsn, lsn):
            if span.catalog is None:
                return None
            try:
                return self.block(span.catalog, span.catalog.number_at(lsn))
            except Damage as damage:
                self.give_up(span, damage)
        return None

    def _open(self, told: Description) -> Segment:
        """Open the segment of a catalog, or use it again."""
        return self._open_segment(self.segment_of(told.first_lsn))

    def _open_segment(self, name: str) -> Segment:
        if self._segment is None or self._segment.name != name:
            if self._segment is not None:
                self._segment.close()
                self._segment = None
            try:
                self._segment = open_segment(self._disk, name, LAYOUT)
            except OSError as error:
                raise JournalError(f"segment {name} cannot be read: {error}") from error
        return self._segment

    def segment_of(self, lsn: int) -> str:
        """Return the name of the segment with an event."""
        return segment_name(self._firsts[max(bisect_right(self._firsts, lsn) - 1, 0)])

    def last_of(self, lsn: int) -> int | None:
        """Return the last event of the segment with an event, None for the newest segment."""
        position = bisect_right(self._firsts, lsn)
        return self._firsts[position] - 1 if position < len(self._firsts) else None

    def hash_behind(self, told: Description) -> bytes:
        """Return the hash of the last block of a catalog, as what is behind has it.

        Raises Damage, JournalError.
        """
        segment = self._open(told)
        if not told.whole:
            packed = segment.window.take(BLOCK_HEADER_BYTES, told.end)
            return unpack_block_header(packed, segment.salt).previous_hash
        following = self.last_of(told.first_lsn)
        if following is not None and told.last_lsn == following:
            offset = max(0, segment.file.size() - TRAILER_BYTES)
            return peek_trailer_hash(segment.file.pread(TRAILER_BYTES, offset))
        raise Damage("it ends elsewhere than its segment")

    def close(self) -> None:
        """Close the open segment."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


class _Chain:
    """The catalogs that belong to a journal: each ends where the next begins, and the last of a
    chain ends as the journal says."""

    def __init__(self, owner: Catalogs, directory: Path) -> None:
        self._owner: Final = owner
        self._data_id: Final = owner.data_id()
        self._found: Final[dict[int, Path]] = {}
        for folder in (ARCHIVE_CATALOGS, CATALOGS):
            for path in (directory / folder).glob("*" + SUFFIX):
                if path.stem.isdigit():
                    self._found[int(path.stem)] = path

    def spans(self) -> list[Span]:
        """Return all spans of the journal, in order."""
        first = segment_first_lsn(segment_names(self._owner.disk)[0]) or 1
        known = self._sound(sorted(self._found))
        spans: list[Span] = []
        following = first
        for catalog in known:
            told = catalog.told
            if told.first_lsn < following:
                # A piece of what a whole catalog covers.
                continue
            if told.first_lsn > following:
                spans.append(Span(following, told.first_lsn - 1, None))
            spans.append(Span(told.first_lsn, told.last_lsn, catalog))
            following = told.last_lsn + 1
        last = self._owner.last_of(1 << 62)
        spans.append(Span(following, last, None))
        return spans

    def _sound(self, firsts: Sequence[int]) -> list[CatalogFile]:
        """Return the catalogs that are tied to the journal, in order.

        From the last one back: a catalog is believed if the one behind it, which is, carries the
        hash of its last block; else if the journal does.
        """
        sound: list[CatalogFile] = []
        for first in reversed(firsts):
            path = self._found[first]
            try:
                catalog = CatalogFile(path)
                self._check(catalog.told, first, sound[-1].told if sound else None)
            except Damage as damage:
                self._owner.pass_over(path, str(damage))
                continue
            except JournalError as unreadable:
                self._owner.pass_over(path, str(unreadable))
                continue
            sound.append(catalog)
        sound.reverse()
        return sound

    def _check(self, told: Description, first: int, behind: Description | None) -> None:
        """Raise Damage if a catalog is not of this journal."""
        if told.data_id != self._data_id or told.first_lsn != first:
            raise Damage("it is of another journal")
        last = self._owner.last_of(first)
        if told.last_lsn < first or (last is not None and told.last_lsn > last):
            raise Damage("it ends in another segment than it begins")
        if behind is not None and behind.first_lsn == told.last_lsn + 1:
            carried = behind.previous_hash
        else:
            carried = self._owner.hash_behind(told)
        if carried != told.last_hash:
            raise Damage("it is of another journal, or of one that was changed since")
