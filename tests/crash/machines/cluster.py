"""Three machines, each with a member of etcd and a node, and what happens to them.

Nodes run above a black box, so that a power cut takes what was not synced, and disks can be slow,
full or stuck. Every process is killed with this one.
"""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import trustme

from daybook.client.control import ControlError, ask
from daybook.journal.data_directory import CUT, INDEX, JOURNAL, NODE, NODE_SOCKET
from tests.crash.machines.mistakes import planted
from tests.crash.machines.network import MACHINES, Network
from tests.crash.power import Platter, read_records
from tests.support.arbiters.etcd_process import ETCD
from tests.support.process import DAYBOOK, wait_for

PATIENCE_SECONDS: Final = 180.0
"""So long on a machine that is busy with much else."""
LEASE_SECONDS: Final = 4
ASK_SECONDS: Final = 5.0
FAULTS: Final = ("slow", "stuck", "full")
"""Faults that a disk can have for a while, in the words of the black box."""
NEVER: Final = 1 << 63
MAJORITY: Final = "majority"
MARK: Final = "DAYBOOK_TEST_MACHINE"
BOXED: Final = (JOURNAL, INDEX, NODE, CUT)
SETTINGS: Final = """
[journal]
segment-bytes = "1MiB"
idle-mark-delay = 100
[[address-setting]]
match = "#"
max-delivery-attempts = -1
"""


def processes_of(mark: str) -> list[int]:
    """Return the processes whose environment has a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


class Libraries(NamedTuple):
    """The compiled libraries below the processes of a node."""

    box: Path
    clock: Path


class Machine:
    """A machine. It has a disk, which is in its folder."""

    def __init__(self, folder: Path, name: str, network: Network, etcd: list[str]) -> None:
        self.name: Final = name
        self.folder: Final = folder / name
        self.data: Final = self.folder / "data"
        self.log: Final = self.folder / "node.log"
        self.config: Final = self.folder / "node.toml"
        self.environment: dict[str, str] = {}
        self._mark: Final = f"{os.getpid()}-{folder}-{name}"
        self._network: Final = network
        self._etcd_command: Final = etcd
        self._node: subprocess.Popen[bytes] | None = None
        self._etcd: subprocess.Popen[bytes] | None = None
        self._box: Final = self.folder / "blackbox.log"
        self._folders: Final = tuple(self.data / each for each in BOXED)
        self._platter: Platter | None = None
        self._clock: Final = self.folder / "clock"
        self.folder.mkdir()
        self._clock.write_bytes(bytes(8))

    # ---- etcd

    def start_etcd(self) -> None:
        """Start the member of etcd, if it does not run."""
        if self._etcd is None:
            with (self.folder / "etcd.log").open("ab") as log:
                self._etcd = subprocess.Popen(
                    [*self._network.command(self.name), *self._etcd_command], stdout=log, stderr=log
                )

    def signal_etcd(self, number: int) -> None:
        """Send the member of etcd a signal."""
        if self._etcd is not None:
            self._etcd.send_signal(number)

    def kill_etcd(self) -> None:
        """Kill the member of etcd."""
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
            self._etcd = None

    # ---- the node

    def start(self, libraries: Libraries) -> None:
        """Start the node, if it does not run; its disk can have faults later."""
        if self._node is not None:
            assert self._node.poll() is None, f"{self.name} has ended by itself"
            return
        environment = os.environ | {MARK: self._mark} | self.environment
        if self._platter is None:
            self._switch_on()
        environment |= {
            "LD_PRELOAD": ":".join(map(str, libraries)), "STEPPED_CLOCK": str(self._clock),
            "BLACKBOX_LOG": str(self._box),
            "BLACKBOX_FAULT": ":".join(str(self.folder / each) for each in FAULTS),
            "BLACKBOX_FOLDER": ":".join(map(str, self._folders)),
        }  # fmt: skip
        with self.log.open("ab") as log:
            self._node = subprocess.Popen(
                [*self._network.command(self.name), DAYBOOK, "serve", "--config", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Return what the node says of itself; empty if it does not run, or does not answer."""
        with suppress(ControlError, OSError):
            return ask(self.data, {"do": "cluster"}, ASK_SECONDS, name=NODE_SOCKET) or {}
        return {}

    def lane_blocks(self) -> int:
        """Return how many blocks the broker has sent over lanes; 0 if there is none."""
        with suppress(ControlError, OSError):
            lanes = (ask(self.data, {"do": "status"}, ASK_SECONDS) or {}).get("lanes", {})
            return int(lanes.get("blocks", 0))
        return 0

    def signal(self, number: int) -> None:
        """Send a signal to every process of the node."""
        for pid in processes_of(self._mark):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze_node(self) -> None:
        """Stop the node's process, and no other one."""
        assert self._node is not None
        self._node.send_signal(signal.SIGSTOP)

    def kill_node(self) -> None:
        """Kill the node's process; the kernel kills its broker with it."""
        assert self._node is not None
        self._node.kill()
        self._node.wait()
        self._node = None
        wait_for(lambda: not processes_of(self._mark), "the end of all processes")

    def signal_broker(self, number: int) -> None:
        """Send a signal to the broker, if there is one."""
        pid = self.status().get("broker_pid")
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Kill every process of the node."""
        self.signal(signal.SIGKILL)
        if self._node is not None:
            self._node.wait()
            self._node = None
        wait_for(lambda: not processes_of(self._mark), "the end of all processes")

    def stop(self) -> int:
        """Ask the node to end; return its exit code."""
        assert self._node is not None
        self._node.terminate()
        code = self._node.wait(PATIENCE_SECONDS)
        self._node = None
        return code

    def step_clock(self, seconds: float) -> None:
        """Let the time of day be wrong by so much from now on."""
        with self._clock.open("r+b") as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))

    # ---- the disk

    def _switch_on(self) -> None:
        self._box.unlink(missing_ok=True)
        self._platter = Platter(*self._folders)

    def cut_power(self, chance: random.Random | None) -> None:
        """Kill the node, and take what it did not sync: all of it, or by chance a part."""
        assert self._platter is not None
        self.kill()
        for record in read_records(self._box):
            self._platter.play(record)
        if chance is not None:
            self._platter.cut(chance)
        else:
            self._platter.lose()
        self._platter.write()
        self._switch_on()

    def lose_data(self) -> None:
        """Kill the node, and remove its disk."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        self._platter = None

    def break_disk(self, fault: str) -> None:
        """Let a fault begin."""
        (self.folder / fault).touch()

    def feels(self, fault: str) -> bool:
        """Return whether a process has met a fault that began."""
        return (self.folder / fault).stat().st_size > 0

    def mend_disk(self) -> None:
        """Let all faults end."""
        for fault in FAULTS:
            (self.folder / fault).unlink(missing_ok=True)

    def journal(self) -> dict[str, bytes]:
        """Return the content of the journal, by the names of the segments."""
        found = sorted((self.data / JOURNAL).glob("*.seg"))
        return {each.name: each.read_bytes() for each in found}


