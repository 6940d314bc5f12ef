"""The writer in a process of its own, as every writer should; and all that can happen to it."""

import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daybook.journal.blocks.format import RESERVE_NAME
from daybook.journal.disk import MemoryDisk, RealDisk
from daybook.journal.errors import JournalFailed, Locked
from daybook.journal.journal import Journal
from daybook.journal.lock import DirectoryLock
from daybook.journal.segments.verify import verify
from daybook.journal.writing.process_writer import ProcessWriter
from tests.suites import journaling_broker
from tests.suites.journal_rows import create, make_batch, noise, read_all, reopen, some_contents
from tests.suites.switched_disk import SwitchedDisk
from tests.suites.writer_suite import Heard, WriterSuite, large_batch

# Newer releases of Python warn of every fork beside a thread, and pytest has one to time tests out.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")

PATIENCE_SECONDS = 60.0


class Watching(Heard):
    """The reports of a writer, and whether it waits until it can send."""

    def __init__(self) -> None:
        super().__init__()
        self.watches: list[bool] = []

    def watch(self, wanted: bool) -> None:
        self.watches.append(wanted)

    def wants_to_send(self) -> bool:
        return self.watches[-1:] == [True]


def start(journal: Journal, heard: Heard) -> ProcessWriter:
    """A writer that tells `heard`, and tries a full disk again at once."""
    writer = ProcessWriter(journal, retry_seconds=0.001)
    writer.on_durable = heard.on_durable
    writer.on_failure = heard.on_failure
    writer.on_disk_full = heard.on_disk_full
    writer.on_disk_free = heard.on_disk_free
    if isinstance(heard, Watching):
        writer.watch = heard.watch
    return writer


def wait(
    writer: ProcessWriter, condition: Callable[[], bool], heard: Watching | None = None
) -> None:
    """Be the event loop of the writer's owner until the condition holds."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    poll = select.poll()
    while not condition():
        assert time.monotonic() < give_up, "waited in vain for the writer"
        sending = heard is not None and heard.wants_to_send()
        poll.register(writer, select.POLLIN | (select.POLLOUT if sending else 0))
        # Some conditions are about files, and nobody tells of those.
        for _, event in poll.poll(1):
            if event & select.POLLOUT:
                writer.flush()
            writer.receive()


def narrow(writer: ProcessWriter) -> None:
    """Let the socket take as little at once as it can."""
    with raw(writer) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)


def raw(writer: ProcessWriter) -> socket.socket:
    """The socket to the writer's process once more."""
    return socket.socket(fileno=os.dup(writer.fileno()))


def descriptors(process: int | str = "self") -> dict[int, str]:
    """Return the open files of a process."""
    folder = Path(f"/proc/{process}/fd")
    found = {}
    for name in os.listdir(folder):  # noqa: PTH208 - names are wanted, not paths
        # The descriptor that lists is among them, and gone.
        with suppress(FileNotFoundError):
            found[int(name)] = os.readlink(folder / name)  # noqa: PTH115 - sockets are not paths
    return found


