"""The indexer as a process: it follows, reports, waits for room, and describes faults."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import Send
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.paging.content.store import IndexStore
from daybook.paging.indexer import process
from daybook.paging.indexer.indexer import yield_to_others
from daybook.paging.indexer.process import (
    IndexerFailed,
    IndexerHandle,
    IndexerProcess,
    IndexerStuck,
)
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.messages import Ended, Indexed
from daybook.paging.tables.tables import open_for_reading
from tests.support.process import wait_for

DATA_ID = bytes(range(16))


class Writer:
    """A journal that grows in a directory, and the broker that decides what it says."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        (path / "data-id").write_text(DATA_ID.hex() + "\n")
        disk = RealDisk(path / "journal")
        disk.create()
        self.journal = Journal.create(disk, LAYOUT, data_id=DATA_ID, segment_bytes=1 << 16)
        self.broker = Broker(State())

    def send(self, count: int) -> None:
        for number in range(count):
            self.broker.handle(Send(0, "orders", b"", b"%d" % number), 1)
        batch = self.broker.take()
        assert batch is not None
        self.journal.append(batch)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    writer = Writer(tmp_path / "data")
    yield writer
    writer.journal.close()


@pytest.fixture
def indexer(tmp_path: Path, writer: Writer) -> Iterator[IndexerProcess]:
    process = IndexerProcess(tmp_path / "data")
    yield process
    process.close()


def until(indexer: IndexerHandle, lsn: int) -> Indexed:
    """The first report of an LSN or a later one."""
    try:
        while True:
            for message in indexer.hear(60.0):
                if isinstance(message, Indexed) and message.lsn >= lsn:
                    return message
    except Ended:
        fate = indexer.fate(60.0)
        assert fate is not None
        raise fate from None


def test_it_catches_up_and_follows(tmp_path: Path, writer: Writer, indexer: IndexerProcess) -> None:
    writer.send(50)
    steps: list[tuple[int, int]] = []
    indexer.catch_up(writer.broker.lsn, lambda *step: steps.append(step))
    assert steps[-1] == (writer.broker.lsn, writer.broker.lsn)
    writer.send(10)
    indexer.tell(writer.broker.lsn)
    until(indexer, writer.broker.lsn)
    store = IndexStore(open_for_reading(tmp_path / "data" / "index"), RealDisk(tmp_path / "data"))
    state = store.checkpoint()
    assert state.queue_by_name["orders"].ready_count == 60
    assert digest(state) == digest(writer.broker.state)
    store.close()


def test_it_indexes_nothing_that_is_not_durable(writer: Writer, indexer: IndexerProcess) -> None:
    writer.send(5)
    safe = writer.broker.lsn
    writer.send(5)
    indexer.tell(safe)
    assert until(indexer, safe).lsn == safe


def test_it_sleeps_until_a_commit_is_requested(writer: Writer, indexer: IndexerProcess) -> None:
    writer.send(5)
    indexer.catch_up(writer.broker.lsn, None)
    writer.send(5)
    before = _times_woken(indexer.pid)
    assert indexer.hear(1.5) == []
    assert _times_woken(indexer.pid) == before


def _times_woken(pid: int) -> int:
    """How often a process gave up its core by itself, once it sleeps."""
    status = Path(f"/proc/{pid}/status")
    wait_for(lambda: "State:\tS" in status.read_text(), "the indexer to sleep")
    (line,) = [each for each in status.read_text().splitlines() if each.startswith("voluntary")]
    return int(line.split()[1])


def test_it_takes_no_core_from_the_broker_by_waking_up(indexer: IndexerProcess) -> None:
    until(indexer, 0)
    assert os.sched_getscheduler(indexer.pid) == os.SCHED_BATCH
    assert os.getpriority(os.PRIO_PROCESS, indexer.pid) > os.getpriority(os.PRIO_PROCESS, 0)


def test_it_works_where_no_scheduling_class_is_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    yield_to_others()


