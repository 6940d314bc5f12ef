"""Running `daybook drill failover`: a cluster on scratch data loses nodes while clients work.

A ledger records what clients saw. In the end all queues are drained, and ledger, brokers and the
journals of all nodes must agree. Fault model: one node at a time, as `acks = "majority"` promises;
the next mishap comes when all nodes have everything again.
"""

import random
import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from daybook.server.configuration.config import load
from daybook.tools.drills.clients.amqp_client import AmqpDrillClient
from daybook.tools.drills.clients.client import Client, Connect, Gone, Receipt, StompClient
from daybook.tools.drills.clients.drain import drain
from daybook.tools.drills.clients.ledger import Ledger
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.clients.workload import DRILL_STAFF, ORDERS, begin_work, end_work
from daybook.tools.drills.failover.agreement import check_journals
from daybook.tools.drills.failover.cluster import Addresses, Cluster, DrillNode
from daybook.tools.drills.failover.etcd import scratch_etcd
from daybook.tools.drills.failover.mishaps import MISHAPS, LostData, Mishap
from daybook.tools.drills.reports import output as reports
from daybook.tools.drills.reports.report import Finding, Report, Tried
from daybook.tools.drills.scratch.broker import BrokerTrouble
from daybook.tools.drills.scratch.copies import copy_data
from daybook.tools.drills.scratch.server import AMQP, STOMP, Serving, Standby
from daybook.tools.drills.scratch.workplace import NO_RETENTION, furnish, need_space, workplace
from daybook.tools.terminal.printing import progress

ABOUT: Final = "a cluster of three nodes that are lost, stopped and come back under load"
FILE: Final = "file"
ETCD: Final = "etcd"
BOTH: Final = "both"
MAJORITY: Final = "majority"
LEASE_MS: Final = 3_000
SEGMENTS: Final = 9
"""Three nodes with so many segments must fit at least."""
WORK_SECONDS: Final = (0.5, 2.0)
FIRST_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 10.0
FAILOVER_SECONDS: Final = 180.0
DRAINS_MAX: Final = 5
PROBE_SECONDS: Final = 0.01
COULD_NOT: Final = (
    "networks that are cut, slow, or lose packets: all nodes are on loopback",
    "machines of their own: the nodes share this one's processors and disk, so a failover takes"
    " longer here",
)


class Asked(msgspec.Struct, frozen=True):
    """The options of the drill. `directory` is copied to each node; None: they begin empty. `acks`
    and `lease_ms` are those of the configuration if they are empty or 0."""

    directory: Path | None
    config: Path | None
    rounds: int
    minutes: float
    seed: int
    acks: str = ""
    lease_ms: int = 0
    arbiter: str = FILE
    keep: Path | None = None
    protocol: str = STOMP

    def again(self) -> str:
        """Return the command that shows it again."""
        words = ["daybook", "drill", "failover"]
        words += [str(self.directory.resolve())] if self.directory is not None else []
        if self.config is not None:
            words += ["--config", str(self.config.resolve())]
        words += ["--rounds", str(self.rounds), "--minutes", f"{self.minutes:g}"]
        words += ["--acks", self.acks] if self.acks else []
        words += ["--lease", f"{self.lease_ms / 1000:g}"] if self.lease_ms else []
        words += ["--arbiter", self.arbiter, "--protocol", self.protocol]
        return shlex.join([*words, "--seed", str(self.seed), "--keep", "DIR"])


def run(asked: Asked) -> Report:
    """Rehearse, and return the report. Raises ConfigError, Failure, JournalError and OSError."""
    begun = time.monotonic()
    report = reports.begun(
        "failover", ABOUT,
        {
            "directory": str(asked.directory.resolve()) if asked.directory is not None else "",
            "config": str(asked.config.resolve()) if asked.config is not None else "the defaults",
            "rounds": asked.rounds, "minutes": asked.minutes, "arbiter": asked.arbiter,
            "protocol": asked.protocol,
        },
        asked.seed,
    )  # fmt: skip
    report.could_not += COULD_NOT
    with ExitStack() as closing:
        folder = closing.enter_context(workplace(asked.keep))
        cluster = _prepared(asked, folder, report, closing)
        closing.callback(cluster.end)
        advance = closing.enter_context(progress("failover", asked.rounds))
        rehearsal = Rehearsal(asked, cluster, report)
        _carry_out(rehearsal, begun + asked.minutes * 60, advance)
        rehearsal.sum_up()
    reports.finish(report, time.monotonic() - begun)
    return report


