"""Each lead of a cluster has an epoch, newer than those of all before."""

from pathlib import Path

import msgspec
import pytest

from daybook.engine.facts import events
from daybook.engine.facts.details import BrokerStartedDetail
from daybook.history.audit import re_execution
from daybook.history.audit.feature_levels import Decider, deciders_at
from daybook.history.audit.re_execution import audit_piece, joined, tasks
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.levels import LEVEL
from tests.support.forging.faults import of_kind
from tests.support.histories import write_history
from tests.support.world import Event
from tests.support.worlds.auditing import DoorWorld


def led(tmp_path: Path, *epochs: int) -> tuple[Path, list[Event]]:
    """Write a history in which a broker started in each of these epochs; return their starts."""
    world = DoorWorld()
    for _ in epochs[1:]:
        world.send("orders", b"a", world.connect())
        world.turn()
        world.restart()
    starts = of_kind(world.journal, events.BROKER_STARTED)
    told = dict(zip((each.lsn for each in starts), epochs, strict=True))
    story = [
        each._replace(detail=_in(each, told[each.lsn])) if each.lsn in told else each
        for each in world.journal
    ]
    data = write_history(tmp_path / "data", story, cuts=world.ends, segment_bytes=1 << 16)
    return data, of_kind(story, events.BROKER_STARTED)


def _in(start: Event, epoch: int) -> bytes:
    decoded = start.decoded
    assert isinstance(decoded, BrokerStartedDetail)
    return events.encode_detail(msgspec.structs.replace(decoded, epoch=epoch, node="a"))


def breaches(data: Path, after: int = 0) -> list[tuple[str, int, tuple[int, ...]]]:
    disk = RealDisk(data / JOURNAL)
    last = 1 << 40
    found = tasks(data, disk, after, last, processes=1, now=1 << 60, tolerance=1 << 60)
    audit = joined([audit_piece(each, disk) for each in found])
    return [(each.rule, each.lsn, each.lsns) for each in audit.breaches]


def test_epochs_may_have_gaps_and_brokers_outside_of_a_cluster_have_none(tmp_path: Path) -> None:
    data, _ = led(tmp_path, 0, 0, 3, 7, 0, 8)
    assert breaches(data) == []


@pytest.mark.parametrize("epochs", [(7, 7), (7, 3), (7, 0, 7), (7, 0, 6)])
@pytest.mark.parametrize("stretch", [1, 100_000])
def test_an_epoch_that_is_not_newer_is_a_breach_with_the_start_before_as_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: tuple[int, ...], stretch: int
) -> None:
    monkeypatch.setattr(re_execution, "STRETCH_EVENTS", stretch)
    data, starts = led(tmp_path, *epochs)
    first, last = starts[0].lsn, starts[-1].lsn
    assert breaches(data) == [("epochs", last, (first, last))]


def test_a_piece_knows_the_epoch_of_the_broker_before_it(tmp_path: Path) -> None:
    data, starts = led(tmp_path, 7, 5)
    first, last = starts[0].lsn, starts[1].lsn
    assert breaches(data, last - 1) == [("epochs", last, (first, last))]
    disk = RealDisk(data / JOURNAL)
    assert deciders_at(disk, [0, first, last - 1, last]) == [
        Decider(), Decider(LEVEL, 7, first), Decider(LEVEL, 7, first), Decider(LEVEL, 5, last),
    ]  # fmt: skip
