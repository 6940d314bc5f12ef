"""Group commit in a process of its own: one block is written and synced while the next batch fills.

A writer thread would have to wait for the interpreter after each compression, hash and write, and a
busy event loop releases it late; a separate process does not. The process is forked as soon as the
journal is open, before anything else is in memory and before there are threads. It inherits the
journal's files and the lock of the directory. It receives batches over a socket and reports durable
events. It writes one block after the other, so only one block is in flight on the disk, however
many wait in the socket.

Fault model: an error of the disk is fatal and reported once. If the writer's process dies, no more
events become durable, and `on_failure` is called. If the broker's process dies, the kernel kills
the writer's; the block that it was writing is a torn tail. The lock is held until both have ended.
The writer's process may hang: the broker keeps bytes that the socket does not accept, and waits
only in `close`, for a limited time. A full disk is not an error: the batch is kept and retried
until the broker closes.

Must never know: what is in a batch, what time it is (durations come from the journal's clock).
"""

import gc
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from struct import Struct
from typing import Final, NoReturn

from daybook.journal.blocks.batch import Batch, BatchLike
from daybook.journal.blocks.written import Written, pack_written, unpack_written
from daybook.journal.errors import DiskFull, JournalFailed
from daybook.journal.journal import Journal
from daybook.journal.places import Place
from daybook.journal.spares import SPARES
from daybook.journal.writing.lifeline import MEANT_FOR_THE_BROKER, end_with
from daybook.journal.writing.near_writer import Sharing
from daybook.journal.writing.writer import (
    RETRY_SECONDS,
    SyncFigures,
    WriterCore,
    WriterStats,
    ignore_disk_free,
    ignore_disk_full,
    reason,
)

# To the writer: kind, first LSN, time, bytes of the rows and of each heap; then those.
_BATCH: Final = 1
_MARK: Final = 2
_WRITTEN: Final = 3

# From the writer: kind, bytes of the content, LSN, events of the block, seconds of its sync; then
# the content, which is a text, or what was written (`Written`).
_REPORT: Final = Struct("<BxxxIQQd")
_DURABLE: Final = 1
_FAILED: Final = 2
_FULL: Final = 3
_FREE: Final = 4
_CLOSED: Final = 5
_MARKED: Final = 6

CLOSE_SECONDS: Final = 30.0
"""How long `close` waits by default for a process that does not answer."""
STEP_SECONDS: Final = 0.02
KILL_STEPS: Final = 100
_PIECES_AT_ONCE: Final = 16
_BATCH_PIECE_BYTES: Final = 1 << 20
_REPORT_PIECE_BYTES: Final = 1 << 14
_SOCKET_BYTES: Final = 4 << 20
_SPARE_DESCRIPTORS: Final = 4
"""With these the next segment can be opened when the machine has no descriptors left."""

LOST: Final = "events that were not durable are lost; none of them was confirmed to a client"
"""The consequence of giving up a writer."""


