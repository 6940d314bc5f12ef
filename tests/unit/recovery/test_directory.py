"""Opening data directories: cut tails, refusals, and that a refusal leaves no trace."""

import shutil
from pathlib import Path

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import OpenConnection, Send, Start
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.journal.disk import MemoryDisk, RealDisk
from daybook.journal.errors import Corruption, JournalError, Locked
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.indexer import indexers
from daybook.paging.indexer.indexers import ProcessIndexers, ThreadIndexers
from daybook.paging.indexer.process import IndexerProcess, IndexerStuck
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery import checkpoint
from daybook.recovery import directory as opening
from daybook.recovery.directory import RecoveryError, open_directory
from daybook.recovery.fold import FoldError, fold, fold_block
from daybook.recovery.readonly import newest_state
from tests.support.process import wait_for
from tests.support.stored.folded import folded_state
from tests.support.stored.recovering import recover

NOW = 1_700_000_000_000_000


def write(journal: Journal, broker: Broker) -> None:
    """Write what was decided as one block."""
    batch = broker.take()
    assert batch is not None
    journal.append(batch)


def fill(journal: Journal, broker: Broker, count: int = 5) -> None:
    """A start, a connection and some messages, a block each."""
    broker.handle(Start(version="test"), NOW)
    write(journal, broker)
    connection = broker.handle(OpenConnection("stomp", "peer", "guest", room=1 << 20), NOW)
    assert isinstance(connection, int)
    for number in range(count):
        broker.handle(Send(connection, "a", b"", b"body %d" % number * 50), NOW + number)
        write(journal, broker)


@pytest.fixture
def disk() -> MemoryDisk:
    """A journal with events on a disk in memory."""
    disk = MemoryDisk()
    journal = recover(disk, data_id=bytes(16), segment_bytes=1 << 16).journal
    fill(journal, Broker(State()))
    journal.close()
    return disk


def test_an_empty_directory_gets_a_journal(tmp_path: Path) -> None:
    directory = open_directory(tmp_path / "new" / "data")
    assert directory.recovered.created
    assert directory.recovered.events == 0
    directory.close()
    again = open_directory(tmp_path / "new" / "data")
    assert not again.recovered.created
    again.close()


def test_a_directory_that_lost_its_segments_is_not_a_new_one(tmp_path: Path) -> None:
    open_directory(tmp_path, indexers=ThreadIndexers()).close()
    for segment in (tmp_path / "journal").glob("*.seg"):
        segment.unlink()
    with pytest.raises(RecoveryError, match="has lost its journal"):
        open_directory(tmp_path, indexers=ThreadIndexers())
    assert not list((tmp_path / "journal").glob("*.seg"))


def test_segments_of_another_directory_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        open_directory(tmp_path / name, indexers=ThreadIndexers()).close()
    (segment,) = (tmp_path / "other" / "journal").glob("*.seg")
    segment.replace(tmp_path / "one" / "journal" / segment.name)
    with pytest.raises(RecoveryError, match="belongs to another data directory"):
        open_directory(tmp_path / "one", indexers=ThreadIndexers())


def test_a_directory_from_before_it_had_an_id_gets_one(tmp_path: Path) -> None:
    open_directory(tmp_path, indexers=ThreadIndexers()).close()
    known = (tmp_path / "data-id").read_text()
    (tmp_path / "data-id").unlink()
    open_directory(tmp_path, indexers=ThreadIndexers()).close()
    assert (tmp_path / "data-id").read_text() == known


def test_a_missing_beginning_is_said(tmp_path: Path) -> None:
    directory = open_directory(tmp_path, segment_bytes=8192, indexers=ThreadIndexers())
    fill(directory.recovered.journal, Broker(State()), 200)
    directory.close()
    first, second, *_ = sorted((tmp_path / "journal").glob("*.seg"))
    first.unlink()
    begins = int(second.stem)
    with pytest.raises(RecoveryError, match=f"begins with event {begins}: the segments before"):
        open_directory(tmp_path, indexers=ThreadIndexers())