def test_it_tells_the_digest_when_asked(writer: Writer, indexer: IndexerProcess) -> None:
    writer.send(5)
    indexer.tell(writer.broker.lsn, digest=True)
    assert until(indexer, writer.broker.lsn).digest == digest(writer.broker.state)
    indexer.tell(writer.broker.lsn, digest=True)
    again = until(indexer, writer.broker.lsn)
    assert again.digest == digest(writer.broker.state)


def test_a_killed_one_is_told_and_is_not_the_fault_of_the_index(
    writer: Writer, indexer: IndexerProcess
) -> None:
    os.kill(indexer.pid, signal.SIGKILL)
    with pytest.raises(IndexerFailed, match="signal 9") as failed:
        until(indexer, 1)
    assert not failed.value.index


def test_damage_of_the_tables_is_told_as_such(
    tmp_path: Path, writer: Writer, indexer: IndexerProcess
) -> None:
    writer.send(5)
    indexer.catch_up(writer.broker.lsn, None)
    indexer.close()
    (tmp_path / "data" / "index" / "data.mdb").write_bytes(b"nonsense" * 4096)
    broken = IndexerProcess(tmp_path / "data")
    with pytest.raises(IndexerFailed) as failed:
        until(broken, 1)
    assert failed.value.index
    broken.close()


def test_damage_of_the_journal_is_told_as_such(
    tmp_path: Path, writer: Writer, indexer: IndexerProcess
) -> None:
    for _ in range(3):
        writer.send(300)
    indexer.close()
    segment = sorted((tmp_path / "data" / "journal").glob("*.seg"))[0]
    content = bytearray(segment.read_bytes())
    content[2000] ^= 1
    segment.write_bytes(content)
    broken = IndexerProcess(tmp_path / "data")
    with pytest.raises(IndexerFailed, match=segment.name) as failed:
        broken.catch_up(writer.broker.lsn, None)
    assert not failed.value.index
    assert failed.value.corrupt
    broken.close()


def test_one_that_is_stopped_holds_up_nobody(writer: Writer, indexer: IndexerProcess) -> None:
    """A report without room is sent later, and only the newest counts."""
    until(indexer, 0)
    os.kill(indexer.pid, signal.SIGSTOP)
    writer.send(5)
    for lsn in range(1, 5000):
        indexer.tell(min(lsn, writer.broker.lsn))
    assert indexer.hear() == []
    assert indexer.fate() is None
    os.kill(indexer.pid, signal.SIGCONT)
    indexer.flush()
    assert until(indexer, writer.broker.lsn).lsn == writer.broker.lsn


def test_a_start_does_not_wait_for_ever_for_one_that_is_stopped(
    writer: Writer, indexer: IndexerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(indexer, 0)
    os.kill(indexer.pid, signal.SIGSTOP)
    writer.send(5)
    monkeypatch.setattr(process, "SILENT_SECONDS", 0.5)
    with pytest.raises(IndexerStuck, match=f"process {indexer.pid}"):
        indexer.catch_up(writer.broker.lsn, None)


def test_one_that_is_stopped_can_be_ended(writer: Writer, indexer: IndexerProcess) -> None:
    until(indexer, 0)
    os.kill(indexer.pid, signal.SIGSTOP)
    assert indexer.close()


def test_two_never_write_one_index(tmp_path: Path, writer: Writer, indexer: IndexerProcess) -> None:
    until(indexer, 0)
    second = IndexerProcess(tmp_path / "data")
    writer.send(5)
    indexer.tell(writer.broker.lsn)
    until(indexer, writer.broker.lsn)
    assert second.hear(0.2) == []
    indexer.close()
    # It finds the state that the first one left.
    assert until(second, 0).lsn == writer.broker.lsn
    second.close()


def test_it_ends_with_its_broker(tmp_path: Path, writer: Writer) -> None:
    read, write = os.pipe()
    broker = os.fork()
    if broker == 0:
        process = IndexerProcess(tmp_path / "data")
        process.hear(60.0)
        os.write(write, b"%d" % process.pid)
        signal.pause()
    os.close(write)
    pid = int(os.read(read, 20))
    os.close(read)
    os.kill(broker, signal.SIGKILL)
    os.waitpid(broker, 0)
    wait_for(lambda: not _runs(pid), "the end of the indexer")


def _runs(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