class ProcessWriter:
    """Writes batches in a forked process, in order, one block in flight at a time.

    Create it in the main thread: the process is killed when the thread that forked it ends. The
    owner sets the callbacks, calls `receive` when `fileno` is readable and `flush` when it is
    writable; `watch(True)` asks the owner to watch for the latter, `watch(False)` no longer. The
    journal belongs to the writer's process: the object given here is a copy from before the fork.
    `pid` is the pid of the writer's process.

    The callbacks: `on_durable(last_lsn)` when everything up to the LSN survives a power cut;
    `on_written(place, last_lsn)`, if it is set, when everything up to there is on this disk, and
    the owner says by `count_durable` when it is durable; `on_failure(error)`, once, when nothing
    more will be written; `on_disk_full(full)` when no segment can be reserved ahead, and
    `on_disk_free()` when that is over.
    """

    what = "the process that writes the journal"

    def __init__(self, journal: Journal, *, retry_seconds: float = RETRY_SECONDS) -> None:
        """Fork the writer's process; raises JournalFailed if that is impossible."""
        self.on_durable: Callable[[int], None] = _ignore_durable
        self.on_written: Callable[[Place, int], None] | None = None
        self.on_failure: Callable[[Exception], None] = _ignore_failure
        self.on_disk_full: Callable[[DiskFull], None] = ignore_disk_full
        self.on_disk_free: Callable[[], None] = ignore_disk_free
        self.watch: Callable[[bool], None] = _ignore_watch
        self.failed = False
        self._request: Final = _request_header(journal)
        self._nothing: Final = [0] * len(journal.layout.heaps)
        self._unsent: Final[deque[memoryview]] = deque()
        self._submitted: Final[deque[tuple[int, int]]] = deque()
        self._pending_bytes = 0
        # How many batches and marks the writer has not answered.
        self._asked = 0
        self._received = b""
        self._figures: Final = SyncFigures()
        self._place = journal.place
        self._here = 0
        self._is_closing = False
        self._disk_full = ""
        self._watched = False
        # The steps of closing: this side sends no more; the writer has confirmed its end; its
        # process has ended.
        self._finished = False
        self._farewell = False
        self._gone = False
        self._socket, self._patience = self._start(journal, retry_seconds)

    def _start(self, journal: Journal, retry_seconds: float) -> tuple[socket.socket, socket.socket]:
        """Start the writer; return the socket to it, and one that is open as long as it shall wait
        for space on a full disk. Raises JournalFailed."""
        with connecting() as (ours, theirs, patience, closing):
            broker = os.getpid()
            writer = Serving(journal, theirs, closing, retry_seconds)
            self.pid = _fork()
            if self.pid == 0:
                _run_and_exit(writer, (ours, patience), broker)
            theirs.close()
            closing.close()
            journal.close()
        return ours, patience

    def share(self, sharing: Sharing) -> None:
        """Let others have the blocks that are written in this process; those that the writer's
        process writes are on the disk when it says so."""

    def fileno(self) -> int:
        """The descriptor to watch."""
        return self._socket.fileno()

    @property
    def pending_bytes(self) -> int:
        """Bytes of the batches that are not durable, for back-pressure."""
        return self._pending_bytes

    @property
    def place(self) -> Place:
        """The end of the blocks that are on the disk."""
        return self._place

    @property
    def idle(self) -> bool:
        """Whether everything submitted is durable."""
        return not self._submitted

    def submit(self, batch: BatchLike) -> None:
        """Send a batch to the writer. The caller must not change it any more."""
        self._count(batch)
        self._send_batch(batch)

    def _count(self, batch: BatchLike) -> None:
        """Count a batch as one that is not durable yet."""
        assert not self._finished, "a closed writer does not accept batches"
        assert batch.rows, "a batch without events is a mark"
        raw_bytes = batch.raw_bytes
        self._pending_bytes += raw_bytes
        self._submitted.append((batch.first_lsn, raw_bytes))

    def mark(self, time: int) -> None:
        """Request a mark (microseconds since 1970 UTC); for idle times, and before `close`."""
        assert not self._finished, "a closed writer does not accept batches"
        self._send_mark(time)

    def _send_batch(self, batch: BatchLike) -> None:
        self._asked += 1
        pieces = [b"".join(batch.rows), *(b"".join(heap) for heap in batch.heaps)]
        sizes = map(len, pieces)
        self._send(
            [self._request.pack(_BATCH, batch.level, batch.first_lsn, batch.time, *sizes), *pieces]
        )

    def _send_mark(self, time: int) -> None:
        self._asked += 1
        self._send([self._request.pack(_MARK, 0, 0, time, 0, *self._nothing)])

    def _send_written(self, written: Written) -> None:
        """Tell the writer the writes of this process; there is no answer."""
        packed = pack_written(written)
        head = self._request.pack(_WRITTEN, 0, written.next_lsn, 0, len(packed), *self._nothing)
        self._send([head, packed])

    def _send(self, pieces: list[bytes]) -> None:
        if self.failed:
            return
        waiting = bool(self._unsent)
        self._unsent.extend(memoryview(piece) for piece in pieces if piece)
        if not waiting:
            self.flush()

    def flush(self) -> None:
        """Send as much as the socket accepts."""
        unsent = self._unsent
        while unsent:
            try:
                sent = self._socket.sendmsg(islice(unsent, _PIECES_AT_ONCE))
            except BlockingIOError:
                break
            except OSError:
                # `receive` finds out why the writer has ended.
                unsent.clear()
                break
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.popleft())
            if sent:
                unsent[0] = unsent[0][sent:]
        self._set_watch(bool(unsent))

    def _set_watch(self, wanted: bool) -> None:
        if wanted != self._watched:
            self._watched = wanted
            self.watch(wanted)

    def receive(self) -> None:
        """Read the writer's reports and call the callbacks."""
        try:
            data = self._socket.recv(_REPORT_PIECE_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            # The writer ended before it had read everything.
            data = b""
        if not data:
            self._reap()
        self._received += data
        while (report := self._next_report()) is not None:
            self._hear(*report)

    def _next_report(self) -> tuple[int, int, int, float, bytes] | None:
        """Return kind, LSN, events, seconds and content of a complete report, None if there is
        none.
        """
        received = self._received
        if len(received) < _REPORT.size:
            return None
        kind, content_bytes, lsn, events, seconds = _REPORT.unpack_from(received)
        end = _REPORT.size + content_bytes
        if len(received) < end:
            return None
        self._received = received[end:]
        return kind, lsn, events, seconds, received[_REPORT.size : end]

    def _hear(self, kind: int, lsn: int, events: int, seconds: float, content: bytes) -> None:
        if kind in (_DURABLE, _MARKED):
            self._asked -= 1
            self._follow(unpack_written(content))
        if kind == _DURABLE:
            self._note_sync(events, seconds)
            self._written_here(lsn)
        elif kind == _FULL:
            self._disk_full = content.decode()
            self.on_disk_full(DiskFull(self._disk_full))
        elif kind == _FREE:
            self._disk_full = ""
            self.on_disk_free()
        elif kind == _FAILED:
            self._fail(content.decode())
        elif kind == _CLOSED:
            self._farewell = True
        else:
            assert kind == _MARKED

    def _note_sync(self, events: int, seconds: float) -> None:
        self._figures.note(events, seconds)

    def _follow(self, written: Written) -> None:
        """Note the writes of the writer; one that also writes here needs more of them."""
        self._place = Place(written.segment_lsn, written.offset)

    def _written_here(self, lsn: int) -> None:
        self._here = lsn
        if self.on_written is not None:
            self.on_written(self.place, lsn)
        if self.on_written is None or self._is_closing:
            self.count_durable(lsn)

    def count_durable(self, lsn: int) -> None:
        """Count everything up to an LSN as durable, and call `on_durable`; its owner calls it if it
        has set `on_written`."""
        while self._submitted and self._submitted[0][0] <= lsn:
            self._pending_bytes -= self._submitted.popleft()[1]
        self.on_durable(lsn)

    def _reap(self) -> None:
        """Reap the writer's process after its end; report a failure if the end was not expected."""
        if self._gone:
            return
        self._gone = True
        how = self._await_end()
        if not self._farewell:
            self._fail(
                f"{self.what} {how}: no more events can become durable. "
                "Start the broker again: everything that it confirmed is in the journal."
            )

    def _await_end(self) -> str:
        """Wait for the end of the writer, which is about to end; return how it ended."""
        return _wait_for(self.pid)

    def _fail(self, text: str) -> None:
        if not self.failed:
            self.failed = True
            self._unsent.clear()
            self._set_watch(False)
            self.on_failure(JournalFailed(text))

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Wait until everything submitted is written and the process has ended.

        On a full disk the remaining batches are retried once and then given up with `on_failure`.
        If the process does not answer for `timeout_seconds`, because it is stopped or its disk
        hangs, it is killed, and the remaining batches are given up likewise; the block that it was
        writing is a torn tail. May be called again.
        """
        if self._socket.fileno() < 0:
            return
        self._set_watch(False)
        self.watch = _ignore_watch
        self._close_for_others()
        self._patience.close()
        poll = select.poll()
        silent_seconds = 0.0
        while not self._gone:
            is_done = self.failed or not (self._unsent or self._submitted)
            if is_done and not self._finished:
                self._finished = True
                self._socket.shutdown(socket.SHUT_WR)
            poll.register(self, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            if poll.poll(STEP_SECONDS * 1000):
                silent_seconds = 0.0
                self.flush()
                self.receive()
                continue
            silent_seconds += STEP_SECONDS
            if silent_seconds >= timeout_seconds:
                self._kill(timeout_seconds)
        self._finished = True
        self._socket.close()

    def _close_for_others(self) -> None:
        """Wait for this disk alone from now on; nothing more is confirmed."""
        self._is_closing = True
        if self.on_written is not None:
            self.on_durable = _ignore_durable
            self.count_durable(self._here)

    def _kill(self, waited_seconds: float) -> None:
        """Give up a writer that does not answer."""
        self._gone = True
        how = self._kill_writer()
        if not self._farewell:
            self._fail(
                f"{self.what} did not answer for {waited_seconds:.0f} s and was {how}: {LOST}"
            )

    def _kill_writer(self) -> str:
        """Kill the process, and wait a moment for its end; return what was done, for the log."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        # A process that waits for a disk ends only when the disk answers; it keeps the lock until
        # then.
        with suppress(ChildProcessError):
            for _ in range(KILL_STEPS):
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    break
                select.select([], [], [], STEP_SECONDS)
        return "killed"

    def stats(self) -> WriterStats:
        """Figures for status."""
        return self._figures.stats(self._pending_bytes, self._disk_full)


def _ignore_durable(_: int) -> None:
    """The default callback, until the owner sets another."""


def _ignore_failure(_: Exception) -> None:
    """The default callback, until the owner sets another."""


def _ignore_watch(_: bool) -> None:
    """The default callback, until the owner sets another."""


def _request_header(journal: Journal) -> Struct:
    """The head of a request to the writer: kind, feature level, first LSN, time, bytes of the rows,
    of each heap.

    The bytes follow; a mark has none, and writes here take the place of the rows.
    """
    return Struct(f"<BxxxIQq{1 + len(journal.layout.heaps)}Q")


@contextmanager
def connecting() -> Iterator[list[socket.socket]]:
    """The ends of two connections to a writer: ours and theirs; ours and theirs of the second one,
    which says only that it is open. An OSError becomes a JournalFailed.
    """
    ends: list[socket.socket] = []
    try:
        ends += socket.socketpair()
        ends += socket.socketpair()
        for end in ends[:2]:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        yield ends
        ends[0].setblocking(False)
    except OSError as error:
        for end in ends:
            end.close()
        raise JournalFailed(f"the writer of the journal cannot be started: {error}") from error


def _fork() -> int:
    """Fork; signals that are meant for the broker stay blocked in the new process.

    The broker tells the process when to end; it must never run the broker's signal handlers.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, MEANT_FOR_THE_BROKER)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def _wait_for(pid: int) -> str:
    """Wait for the end of a process; return how it ended."""
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        # The broker was started with SIGCHLD ignored, so the kernel leaves no zombies.
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"was ended by signal {-code} ({signal.strsignal(-code)})"
    return f"ended with status {code}"


def _run_and_exit(
    writer: "Serving", brokers_ends: tuple[socket.socket, ...], broker: int
) -> NoReturn:
    """Run the writer's process: it runs no code of the broker and flushes nothing at its end."""
    status = 1
    try:
        for end in brokers_ends:
            end.close()
        gc.freeze()
        SPARES.reserve(_SPARE_DESCRIPTORS)
        # Even without the signal, the writer ends after it has written what the broker sent. The
        # broker may already have died before the fork returned.
        if end_with(broker):
            writer.run()
        status = 0
    finally:
        os._exit(status)


class Serving:
    """The writer at the other end of the connection: carries out the requests of its broker."""

    def __init__(
        self,
        journal: Journal,
        connection: socket.socket,
        closing: socket.socket,
        retry_seconds: float,
    ) -> None:
        self._core: Final = WriterCore(journal, self._durable, self._failed, self._full, self._free)
        self._connection: Final = connection
        self._request: Final = _request_header(journal)
        self._retry_ms: Final = int(retry_seconds * 1000)
        self._asked: Final = select.poll()
        self._asked.register(connection, select.POLLIN)
        self._closing: Final = select.poll()
        self._closing.register(closing, select.POLLIN)
        # Events in blocks that were reported.
        self._events = 0

    def run(self) -> None:
        """Write until the broker closes the connection, or until writing fails."""
        core = self._core
        try:
            core.report_space()
            while True:
                self._serve()
                core.report_space()
        except EOFError:
            core.journal.close()
            self._report(_CLOSED, 0, b"")
        # Any failure, even a mistake of our own code, must be reported so that the broker stops.
        except Exception as error:
            core.fail(error)

    def _serve(self) -> None:
        """Carry out one request; raises EOFError when there are no more."""
        core = self._core
        while core.reported_full and not self._asked.poll(self._retry_ms):
            core.journal.reserve()
            core.report_space()
        kind, level, first_lsn, time, *sizes = self._request.unpack(self._take(self._request.size))
        rows, *heaps = [self._take(size) for size in sizes]
        if kind == _BATCH:
            self._write(Batch(first_lsn, [rows], [[heap] for heap in heaps], time, level))
        elif kind == _MARK:
            core.mark(time)
            self._report(_MARKED, 0, pack_written(core.journal.take_written()))
        else:
            assert kind == _WRITTEN
            core.journal.follow(unpack_written(rows))

    def _write(self, batch: Batch) -> None:
        """Append a batch, waiting for space if needed; raises DiskFull if the broker is closing."""
        core = self._core
        while True:
            is_closing = bool(self._closing.poll(0))
            try:
                core.append(batch)
                break
            except DiskFull:
                core.report_space()
                if is_closing:
                    raise
            self._closing.poll(self._retry_ms)
        # First, so that the broker knows of a full disk before it writes the next block itself.
        core.report_space()
        core.on_durable(core.journal.durable_lsn)

    def _take(self, count: int) -> bytes:
        """Read `count` bytes from the broker; raises EOFError if it closed the connection.

        In the middle of a request that means that the broker died.
        """
        pieces: list[bytes] = []
        missing = count
        while missing:
            piece = self._connection.recv(min(missing, _BATCH_PIECE_BYTES))
            if not piece:
                raise EOFError
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def _durable(self, lsn: int) -> None:
        journal, figures = self._core.journal, self._core.figures
        events, self._events = figures.events - self._events, figures.events
        written = pack_written(journal.take_written())
        self._report(_DURABLE, lsn, written, events, figures.last)

    def _failed(self, error: Exception) -> None:
        self._report(_FAILED, 0, reason(error).encode())

    def _full(self, full: DiskFull) -> None:
        self._report(_FULL, 0, str(full).encode())

    def _free(self) -> None:
        self._report(_FREE, 0, b"")

    def _report(
        self, kind: int, lsn: int, content: bytes, events: int = 0, seconds: float = 0.0
    ) -> None:
        head = _REPORT.pack(kind, len(content), lsn, events, seconds)
        self._connection.sendall(head + content)
