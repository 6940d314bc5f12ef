"""Each lead of a cluster has an epoch, newer than those of all before."""

from pathlib import Path

import msgspec
import pytest

from daybook.engine.facts import events
from daybook.engine.facts.details import BrokerStartedDetail
from daybook.history.audit import re_execution
from daybook.history.audit.feature_levels import Decider, deciders_at
from daybook.history.audit.re_execution import Audit, audit_piece, joined, tasks
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.levels import LEVEL
from tests.support.forging.faults import changed, of_kind
from tests.support.histories import write_history
from tests.support.world import Event
from tests.support.worlds.auditing import DoorWorld


def led(tmp_path: Path, *epochs: int, nodes: str = "", back: int = 0) -> tuple[Path, list[Event]]:
    """Write a history in which a broker started in each of these epochs, on these nodes (all on
    one), and the clock of each was behind that before; return their starts."""
    world = DoorWorld()
    for _ in epochs[1:]:
        world.send("orders", b"a", world.connect())
        world.turn()
        world.restart()
    starts = of_kind(world.journal, events.BROKER_STARTED)
    nodes = nodes or "a" * len(epochs)
    leads = {start.lsn: lead for start, *lead in zip(starts, epochs, nodes, strict=True)}
    story: list[Event] = []
    for each in world.journal:
        earlier = back * sum(start.lsn <= each.lsn for start in starts[1:])
        row = changed(each.row, time=each.row[events.TIME] - earlier)
        detail = _in(each, *leads[each.lsn]) if each.lsn in leads else each.detail
        story.append(each._replace(row=row, detail=detail))
    data = write_history(tmp_path / "data", story, cuts=world.ends, segment_bytes=1 << 16)
    return data, of_kind(story, events.BROKER_STARTED)


def _in(start: Event, epoch: int, node: str) -> bytes:
    decoded = start.decoded
    assert isinstance(decoded, BrokerStartedDetail)
    return events.encode_detail(
        msgspec.structs.replace(decoded, epoch=epoch, node=node if epoch else "")
    )


def audited(data: Path, after: int = 0, tolerance: int = 1 << 60) -> Audit:
    disk = RealDisk(data / JOURNAL)
    found = tasks(data, disk, after, 1 << 40, processes=1, now=1 << 60, tolerance=tolerance)
    return joined([audit_piece(each, disk) for each in found])


def breaches(data: Path, after: int = 0) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(each.rule, each.lsn, each.lsns) for each in audited(data, after).breaches]


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
        Decider(), Decider(LEVEL, 7, first, "a"), Decider(LEVEL, 7, first, "a"),
        Decider(LEVEL, 5, last, "a"),
    ]  # fmt: skip


DAY = 86_400_000_000


@pytest.mark.parametrize("stretch", [1, 100_000])
def test_another_node_may_have_a_clock_that_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(re_execution, "STRETCH_EVENTS", stretch)
    data, starts = led(tmp_path, 3, 7, nodes="ab", back=DAY)
    found = audited(data, tolerance=1_000_000)
    assert found.is_clean, found.breaches
    (note,) = found.notes
    assert note.startswith(
        f"event {starts[1].lsn}: 'b' leads from here on in epoch 7, and its clock was 86,"
    )
    assert "s behind that of 'a', which led before" in note
    # A piece that begins between the two knows who led before.
    assert audited(data, starts[1].lsn - 2, 1_000_000).notes == [note]


@pytest.mark.parametrize(
    ("epochs", "nodes"), [((3, 7), "aa"), ((0, 0), "aa"), ((0, 7), "ab"), ((7, 0), "ab")]
)
def test_a_clock_that_goes_back_on_one_node_is_a_breach(
    tmp_path: Path, epochs: tuple[int, int], nodes: str
) -> None:
    data, _ = led(tmp_path, *epochs, nodes=nodes, back=DAY)
    assert [each.rule for each in audited(data, tolerance=1_000_000).breaches] == ["time"]
