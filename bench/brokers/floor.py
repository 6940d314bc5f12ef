"""The floor: the barest asyncio broker that parses, group-commits to disk and delivers.

It is not a usable broker. It has no acknowledgement state, recovery, limits, errors, transactions,
heart-beats or journal format. It parses whole STOMP headers and content lengths, because a broker
without them cannot deliver, and it keeps the one promise that costs: a RECEIPT or a MESSAGE leaves
after the fdatasync of the block that holds the message. Its rate is about the limit of one Python
process on the machine, and a broker with features is measured as a fraction of it.

With a follower each block is also written and synced by a second process, to which it goes over TCP
before it is synced here: the least that synchronous replication may cost.

Fault model: none. An error of the disk ends the process.
"""

import asyncio
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Final, cast

import click
import uvloop

_MESSAGE_HEADER: Final = struct.Struct("<QI")
_LENGTH: Final = struct.Struct("<Q")
_PREALLOCATED_BYTES: Final = 64 << 20
_SWITCH_INTERVAL_S: Final = 0.0005

Output = list[tuple[asyncio.Transport, list[bytes]]]


class Blocks:
    """A file of blocks, each on disk when it was written."""

    def __init__(self, path: Path) -> None:
        """Create the file."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._reserved = 0
        self._offset = 0

    def write(self, block: bytes) -> None:
        """Write and sync a block."""
        self._reserve(len(block))
        os.pwrite(self._descriptor, block, self._offset)
        os.fdatasync(self._descriptor)
        self._offset += len(block)

    def _reserve(self, size: int) -> None:
        """Write zeros ahead, so that a sync of a block has no file size or extents to commit."""
        while self._offset + size > self._reserved:
            zeros = bytes(1 << 20)
            for at in range(0, _PREALLOCATED_BYTES, len(zeros)):
                os.pwrite(self._descriptor, zeros, self._reserved + at)
            os.fsync(self._descriptor)
            self._reserved += _PREALLOCATED_BYTES


class Follower:
    """A second process with a file of its own, at the other end of a connection."""

    def __init__(self, path: Path) -> None:
        """Fork it; it ends with the connection."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            if not os.fork():
                with socket.create_connection(server.getsockname()) as leader:
                    _follow(leader, Blocks(path))
                os._exit(0)
            self._socket, _ = server.accept()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, block: bytes) -> None:
        """Send a block."""
        self._socket.sendall(_LENGTH.pack(len(block)) + block)

    def await_answer(self) -> None:
        """Wait until the block is on disk there."""
        if not self._socket.recv(1):
            raise OSError("the follower has ended")


def _follow(leader: socket.socket, blocks: Blocks) -> None:
    leader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with leader.makefile("rb") as reader:
        while header := reader.read(_LENGTH.size):
            blocks.write(reader.read(*_LENGTH.unpack(header)))
            leader.send(b"1")


class Commit:
    """Writes one block at a time on a thread: while one is synced, the next one fills."""

    def __init__(
        self, path: Path, loop: asyncio.AbstractEventLoop, follower: Follower | None
    ) -> None:
        """Create the file at `path`; with a follower a block counts when that has it, too."""
        self._loop = loop
        self._file = Blocks(path)
        self._follower = follower
        self._number = 0
        self._blocks: deque[tuple[list[bytes], Output]] = deque()
        self._wake = threading.Semaphore(0)
        self._busy = False
        self._turn_planned = False
        self.parts: list[bytes] = []
        self.touched: list[Connection] = []
        threading.Thread(target=self._write_blocks, daemon=True).start()

    def add(self, body: bytes) -> None:
        """Add one message to the open block."""
        self._number += 1
        self.parts.append(_MESSAGE_HEADER.pack(self._number, len(body)))
        self.parts.append(body)

    def plan_turn(self) -> None:
        """Close the open block at the end of this turn of the loop, unless one is in flight."""
        if not self._busy and not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._close_block)

    def _close_block(self) -> None:
        self._turn_planned = False
        if self._busy or not self.touched:
            return
        self._busy = True
        output = [(connection.transport, connection.open) for connection in self.touched]
        for connection in self.touched:
            connection.open = []
        self._blocks.append((self.parts, output))
        self.parts, self.touched = [], []
        self._wake.release()

    def _write_blocks(self) -> None:
        """Write and sync blocks without end; runs on the writer's thread."""
        while True:
            self._wake.acquire()
            parts, output = self._blocks.popleft()
            if parts:
                block = b"".join(parts)
                if self._follower is not None:
                    self._follower.send(block)
                self._file.write(block)
                if self._follower is not None:
                    self._follower.await_answer()
            self._loop.call_soon_threadsafe(self._durable, output)

    def _durable(self, output: "Output") -> None:
        self._busy = False
        self._close_block()
        for transport, frames in output:
            transport.write(b"".join(frames))


class Queue:
    """Bodies that wait for a consumer with credit, and the consumers in turn."""

    def __init__(self) -> None:
        """Create an empty queue without consumers."""
        self.bodies: deque[bytes] = deque()
        self.consumers: deque[Connection] = deque()

    def dispatch(self) -> None:
        """Hand out bodies in order, round robin between the consumers that have credit."""
        bodies, consumers = self.bodies, self.consumers
        idle = 0
        while bodies and idle < len(consumers):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.credit > 0:
                idle = 0
                consumer.deliver(bodies.popleft())
            else:
                idle += 1


