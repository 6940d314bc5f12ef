"""Plans: snapshots of a journal, an archive, or both, whatever state these are in."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, Corruption, JournalError, NoJournal
from daybook.journal.journal import Journal
from daybook.journal.retention import remove
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline import planning
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Source, check_source, durable_lsn, make_plan
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError
from tests.support import histories
from tests.support.histories import HISTORY_ID, batch_of, some_history, write_history
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import Event, World

SEGMENT_BYTES = 8192
COLUMNS = ("lsn", "kind", "address", "queue", "queues", "body")


@pytest.fixture(scope="module")
def journal() -> list[Event]:
    return some_history(1, 300)


@pytest.fixture
def data(tmp_path: Path, journal: list[Event]) -> Path:
    """A data directory with several sealed segments and an unsealed one."""
    found = write_history(tmp_path / "data", journal, segment_bytes=SEGMENT_BYTES)
    assert len(names(found)) > 4
    return found


def names(data: Path) -> list[str]:
    return segment_names(RealDisk(data / "journal"))


def archive(data: Path, archived: Path, segments: Sequence[str]) -> str:
    for name in segments:
        Archive(str(archived)).put(RealDisk(data / "journal"), name, now=0)
    return str(archived)


def table(source: Source, selection: Selection = EVERYTHING) -> pa.Table:
    return pa.Table.from_batches(read_plan(make_plan(source, selection), COLUMNS))


def lsns(source: Source, selection: Selection = EVERYTHING) -> list[int]:
    plan = make_plan(source, selection)
    found = [lsn for batch in read_plan(plan, ["lsn"]) for lsn in batch.column(0).to_pylist()]
    assert sum(split.rows for split in plan.splits) >= len(found)
    return found


def test_an_empty_journal_has_nothing(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "journal")
    disk.create()
    Journal.create(disk, LAYOUT, data_id=HISTORY_ID).close()
    plan = make_plan(Source(str(tmp_path)), Selection())
    assert (plan.splits, plan.first_lsn, plan.last_lsn) == ((), 1, 0)
    assert list(read_plan(plan, COLUMNS)) == []
    assert durable_lsn(Source(str(tmp_path))) == 0


def test_marks_are_no_events(tmp_path: Path, journal: list[Event]) -> None:
    disk = RealDisk(tmp_path / "journal")
    disk.create()
    writing = Journal.create(disk, LAYOUT, data_id=HISTORY_ID)
    for start in range(0, 40, 10):
        writing.append(batch_of(journal[start : start + 10]))
        writing.mark(journal[start].row[-1])
    writing.close()
    assert lsns(Source(str(tmp_path))) == list(range(1, 41))
    assert make_plan(Source(str(tmp_path)), Selection()).last_lsn == 40


def test_what_is_no_journal_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="not a data directory"):
        make_plan(Source(str(tmp_path)), Selection())
    (tmp_path / "journal").mkdir()
    with pytest.raises(NoJournal, match="no segment to read"):
        make_plan(Source(str(tmp_path)), Selection())
    with pytest.raises(ArchiveError, match="archive: no segment is archived here"):
        make_plan(Source(archive=str(tmp_path / "archive")), Selection())
    with pytest.raises(SelectionError, match="name a data directory"):
        check_source(Source())


def test_a_name_that_nobody_had_is_refused(data: Path) -> None:
    with pytest.raises(SelectionError, match=r"no queue 'order'; did you mean 'orders'\?"):
        make_plan(Source(str(data)), Selection(queues=("order",)))
    with pytest.raises(SelectionError, match=r"no address '§'$"):
        make_plan(Source(str(data)), Selection(addresses=("§",)))


def test_footers_rule_out_blocks(data: Path, journal: list[Event]) -> None:
    everything = make_plan(Source(str(data)), Selection())
    message = next(event.lsn for event in journal if event.name == "Acknowledged")
    little = make_plan(Source(str(data)), Selection(from_lsn=message, to_lsn=message))
    assert len(little.splits) == 1
    assert little.splits[0].bytes < sum(split.bytes for split in everything.splits) / 4
    assert make_plan(Source(str(data)), Selection(from_lsn=len(journal) + 1)).splits == ()


def test_a_damaged_footer_costs_time_only(data: Path) -> None:
    whole = table(Source(str(data)))
    for name in names(data)[:3]:
        path = data / "journal" / name
        path.write_bytes(path.read_bytes()[:-3] + b"xxx")
    assert table(Source(str(data))) == whole
    some = Selection(kinds=("Routed",), queues=("orders",), from_lsn=100)
    assert table(Source(str(data)), some).num_rows > 0


def test_a_block_that_is_damaged_is_named(data: Path) -> None:
    plan = make_plan(Source(str(data)), Selection())
    split = plan.splits[1]
    (start, _), *_ = split.ranges
    path = data / "journal" / split.segment
    content = bytearray(path.read_bytes())
    content[start + 200] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corruption) as caught:
        list(read_plan(plan, ["lsn"]))
    assert (caught.value.segment, caught.value.offset) == (split.segment, start)
    assert caught.value.lsn == split.first_lsn


def test_the_tail_counts_as_far_as_it_is_whole(data: Path, journal: list[Event]) -> None:
    newest = data / "journal" / names(data)[-1]
    plan = make_plan(Source(str(data)), Selection())
    end = plan.splits[-1].ranges[-1][1]
    content = newest.read_bytes()
    newest.write_bytes(content[: end - 5] + b"\0" * (len(content) - end + 5))
    torn = make_plan(Source(str(data)), Selection())
    assert plan.last_lsn == len(journal)
    assert 0 < torn.last_lsn < plan.last_lsn
    assert lsns(Source(str(data))) == list(range(1, torn.last_lsn + 1))
    assert durable_lsn(Source(str(data))) == torn.last_lsn


def test_while_a_broker_runs_only_what_is_durable_counts(
    data: Path, journal: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(str(data))
    assert durable_lsn(source) == durable_lsn(source, 100) == len(journal)
    last = make_plan(source, Selection()).splits[-1]
    monkeypatch.setattr(planning, "is_running", lambda directory: True)
    plan = make_plan(source, Selection())
    # The last block could still be lost: nothing stands behind it.
    assert last.first_lsn - 1 <= plan.last_lsn == durable_lsn(source) < len(journal)
    assert lsns(source) == list(range(1, plan.last_lsn + 1))
    assert durable_lsn(source, len(journal) + 7) == len(journal) + 6


def test_a_plan_stays_the_same_while_the_journal_goes_on(
    tmp_path: Path, journal: list[Event]
) -> None:
    disk = RealDisk(tmp_path / "journal")
    disk.create()
    writing = Journal.create(disk, LAYOUT, data_id=HISTORY_ID, segment_bytes=SEGMENT_BYTES)
    writing.append(batch_of(journal[:50]))
    source = Source(str(tmp_path))
    plan = make_plan(source, Selection())
    before = pa.Table.from_batches(read_plan(plan, COLUMNS))
    for start in range(50, 1000, 50):
        writing.append(batch_of(journal[start : start + 50]))
    writing.close()
    assert len(segment_names(disk)) > 2
    assert pa.Table.from_batches(read_plan(plan, COLUMNS)) == before
    assert lsns(source) == list(range(1, 1001))


def test_an_archive_alone_and_with_what_is_live(data: Path, tmp_path: Path) -> None:
    whole = table(Source(str(data)))
    segments = names(data)
    archived = archive(data, tmp_path / "archive", segments[:3])
    alone = table(Source(archive=archived))
    assert alone == whole.slice(0, alone.num_rows)
    # All is in both but the last one.
    assert table(Source(str(data), archived)) == whole
    remove(RealDisk(data / "journal"), segments[:3])
    assert table(Source(str(data), archived)) == whole
    without = make_plan(Source(str(data)), Selection(), names=False)
    assert without.first_lsn == alone.num_rows + 1


def test_an_archive_that_is_not_there_is_told_once_something_left(
    data: Path, tmp_path: Path
) -> None:
    source = Source(str(data), str(tmp_path / "nope"))
    assert lsns(source)[0] == 1
    remove(RealDisk(data / "journal"), names(data)[:2])
    with pytest.raises(ArchiveError, match="nope: no segment is archived here; is it the right"):
        make_plan(source, Selection())


def test_the_archive_of_another_directory_is_told(
    data: Path, tmp_path: Path, journal: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "HISTORY_ID", bytes(16))
    other = write_history(tmp_path / "other", journal, segment_bytes=SEGMENT_BYTES)
    archived = archive(data, tmp_path / "archive", names(data)[:3])
    with pytest.raises(ArchiveError, match="it is the archive of another data directory"):
        make_plan(Source(str(other), archived), Selection())


def test_a_gap_is_told(data: Path, tmp_path: Path) -> None:
    segments = names(data)
    archived = archive(data, tmp_path / "archive", segments[:2])
    gone = int(segments[2][:20]), int(segments[3][:20]) - 1
    remove(RealDisk(data / "journal"), segments[:3])
    source = Source(str(data), archived)
    what = f"events {gone[0]} to {gone[1]} are missing: segment {segments[3]} does not continue"
    with pytest.raises(JournalError, match=what):
        make_plan(source, Selection())
    with pytest.raises(JournalError, match=what):
        make_plan(source, Selection(), names=False)
    # A question about one side only gets a right answer.
    behind = Selection(from_lsn=gone[1] + 1)
    assert make_plan(source, behind, names=False).splits[0].segment == segments[3]


def test_a_hole_in_a_journal_is_told(data: Path) -> None:
    (data / "journal" / names(data)[1]).unlink()
    with pytest.raises(JournalError, match="are missing: segment"):
        make_plan(Source(str(data)), Selection())


def test_segments_of_another_journal_are_told(
    data: Path, tmp_path: Path, journal: list[Event]
) -> None:
    other = [event._replace(body=event.body + b".") for event in journal]
    write_history(tmp_path / "other", other, segment_bytes=SEGMENT_BYTES, cuts=[len(journal)])
    place = 200
    write_history(
        tmp_path / "other", other, segment_bytes=SEGMENT_BYTES, cuts=range(place, 4000, place)
    )
    shared = [name for name in names(data) if name in names(tmp_path / "other")]
    assert len(shared) > 1
    content = (tmp_path / "other" / "journal" / shared[1]).read_bytes()
    (data / "journal" / shared[1]).write_bytes(content)
    with pytest.raises(Corruption, match="belong to different journals"):
        make_plan(Source(str(data)), Selection())


def test_segments_that_leave_are_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(Source(str(data)), Selection())
    segments = names(data)
    remove(RealDisk(data / "journal"), segments[:1])
    with pytest.raises(JournalError, match=f"segment {segments[0]} was removed while"):
        list(read_plan(plan, ["lsn"]))
    # The same while the plan is made.
    left = data / "journal" / segments[1]

    def leave(*given: object) -> object:
        left.unlink(missing_ok=True)
        return open_segment(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "open_segment", leave)
    with pytest.raises(JournalError, match=f"segment {segments[1]} was removed while"):
        make_plan(Source(str(data)), Selection(), names=False)


def test_a_disk_that_refuses_is_told(data: Path) -> None:
    plan = make_plan(Source(str(data)), Selection())
    path = data / "journal" / names(data)[0]
    path.unlink()
    path.mkdir()
    for read in (lambda: list(read_plan(plan, ["lsn"])), lambda: table(Source(str(data)))):
        with pytest.raises(
            JournalError, match=rf"segment {path.name} cannot be read: .*{os.strerror(21)}"
        ):
            read()


def test_names_come_from_the_base_where_their_events_left(tmp_path: Path) -> None:
    world = World()
    connection = world.connect()
    for queue in ("orders", "größe/kg"):
        consumer = world.attach(connection, queue)
        for number in range(120):
            message = world.send(queue, b"%d" % number * 30)
            world.ack(consumer, message)
    (tmp_path / "data").mkdir()
    retention = RetentionWorld(tmp_path / "data", world)
    assert retention.round(2)
    retention.close()
    plan = make_plan(Source(str(tmp_path / "data")), Selection(queues=("orders",)))
    assert plan.first_lsn == retention.removed_lsn + 1 > 20
    found = pa.Table.from_batches(read_plan(plan, ["queue", "address"]))
    assert found.num_rows > 100
    assert set(found.column("queue").to_pylist()) == {"orders"}
    assert {"orders", "größe/kg"} <= set(plan.names.queues.names)