def test_what_was_written_is_folded(disk: MemoryDisk) -> None:
    broker = Broker(State())
    fill(Journal.create(MemoryDisk(), LAYOUT, data_id=bytes(16)), broker)
    steps: list[tuple[int, int]] = []
    recovered = recover(disk, data_id=bytes(16), progress=lambda *step: steps.append(step))
    assert recovered.events == broker.lsn == recovered.journal.durable_lsn
    assert digest(recovered.state) == digest(broker.state)
    assert steps[-1] == (broker.lsn, broker.lsn)
    assert recovered.repair is not None
    assert recovered.repair.cut_bytes == 0


def test_a_torn_tail_is_cut_and_the_rest_folded(disk: MemoryDisk) -> None:
    last = [block for block in read_blocks(disk, LAYOUT) if block.count][-1]
    disk.files[last.segment][last.offset + 100] ^= 1
    recovered = recover(disk, data_id=bytes(16))
    assert recovered.events == last.first_lsn - 1
    assert recovered.repair is not None
    assert recovered.repair.cut_offset == last.offset
    assert recovered.repair.cut_bytes > 0


@pytest.mark.parametrize("position", [1, 2, -2])
def test_a_corrupt_middle_is_refused_with_its_place(disk: MemoryDisk, position: int) -> None:
    block = [block for block in read_blocks(disk, LAYOUT) if block.count][position]
    disk.files[block.segment][block.offset + 100] ^= 1
    before = {name: bytes(content) for name, content in disk.files.items()}
    with pytest.raises(Corruption) as caught:
        recover(disk, data_id=bytes(16))
    assert block.segment in str(caught.value)
    assert str(block.offset) in str(caught.value)
    assert {name: bytes(content) for name, content in disk.files.items()} == before


def test_a_mark_makes_damage_before_it_corruption(disk: MemoryDisk) -> None:
    journal = recover(disk, data_id=bytes(16)).journal
    journal.mark(NOW)
    journal.close()
    last = [block for block in read_blocks(disk, LAYOUT) if block.count][-1]
    disk.files[last.segment][last.offset + 100] ^= 1
    with pytest.raises(Corruption):
        recover(disk, data_id=bytes(16))


def test_events_that_do_not_fit_are_named(disk: MemoryDisk) -> None:
    blocks = [block for block in read_blocks(disk, LAYOUT) if block.count]
    state = State()
    with pytest.raises(FoldError, match=rf"event {blocks[-1].first_lsn} \(segment .*Routed"):
        fold_block(blocks[-1], state)


def test_a_fold_stops_where_it_is_told(disk: MemoryDisk) -> None:
    for to_lsn in range(1, 8):
        state = State()
        assert fold(read_blocks(disk, LAYOUT), state, to_lsn) == to_lsn
        queue = state.queue_by_name.get("a")
        assert (len(queue.entries) if queue else 0) == sum(lsn <= to_lsn for lsn in _routed(disk))
    assert fold([], State()) == 0


def _routed(disk: MemoryDisk) -> list[int]:
    full = State()
    fold(read_blocks(disk, LAYOUT), full)
    return list(full.queue_by_name["a"].entries)


def test_a_state_that_cannot_be_is_refused(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "check", lambda state: ["two and two are five"])
    with pytest.raises(RecoveryError, match=r"two and two are five.*bug of Daybook"):
        recover(disk, data_id=bytes(16))


def test_a_directory_is_opened_once(tmp_path: Path) -> None:
    first = open_directory(tmp_path, indexers=ThreadIndexers())
    with pytest.raises(Locked, match=str(tmp_path)):
        open_directory(tmp_path, indexers=ThreadIndexers())
    first.close()
    open_directory(tmp_path, indexers=ThreadIndexers()).close()


