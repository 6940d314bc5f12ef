"""Salvage of histories with a base, carried content, and queues that come and go.

Segments are lost, and some of what says what was queued before them.
"""

import shutil
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from daybook.engine.administration.retention_commands import Carry
from daybook.engine.commands import DeleteUnused, Settle
from daybook.engine.facts.events import ADDRESS, CARRIED, KIND, MESSAGE, MESSAGE_FLAGS, QUEUE
from daybook.history.verification.index_verification import copied_index
from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.retention.missing_content import entries
from daybook.paging.retention.retirement import keep
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.salvage.salvage import salvage
from daybook.recovery.salvage.salvage_report import Report
from tests.support.histories import HISTORY_ID, write_history
from tests.support.world import Event, World, fold

CUT = 10
ROUNDS = 4


def a_history(random: Random) -> tuple[list[Event], int]:
    """Return events, and the last one that retention may remove: all older content was carried."""
    world = World()
    world.settings(all={"auto_delete_addresses_delay": 0, "auto_delete_queues_delay": 0})
    connection = world.connect()
    left = 0
    for turn in range(12):
        for _ in range(random.randrange(8, 20)):
            world.send("keep", random.randbytes(60), connection, routing_type="anycast")
        worker = world.attach(connection, "work", credit_messages=100)
        for _ in range(random.randrange(5, 20)):
            world.send("work", random.randbytes(60), connection, routing_type="anycast")
        taken = [each.message for each in world.deliveries if each.consumer == worker]
        for message in taken:
            world.ok(Settle(worker, message))
        world.detach(worker)
        if turn < 5:
            reader = world.attach(connection, "keep", credit_messages=5)
            for each in [each for each in world.deliveries if each.consumer == reader][:3]:
                world.ok(Settle(reader, each.message))
            world.detach(reader)
        world.sleep(60)
        for _ in range(3):
            world.ok(DeleteUnused())
        if turn == 4:
            left = world.broker.lsn
        if turn == 7:
            for entry in world.entries("keep"):
                message = entry.message
                sent = world.journal[message.id - 1]
                if message.id <= left:
                    world.ok(
                        Carry(
                            message=message.id, address=sent.row[ADDRESS],
                            priority=message.priority,
                            flags=message.flags & MESSAGE_FLAGS, before=message.id,
                            headers=sent.headers, body=sent.body,
                        )
                    )  # fmt: skip
    return world.journal, left


def a_directory(data: Path, random: Random) -> tuple[list[Event], int]:
    """Write a history whose beginning left; return its events, and the last one that left."""
    journal, left = a_history(random)
    write_history(data, journal, segment_bytes=1 << 13, cuts=range(CUT, len(journal), CUT))
    disk = RealDisk(data / JOURNAL)
    with closing(Index(data / INDEX, HISTORY_ID)) as index:
        until = random.randrange(len(journal) // 2, len(journal)) // CUT * CUT
        for batch in batches(disk, 0, until):
            index.advance(batch)
    names = segment_names(disk)
    firsts = [int(name.partition(".")[0]) for name in names]
    gone = max(at for at, first in enumerate(firsts) if first <= left)
    left = firsts[gone] - 1
    keep(disk, None, data / BASE, data / INDEX, HISTORY_ID, left, now=1)
    for name in names[:gone]:
        (data / JOURNAL / name).unlink()
    return journal, left


def salvaged(source: Path, target: Path) -> tuple[Report, set[tuple[int, int]]]:
    """Salvage, check all of the result, and return the report and the entries."""
    report = salvage(source, target, note=lambda _: None)
    with copied_index(target) as copy:
        verdict = verify_data(
            RealDisk(target / JOURNAL), lambda _: None, base=target / BASE, index=copy
        )
    assert verdict.ok, (verdict.wrong, verdict.report.faults)
    with closing(open_for_reading(target / INDEX)) as tables, tables.read() as txn:
        return report, {(entry.queue, entry.message) for entry in entries(tables, txn)}


def check(journal: list[Event], report: Report, found: set[tuple[int, int]], begins: int) -> None:
    """Check that every message whose content is left is taken, or is named."""
    gone = [(gap.first_lsn, gap.last_lsn) for gap in report.gaps]

    def is_left(lsn: int) -> bool:
        return begins <= lsn <= report.last_lsn and not any(a <= lsn <= b for a, b in gone)

    named = {message for _, message in report.astray + report.unknown + report.without_content}
    carried = {
        event.row[MESSAGE] for event in journal
        if event.row[KIND] == CARRIED and is_left(event.lsn)
    }  # fmt: skip
    assert not report.dropped
    for queue in fold(journal).queues.values():
        for message in queue.entries:
            if is_left(message):
                assert (queue.id, message) in found, message
            elif message in carried:
                assert (queue.id, message) in found or message in named, message


@pytest.fixture(scope="module")
def retained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event], int]:
    data = tmp_path_factory.mktemp("retained") / "data"
    return (data, *a_directory(data, Random(7)))


