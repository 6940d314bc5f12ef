"""Group commit in a process of its own: one block is written and synced while the next batch fills.

Compressing, hashing and writing take the interpreter as often as they leave it, and a thread gets
it back from a busy event loop late; a process of its own needs neither. The process is forked as
soon as the journal is open, before anything else is in memory, and holds what it inherits: the
journal's files and the lock of the directory. Batches go to it over a socket; what is durable comes
back.

Fault model: an error of the disk is fatal and reported once. If the writer's process dies, nothing
more becomes durable: `on_failure`. If the broker's process dies, the kernel kills the writer's:
what it was writing is a torn tail. Until both are gone the lock is held.

Must never know: what is in a batch, what time it is (durations come from the journal's clock).
"""

import ctypes
import gc
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from journal.batch import Batch, BatchLike
from journal.errors import DiskFull, JournalFailed
from journal.journal import Journal
from journal.writer import (
    RETRY_SECONDS,
    WriterCore,
    WriterStats,
    ignore_disk_free,
)

# To the writer: kind, number of heaps, first LSN, time, bytes of the rows; then the bytes of each
# heap.
_REQUEST: Final = Struct("<BBxxxxxxQqQ")
_BATCH: Final = 1
_MARK: Final = 2
_RETRY: Final = 3
_LENGTH: Final = Struct("<Q")

# From the writer: kind, bytes of the text, LSN, blocks, events, seconds of syncs (last, average,
# longest).
_REPORT: Final = Struct("<BxxxIQQQddd")
_DURABLE: Final = 1
_FAILED: Final = 2
_FULL: Final = 3
_FREE: Final = 4
_CLOSED: Final = 5

_PIECE_BYTES: Final = 1 << 20
_SOCKET_BYTES: Final = 4 << 20
_PR_SET_PDEATHSIG: Final = 1