def wait_for_end(process: int) -> None:
    """Wait until a process, not necessarily a child, has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(PATIENCE_SECONDS * 1000), "the process did not end"
    finally:
        os.close(descriptor)


class TestProcessWriter(WriterSuite[ProcessWriter]):
    def start(self, journal: Journal, heard: Heard) -> ProcessWriter:
        return start(journal, heard)

    def wait(self, writer: ProcessWriter, condition: Callable[[], bool]) -> None:
        wait(writer, condition)


@pytest.fixture
def disk(tmp_path: Path) -> SwitchedDisk:
    return SwitchedDisk(tmp_path)


# ---- sending and receiving


def test_a_batch_larger_than_the_socket_is_sent_piece_by_piece(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    heard = Watching()
    writer = start(create(disk), heard)
    narrow(writer)
    body = noise(16 << 20)
    row = (1, 1, 1, 1, 1)
    writer.submit(make_batch(1, [(row, b"note", body)]))
    assert heard.watches == [True]
    writer.submit(make_batch(2, some_contents(2, 4)))
    writer.mark(7)
    wait(writer, lambda: heard.durable == [1, 5], heard)
    writer.close()
    assert heard.watches == [True, False]
    assert read_all(disk)[0] == (1, row, b"note", body)
    assert verify(disk).ok


def test_a_batch_that_the_socket_takes_needs_no_watching(disk: SwitchedDisk) -> None:
    heard = Watching()
    writer = start(create(disk), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.close()
    assert (heard.durable, heard.watches) == ([4], [])


def test_closing_sends_what_the_socket_did_not_take(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    heard = Watching()
    writer = start(create(disk), heard)
    narrow(writer)
    for lsn in (1, 2, 3):
        writer.submit(make_batch(lsn, [((1, 1, 1, 1, 1), b"", noise(2 << 20))]))
    writer.mark(7)
    assert heard.wants_to_send()
    writer.close()
    assert (heard.durable, heard.failures) == ([1, 2, 3], [])
    assert not heard.wants_to_send()
    assert [event[0] for event in read_all(disk)] == [1, 2, 3]


def test_closing_listens_while_it_sends() -> None:
    """More reports than the socket holds must not keep the writer from reading."""
    heard = Watching()
    writer = start(create(MemoryDisk(), 1 << 20), heard)
    narrow(writer)
    for first_lsn in range(1, 80_001, 4):
        writer.submit(make_batch(first_lsn, some_contents(first_lsn, 4)))
    writer.close()
    assert heard.durable == list(range(4, 80_001, 4))
    assert heard.failures == []


def test_what_becomes_durable_while_closing_may_have_more_written(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)

    def go_on(last_lsn: int) -> None:
        heard.on_durable(last_lsn)
        if last_lsn == 4:
            writer.submit(make_batch(5, some_contents(5, 4)))

    writer.on_durable = go_on
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.close()
    assert (heard.durable, heard.failures) == ([4, 8], [])
    with pytest.raises(AssertionError, match="closed writer"):
        writer.submit(make_batch(9, some_contents(9, 4)))


def test_a_report_is_heard_once_even_if_its_hearer_fails(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)

    def fail(last_lsn: int) -> None:
        heard.on_durable(last_lsn)
        raise ValueError(last_lsn)

    writer.on_durable = fail
    writer.submit(make_batch(1, some_contents(1, 4)))
    with pytest.raises(ValueError, match="4"):
        wait(writer, lambda: False)
    writer.on_durable = heard.on_durable
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.close()
    assert heard.durable == [4, 8]


def test_nobody_need_listen(disk: SwitchedDisk) -> None:
    writer = ProcessWriter(create(disk), retry_seconds=0.001)
    disk.fill()
    for lsn in range(1, 20):
        writer.submit(large_batch(lsn))
    wait(writer, lambda: bool(writer.stats().disk_full))
    disk.free()
    wait(writer, lambda: not writer.stats().disk_full)
    narrow(writer)
    writer.submit(make_batch(20, [((1, 1, 1, 1, 1), b"", noise(1 << 20))]))
    disk.fail_next("pwrite")
    writer.close()
    assert writer.failed
    assert not writer.idle


def test_a_disk_that_is_full_from_the_start_is_told(disk: SwitchedDisk) -> None:
    journal = create(disk)
    disk.remove(RESERVE_NAME)
    disk.fill()
    assert not journal.reserve()
    heard = Heard()
    writer = start(journal, heard)
    wait(writer, lambda: len(heard.full) == 1)
    writer.close()
    assert heard.failures == []


def test_closing_on_a_full_disk_does_not_wait_to_send(disk: SwitchedDisk) -> None:
    heard = Watching()
    writer = start(create(disk), heard)
    narrow(writer)
    disk.fill()
    for lsn in range(1, 9):
        writer.submit(make_batch(lsn, [((1, 1, 1, 1, 1), b"", noise(1 << 20))]))
    wait(writer, lambda: len(heard.full) == 1 and disk.refusals() > 3, heard)
    assert heard.wants_to_send()
    writer.close()
    assert [type(error) for error in heard.failures] == [JournalFailed]
    assert "none of them was confirmed to a client" in str(heard.failures[0])
    assert heard.durable == []


# ---- failures


def test_why_it_failed_is_told_though_it_is_gone(disk: SwitchedDisk) -> None:
    heard = Watching()
    writer = start(create(disk), heard)
    narrow(writer)
    disk.fail_next("fdatasync")
    for lsn in range(1, 9):
        writer.submit(make_batch(lsn, [((1, 1, 1, 1, 1), b"", noise(1 << 20))]))
    writer.close()
    assert len(heard.failures) == 1
    assert "Input/output error" in str(heard.failures[0])
    assert not heard.wants_to_send()


def test_a_mistake_of_ours_is_a_failure_too(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    writer.submit(make_batch(99, some_contents(99, 1)))
    wait(writer, lambda: len(heard.failures) == 1)
    text = str(heard.failures[0])
    assert "a bug of Daybook" in text
    assert "a batch must begin with the next LSN" in text
    assert "journal.py:" in text
    writer.close()
    assert len(heard.failures) == 1


def test_a_killed_writer_is_a_failure(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    wait(writer, lambda: heard.durable == [4])
    os.kill(writer.pid, signal.SIGKILL)
    wait(writer, lambda: len(heard.failures) > 0)
    text = str(heard.failures[0])
    assert "was ended by signal 9 (Killed)" in text
    assert "everything that it confirmed is in the journal" in text
    # It is always readable now, so its owner may continue to call.
    writer.receive()
    writer.submit(make_batch(5, some_contents(5, 4)))
    writer.mark(1)
    writer.close()
    writer.close()
    assert len(heard.failures) == 1
    assert writer.failed
    assert read_all(disk)[-1][0] == 4


def test_a_writer_killed_while_there_is_more_to_send_is_a_failure(disk: SwitchedDisk) -> None:
    heard = Watching()
    writer = start(create(disk), heard)
    narrow(writer)
    os.kill(writer.pid, signal.SIGSTOP)
    writer.submit(make_batch(1, [((1, 1, 1, 1, 1), b"", noise(4 << 20))]))
    assert heard.wants_to_send()
    os.kill(writer.pid, signal.SIGKILL)
    wait(writer, lambda: len(heard.failures) > 0, heard)
    assert "signal 9" in str(heard.failures[0])
    assert not heard.wants_to_send()
    writer.close()
    assert len(heard.failures) == 1
    assert verify(disk).ok


def test_a_writer_killed_before_closing_is_a_failure(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    os.kill(writer.pid, signal.SIGKILL)
    writer.close()
    assert [type(error) for error in heard.failures] == [JournalFailed]


def test_a_writer_that_cannot_be_forked_is_a_failure_and_leaves_nothing(
    disk: SwitchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    journal = create(disk)
    before = descriptors()
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(JournalFailed, match=r"cannot be started: .*temporarily unavailable"):
        ProcessWriter(journal)
    assert descriptors() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    journal.close()


# ---- one process and the other


def test_neither_process_holds_what_is_not_its_own(disk: SwitchedDisk) -> None:
    before = descriptors()
    writer = ProcessWriter(create(disk))
    writer.submit(make_batch(1, some_contents(1, 4)))
    wait(writer, lambda: writer.idle)
    ours = descriptors()
    theirs = descriptors(writer.pid)
    added = {target for number, target in ours.items() if number not in before}
    assert len(ours) == len(before) + 2
    assert not any("journal" in target for target in added)
    assert [target for target in theirs.values() if target.endswith(".seg")]
    assert not added & set(theirs.values())
    writer.close()
    assert descriptors() == before


def test_a_closed_writer_leaves_no_process(disk: SwitchedDisk) -> None:
    writer = ProcessWriter(create(disk))
    assert Path(f"/proc/{writer.pid}").exists()
    writer.close()
    assert not Path(f"/proc/{writer.pid}").exists()


def test_a_killed_writer_leaves_no_process(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    os.kill(writer.pid, signal.SIGKILL)
    wait(writer, lambda: len(heard.failures) > 0)
    assert not Path(f"/proc/{writer.pid}").exists()
    writer.close()


def test_signals_are_for_the_broker(disk: SwitchedDisk) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    heard = Heard()
    writer = start(create(disk), heard)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(writer.pid, number)
    writer.submit(make_batch(1, some_contents(1, 4)))
    writer.close()
    assert (heard.durable, heard.failures) == ([4], [])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


@pytest.fixture
def nobody_waits_for_children() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("nobody_waits_for_children")
def test_a_broker_that_has_no_zombies_can_close(disk: SwitchedDisk) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    os.kill(writer.pid, signal.SIGKILL)
    writer.close()
    assert "writes the journal ended: no more events" in str(heard.failures[0])


def test_the_lock_is_held_until_both_are_gone(disk: SwitchedDisk, tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    writer = ProcessWriter(create(disk))
    lock.release()
    with pytest.raises(Locked):
        DirectoryLock(tmp_path)
    writer.close()
    DirectoryLock(tmp_path).release()


def test_the_memory_of_what_is_written_is_given_back(tmp_path: Path) -> None:
    heard = Watching()
    writer = start(create(RealDisk(tmp_path)), heard)
    size = 8 << 20
    # Memory that it shares with its parent counts from the start.
    before = anonymous_bytes(writer.pid)
    for lsn in range(1, 31):
        writer.submit(make_batch(lsn, [((1, 1, 1, 1, 1), b"", bytes(size))]))
        wait(writer, lambda: heard.durable[-1:] == [lsn], heard)  # noqa: B023
    grown = anonymous_bytes(writer.pid) - before
    writer.close()
    assert grown < 20 * size


def anonymous_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("count", [1, 47, 48, 55, 88])
def test_a_request_that_ends_halfway_is_not_carried_out(disk: SwitchedDisk, count: int) -> None:
    heard = Heard()
    writer = start(create(disk), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    request = struct.pack("<BxxxxxxxQq3Q", 1, 5, 7, 32, 0, 9) + bytes(32 + 8)
    with raw(writer) as connection:
        connection.sendall(request[:count])
    writer.close()
    assert (heard.durable, heard.failures) == ([4], [])
    assert read_all(disk)[-1][0] == 4
    assert verify(disk).ok


def test_a_writer_whose_broker_died_first_does_nothing(
    disk: SwitchedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    heard = Heard()
    writer = start(create(disk), heard)
    writer.submit(make_batch(1, some_contents(1, 4)))
    wait(writer, lambda: len(heard.failures) > 0)
    assert "ended with status 0" in str(heard.failures[0])
    writer.close()
    assert read_all(disk) == []


def broker(directory: Path, times: int) -> subprocess.Popen[str]:
    """A process that owns a writer."""
    return subprocess.Popen(
        [sys.executable, journaling_broker.__file__, str(directory), str(times)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )


def test_the_writer_of_a_killed_broker_is_killed(tmp_path: Path) -> None:
    with broker(tmp_path, 0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        writer = int(process.stdout.readline().removeprefix("writer "))
        for _ in range(20):
            last_line = process.stdout.readline()
        process.kill()
        # Both have the pipe: its end says that both have ended.
        said = [last_line, *process.stdout]
    assert process.returncode == -signal.SIGKILL
    wait_for_end(writer)
    with DirectoryLock(tmp_path):
        disk = RealDisk(tmp_path / "journal")
        journal = reopen(disk)
        durable = int([line for line in said if line.endswith("\n")][-1].removeprefix("durable "))
        assert durable <= journal.durable_lsn <= durable + 4
        journal.close()
        assert verify(disk).ok


def test_the_writer_of_a_killed_broker_is_killed_whatever_it_does(tmp_path: Path) -> None:
    with broker(tmp_path, 0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        writer = int(process.stdout.readline().removeprefix("writer "))
        assert process.stdout.readline().startswith("durable")
        # Stopped, it cannot see that the broker's end of the socket is closed.
        os.kill(writer, signal.SIGSTOP)
        process.kill()
        process.wait()
        try:
            wait_for_end(writer)
        finally:
            with suppress(ProcessLookupError):
                os.kill(writer, signal.SIGKILL)


def test_the_writer_runs_nothing_of_the_broker_at_its_end(tmp_path: Path) -> None:
    with broker(tmp_path, 2) as process:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    lines = said.splitlines()
    assert lines[0] == "begin"
    assert lines[1].startswith("writer ")
    assert lines[2:] == ["durable 4", "durable 8", "at exit"]
