"""A world with a journal and an index on disk whose first segments leave, round by round.

A round does what retention does, without server and processes: it carries what the survey finds,
has the segments archived and folded into the base, removes and records them. The world itself keeps
every event, and is what the rest is held against.
"""

from contextlib import closing
from pathlib import Path
from random import Random

from engine.commands import Carry, CarryChunk, NoteSegmentsRemoved
from engine.events import (
    LARGE,
    ROW_STRUCT,
    CarriedDetail,
    RoutedDetail,
    chunk_lsns,
    decode_detail,
)
from journal.batch import Batch
from journal.disk import RealDisk
from journal.journal import Journal
from journal.reader import read_blocks
from journal.retention import remove, sealed_segments
from paging.content import ContentReader
from paging.index import Index
from paging.layout import LAYOUT
from paging.retiring import retire
from paging.surveying import Place, Survey
from tests.support.world import World
from tests.support.written_index import DATA_ID

SEGMENT_BYTES = 8192


class Leaving:
    """The data directory of a world, and what left it."""

    def __init__(self, data: Path, world: World, archive: Path | None = None) -> None:
        self.data = data
        self.world = world
        self.archive = archive
        self.removed_lsn = 0
        self.carried = 0
        self._random = Random(1)
        self.disk = RealDisk(data / "journal")
        self.disk.create()
        (data / "data-id").write_text(DATA_ID.hex())
        self._journal = Journal.create(
            self.disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES
        )

    def close(self) -> None:
        self._journal.close()

    def write(self) -> None:
        """Bring journal and index up to the world."""
        self.world.turn()
        for event in self.world.journal[self._journal.next_lsn - 1 :]:
            # Blocks of one event fill segments soonest.
            strings = [event.detail, event.headers, event.body]
            row = ROW_STRUCT.pack(*event.row, *map(len, strings))
            heaps = [[text] if text else [] for text in strings]
            self._journal.append(Batch(event.lsn, [row], heaps, event.row[-1]))
        self.index()

    def index(self, *, lsn: int | None = None) -> str:
        """Bring the index up to the journal, or an event; return its digest."""
        with closing(Index(self.data / "index", DATA_ID)) as index:
            blocks = read_blocks(self.disk, LAYOUT, from_lsn=index.lsn + 1, to_lsn=lsn)
            index.advance([block for block in blocks if block.first_lsn > index.lsn])
            return index.digest()

    def round(self, count: int) -> bool:
        """Let so many segments leave; answers whether any did."""
        # So that the segment before is sealed.
        self.world.ok(CarryChunk(self._random.randbytes(SEGMENT_BYTES)))
        self.write()
        leaving = list(sealed_segments(self.disk))[:count]
        if not leaving:
            return False
        last = leaving[-1].last_lsn
        while self.carry(last):
            self.write()
        archive = str(self.archive) if self.archive is not None else ""
        assert retire(self.data, last, archive) == 0
        remove(self.disk, [segment.name for segment in leaving])
        self.removed_lsn = last
        noted = NoteSegmentsRemoved(last_lsn=last, segments=len(leaving), bytes=0, archive=archive)
        self.world.ok(noted)
        self.write()
        return True

    def places(self, last_lsn: int) -> list[Place]:
        """What must be carried before the segments up to an event can leave."""
        with closing(Survey(self.data, last_lsn)) as survey:
            found = [place for batch in survey.batches(2) for place in batch]
            assert survey.count() == len(found)
        return found

    def carry(self, last_lsn: int) -> int:
        """Carry all of that, once each; return how many messages."""
        reader = ContentReader(self.disk, LAYOUT)
        found = {place.message: place for place in self.places(last_lsn)}
        for place in found.values():
            self._carry_one(reader, place)
        reader.close()
        self.carried += len(found)
        return len(found)

    def _carry_one(self, reader: ContentReader, place: Place) -> None:
        event = reader.event(place.lsn)
        chunks: tuple[int, ...] = ()
        body_bytes = 0
        if place.flags & LARGE:
            detail = decode_detail(event.row[0], event.detail)
            assert isinstance(detail, RoutedDetail | CarriedDetail)
            body_bytes = detail.body_bytes
            for lsn in chunk_lsns(detail):
                ((_, body),) = reader.fetch([lsn])
                chunks += (self.world.ok(CarryChunk(body, chunks[-1] if chunks else 0)),)
        self.world.ok(
            Carry(
                message=place.message, address=place.address, priority=place.priority,
                flags=place.flags, before=place.lsn, headers=event.headers, body=event.body,
                chunks=chunks, body_bytes=body_bytes,
            )
        )  # fmt: skip
