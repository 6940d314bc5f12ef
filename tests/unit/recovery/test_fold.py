"""Folding blocks into a state: where it stops, and what it says of what does not fit."""

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import CreateAddress, Start
from daybook.engine.facts import events
from daybook.engine.facts.rows import pack_wide
from daybook.engine.state.state import State
from daybook.journal.blocks.batch import Batch
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.fold import FoldError, fold


def journal_of(*rows: events.Row) -> MemoryDisk:
    disk = MemoryDisk()
    journal = Journal.create(disk, LAYOUT, data_id=bytes(16))
    packed = [pack_wide(row, 0, 0, 0) for row in rows]
    journal.append(Batch(1, packed, [[], [], []], rows[-1][events.TIME]))
    journal.close()
    return disk


def test_it_stops_at_the_event_asked_for() -> None:
    broker = Broker(State())
    broker.handle(Start(version="test"), 1)
    broker.handle(CreateAddress("a"), 2)
    broker.handle(CreateAddress("b"), 3)
    batch = broker.take()
    assert batch is not None
    disk = MemoryDisk()
    journal = Journal.create(disk, LAYOUT, data_id=bytes(16))
    journal.append(batch)
    state = State()
    assert fold(read_blocks(disk, LAYOUT), state, to_lsn=2) == 2
    assert [address.name for address in state.addresses.values()] == ["a"]


def test_a_kind_of_a_newer_version_is_named() -> None:
    disk = journal_of(events.row(63, time=1))
    with pytest.raises(FoldError, match=r"event 1 .* kind 63, which this version does not know"):
        fold(read_blocks(disk, LAYOUT), State())


def test_an_event_that_does_not_fit_is_named() -> None:
    disk = journal_of(
        events.row(events.BROKER_STARTED, time=1),
        events.row(events.ACKNOWLEDGED, queue=9, message=7, time=2),
    )
    with pytest.raises(FoldError, match=r"event 2 .*Acknowledged, does not fit"):
        fold(read_blocks(disk, LAYOUT), State())