class Cluster:
    """Three machines. Use it as a context manager, which kills all that is left."""

    def __init__(
        self, folder: Path, network: Network, libraries: Libraries, mistakes: Sequence[str] = (), *,
        acks: str = MAJORITY,
    ) -> None:  # fmt: skip
        """`mistakes` are planted into all nodes."""
        self.network: Final = network
        self.patience = PATIENCE_SECONDS
        self.libraries: Final = libraries
        members = ",".join(f"{name}=http://{network.listens(name, 'peer')}" for name in MACHINES)
        self.machines: Final = {
            name: Machine(folder, name, network, _etcd(folder, name, network, members))
            for name in MACHINES
        }
        self._users: Final = folder / "users.toml"
        self._authority: Final = trustme.CA() if network.is_exposed else None
        if self._authority is not None:
            self._authority.cert_pem.write_to_path(folder / "authority.pem")
            subprocess.run(
                [DAYBOOK, "user", "add", "guest", "--passcode-stdin", "--users-file", self._users],
                input=b"guest\n", check=True, capture_output=True,
            )  # fmt: skip
        for machine in self.machines.values():
            machine.config.write_text(self._config(machine, acks), "utf-8")
            if mistakes:
                machine.environment |= planted(machine.folder, *mistakes)

    def _config(self, machine: Machine, acks: str) -> str:
        name, network = machine.name, self.network
        endpoints = [f"http://{network.reaches(name, each, 'etcd')}" for each in MACHINES]
        lines = [
            f"data-directory = {json.dumps(str(machine.data))}",
            f"users-file = {json.dumps(str(self._users))}",
            "[replication]", 'cluster = "shop"', f'node = "{name}"', f'acks = "{acks}"',
            f'lease = "{LEASE_SECONDS}s"', f"endpoints = {json.dumps(endpoints)}",
        ]  # fmt: skip
        scheme = "tcp"
        if self._authority is not None:
            scheme = "tls"
            certificate = machine.folder / "certificate.pem"
            issued = self._authority.issue_cert(name)
            issued.private_key_and_cert_chain_pem.write_to_path(certificate)
            certificate.chmod(0o600)
            authority = machine.folder.parent / "authority.pem"
            lines += [f'certificate = "{certificate}"', f'authority = "{authority}"']
        for each in MACHINES:
            address = f"{scheme}://{network.reaches(name, each, 'node')}"
            lines += ["[[replication-node]]", f'name = "{each}"', f'address = "{address}"']
        for protocol in ("stomp", "amqp"):
            lines += [
                "[[acceptor]]", f'name = "{protocol}"', f'protocol = "{protocol}"',
                f'listen = "{network.listens(name, protocol)}"', "allow-cleartext = true",
            ]  # fmt: skip
        return "\n".join(lines) + SETTINGS

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Start all that does not run."""
        for machine in self.machines.values():
            machine.start_etcd()
        for machine in self.machines.values():
            machine.start(self.libraries)

    def close(self) -> None:
        """Kill everything."""
        for machine in self.machines.values():
            machine.kill()
            machine.kill_etcd()
        self.network.close()

    def restore(self) -> None:
        """End everything that goes wrong, and start what does not run."""
        self.network.heal()
        for machine in self.machines.values():
            machine.mend_disk()
            machine.signal(signal.SIGCONT)
            machine.signal_etcd(signal.SIGCONT)
        self.start()

    # ---- its state

    def leader(self, *, other_than: Sequence[str] = ()) -> Machine | None:
        """Return the machine that leads in the newest epoch."""
        found = [
            (status["epoch"], machine.name)
            for machine in self.machines.values()
            if machine.name not in other_than
            and (status := machine.status()).get("role") == "leading"
        ]
        return self.machines[max(found)[1]] if found else None

    def wait_for_leader(self, *, other_than: Sequence[str] = ()) -> Machine:
        """Wait until a machine leads."""
        found = self.wait_for(lambda: self.leader(other_than=other_than), "a leader")
        assert isinstance(found, Machine)
        return found

    def wait_until_all_have_all(self) -> None:
        """Wait until all other nodes have what the leader has now, and know it: one that lost its
        disk must not lead before."""
        wanted: dict[str, int] = {}

        def all_have() -> bool:
            leader = self.leader()
            if leader is None:
                return False
            status = leader.status()
            if status.get("lsn"):
                wanted.setdefault(leader.name, status["lsn"])
            acked = [each["acknowledged_lsn"] or 0 for each in status.get("nodes", ())]
            if not acked or min(acked) < wanted.get(leader.name, NEVER):
                return False
            return all(machine.status().get("whole") for machine in self.machines.values())

        self.wait_for(all_have, "the followers")

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition; the failure has the logs."""
        ends = time.monotonic() + self.patience
        while not (found := condition()):
            if time.monotonic() > ends:
                raise AssertionError(f"waited in vain for {what}\n{self.report()}")
            time.sleep(0.1)
        return found

    def report(self) -> str:
        """Return what the nodes say, and the ends of their logs."""
        parts = []
        for name, machine in self.machines.items():
            parts += [f"== {name}: {machine.status()}", _shortened(machine.log)]
        return "\n".join(parts)


def _shortened(log: Path) -> str:
    """Return the end of a log, without what is said at each start."""
    lines = log.read_text("utf-8", "replace").splitlines()
    told = [line for line in lines if "cleartext" not in line and "TLS" not in line]
    return "\n".join(told)[-4_000:]


def _etcd(folder: Path, name: str, network: Network, members: str) -> list[str]:
    assert ETCD is not None
    peer, client = (f"http://{network.listens(name, each)}" for each in ("peer", "etcd"))
    return [
        ETCD, "--name", name, "--data-dir", str(folder / name / "etcd"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", members, "--heartbeat-interval", "200", "--election-timeout", "2000",
    ]  # fmt: skip
