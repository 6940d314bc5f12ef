"""Running the drills that are campaigns on scratch data, and their reports."""

import shlex
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from daybook.server.configuration.config import load
from daybook.tools.drills.campaigns.campaign import Campaign, Hardship
from daybook.tools.drills.campaigns.derived_files import Wounds
from daybook.tools.drills.campaigns.hardships import (
    HANG_SECONDS,
    SEGMENT_BYTES,
    DiskFull,
    PowerCut,
    Room,
    SlowDisk,
)
from daybook.tools.drills.clients.witness import Wrong
from daybook.tools.drills.reports import output as reports
from daybook.tools.drills.reports.report import Finding, Line, Mark, Report, Tried
from daybook.tools.drills.scratch.broker import BrokerTrouble
from daybook.tools.drills.scratch.server import AMQP, STOMP, Serving
from daybook.tools.drills.scratch.workplace import NO_RETENTION, furnish, need_space, workplace
from daybook.tools.terminal.printing import progress

ABOUT: Final = {
    "kill": "a broker under load, killed with SIGKILL again and again",
    "power-cut": "a broker under load, killed, and its unsynced writes taken away",
    "slow-disk": "a broker under load on a disk whose syncs are slow, or do not return for a while",
    "disk-full": "a broker under load whose disk becomes full, killed and started while it is full",
}
COULD_NOT: Final = {
    "kill": "losing unsynced writes: the kernel keeps them when a process is killed (see drill "
    "power-cut)",
    "power-cut": "file systems, and caches of devices and controllers: the bytes that were not "
    "synced were taken away from the journal's files, sector by sector, and whole derived files "
    "were damaged; for the rest pull the plug",
    "slow-disk": "a device that is slow: each sync of the journal waited in the broker's process "
    "before it was done, and the index was not slowed down",
    "disk-full": "full disks of other kinds: quotas, thin volumes, or no inodes",
}
BOTH: Final = "both"
TEARING: Final = ("kill", "power-cut")
"""The drills that also damage derived files, before every other start."""
SNAPSHOTS: Final = "journal.snapshot-every=256KiB"
"""Without it there would be no snapshot to damage."""
SEGMENTS: Final = 3
"""So many segments must fit at least: the one before, the newest, and the next."""
SMALL_DISK: Final = (
    *NO_RETENTION, f"journal.segment-bytes={SEGMENT_BYTES}", "broker.min-disk-free=0",
    "broker.max-disk-usage=-1", "broker.disk-full-policy=BLOCK", "journal.snapshot-every=0",
)  # fmt: skip