class Topic(Queue):
    """Subscribers, each with a queue of its own."""

    def __init__(self) -> None:
        """Create a topic without subscribers."""
        super().__init__()
        self.subscribers: list[Queue] = []

    def dispatch(self) -> None:
        """Hand out each body to all."""
        for own in self.subscribers:
            own.bodies += self.bodies
            own.dispatch()
        self.bodies.clear()


class Floor:
    """The queues and the commit that all connections share."""

    def __init__(self, commit: Commit) -> None:
        """Create a floor without queues."""
        self.commit = commit
        self.queues: dict[bytes, Queue] = {}

    def queue(self, name: bytes) -> Queue:
        """Return the queue called `name`, which begins to exist when it is first asked for."""
        found = self.queues.get(name)
        if found is None:
            kind = Topic if name.startswith(b"/topic/") else Queue
            found = self.queues[name] = kind()
        return found

    def subscribed(self, name: bytes) -> Queue:
        """Return the queue of a new subscriber: one of its own for a topic."""
        found = self.queue(name)
        if isinstance(found, Topic):
            found.subscribers.append(Queue())
            return found.subscribers[-1]
        return found


class Connection(asyncio.Protocol):
    """One client: parses its frames and collects its output for the open block."""

    transport: asyncio.Transport

    def __init__(self, floor: Floor) -> None:
        """Create the protocol of a connection to `floor`."""
        self._floor = floor
        self._commit = floor.commit
        self._rest = b""
        self._deliveries = 0
        self._prefix = b""
        self._queue: Queue | None = None
        self.credit = 0
        self.open: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; part of asyncio's protocol."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the consumer; part of asyncio's protocol."""
        if self._queue is not None:
            self._queue.consumers.remove(self)
            self._queue = None

    def data_received(self, data: bytes) -> None:
        """Handle every complete frame, then dispatch once for each queue that was touched."""
        data = self._rest + data if self._rest else data
        touched: dict[bytes, Queue] = {}
        at, size = 0, len(data)
        while True:
            blank = data.find(b"\n\n", at)
            if blank < 0:
                break
            lines = data[at:blank].split(b"\n")
            headers = dict([line.split(b":", 1) for line in lines[1:]])
            length = headers.get(b"content-length")
            end = blank + 2 + int(length) if length is not None else data.find(b"\0", blank)
            if end < 0 or end >= size:
                break
            command = lines[0]
            if command == b"SEND":
                self._send(headers, data[blank + 2 : end], touched)
            elif command == b"ACK":
                self.credit += 1
            else:
                self._control(command, headers)
            at = end + 1
        self._rest = data[at:]
        for queue in touched.values():
            queue.dispatch()
        if self._queue is not None:
            self._queue.dispatch()
        self._commit.plan_turn()

    def _send(self, headers: dict[bytes, bytes], body: bytes, touched: dict[bytes, Queue]) -> None:
        name = headers[b"destination"]
        queue = touched.get(name)
        if queue is None:
            queue = touched[name] = self._floor.queue(name)
        self._commit.add(body)
        queue.bodies.append(body)
        self._put(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers[b"receipt"])

    def _control(self, command: bytes, headers: dict[bytes, bytes]) -> None:
        if command == b"CONNECT":
            self._put(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
        elif command == b"SUBSCRIBE":
            self.credit = int(headers.get(b"credit", b"1000"))
            name = headers[b"destination"]
            self._prefix = b"MESSAGE\nsubscription:0\ndestination:%b\nmessage-id:" % name
            self._queue = self._floor.subscribed(name)
            self._queue.consumers.append(self)
        if b"receipt" in headers:
            self._put(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers[b"receipt"])

    def _put(self, frame: bytes) -> None:
        """Add output that leaves when the open block is durable."""
        if not self.open:
            self._commit.touched.append(self)
        self.open.append(frame)

    def deliver(self, body: bytes) -> None:
        """Send one message to this consumer when the open block is durable."""
        self.credit -= 1
        self._deliveries += 1
        number = b"%d" % self._deliveries
        self._put(
            b"%b%b\nack:%b\ncontent-length:%d\n\n%b\0"
            % (self._prefix, number, number, len(body), body)
        )


async def _serve(port: int, path: Path, follower: Follower | None) -> None:
    loop = asyncio.get_running_loop()
    floor = Floor(Commit(path, loop, follower))
    server = await loop.create_server(lambda: Connection(floor), "127.0.0.1", port)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    print("ready", flush=True)
    await stopped.wait()
    server.close()


@click.command()
@click.option("--port", type=int, required=True, help="TCP port on 127.0.0.1 to listen on.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the block file; a temporary one without it.",
)
@click.option("--follower", is_flag=True, help="Have a second process write each block, too.")
def main(port: int, data: Path | None, *, follower: bool) -> None:
    """Serve the floor until SIGTERM; prints `ready` when it accepts connections."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with tempfile.TemporaryDirectory(prefix="floor-") as temporary:
        directory = data or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "blocks"
        if path.exists():
            raise click.ClickException(f"{path} exists; the floor starts with a fresh directory")
        # Before there are threads.
        second = Follower(directory / "blocks-of-follower") if follower else None
        uvloop.run(_serve(port, path, second))


if __name__ == "__main__":
    main()
