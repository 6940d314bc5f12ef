"""Writes a data directory with the broker of an older release, which every later release must open.

    git worktree add --detach /tmp/older COMMIT
    python -m tests.golden.make_release /tmp/older COMMIT

plays one scenario over STOMP: a clean stop, a kill with deliveries in flight, dead letters, expired
messages, transactions, and, from releases that have them, the kinds of queues that came later. The
archive has what was on disk, and the JSON beside it what the queues hold. Refuses to write over
files that exist: a golden directory that changes with the code proves nothing.
"""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import zstandard

from tests.interop.wire import Frame, Wire

FOLDER: Final = Path(__file__).parent / "releases"
CONFIG: Final = """
[broker]
message-expiry-scan-period = 100

[journal]
segment-bytes = "1MiB"

[[address-setting]]
match = "#"
max-delivery-attempts = 2
dead-letter-address = "DLQ"
expiry-address = "ExpiryQueue"

[[address]]
name = "news"
routing-types = ["multicast"]

[[queue]]
name = "news.audit"
address = "news"
routing-type = "multicast"
durable = true
"""
KINDS: Final = """
[[address]]
name = "kinds"
routing-types = ["multicast"]

[[queue]]
name = "kinds.ring"
address = "kinds"
routing-type = "multicast"
durable = true
ring-size = 2

[[queue]]
name = "kinds.last"
address = "kinds"
routing-type = "multicast"
durable = true
last-value = true
last-value-key = "color"

[[queue]]
name = "kinds.red"
address = "kinds"
routing-type = "multicast"
durable = true
filter = "color = 'red'"

[[divert]]
name = "copies"
address = "kinds"
forwarding-addresses = ["copied"]
routing-type = "anycast"
"""
"""Features that releases of the first day lack."""
WAIT_SECONDS: Final = 60.0


class Release:
    """A checkout of an older release, and a data directory that it serves."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        source = checkout / "src"
        self.has_kinds: Final = source.is_dir()
        self._module: Final = "daybook.tools.daybook" if self.has_kinds else "tools.daybook"
        self._source: Final = source if self.has_kinds else checkout
        self.data: Final = folder / "data"
        self._config: Final = folder / "broker.toml"
        self._config.write_text(CONFIG + (KINDS if self.has_kinds else ""))

    @contextmanager
    def serving(self, end: signal.Signals) -> Iterator[int]:
        """Serve, give the port, and end the broker by a signal."""
        command = [
            sys.executable, "-m", self._module, "serve", "--config", str(self._config),
            "--data", str(self.data), "--listen", "stomp://127.0.0.1:0",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(self._source)}
        process = subprocess.Popen(
            command, env=environment, cwd=self._source, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            line = next(each for each in process.stdout if each.startswith("ready"))
            yield int(line.rpartition(":")[2])
        finally:
            process.send_signal(end)
            process.wait(WAIT_SECONDS)


def connected(port: int) -> Wire:
    """Return a connection that is logged in."""
    wire = Wire(port)
    assert wire.connect(login="guest", passcode="guest").command == "CONNECTED"
    return wire


def sent(wire: Wire, destination: str, body: bytes, **headers: Any) -> None:
    """Send a message, and wait for its receipt."""
    wire.send("SEND", body, destination=destination, receipt="r", persistent="true", **headers)
    wire.expect("RECEIPT")


def settled(wire: Wire, command: str, frame: Frame) -> None:
    """Settle a delivery, and wait for the receipt."""
    wire.send(command, id=frame.headers["ack"], receipt="s")
    while (found := wire.read()).command != "RECEIPT":
        assert found.command == "MESSAGE", found


def fill(port: int) -> None:
    """Send what stays, what expires, and what is dead-lettered."""
    with connected(port) as wire:
        for number in range(12):
            sent(wire, "/queue/orders", b"order %d" % number, priority=number % 3 + 3, kind="order")
        for number in range(3):
            sent(wire, "/queue/expiring", b"late %d" % number, ttl=50, color="red")
        for number in range(4):
            sent(wire, "/topic/news", b"news %d" % number)
        wire.send("BEGIN", transaction="t")
        for number in range(2):
            wire.send("SEND", b"paid %d" % number, destination="/queue/paid", transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        wire.expect("RECEIPT")
        sent(wire, "/queue/large", b"large " * 25_000)


def fail(port: int) -> None:
    """Return each delivery of one message, until it is dead-lettered."""
    with connected(port) as wire:
        sent(wire, "/queue/failing", b"fails", kind="poison", _AMQ_ORIG_ADDRESS="forged")
        wire.send("SUBSCRIBE", id="f", destination="/queue/failing", ack="client-individual")
        for _ in range(2):
            settled_without_reading_on(wire, wire.expect("MESSAGE"))
        time.sleep(0.3)


def settled_without_reading_on(wire: Wire, frame: Frame) -> None:
    """Return a delivery."""
    wire.send("NACK", id=frame.headers["ack"])


def fill_kinds(port: int) -> None:
    """Send to the queues of later kinds."""
    with connected(port) as wire:
        for number, color in enumerate(("red", "blue", "red", "green")):
            sent(wire, "/topic/kinds", b"kind %d" % number, color=color)
        sent(wire, "/queue/later", b"later", AMQ_SCHEDULED_TIME=4_000_000_000_000)
        for number in range(3):
            sent(wire, "/queue/grouped", b"group %d" % number, JMSXGroupID=f"g{number % 2}")


def take(port: int) -> None:
    """Acknowledge two orders, and leave others in flight when the broker is killed."""
    wire = connected(port)
    wire.send("SUBSCRIBE", id="o", destination="/queue/orders", ack="client-individual")
    for frame in [wire.expect("MESSAGE") for _ in range(2)]:
        settled(wire, "ACK", frame)


def write(checkout: Path, name: str) -> None:
    """Write the archive of a release, and what the queues hold."""
    with TemporaryDirectory() as temporary:
        release = Release(checkout, Path(temporary))
        with release.serving(signal.SIGTERM) as port:
            fill(port)
            fail(port)
            time.sleep(1)
        with release.serving(signal.SIGKILL) as port:
            if release.has_kinds:
                fill_kinds(port)
            take(port)
        with release.serving(signal.SIGTERM):
            time.sleep(1)
        _keep(release, name)


def _keep(release: Release, name: str) -> None:
    queues = {
        "orders": 10, "paid": 2, "large": 1, "news.audit": 4, "DLQ": 1, "ExpiryQueue": 3,
        "expiring": 0, "failing": 0,
    }  # fmt: skip
    if release.has_kinds:
        queues |= {
            "kinds.ring": 2, "kinds.last": 3, "kinds.red": 2, "copied": 4, "later": 1, "grouped": 3
        }  # fmt: skip
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for file in sorted(release.data.rglob("*")):
            if file.suffix not in (".reserve", ".sock") and file.name != "lock.mdb":
                tar.add(file, file.relative_to(release.data), recursive=False)
    with (FOLDER / f"{name}.tar.zst").open("xb") as opened:
        opened.write(zstandard.compress(packed.getvalue(), 19))
    with (FOLDER / f"{name}.json").open("xb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode({"queues": queues})) + b"\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve(), sys.argv[2])