def _prepared(asked: Asked, folder: Path, report: Report, closing: ExitStack) -> Cluster:
    """Return the cluster, with its data and its arbiter; no node runs yet."""
    config = str(asked.config.resolve()) if asked.config is not None else ""
    given = load(config or None).replication
    acks = asked.acks or (given.acks if given is not None else MAJORITY)
    if acks == "none":
        report.notes.append("acks: the configuration has none, which promises nothing: majority")
        acks = MAJORITY
    standby = Standby(
        node="a", nodes={"a": 0}, port=0, amqp_port=0, acks=acks,
        lease_ms=asked.lease_ms or (given.lease if given is not None else LEASE_MS),
        path=str(folder / "lease") if asked.arbiter == FILE else "",
        endpoints=(closing.enter_context(scratch_etcd(folder)),) if asked.arbiter == ETCD else (),
    )  # fmt: skip
    serving = Serving(
        config, str(folder / "a"), NO_RETENTION, speaks_amqp=asked.protocol != STOMP,
        standby=standby,
    )  # fmt: skip
    served = furnish(serving, report)
    report.configuration |= {
        "replication.acks": acks, "replication.lease": standby.lease_ms,
        "replication.arbiter": asked.arbiter,
    }  # fmt: skip
    need_space(folder, SEGMENTS * served.journal.segment_bytes)
    cluster = Cluster(folder, serving, standby)
    if asked.directory is not None:
        copy_data(asked.directory, [each.data for each in cluster.nodes.values()], report, 2)
    return cluster


