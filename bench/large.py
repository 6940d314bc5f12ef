"""A large message on its way through a broker, and its effect on others: `python -m bench.large`.

A body of incompressible bytes is sent and received by bare sockets, while a process of its own
sends a small message at a time and waits for the receipt. Memory is the peak of each process of the
broker, as the kernel has it.
"""

import hashlib
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.brokers.running import Running, TargetError
from bench.brokers.targets import DaybookTarget

MB: Final = 1_000_000
PIECE_BYTES: Final = 1 << 20
SMALL_PAUSE_S: Final = 0.002
QUIET_S: Final = 2.0
PATIENCE_S: Final = 60.0


class RoundTrips(msgspec.Struct, frozen=True, kw_only=True):
    """Times from a small SEND to its receipt in one phase, in milliseconds."""

    phase: str
    count: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements; rates in MB (1,000,000 bytes) a second, memory in MiB by process."""

    megabytes: int
    send_rate: float
    receive_rate: float
    peak_rss_mib: list[int]
    round_trips: list[RoundTrips]


class TransferError(Exception):
    """The broker misbehaved; the text says how."""


@contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"CONNECT\naccept-version:1.2\nhost:bench\nheart-beat:0,0\n\n\0")
        _expect(connection, b"CONNECTED\n")
        yield connection


def _expect(connection: socket.socket, beginning: bytes) -> None:
    """Read a frame without a body; it must begin with the given text."""
    frame = b""
    while not frame.endswith((b"\0", b"\0\n")):
        data = connection.recv(1 << 16)
        frame += data
        if not data or not frame.startswith(beginning[: len(frame)]):
            raise TransferError(f"{beginning!r} was expected, {frame[:500]!r} came")


def _pieces(size: int) -> Iterator[bytes]:
    block = os.urandom(PIECE_BYTES)
    while size > 0:
        yield block[:size]
        size -= len(block)


def send(port: int, size: int) -> tuple[float, str]:
    """Send a body, and wait for its receipt: seconds, and the digest of the body."""
    digest = hashlib.sha256()
    with _connected(port) as connection:
        begun = time.perf_counter()
        head = f"SEND\ndestination:/queue/large\nreceipt:r\ncontent-length:{size}\n\n"
        connection.sendall(head.encode())
        for piece in _pieces(size):
            connection.sendall(piece)
            digest.update(piece)
        connection.sendall(b"\0")
        _expect(connection, b"RECEIPT\n")
        return time.perf_counter() - begun, digest.hexdigest()


def receive(port: int, size: int) -> tuple[float, str]:
    """Receive the body: seconds, and its digest."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(PIECE_BYTES))
    with _connected(port) as connection:
        begun = time.perf_counter()
        connection.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/large\nack:auto\n\n\0")
        head = b""
        while b"\n\n" not in head:
            head += connection.recv(1 << 12)
        head, _, body = head.partition(b"\n\n")
        if not head.startswith(b"MESSAGE\n") or b"\ncontent-length:%d" % size not in head:
            raise TransferError(f"the message was expected, {head[:500]!r} came")
        digest.update(body[:size])
        left = size - len(body)
        while left >= 0:
            count = connection.recv_into(buffer)
            if not count:
                raise TransferError(f"the broker closed the connection {left:,} bytes early")
            digest.update(buffer[: min(count, left)])
            left -= count
        return time.perf_counter() - begun, digest.hexdigest()


def _send_small(port: int, control: Connection) -> None:
    """Send small messages until the end is requested; times are grouped by the current phase."""
    phase = "quiet"
    times: dict[str, list[float]] = {}
    with _connected(port) as connection:
        while phase != "end":
            begun = time.perf_counter()
            connection.sendall(
                b"SEND\ndestination:/queue/small\nreceipt:r\n\n" + b"x" * 256 + b"\0"
            )
            _expect(connection, b"RECEIPT\n")
            times.setdefault(phase, []).append(time.perf_counter() - begun)
            if control.poll(SMALL_PAUSE_S):
                phase = control.recv()
    control.send(times)


@contextmanager
def _small_beside(port: int) -> Iterator[Connection]:
    """Send small messages in another process, which can be switched between phases."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_send_small, args=(port, theirs))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join()


def _summary(phase: str, times: list[float]) -> RoundTrips:
    times = [1000 * each for each in times]
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else times * 99
    return RoundTrips(
        phase=phase, count=len(times), p50_ms=cuts[49], p99_ms=cuts[98], longest_ms=max(times)
    )


def measure_transfer(running: Running, size: int) -> Transfer:
    """Move a body both ways through a broker. Raises TransferError, EOFError and OSError."""
    port = running.endpoint.port
    with _small_beside(port) as control:
        time.sleep(QUIET_S)
        control.send("send")
        sent_s, sent = send(port, size)
        control.send("receive")
        received_s, received = receive(port, size)
        control.send("end")
        times: dict[str, list[float]] = control.recv()
    if sent != received:
        raise TransferError("what was received is not what was sent")
    return Transfer(
        megabytes=size // MB,
        send_rate=size / MB / sent_s,
        receive_rate=size / MB / received_s,
        peak_rss_mib=[peak >> 20 for peak in running.peak_rss_bytes()],
        round_trips=[_summary(phase, found) for phase, found in times.items()],
    )


@click.command(context_settings={"show_default": True})
@click.option("--megabytes", type=click.IntRange(1, 4000), default=1074, help="Of the body.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(megabytes: int, as_json: bool) -> None:
    """Measure a large message on its way through a broker.

    Exit codes: 0 measured, 1 the broker failed or was found wrong, 2 bad use.
    """
    settings = ("acceptor.max-data-length=4GiB",)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-large-") as temporary:
            running = DaybookTarget("daybook", settings, None).start(Path(temporary))
            try:
                found = measure_transfer(running, megabytes * MB)
            finally:
                running.stop()
    except (TargetError, TransferError, EOFError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    click.echo(
        f"{found.megabytes:,} MB sent at {found.send_rate:,.0f} MB/s, received at "
        f"{found.receive_rate:,.0f} MB/s; memory by process, at most "
        f"{' + '.join(map(str, found.peak_rss_mib))} MiB"
    )
    for trips in found.round_trips:
        click.echo(
            f"{trips.phase:8} round trip of a small message: p50 {trips.p50_ms:.2f} ms, "
            f"p99 {trips.p99_ms:.2f} ms, longest {trips.longest_ms:.2f} ms ({trips.count:,})"
        )


if __name__ == "__main__":
    main()
