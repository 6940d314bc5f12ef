"""Signed journals, and forgeries of them that only a key or an anchor can find."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from daybook.engine import commands as c
from daybook.engine.administration.signatures import RecordKeyChange, RecordSignature
from daybook.engine.facts import events
from daybook.engine.facts.events import KIND
from daybook.engine.state.digest import digest
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.signing.statements import Statement
from daybook.server.history.notary import Notary
from daybook.server.history.notary_messages import Answer, Changed, Configure, Kept, Sign, Signed
from tests.support.forging.forger import in_order
from tests.support.histories import batch_of
from tests.support.world import Event
from tests.unit.tools.conftest import Pen


class SignedJournal:
    """A journal that a notary signs, as a broker would have it; `anchors` has all statements."""

    def __init__(self, data: Path, key: Path, *, segment_bytes: int = 8192) -> None:
        data.mkdir(parents=True)
        self.data = data
        self.pen = Pen(data, segment_bytes=segment_bytes)
        (data / DATA_ID).write_text(data_id_of(self.pen.disk).hex())
        self.said: list[Answer] = []
        self.notary = Notary(data)
        self.notary.say = self.said.append  # type: ignore[method-assign, assignment]
        self.anchors: list[Statement] = []
        self.pen.do(c.Start(version="1"))
        self.connection = self.pen.connect("alice")
        self.use(key)

    def use(self, key: Path) -> None:
        """Sign with a key from now on."""
        self.notary.configure(Configure(str(key), []))
        for each in self.take(Changed):
            self.pen.do(RecordKeyChange(each.change))

    def take(self, kind: type) -> list:  # type: ignore[type-arg]
        """Take what the notary said of one kind."""
        found = [each for each in self.said if isinstance(each, kind)]
        self.said[:] = [each for each in self.said if not isinstance(each, kind)]
        return found

    def send(self, body: bytes) -> None:
        """Send a message."""
        self.pen.do(c.Send(self.connection, "orders", b"content-type:text/plain\n", body))

    def checkpoint(self, *, signs: bool = True) -> None:
        """Journal a checkpoint, and what the notary says about it."""
        lsn, state = self.pen.broker.lsn, digest(self.pen.broker.state)
        self.pen.do(c.Checkpoint(lsn, state))
        if signs:
            self.notary.sign(Sign(lsn, state, 0))
            for each in self.take(Signed):
                self.anchors.append(each.statement)
                self.pen.do(RecordSignature(each.statement.lsn, each.statement.detail()))
                self.notary.kept(Kept(each.statement.lsn))

    def stop(self) -> None:
        """Stop cleanly; the end is signed, too."""
        self.pen.do(c.Stop())
        self.notary.sign(Sign(self.pen.broker.lsn, "", 0, last=True))
        self.anchors += [each.statement for each in self.take(Signed)]
        self.pen.close()

    def write_anchors(self, path: Path) -> Path:
        """Write all anchors to a file."""
        path.write_bytes(b"".join(each.line() for each in self.anchors))
        return path


def rewrite(data: Path, change: Callable[[Event], Event | None]) -> None:
    """Change the events of a journal, or leave out some (None)."""

    def forged(blocks: list[list[Event]]) -> Iterator[list[Event]]:
        lsn = 1
        for block in blocks:
            kept = [changed for event in block if (changed := change(event)) is not None]
            yield [each._replace(lsn=lsn + at) for at, each in enumerate(kept)]
            lsn += len(kept)

    _write_again(data, forged)


def swap_blocks(data: Path, wanted: bytes) -> None:
    """Swap the block of the message with this body and the block behind it. Ids follow, and times
    stay in their order."""

    def forged(blocks: list[list[Event]]) -> Iterator[list[Event]]:
        at = next(at for at, block in enumerate(blocks) if block[0].body == wanted)
        order = [*range(at), at + 1, at, *range(at + 2, len(blocks))]
        places = [event.lsn - 1 for number in order for event in blocks[number]]
        events = iter(in_order([event for block in blocks for event in block], places))
        for number in order:
            yield list(islice(events, len(blocks[number])))

    _write_again(data, forged)


def _write_again(data: Path, forge: Callable[[list[list[Event]]], Iterable[list[Event]]]) -> None:
    """Write the blocks of a journal as forged, and hash each of them again, as anybody can who may
    write the files."""
    disk = RealDisk(data / JOURNAL)
    data_id = data_id_of(disk)
    blocks = [
        [Event(*event) for event in block.events()] for block in read_blocks(disk) if block.count
    ]
    for name in disk.names():
        disk.remove(name)
    assert not segment_names(disk)
    journal = Journal.create(disk, LAYOUT, data_id=data_id, segment_bytes=8192)
    for block in forge(blocks):
        if block:
            journal.append(batch_of(block))
    journal.mark(1)
    journal.close()


def with_body(wanted: bytes, body: bytes) -> Callable[[Event], Event]:
    """A forgery: another body of the same length."""
    assert len(wanted) == len(body)
    return lambda event: event._replace(body=body) if event.body == wanted else event


def is_signature(event: Event) -> bool:
    return event.row[KIND] == events.SIGNED