def test_a_refused_directory_is_not_left_locked(tmp_path: Path) -> None:
    directory = open_directory(tmp_path, indexers=ThreadIndexers())
    fill(directory.recovered.journal, Broker(State()))
    directory.close()
    real = RealDisk(tmp_path / opening.JOURNAL)
    block = next(block for block in read_blocks(real, LAYOUT) if block.count)
    path = tmp_path / opening.JOURNAL / block.segment
    content = bytearray(path.read_bytes())
    content[block.offset + 100] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(Corruption):
            open_directory(tmp_path, indexers=ThreadIndexers())


def test_a_file_in_the_way_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I am a file")
    with pytest.raises((RecoveryError, JournalError), match="data"):
        open_directory(tmp_path / "data", indexers=ThreadIndexers())


def test_reading_needs_no_lock_and_changes_nothing(tmp_path: Path) -> None:
    directory = open_directory(tmp_path, indexers=ThreadIndexers())
    fill(directory.recovered.journal, Broker(State()))
    # The index and its lock belong to a process that is just beginning.
    kept = [*tmp_path.glob("*"), *(tmp_path / "journal").glob("*")]
    kept.remove(tmp_path / "index-lock")
    before = {path: path.read_bytes() for path in kept if path.is_file()}
    with newest_state(tmp_path) as (state, lsn):
        assert lsn == directory.recovered.journal.durable_lsn
        assert state.queue_by_name["a"].message_count == 5
    state, lsn = folded_state(tmp_path)
    assert lsn == directory.recovered.journal.durable_lsn
    assert len(state.queue_by_name["a"].entries) == 5
    assert folded_state(tmp_path, to_lsn=2)[1] == 2
    assert {path: path.read_bytes() for path in before} == before
    assert sorted((tmp_path / "journal").glob("*")) == sorted(
        path for path in kept if path.parent.name == "journal"
    )
    directory.close()


def test_reading_where_nothing_is_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="not a data directory"), newest_state(tmp_path):
        pass


class StuckIndexer(IndexerProcess):
    """Runs, and has no room on the disk."""

    def catch_up(self, lsn: int, progress: object, snapshot_every: int = 0) -> None:
        raise IndexerStuck("no space left on the device")


def test_an_index_that_cannot_catch_up_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The indexer goes first where it is faster; without room for it, memory takes the events."""
    directory = open_directory(tmp_path)
    fill(directory.recovered.journal, Broker(State()))
    directory.close()
    shutil.rmtree(tmp_path / "index")
    monkeypatch.setattr(checkpoint, "CATCH_UP_EVENTS", 1)
    monkeypatch.setattr(indexers, "IndexerProcess", StuckIndexer)
    told: list[str] = []
    again = open_directory(tmp_path, notice=told.append)
    assert again.recovered.state.queue_by_name["a"].ready_count == 5
    assert again.recovered.indexer is not None
    again.close()
    assert "read into memory: no space left on the device" in told[-1]


@pytest.mark.parametrize("made", [ProcessIndexers, ThreadIndexers])
def test_an_index_that_is_made_anew_leaves_snapshots(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: type[ProcessIndexers] | type[ThreadIndexers],
) -> None:
    """They are of the whole history, which is read once anyway."""
    directory = open_directory(tmp_path)
    fill(directory.recovered.journal, Broker(State()))
    directory.close()
    shutil.rmtree(tmp_path / "index")
    monkeypatch.setattr(checkpoint, "CATCH_UP_EVENTS", 1)
    again = open_directory(tmp_path, indexers=made(snapshot_every=1))
    lsn = again.recovered.journal.durable_lsn
    snapshot = tmp_path / "snapshots" / f"{lsn:020d}.json"
    wait_for(snapshot.exists, "a snapshot")
    again.close()


def test_what_only_the_index_knows_is_waited_for_or_the_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = open_directory(tmp_path)
    fill(directory.recovered.journal, Broker(State()))
    directory.close()
    monkeypatch.setattr(checkpoint, "must_catch_up", lambda *_: True)
    monkeypatch.setattr(indexers, "IndexerProcess", StuckIndexer)
    with pytest.raises(RecoveryError, match="Free disk space") as refused:
        open_directory(tmp_path)
    assert "no space left on the device" in str(refused.value)
