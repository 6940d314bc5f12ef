"""Three nodes as processes, what goes wrong with them, and the oracle.

The oracle is what the stand-ins noted: what counted is in the journals of all nodes in the end, at
its LSN and with its hash; in one epoch one node at most noted anything; journals have the same
bytes.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import msgspec

from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.replication.arbiters.lease_file import LOCK
from tests.crash.standbys.node_process import Config, State
from tests.crash.standbys.proxy import Network

LOCK_SECONDS: Final = 0.02
LOCK_TRIES: Final = 100


class Broken(AssertionError):
    """A promise is broken."""


class Noted(NamedTuple):
    """An event that counted, as a stand-in noted it."""

    epoch: int
    lsn: int
    value: str
    hashed: str


class Cluster:
    """The processes. Their folder has all that they write."""

    def __init__(
        self, folder: Path, *, pause: int = 4_000, acks: str = "majority", mistake: str = ""
    ) -> None:
        self.folder = folder
        self.names = ["a", "b", "c"]
        self.pause = pause
        self.acks = acks
        self.mistake = mistake
        self.patience = 60.0
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.stopped: set[int] = set()
        self.network = Network(self.names, lambda name: self.state(name).port)
        self.security: dict[str, tuple[str, str, str]] = {}

    def __enter__(self) -> "Cluster":
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.network.close()

    # ---- nodes

    def start(self, name: str) -> None:
        (self.folder / f"state-{name}").unlink(missing_ok=True)
        nodes = {
            other: ("127.0.0.1", self.network.ports.get((name, other), 1)) for other in self.names
        }
        config = Config(
            name, str(self.folder / name), str(self.folder / "arbiter"), nodes, self.acks,
            self.pause, security=self.security.get(name), mistake=self.mistake,
        )  # fmt: skip
        path = self.folder / f"config-{name}"
        path.write_bytes(msgspec.json.encode(config))
        with (self.folder / f"log-{name}").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.standbys.node_process", str(path)],
                stderr=log, stdout=log, cwd=Path(__file__).parents[3],
            )  # fmt: skip

    def state(self, name: str) -> State:
        try:
            found = (self.folder / f"state-{name}").read_bytes()
        except FileNotFoundError:
            return State("dead", 0, 0, 0, 0, 0, {}, {})
        return msgspec.json.decode(found, type=State)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()
        (self.folder / f"state-{name}").unlink(missing_ok=True)

    def is_alive(self, name: str) -> bool:
        return self.processes[name].poll() is None

    def leader(self) -> str:
        """The node that leads in the newest epoch, "" if none does."""
        leaders = [name for name in self.names if self.state(name).role == "leading"]
        return max(leaders, key=lambda name: self.state(name).epoch, default="")

    def wait_for(self, what: str, found: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.patience
        while not found():
            if time.monotonic() > deadline:
                raise Broken(f"{what} did not happen in {self.patience} s\n{self.report()}")
            time.sleep(0.02)

    def wait_for_leader(self, *, besides: str = "") -> str:
        self.wait_for("a leader", lambda: self.leader() not in ("", besides))
        return self.leader()

    def wait_for_followers(self) -> str:
        """Wait until all nodes follow a leader, as a new cluster needs it; return the leader."""
        others = len(self.names) - 1

        def is_followed() -> bool:
            leader = self.leader()
            return leader != "" and len(self.state(leader).acked) == others

        self.wait_for("following", is_followed)
        return self.leader()

    def wait_for_confirms(self, count: int = 5) -> None:
        """Wait until so many more events count."""
        before = len(self.noted())
        self.wait_for("a confirm", lambda: len(self.noted()) >= before + count)

    def report(self) -> str:
        """Return the states of the nodes, and the ends of their logs."""
        parts = [f"{name}: {self.state(name)}" for name in self.names]
        for name in self.names:
            parts.append((self.folder / f"log-{name}").read_text()[-2_000:])
        return "\n".join(parts)

    # ---- what goes wrong

    def isolate(self, name: str) -> None:
        for other in self.names:
            self.network.blocked |= {(name, other), (other, name)} if other != name else set()

    def heal(self) -> None:
        self.network.blocked = set()
        self.network.delay = 0.0

    def freeze(self, pid: int) -> None:
        """Stop a process, at a moment when it does not hold the lock of the arbiter: nobody could
        get the lease then (`replication.arbiters.lease_file`)."""
        self.stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)
        while self._is_locked():
            os.kill(pid, signal.SIGCONT)
            time.sleep(LOCK_SECONDS)
            os.kill(pid, signal.SIGSTOP)

    def _is_locked(self) -> bool:
        """Whether the lock of the arbiter is kept for longer than a call takes."""
        with (self.folder / f"arbiter{LOCK}").open("ab") as file:
            for _ in range(LOCK_TRIES):
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return False
                time.sleep(LOCK_SECONDS)
        return True

    def thaw(self) -> None:
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        self.stopped = set()

    def mishap(self, chance: Random) -> str:
        """Let one thing go wrong; return what."""
        name = chance.choice(self.names)
        broker = self.state(name).broker
        leader = self.leader()
        draw = chance.choice(("kill", "kill leader", "freeze", "alone", "one way", "late", "broker",
                              "frozen broker", "arbiter", "nothing"))  # fmt: skip
        if draw == "kill leader" and leader:
            name, draw = leader, "kill"
        if draw == "kill" and self.is_alive(name):
            self.kill(name)
        elif draw == "freeze" and self.is_alive(name):
            self.freeze(self.processes[name].pid)
        elif draw == "alone":
            self.isolate(name)
        elif draw == "one way":
            other = chance.choice([each for each in self.names if each != name])
            self.network.blocked.add((name, other))
        elif draw == "late":
            self.network.delay = chance.choice((0.002, 0.02, 0.1))
        elif draw in ("broker", "frozen broker") and (leader or broker):
            self._harm_broker(draw, broker or self.state(leader).broker)
        return f"{draw} {name}"

    def _harm_broker(self, draw: str, pid: int) -> None:
        try:
            if draw == "broker":
                os.kill(pid, signal.SIGKILL)
            else:
                self.freeze(pid)
        except ProcessLookupError:
            pass

    def restore(self) -> None:
        self.heal()
        self.thaw()
        for name in self.names:
            if not self.is_alive(name):
                self.start(name)

    # ---- the oracle

    def noted(self) -> list[Noted]:
        found = []
        for path in sorted(self.folder.glob("confirmed-*")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    epoch, lsn, value, hashed = line.split()
                    found.append(Noted(int(epoch), int(lsn), value, hashed))
        return found

    def finish(self) -> int:
        """Restore everything, let all nodes catch up, and check them; return how much was noted."""
        self.restore()
        self.wait_for_leader()
        self.wait_for_confirms()
        leader = self.wait_for_leader()
        self.wait_for("catching up", lambda: len(self.state(self.leader() or leader).acked) == 2)
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            assert process.wait(60) == 0, f"{name}\n{self.report()}"
        return self.check()

    def check(self) -> int:
        """Check what the nodes have on their disks."""
        noted = self.noted()
        nodes: dict[int, int] = {}
        for path in self.folder.glob("confirmed-*"):
            if path.stat().st_size:
                epoch = int(path.name.split("-")[1])
                nodes[epoch] = nodes.get(epoch, 0) + 1
        if twice := {epoch for epoch, count in nodes.items() if count > 1}:
            raise Broken(f"two nodes confirmed in {twice}")
        if [each.lsn for each in noted] != sorted({each.lsn for each in noted}):
            raise Broken("what counted in a later epoch is not behind what counted before")
        there = [self._content(name) for name in self.names]
        for content in there:
            for each in noted:
                found = content.get(each.lsn)
                if each.lsn <= max(content) and found != (each.value, each.hashed):
                    raise Broken(f"{each} counted, and {found} is there\n{self.report()}")
        missing = [sum(each.lsn not in content for each in noted) for content in there]
        # Acknowledged by the leader and one more; the third may lack the newest.
        if sorted(missing)[1]:
            raise Broken(f"events that counted are missing: {missing}\n{self.report()}")
        self._compare_bytes()
        return len(noted)

    def _content(self, name: str) -> dict[int, tuple[str, str]]:
        disk = RealDisk(self.folder / name / "journal")
        return {
            int(event[0]): (event[2].decode(), block.hash.hex())
            for block in read_blocks(disk) for event in block.events()
        }  # fmt: skip

    def _compare_bytes(self) -> None:
        """Journals are the same up to the end of the shorter one, but for a tail without quorum."""
        journals = [
            {
                path.name: path.read_bytes().rstrip(b"\0")
                for path in (self.folder / name / "journal").glob("*.seg")
            }
            for name in self.names
        ]
        names = set(journals[0]).intersection(*journals[1:])
        for name in sorted(names)[:-1]:
            if len({journal[name] for journal in journals}) > 1:
                raise Broken(f"{name} is not the same everywhere")
