"""The process of one node: `python -m tests.crash.standbys.node_process CONFIG`.

It writes what it is into a file beside its data directory, several times a second.
"""

import asyncio
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from daybook.journal.disk import RealDisk
from daybook.journal.errors import Locked
from daybook.journal.lock import DirectoryLock
from daybook.journal.places import BEFORE_ALL, Place
from daybook.replication.arbiters.lease_file import FileArbiter
from daybook.replication.links import Address, Security
from daybook.replication.node import Times
from daybook.replication.quorum import Acks, Quorum
from daybook.replication.replica_files import ReplicaFiles
from daybook.replication.runner import Owned, Runner, Settings
from tests.crash.standbys.stand_in import SEGMENT_BYTES
from tests.suites.journal_rows import LAYOUT

TIMES = Times(lease=2_000_000, margin=300_000, gather=700_000, beat=200_000, alone=2_000_000)


class Config(msgspec.Struct):
    """The configuration of a node."""

    name: str
    data: str
    arbiter: str
    nodes: dict[str, tuple[str, int]]
    acks: str = "majority"
    pause: int = 4_000
    broker_silence: int = 2_500_000
    security: tuple[str, str, str] | None = None
    mistake: str = ""


class State(msgspec.Struct):
    """The state of a node."""

    role: str
    epoch: int
    durable: int
    lsn: int
    port: int
    broker: int
    acked: dict[str, int]
    trouble: dict[str, str]


class NodeProcess:
    """The node, with its lock and its file."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.data = Path(config.data)
        for folder in ("journal", "cut"):
            RealDisk(self.data / folder).create()
        self.lock: DirectoryLock | None = None
        nodes = {name: Address(*where) for name, where in config.nodes.items()}
        security = config.security and Security(*map(Path, config.security))
        settings = Settings(
            "cluster", config.name, nodes, Address("127.0.0.1", 0), Acks(config.acks), TIMES,
            security=security, broker_silence=config.broker_silence,
        )  # fmt: skip
        owned = Owned(
            RealDisk(self.data), RealDisk(self.data / "journal"), self.open_files,
            self.close_files, self.command(), random.randint, self.notice,
        )  # fmt: skip
        arbiter = FileArbiter(Path(config.arbiter), TIMES.lease, 1.0)
        self.runner = Runner(settings, owned, arbiter)

    def open_files(self) -> ReplicaFiles:
        deadline = time.monotonic() + 10
        while self.lock is None:
            try:
                self.lock = DirectoryLock(self.data)
            except Locked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        return ReplicaFiles(
            RealDisk(self.data / "journal"), RealDisk(self.data / "cut"), LAYOUT,
            segment_bytes=SEGMENT_BYTES,
        )  # fmt: skip

    def close_files(self, files: ReplicaFiles) -> None:
        files.close()
        assert self.lock is not None
        self.lock.release()
        self.lock = None

    def command(self) -> list[str]:
        module = "tests.crash.standbys.stand_in"
        return [sys.executable, "-m", module, str(self.data), str(self.config.pause)]

    def notice(self, text: str) -> None:
        print(f"{time.time():.3f} {self.config.name}: {text}", file=sys.stderr, flush=True)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.runner.stop)
        loop.set_exception_handler(self.failed)
        telling = loop.create_task(self.tell())
        try:
            await self.runner.run()
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling

    def failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        loop.default_exception_handler(context)
        self.notice(f"UNEXPECTED {context}")

    async def tell(self) -> None:
        while True:
            status = self.runner.status()
            broker = self.runner.broker
            acked = {
                name: each.acked for name, each in status.followers.items()
                if each.acked is not None
            }  # fmt: skip
            state = State(
                status.role.value, status.epoch, status.durable, status.lsn,
                self.runner.address.port, 0 if broker is None else broker.pid, acked,
                status.trouble,
            )  # fmt: skip
            path = self.data.parent / f"state-{self.config.name}"
            part = path.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(state))
            part.replace(path)
            await asyncio.sleep(0.05)


def one_node_is_enough() -> None:
    # Candidates still ask as many as they should.
    Quorum.followers_needed = 0  # type: ignore[assignment,method-assign]


def tails_stay() -> None:
    def continue_from(self: ReplicaFiles, data_id: bytes, place: Place, hashed: bytes) -> bool:
        return place == BEFORE_ALL and original(self, data_id, place, hashed)

    original = ReplicaFiles.continue_from
    ReplicaFiles.continue_from = continue_from  # type: ignore[method-assign]


MISTAKES = {"": lambda: None, "alone": one_node_is_enough, "tails": tails_stay}
"""Mistakes that a node can make, to see whether they are found."""

if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Config)
    MISTAKES[given.mistake]()
    asyncio.run(NodeProcess(given).run())
    os._exit(0)
