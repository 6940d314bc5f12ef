"""The blocks that a follower gets, and for how long it keeps the leader's segments."""

import pytest

from daybook.journal.journal import Journal
from daybook.journal.places import BEFORE_ALL
from daybook.replication.epochs import Beginning
from daybook.replication.messages import Ack, Ask, Blocks, Join, Joined, Segment, Standing
from daybook.replication.shipping import Shipment
from tests.simulation.machine.disk import FaultyDisk
from tests.suites.journal_rows import LAYOUT, make_batch

EMPTY = Standing("b", 1, b"", (), BEFORE_ALL, 0, False, 0)


def journal_of(blocks: int) -> tuple[FaultyDisk, Journal]:
    disk = FaultyDisk(1)
    journal = Journal.create(disk, LAYOUT, data_id=b"d" * 16, segment_bytes=1 << 15)
    for lsn in range(1, blocks + 1):
        journal.append(make_batch(lsn, [((1, 1, 1, lsn, 0), b"", b"")]))
    return disk, journal


@pytest.fixture
def journal() -> tuple[FaultyDisk, Journal]:
    return journal_of(3)


def joined(journal: tuple[FaultyDisk, Journal]) -> Shipment:
    disk, written = journal
    ask = Ask("shop", "a", 1, False)
    epochs = (Beginning(1, BEFORE_ALL, "a"),)
    shipment = Shipment(ask, disk, written.data_id, epochs, written.place)
    assert isinstance(shipment.receive(EMPTY, 10), Join)
    assert shipment.receive(Joined(0), 20) is None
    return shipment


def test_a_follower_gets_blocks_and_keeps_segments(journal: tuple[FaultyDisk, Journal]) -> None:
    shipment = joined(journal)
    assert shipment.needed_lsn(0) == 1
    assert [type(each) for each in shipment.pull(journal[1].place)] == [Segment, Blocks]
    assert not shipment.has_all
    shipment.receive(Ack(journal[1].place, 3), 30)
    assert shipment.has_all


def test_one_that_answers_nothing_for_long_keeps_none(journal: tuple[FaultyDisk, Journal]) -> None:
    shipment = joined(journal)
    list(shipment.pull(journal[1].place))
    assert shipment.needed_lsn(20) == 1
    assert shipment.needed_lsn(21) == 0
    shipment.receive(Ack(journal[1].place, 3), 30)
    # It owes nothing, however long ago that was.
    assert shipment.needed_lsn(1_000_000) == 1