class Rehearsal:
    """The rounds on one cluster, and what is seen of them."""

    def __init__(self, asked: Asked, cluster: Cluster, report: Report) -> None:
        self.asked: Final = asked
        self.cluster: Final = cluster
        self.report: Final = report
        self.ledger: Final = Ledger()
        self.addresses: Final = Addresses(cluster)
        self.tried: Final = {each: Tried(each.what) for each in MISHAPS}
        self.end: Final = Tried("drained at the end, ledger and the journals of all nodes compared")
        self.failovers: Final[dict[type[Mishap], list[float]]] = {each: [] for each in MISHAPS}
        self.caught_up: Final[list[tuple[int, float]]] = []
        self.last_lsn = 0
        self._chance: Final = random.Random(asked.seed)
        self._left: list[type[Mishap]] = []
        self._probes = 0
        report.tried = [*self.tried.values(), self.end]

    def next_mishap(self) -> type[Mishap]:
        """Return the mishap of the next round; each comes once before one comes again."""
        if not self._left:
            self._left = self._chance.sample(MISHAPS, len(MISHAPS))
        return self._left.pop()

    def makers(self) -> tuple[Connect, ...]:
        """Return what connects clients, in turn."""
        stomp = self.addresses.connecting(StompClient, amqp=False)
        amqp = self.addresses.connecting(AmqpDrillClient, amqp=True)
        return {STOMP: (stomp,), AMQP: (amqp,), BOTH: (stomp, amqp)}[self.asked.protocol]

    def work(self, deadline: float, advance: Callable[[int], None]) -> None:
        """Let clients work through all rounds. Raises Wrong."""
        self.cluster.start()
        self.cluster.await_whole()
        workers = begin_work(
            self.ledger, self.addresses.connecting(StompClient, amqp=False), 0, "f", DRILL_STAFF,
            self.makers(),
        )  # fmt: skip
        count = 0
        try:
            self._await_first_receipt()
            while count < self.asked.rounds and (not count or time.monotonic() < deadline):
                self.round(self.next_mishap()(self.cluster))
                count += 1
                advance(count)
            if count < self.asked.rounds:
                self.report.could_not.append(
                    f"{self.asked.rounds - count} of {self.asked.rounds} rounds: the time was over"
                )
        finally:
            self.addresses.is_over = True
            # Their connections end; the nodes that are left lead once more.
            for node in self.cluster.nodes.values():
                node.process.kill()
            end_work(workers)
        self._check_ledger()

    def _await_first_receipt(self) -> None:
        self.cluster.await_that(lambda: self.ledger.receipted or None, "no message is confirmed")

    def round(self, mishap: Mishap) -> None:
        """Let a mishap happen, measure until a client is served, and wait until all is whole."""
        kind = type(mishap)
        self.tried[kind].count += 1
        time.sleep(self._chance.uniform(*WORK_SECONDS))
        leader = self.cluster.await_leader()
        begun = time.monotonic()
        mishap.strike(leader)
        self._await_served(begun, mishap.struck)
        self.failovers[kind].append(time.monotonic() - begun)
        healed = time.monotonic()
        mishap.heal()
        self.cluster.await_whole()
        if isinstance(mishap, LostData):
            self.caught_up.append((mishap.size, time.monotonic() - healed))
        self._check_ledger()
        self.tried[kind].right += 1

    def _await_served(self, begun: float, struck: DrillNode | None) -> None:
        """Wait until a message of a new client is confirmed. Raises Wrong."""
        nodes = [each for each in self.cluster.nodes.values() if each is not struck]
        while time.monotonic() - begun < FAILOVER_SECONDS:
            for node in nodes:
                with suppress(Gone):
                    client = StompClient(node.standby.port)
                    try:
                        if self._is_confirmed(client):
                            return
                    finally:
                        client.cut()
            time.sleep(PROBE_SECONDS)
        raise Wrong("P8", f"no message was confirmed within {FAILOVER_SECONDS:.0f} s of the mishap")

    def _is_confirmed(self, client: Client) -> bool:
        self._probes += 1
        body = f"probe-{self._probes}"
        self.ledger.sending(body)
        client.send(ORDERS, body, body)
        by = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < by:
            heard = client.receive(ANSWER_SECONDS)
            if isinstance(heard, Receipt):
                self.ledger.sent_receipted([body])
                return True
        return False

    def _check_ledger(self) -> None:
        if self.ledger.violations:
            raise Wrong(self.ledger.broken, "; ".join(self.ledger.violations[:5]))

    def finish(self) -> None:
        """Start all nodes once more, drain all queues, stop them, and compare all. Raises Wrong."""
        self.end.count += 1
        self.cluster.start()
        self.cluster.await_whole()
        self.addresses.is_over = False
        self._drain()
        leader = self.cluster.await_whole()
        for node in sorted(self.cluster.nodes.values(), key=lambda each: each is leader):
            code = node.process.stop()
            if code:
                words = node.process.last_words()
                raise Wrong("P8", f"a clean stop of {node.name} ended with {code}: {words}")
        self.ledger.check_drained()
        self._check_ledger()
        if not self.ledger.receipted:
            raise Wrong("drill", "the clients completed no work, so nothing was proved")
        self.last_lsn = check_journals({each.name: each for each in self.cluster.nodes.values()})
        self.end.right += 1

    def _drain(self) -> None:
        """Drain all queues, also if the lead changes meanwhile, as on a busy machine. Raises
        Wrong."""
        for _ in range(DRAINS_MAX):
            with suppress(Gone):
                by_number = self.addresses.connecting(StompClient, amqp=False)
                drain(self.ledger, self.makers()[-1], by_number, 0)
                return
        raise Wrong("P8", f"the connection ended {DRAINS_MAX} times while the queues were drained")

    def sum_up(self) -> None:
        """Fill the report with what was seen."""
        ledger, report = self.ledger, self.report
        report.figures |= {
            "messages sent": f"{len(ledger.sent):,}",
            "with a receipt": f"{len(ledger.receipted):,}",
            "delivered": f"{len(ledger.counts):,}",
            "deliveries flagged as redelivered": f"{ledger.redelivered:,}",
            "acknowledgements with a receipt": f"{len(ledger.confirmed):,}",
            "dead letters": f"{len(ledger.dead):,}",
            "violations seen by clients": f"{len(ledger.violations):,}",
            "events in the journal": f"{self.last_lsn:,}",
        }
        for kind, seconds in self.failovers.items():
            if seconds:
                name = f"until a message was confirmed after {kind.what}"
                report.spreads.append(reports.spread(name, "ms", [each * 1000 for each in seconds]))
        for size, took in self.caught_up:
            report.figures["an empty node caught up"] = (
                f"{size / 1e6:,.1f} MB in {took:.1f} s, its start included"
            )
        report.notes.append(
            "the seed repeats the decisions of clients and of chance, but not the timing of the "
            "operating system"
        )
        if self.asked.keep is not None:
            report.notes.append(f"kept: {self.asked.keep.resolve()}")


def _carry_out(rehearsal: Rehearsal, deadline: float, advance: Callable[[int], None]) -> None:
    where = "while nodes were lost"
    try:
        rehearsal.work(deadline, advance)
        where = "at the end"
        rehearsal.finish()
    except (Wrong, BrokerTrouble) as wrong:
        promise = wrong.promise if isinstance(wrong, Wrong) else "P8"
        again = rehearsal.asked.again()
        rehearsal.report.findings.append(Finding(promise, str(wrong), where, again))