class Asked(msgspec.Struct, frozen=True):
    """The options of the drill.

    `keep` is the folder to work in and to keep, None for a temporary one. `protocol` is the one
    that clients speak, or BOTH.
    """

    drill: str
    config: Path | None
    rounds: int
    minutes: float
    seed: int
    delay_ms: float = 20.0
    keep: Path | None = None
    protocol: str = STOMP

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols that clients speak in turn."""
        return (STOMP, AMQP) if self.protocol == BOTH else (self.protocol,)


def run(asked: Asked) -> Report:
    """Carry out a campaign; return its report. Raises ConfigError, Failure and OSError."""
    begun = time.monotonic()
    config = str(asked.config.resolve()) if asked.config is not None else ""
    report = reports.begun(
        asked.drill, ABOUT[asked.drill],
        {
            "config": config or "the defaults", "rounds": asked.rounds, "minutes": asked.minutes,
            "protocol": asked.protocol,
        },
        asked.seed,
    )  # fmt: skip
    report.could_not.append(COULD_NOT[asked.drill])
    with ExitStack() as closing:
        folder = closing.enter_context(workplace(asked.keep))
        hardship, serving = _prepared(asked, config, folder, report, closing)
        serving = replace(serving, speaks_amqp=AMQP in asked.protocols)
        served = furnish(serving, report)
        need_space(folder, SEGMENTS * served.journal.segment_bytes)
        if serving.settings:
            report.notes.append("set for this drill: " + ", ".join(serving.settings))
        advance = closing.enter_context(progress(asked.drill, asked.rounds))
        wounds = Wounds(asked.seed) if asked.drill in TEARING else None
        campaign = Campaign(
            serving, folder / "broker.log", hardship, asked.seed, advance, wounds, asked.protocols
        )
        closing.callback(campaign.end)
        _carry_out(campaign, asked, report, begun + asked.minutes * 60)
        if wounds is not None:
            report.tried += wounds.tried
        _sum_up(campaign, hardship, report, asked)
    reports.finish(report, time.monotonic() - begun)
    return report


def data_of(config: Path | None) -> Path | None:
    """Return the data directory of a configuration, where the report of its drill is kept. Raises
    ConfigError."""
    return Path(load(config).broker.data_directory) if config is not None else None


def _prepared(
    asked: Asked, config: str, folder: Path, report: Report, closing: ExitStack
) -> tuple[Hardship, Serving]:
    """Return the hardship of the drill, and the way to start it."""
    data = folder / "data"
    if asked.drill == "power-cut":
        power = PowerCut(folder, asked.seed)
        report.notes.append(
            f"each sync of the journal took {power.plan.delay_ms:g} ms more, so that cuts come "
            "between a write and its sync"
        )
        return power, Serving(config, str(data), (*NO_RETENTION, SNAPSHOTS), power.plan)
    if asked.drill == "slow-disk":
        slow = SlowDisk(folder, asked.delay_ms)
        report.asked["delay-ms"] = asked.delay_ms
        report.notes.append(
            f"each sync of the journal took {asked.delay_ms:g} ms more, one sync in forty ten "
            f"times as long, and once a round none returned for at least {HANG_SECONDS:g} s"
        )
        return slow, Serving(config, str(data), (), slow.plan)
    if asked.drill == "disk-full":
        room = Room(folder)
        closing.callback(room.close)
        report.notes.append(f"the disk was made full with {room.used}")
        return DiskFull(room), Serving(config, str(room.folder / "data"), SMALL_DISK, room.plan)
    return Hardship(), Serving(config, str(data), (SNAPSHOTS,))


def _carry_out(campaign: Campaign, asked: Asked, report: Report, deadline: float) -> None:
    rounds = Tried("rounds of work that ended in a crash")
    end = Tried("drained at the end, ledger, broker and journal compared")
    report.tried = [rounds, end]
    current = rounds
    try:
        while rounds.count < asked.rounds and time.monotonic() < deadline:
            rounds.count += 1
            campaign.round()
            rounds.right += 1
        current = end
        end.count += 1
        campaign.finish()
        end.right += 1
    except (Wrong, BrokerTrouble) as wrong:
        promise = wrong.promise if isinstance(wrong, Wrong) else "P8"
        where = f"round {campaign.rounds}" if current is rounds else "at the end"
        report.findings.append(Finding(promise, str(wrong), where, _again(asked)))
    if rounds.count < asked.rounds and not report.findings:
        report.could_not.append(
            f"{asked.rounds - rounds.count} of {asked.rounds} rounds: the time was over"
        )


def _again(asked: Asked) -> str:
    words = ["daybook", "drill", asked.drill]
    if asked.config is not None:
        words += ["--config", str(asked.config.resolve())]
    words += ["--rounds", str(asked.rounds), "--minutes", f"{asked.minutes:g}"]
    if asked.drill == "slow-disk":
        words += ["--delay-ms", f"{asked.delay_ms:g}"]
    words += ["--protocol", asked.protocol, "--seed", str(asked.seed), "--keep", "DIR"]
    return shlex.join(words)


def _sum_up(campaign: Campaign, hardship: Hardship, report: Report, asked: Asked) -> None:
    ledger = campaign.ledger
    report.figures = {
        "messages sent": f"{len(ledger.sent):,}",
        "with a receipt": f"{len(ledger.receipted):,}",
        "delivered": f"{len(ledger.counts):,}",
        "deliveries flagged as redelivered": f"{ledger.redelivered:,}",
        "acknowledgements with a receipt": f"{len(ledger.confirmed):,}",
        "dead letters": f"{len(ledger.dead):,}",
        "violations seen by clients": f"{len(ledger.violations):,}",
        "events in the journal": f"{campaign.last_lsn:,}",
    }
    if isinstance(hardship, PowerCut):
        report.figures |= {
            "power cuts": f"{hardship.cuts:,}",
            "sectors lost": f"{hardship.lost.sectors:,}",
            "names lost": f"{hardship.lost.names:,}",
        }
        if not hardship.lost.sectors:
            report.could_not.append("losing sectors: at no cut was anything not synced")
    if isinstance(hardship, SlowDisk):
        report.figures |= {
            "times that the disk hung": f"{hardship.times:,}",
            "killed while it hung": f"{hardship.killed:,}",
        }
    if isinstance(hardship, DiskFull):
        report.figures |= {
            "times that the disk was full": f"{hardship.times_full:,}",
            "starts while it was full": f"{hardship.starts_while_full:,}",
            "times that it took more when there was room again": f"{hardship.resumed:,}",
        }
        if not hardship.times_full:
            report.unproved = "could not fill the disk in time"
            report.could_not.append(
                "a full disk: this machine was too busy to fill it in time; try again, or ask for "
                "more --rounds"
            )
    starts = [seconds * 1000 for seconds in campaign.starts]
    report.spreads.append(reports.spread("from the start of the process to ready", "ms", starts))
    rates = [rate for _, rate in campaign.throughput if rate]
    report.spreads.append(reports.spread("throughput", "receipts and deliveries/s", rates))
    marks = [Mark(at, until, f"killed at {at:.1f} s") for at, until in campaign.kills]
    report.lines.append(
        Line(
            "throughput over time; bands last from a kill until a broker serves again",
            "seconds", "receipts and deliveries/s", campaign.throughput, marks,
        )
    )  # fmt: skip
    report.notes.append(
        "the seed repeats the decisions of clients and of chance, but not the timing of the "
        "operating system"
    )
    if asked.keep is not None:
        report.notes.append(f"kept: {asked.keep.resolve()}")