class ProcessWriter:
    """Writes batches in a forked process, in order, one block in flight at a time.

    The owner sets the callbacks, calls `receive` when `fileno` is readable and `flush` when it is
    writable; `watch` is called with True when the latter is needed and with False when no longer.
    The journal belongs to the writer's process: here only what was true of it at the fork can be
    read.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.on_durable: Callable[[int], None] = _ignore
        self.on_failure: Callable[[Exception], None] = _ignore
        self.on_disk_full: Callable[[DiskFull], None] = _ignore
        self.on_disk_free: Callable[[], None] = ignore_disk_free
        self.watch: Callable[[bool], None] = _ignore
        self._unsent: Final[deque[memoryview]] = deque()
        self._submitted: Final[deque[tuple[int, int]]] = deque()
        self._pending_bytes = 0
        self._received = b""
        self._closing = False
        self._watched = False
        self._stats = WriterStats(0, 0, 0, 0.0, 0.0, 0.0, "")
        self.failed = False
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        broker = os.getpid()
        self._pid: Final = os.fork()
        if self._pid == 0:
            ours.close()
            _run_and_exit(journal, theirs, retry_seconds, broker)
        theirs.close()
        journal.close()
        ours.setblocking(False)
        self._socket: Final = ours

    def fileno(self) -> int:
        """The descriptor to watch."""
        return self._socket.fileno()

    @property
    def pending_bytes(self) -> int:
        """Bytes of the batches that are not durable, for back-pressure."""
        return self._pending_bytes

    @property
    def idle(self) -> bool:
        """Whether everything submitted is durable."""
        return not self._submitted

    def submit(self, batch: BatchLike) -> None:
        """Send a batch on its way. It must not be changed any more."""
        assert not self._closing, "nothing may be submitted to a closing writer"
        rows = b"".join(batch.rows)
        heaps = [b"".join(strings) for strings in batch.heaps]
        raw_bytes = batch.raw_bytes
        self._pending_bytes += raw_bytes
        self._submitted.append((batch.first_lsn, raw_bytes))
        request = _REQUEST.pack(_BATCH, len(heaps), batch.first_lsn, batch.time, len(rows))
        lengths = [_LENGTH.pack(len(heap)) for heap in heaps]
        self._send(b"".join((request, *lengths, rows, *heaps)))

    def mark(self, time: int) -> None:
        """Have a mark appended (microseconds since 1970 UTC): when idle, and before close."""
        self._send(_REQUEST.pack(_MARK, 0, 0, time, 0))

    def retry(self) -> None:
        """Try again now, instead of after `retry_seconds`, what a full disk keeps waiting."""
        self._send(_REQUEST.pack(_RETRY, 0, 0, 0, 0))

    def _send(self, data: bytes) -> None:
        if self.failed:
            return
        self._unsent.append(memoryview(data))
        if len(self._unsent) == 1:
            self.flush()
            self._set_watch(bool(self._unsent))

    def _set_watch(self, wanted: bool) -> None:
        if wanted != self._watched:
            self._watched = wanted
            self.watch(wanted)

    def flush(self) -> None:
        """Send what the socket takes."""
        unsent = self._unsent
        while unsent:
            try:
                sent = self._socket.send(unsent[0])
            except BlockingIOError:
                return
            except OSError:
                # Why the writer is gone is found out by `receive`.
                unsent.clear()
                break
            if sent < len(unsent[0]):
                unsent[0] = unsent[0][sent:]
                return
            unsent.popleft()
        self._set_watch(False)

    def receive(self) -> None:
        """Take what the writer says, and call back."""
        while True:
            try:
                data = self._socket.recv(_PIECE_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            if not data:
                self._gone()
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        received = self._received + data
        at = 0
        while len(received) - at >= _REPORT.size:
            kind, text_bytes, lsn, *figures = _REPORT.unpack_from(received, at)
            end = at + _REPORT.size + text_bytes
            if len(received) < end:
                break
            text = received[at + _REPORT.size : end].decode()
            at = end
            self._stats = WriterStats(
                figures[0], figures[1], 0, figures[2], figures[3], figures[4], self._stats.disk_full
            )
            self._hear(kind, lsn, text)
        self._received = received[at:]

    def _hear(self, kind: int, lsn: int, text: str) -> None:
        if kind == _DURABLE:
            while self._submitted and self._submitted[0][0] <= lsn:
                self._pending_bytes -= self._submitted.popleft()[1]
            self.on_durable(lsn)
        elif kind == _FULL:
            self._stats = WriterStats(*_with_disk_full(self._stats, text))
            self.on_disk_full(DiskFull(text))
        elif kind == _FREE:
            self._stats = WriterStats(*_with_disk_full(self._stats, ""))
            self.on_disk_free()
        elif kind == _FAILED:
            self._fail(JournalFailed(text))
        else:
            assert kind == _CLOSED
            self._closing = True

    def _gone(self) -> None:
        """The writer's process has ended."""
        if not self._closing:
            self._fail(
                JournalFailed(
                    "the process that writes the journal ended; nothing more can become durable. "
                    "Start the broker again: everything that was said is in the journal."
                )
            )

    def _fail(self, error: JournalFailed) -> None:
        if not self.failed:
            self.failed = True
            self._unsent.clear()
            self._set_watch(False)
            self.on_failure(error)

    def close(self) -> None:
        """Have everything written that was submitted, and wait for the process to end."""
        if self._socket.fileno() < 0:
            return
        self._set_watch(False)
        self._socket.setblocking(True)
        try:
            for piece in self._unsent:
                self._socket.sendall(piece)
            self._socket.shutdown(socket.SHUT_WR)
            while data := self._socket.recv(_PIECE_BYTES):
                self._take(data)
        except OSError as error:
            self._fail(JournalFailed(f"the process that writes the journal ended: {error}"))
        self._unsent.clear()
        self._gone()
        self._socket.close()
        os.waitpid(self._pid, 0)

    def stats(self) -> WriterStats:
        """Figures for status."""
        stats = self._stats
        return WriterStats(
            stats.blocks,
            stats.events,
            self._pending_bytes,
            stats.sync_seconds_last,
            stats.sync_seconds_average,
            stats.sync_seconds_max,
            stats.disk_full,
        )


def _ignore(_: object) -> None:
    """What is called before the owner has set its own."""


