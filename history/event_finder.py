"""Finding events of a journal: one search for all sources that say where events may be (ADR 99).

Data flow: a `Search` is asked at the catalog of a span, else at the footers of its segments; blocks
that neither excludes are read, and the clauses choose their events. Where there is no footer (the
newest segment, or a damaged one) all blocks are read. So a source that is missing or damaged costs
time, and changes no answer.

Everything is opened for reading only and without a lock, so a running broker is not disturbed. The
hash chain is not checked across skipped blocks; `verify` does that. Must never know a question.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from daybook.history.catalogs import Catalogs, NotCatalogued, Span
from daybook.history.names import NamedIds
from daybook.history.scan import Event, Picker, segment_blocks
from daybook.history.search import Search, Thing
from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.tables.layout import LAYOUT

RECENT_MAX: Final = 16


class _Part(NamedTuple):
    """A segment, and the events of it that are looked for; the newest segment has no last one."""

    segment: str
    first_lsn: int
    last_lsn: int | None
    is_newest: bool


class EventFinder:
    """Finds events in the segments of a disk, which may begin with those of an archive.

    With the data directory, its catalogs and snapshots help. Close it after use.
    """

    def __init__(self, disk: Disk, directory: Path | None = None) -> None:
        self.disk: Final = disk
        self._directory: Final = directory
        self._catalogs: Catalogs | None = None
        self._recent: dict[int, tuple[Block, Picker]] = {}
        self.named: Final[dict[tuple[str, str], NamedIds]] = {}
        """The ids that are known of a queue and an address, by their names; kept for all that ask
        about them."""
        self.changed: Final[dict[int, dict[Thing, list[int]]]] = {}
        """Where things change in spans without a catalog, by their first events; kept for all that
        ask what ids stand for."""

    @property
    def catalogs(self) -> Catalogs | None:
        """The catalogs of the data directory, if there are any sound ones."""
        if self._catalogs is None and self._directory is not None:
            self._catalogs = Catalogs(self._directory, self.disk)
        return self._catalogs if self._catalogs is not None and self._catalogs.any else None

    @property
    def notes(self) -> list[str]:
        """Sentences on the catalogs that could not be used."""
        return self._catalogs.notes if self._catalogs is not None else []

    def uncatalogued(self) -> int:
        """Return how many events are in no catalog, besides those in the newest segment."""
        if self.catalogs is not None:
            return self.catalogs.uncatalogued()
        names = segment_names(self.disk)
        firsts = [segment_first_lsn(name) or 0 for name in (*names[:1], *names[-1:])]
        return firsts[-1] - firsts[0] if firsts else 0

    def close(self) -> None:
        """Close the open segment."""
        if self._catalogs is not None:
            self._catalogs.close()

    def find(self, search: Search) -> Iterator[Event]:
        """Yield the events that fit, in order. Raises JournalError, StoreError and OSError."""
        for block in self.blocks(search):
            try:
                yield from search.events_in(block)
            except Damage as damage:
                _report(search, block.segment, damage)

    def find_back(self, search: Search) -> Iterator[Event]:
        """Yield the events that fit, the last one first, segment by segment. Raises as `find`."""
        for part in reversed(list(self._parts(search.from_lsn, search.to_lsn))):
            blocks = self._blocks_of(part, search)
            yield from reversed([event for block in blocks for event in search.events_in(block)])

    def blocks(self, search: Search) -> Iterator[Block]:
        """Yield the blocks that may have events that fit, in order. Raises as `find`."""
        for span in self._spans(search):
            done = max(search.from_lsn, span.first_lsn) - 1
            if span.catalog is not None:
                assert self._catalogs is not None
                try:
                    for block in self._catalogs.blocks(span.catalog, search, done, search.to_lsn):
                        yield block
                        done = max(done, block.last_lsn)
                    continue
                except Damage as damage:
                    self._catalogs.give_up(span, damage)
                except NotCatalogued as error:
                    name = self._catalogs.segment_of(span.first_lsn)
                    self._catalogs.note(
                        f"the search is complete, but was slower: segment {name} was read whole, "
                        f"because {error}"
                    )
            last = span.last_lsn
            if search.to_lsn is not None:
                last = search.to_lsn if last is None else min(last, search.to_lsn)
            for part in self._parts(done + 1, last):
                yield from self._blocks_of(part, search)

    def _spans(self, search: Search) -> list[Span]:
        if search.is_catalogued and self.catalogs is not None:
            return list(self.catalogs.spans(search.from_lsn, search.to_lsn))
        return [Span(search.from_lsn, None, None)]

    def _parts(self, from_lsn: int, to_lsn: int | None) -> Iterator[_Part]:
        """Yield the segments from one event to another."""
        names = segment_names(self.disk)
        if not names:
            # A search that follows the journal waits for its first segment.
            yield _Part("", from_lsn, to_lsn, is_newest=True)
        firsts = [segment_first_lsn(name) or 0 for name in names]
        begin = max(bisect_right(firsts, from_lsn) - 1, 0)
        for name, first, following in zip_longest(
            names[begin:], firsts[begin:], firsts[begin + 1 :]
        ):
            if to_lsn is not None and first > to_lsn:
                return
            last = to_lsn
            if following is not None:
                last = following - 1 if to_lsn is None else min(following - 1, to_lsn)
            yield _Part(name, max(from_lsn, first), last, following is None)

    def _blocks_of(self, part: _Part, search: Search) -> Iterator[Block]:
        """Yield the blocks of a segment that may matter; of the newest one, all of them."""
        try:
            if not part.is_newest:
                yield from segment_blocks(
                    self.disk, part.segment, search.may_be_in, part.first_lsn, part.last_lsn
                )
                return
            catalogs = self._catalogs
            yield from read_blocks(
                self.disk, LAYOUT, from_lsn=part.first_lsn, to_lsn=part.last_lsn,
                proven=search.proven, follow=search.follow,
                near=catalogs.near(part.first_lsn) if catalogs is not None else (0, 0),
            )  # fmt: skip
        except (JournalError, Damage, OSError) as error:
            _report(search, part.segment, error)

    def spans_back(self, to_lsn: int) -> Iterator[Span]:
        """Yield the spans up to the one with an event, the last one first."""
        if self.catalogs is not None:
            yield from self.catalogs.spans_back(to_lsn)
        else:
            yield Span(1, None, None)

    def give_up(self, span: Span, damage: Damage) -> Span:
        """Return a span as one that must be read, because its catalog is damaged."""
        assert self._catalogs is not None
        return self._catalogs.give_up(span, damage)

    def at(self, lsn: int) -> Event | None:
        """Return an event, None if the journal has none. Raises JournalError."""
        for recent, picker in self._recent.values():
            if recent.first_lsn <= lsn <= recent.last_lsn:
                return picker.event(lsn - recent.first_lsn)
        block = self.catalogs.block_with(lsn) if self.catalogs is not None else None
        if block is None:
            near = self.catalogs.near(lsn) if self.catalogs is not None else (0, 0)
            blocks = read_blocks(self.disk, LAYOUT, from_lsn=lsn, to_lsn=lsn, near=near)
            found = (each for each in blocks if each.first_lsn <= lsn <= each.last_lsn)
            block = next(found, None)
        if block is None:
            return None
        if len(self._recent) >= RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        picker = Picker(block)
        self._recent[block.first_lsn] = block, picker
        return picker.event(lsn - block.first_lsn) if lsn <= block.last_lsn else None


def _report(search: Search, segment: str, error: Exception) -> None:
    """Report a segment that cannot be read, or raise the error if nobody wants to know."""
    if search.unreadable is None:
        raise error
    search.unreadable(segment, error)
