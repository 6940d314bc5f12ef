"""A world with a journal and an index on disk whose first segments leave, round by round.

The steps of a round are those of the product; here they are executed without server and processes.
The world itself keeps every event, and is the reference for comparisons.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

from daybook.engine.administration.carried_content import large_before
from daybook.engine.administration.retention_commands import CarryChunk
from daybook.engine.consumers import transactions
from daybook.engine.facts.rows import pack_wide
from daybook.engine.queues.entry import Entry
from daybook.journal.blocks.batch import Batch
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.retention import Limits, SegmentTable, choose, remove
from daybook.journal.segments.reader import read_blocks
from daybook.paging.content.content import ContentReader
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.index import Index
from daybook.paging.retention import retention_round as steps
from daybook.paging.retention.retention_round import Rounds
from daybook.paging.retention.retirement import retire
from daybook.paging.retention.survey import Place, Survey, Weight
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World

SEGMENT_BYTES = 8192


class RetentionWorld:
    """The data directory of a world, and what left it."""

    def __init__(self, data: Path, world: World, archive: Path | None = None) -> None:
        self.data = data
        self.world = world
        self.archive = archive
        self.removed_lsn = 0
        self.carried = 0
        self.first_chunk = steps.NO_CHUNK
        self.warnings: list[str] = []
        self._random = Random(1)
        self._batches: Iterator[list[Place]] | None = None
        self._resident: Iterator[list[Entry]] | None = None
        self.disk = RealDisk(data / "journal")
        self.disk.create()
        self._segments = SegmentTable(self.disk)
        (data / "data-id").write_text(DATA_ID.hex())
        self._journal = Journal.create(
            self.disk, LAYOUT, data_id=DATA_ID, segment_bytes=SEGMENT_BYTES
        )

    def close(self) -> None:
        self._journal.close()

    def write(self) -> None:
        """Bring journal and index up to the world."""
        self.write_journal()
        self.index()

    def write_journal(self) -> None:
        """Bring the journal up to the world."""
        self.world.turn()
        for event in self.world.journal[self._journal.next_lsn - 1 :]:
            # Blocks of one event fill segments soonest.
            strings = [event.detail, event.headers, event.body]
            row = pack_wide(event.row, *map(len, strings))
            heaps = [[text] if text else [] for text in strings]
            self._journal.append(Batch(event.lsn, [row], heaps, event.row[-1]))

    def index(self, *, lsn: int | None = None) -> str:
        """Bring the index up to the journal, or an event; return its digest."""
        with closing(Index(self.data / "index", DATA_ID)) as index:
            blocks = read_blocks(self.disk, LAYOUT, from_lsn=index.lsn + 1, to_lsn=lsn)
            index.advance([block for block in blocks if block.first_lsn > index.lsn])
            return index.digest()

    def needed_from(self) -> int:
        """The oldest chunk that no queued message refers to and that is needed."""
        return min(self.first_chunk, transactions.first_chunk(self.world.broker) or steps.NO_CHUNK)

    def store(self) -> IndexStore:
        """The index as it is now, to be closed."""
        return IndexStore(open_for_reading(self.data / "index"), self.disk)

    def round(self, count: int, meanwhile: Callable[[steps.Step], None] | None = None) -> bool:
        """Remove up to `count` segments; return whether any left.

        `meanwhile` is called before each step: anything may happen then.
        """
        # So that the segment before is sealed.
        self.world.ok(CarryChunk(self._random.randbytes(SEGMENT_BYTES)))
        self.write()
        before = self.removed_lsn
        rounds = Rounds()
        while True:
            for step in rounds.round(Limits(max_bytes=0), str(self.archive or "")):
                if meanwhile is not None:
                    meanwhile(step)
                self.perform(step, count)
            if not rounds.more or self.removed_lsn > before:
                break
        self.carried += rounds.carried_messages
        self.write()
        return self.removed_lsn > before

    def perform(self, step: steps.Step, count: int) -> None:
        """Execute a step of a round in which at most `count` segments leave."""
        match step:
            case steps.Look():
                with closing(self.store()) as store:
                    step.situation = steps.Situation(
                        store.indexed_lsn, first_chunk=self.needed_from()
                    )
            case steps.ChooseSegments():
                sealed, live_bytes = self._segments.look()
                step.first_lsn = sealed[0].first_lsn if sealed else 1
                step.now = self.world.now
                step.choice = choose(
                    sealed[:count], step.limits, live_bytes=live_bytes, now=step.now,
                    lowest_kept_lsn=step.lowest_kept_lsn,
                )  # fmt: skip
            case steps.Weigh():
                # The weight 0 lets segments leave, however many of their messages are queued.
                firsts = [segment.first_lsn for segment in self._segments.look()[0]]
                step.weights = [Weight(first, 0, 1) for first in firsts]
            case steps.Find():
                if self._batches is None:
                    # Read at once, because a process cannot open an index twice.
                    with closing(Survey.of(self.data, step.last_lsn)) as survey:
                        self._batches = iter(list(survey.batches(2)))
                step.places = next(self._batches, None)
                if step.places is None:
                    self._batches = None
            case steps.Where():
                with closing(self.store()) as store:
                    step.lsns = store.where(step.messages)
            case steps.Read():
                with closing(ContentReader(self.disk, LAYOUT)) as reader:
                    step.event = reader.event(step.lsn, step.message)
            case steps.ReadChunk():
                with closing(ContentReader(self.disk, LAYOUT)) as reader:
                    (step.body,) = reader.chunks([step.lsn], step.before)
            case steps.Do():
                step.lsn = self.world.ok(step.command)
                self.write_journal()
            case steps.AwaitIndex():
                self.write()
                step.lsn = self.world.broker.lsn
            case steps.FindResident():
                if self._resident is None:
                    self._resident = large_before(self.world.state, step.last_lsn)
                step.entries = next(self._resident, None)
                if step.entries is None:
                    self._resident = None
            case steps.Retire():
                step.left = retire(self.data, step.last_lsn, str(self.archive or ""))
            case steps.AskFirstChunk():
                step.lsn = self.needed_from()
            case steps.Remove():
                remove(self.disk, [segment.name for segment in step.segments])
                step.removed = tuple(segment.name for segment in step.segments)
                self.removed_lsn = step.segments[-1].last_lsn
            case steps.Warn():
                self.warnings.append(step.text)

    def places(self, last_lsn: int) -> list[Place]:
        """Return the messages to carry before the segments up to an event can leave."""
        with closing(Survey.of(self.data, last_lsn)) as survey:
            found = [place for batch in survey.batches(2) for place in batch]
            assert survey.count() == len(found)
        return found

    def carry(self, last_lsn: int) -> int:
        """Only carry messages that are queued up to an event; return how many were carried."""
        rounds = Rounds()
        for step in rounds._carry(last_lsn, 1):
            self.perform(step, 0)
        self.write()
        return rounds.carried_messages