def _with_disk_full(
    stats: WriterStats, text: str
) -> tuple[int, int, int, float, float, float, str]:
    return (
        stats.blocks, stats.events, stats.pending_bytes, stats.sync_seconds_last,
        stats.sync_seconds_average, stats.sync_seconds_max, text,
    )  # fmt: skip


def _run_and_exit(
    journal: Journal, connection: socket.socket, retry_seconds: float, broker: int
) -> None:
    """Be the writer's process. Never returns, and runs nothing of what it was forked from."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Meant for the broker, which tells the writer when to end.
            signal.signal(number, signal.SIG_IGN)
        gc.freeze()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == broker:
            _Writer(journal, connection, retry_seconds, broker).run()
        status = 0
    finally:
        os._exit(status)


class _Writer:
    """What the forked process does."""

    def __init__(
        self, journal: Journal, connection: socket.socket, retry_seconds: float, broker: int
    ) -> None:
        self._core: Final = WriterCore(journal, self._durable, self._failed, self._full, self._free)
        self._connection: Final = connection
        self._retry_seconds: Final = retry_seconds
        self._broker: Final = broker
        self._poll: Final = select.poll()
        self._poll.register(connection, select.POLLIN)

    def run(self) -> None:
        """Write until the broker closes its end."""
        core = self._core
        try:
            while self._serve():
                core.tell_room()
        # Whatever it was, and be it a mistake of ours: the broker must hear of it and stop.
        except Exception as error:
            core.fail(error)
            return
        core.journal.close()
        self._report(_CLOSED, 0, "")

    def _serve(self) -> bool:
        """Carry out one request; False when there are no more."""
        core = self._core
        while core.told_full and not self._poll.poll(int(self._retry_seconds * 1000)):
            core.journal.reserve()
            core.tell_room()
        packed = self._take(_REQUEST.size)
        if packed is None:
            return False
        kind, heap_count, first_lsn, time, rows_bytes = _REQUEST.unpack(packed)
        if kind == _MARK:
            core.mark(time)
        elif kind == _RETRY:
            core.journal.reserve()
        else:
            lengths = [self._take(_LENGTH.size) for _ in range(heap_count)]
            rows = self._take(rows_bytes)
            heaps = [self._take(_LENGTH.unpack(length)[0]) for length in lengths if length]
            if rows is None or len(heaps) < heap_count or None in heaps:
                return False
            self._write(Batch(first_lsn, [rows], [[heap or b""] for heap in heaps], time))
        return True

    def _write(self, batch: Batch) -> None:
        """Append a batch, waiting for room if need be; DiskFull if the broker wants to end."""
        core = self._core
        while True:
            try:
                core.append(batch)
                break
            except DiskFull:
                core.tell_room()
                hung_up = select.poll()
                hung_up.register(self._connection, select.POLLRDHUP)
                if hung_up.poll(int(self._retry_seconds * 1000)):
                    raise
        core.on_durable(core.journal.durable_lsn)

    def _take(self, count: int) -> bytes | None:
        """So many bytes from the broker; None if it has closed its end."""
        pieces: list[bytes] = []
        missing = count
        while missing:
            piece = self._connection.recv(min(missing, _PIECE_BYTES))
            if not piece:
                return None
            pieces.append(piece)
            missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _durable(self, lsn: int) -> None:
        self._report(_DURABLE, lsn, "")

    def _failed(self, error: Exception) -> None:
        self._report(_FAILED, 0, str(error))

    def _full(self, full: DiskFull) -> None:
        self._report(_FULL, 0, str(full))

    def _free(self) -> None:
        self._report(_FREE, 0, "")

    def _report(self, kind: int, lsn: int, text: str) -> None:
        core = self._core
        encoded = text.encode()
        stats = core.stats(0)
        packed = _REPORT.pack(
            kind, len(encoded), lsn, stats.blocks, stats.events,
            stats.sync_seconds_last, stats.sync_seconds_average, stats.sync_seconds_max,
        )  # fmt: skip
        self._connection.sendall(packed + encoded)