def copied(retained: tuple[Path, list[Event], int], tmp_path: Path) -> Path:
    return Path(shutil.copytree(retained[0], tmp_path / "data"))


def segments(data: Path) -> list[Path]:
    return [data / JOURNAL / name for name in segment_names(RealDisk(data / JOURNAL))]


def damage_block(data: Path, lsn: int) -> None:
    """Flip a bit in the block with an event."""
    blocks = read_blocks(RealDisk(data / JOURNAL), LAYOUT)
    block = next(block for block in blocks if block.last_lsn >= lsn)
    path = data / JOURNAL / block.segment
    changed = bytearray(path.read_bytes())
    changed[block.offset + 20] ^= 1
    path.write_bytes(changed)


@pytest.mark.parametrize("with_base", [True, False])
def test_without_the_first_segment_behind_the_base(
    retained: tuple[Path, list[Event], int], tmp_path: Path, *, with_base: bool
) -> None:
    data = copied(retained, tmp_path)
    _, journal, left = retained
    first, second = segments(data)[:2]
    first.unlink()
    shutil.rmtree(data / INDEX)
    if not with_base:
        shutil.rmtree(data / BASE)
    report, found = salvaged(data, tmp_path / "made")
    behind = int(second.stem)
    assert [(gap.first_lsn, gap.last_lsn) for gap in report.gaps] == [
        (left + 1 if with_base else 1, behind - 1)
    ]
    assert report.state_from == ("the base" if with_base else "the first event")
    assert "Routed" not in report.replaced
    check(journal, report, found, behind)
    if not with_base:
        assert report.astray_count > 5


def test_a_damaged_block_at_the_beginning_is_one_gap_behind_the_base(
    retained: tuple[Path, list[Event], int], tmp_path: Path
) -> None:
    data = copied(retained, tmp_path)
    shutil.rmtree(data / INDEX)
    first = segments(data)[0]
    changed = bytearray(first.read_bytes())
    changed[4200] ^= 1
    first.write_bytes(changed)
    report, found = salvaged(data, tmp_path / "made")
    assert [(gap.first_lsn, gap.events) for gap in report.gaps] == [(retained[2] + 1, CUT)]
    assert report.state_from == "the base"
    check(retained[1], report, found, retained[2] + 1)


def test_an_address_stays_as_long_as_a_queue_of_it_is_being_deleted(
    retained: tuple[Path, list[Event], int], tmp_path: Path
) -> None:
    data = copied(retained, tmp_path)
    shutil.rmtree(data / INDEX)
    _, journal, left = retained
    # Acknowledgements of a queue are lost; its deletion and that of its address are in a later
    # block.
    lsn = next(
        event.lsn for event in journal[left + CUT :]
        if event.name == "Acknowledged" and event.lsn % CUT == 0
        and journal[event.lsn - 2].name == "Acknowledged"
        and "QueueDeleted" in {each.name for each in journal[event.lsn : event.lsn + 3 * CUT]}
    )  # fmt: skip
    damage_block(data, lsn)
    report, found = salvaged(data, tmp_path / "made")
    assert (report.replaced["QueueDeleted"], report.replaced["AddressDeleted"]) == (1, 1)
    check(journal, report, found, left + 1)


def test_a_gap_names_queues_that_there_were(
    retained: tuple[Path, list[Event], int], tmp_path: Path
) -> None:
    data = copied(retained, tmp_path)
    journal = retained[1]
    assert "work" not in {queue.name for queue in fold(journal).queues.values()}
    # The block with a message for a queue that was deleted later.
    lsn = next(
        event.lsn for event in journal
        if event.name == "Acknowledged" and event.lsn > retained[2] + 60
        and fold(journal[: event.lsn]).queues[event.row[QUEUE]].name == "work"
    )  # fmt: skip
    damage_block(data, lsn)
    report, _ = salvaged(data, tmp_path / "made")
    assert "work" in report.gaps[0].queues


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_left_is_taken_or_named(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    source = tmp_path / "source"
    journal, left = a_directory(source, random)
    for turn in range(3):
        data = tmp_path / f"damaged-{turn}"
        shutil.copytree(source, data)
        lost = random.sample(segments(data), random.choice((1, 2)))
        for path in lost:
            path.unlink()
        for part in random.sample((BASE, INDEX), random.randrange(3)):
            shutil.rmtree(data / part)
        report, found = salvaged(data, tmp_path / f"made-{turn}")
        check(journal, report, found, left + 1)
