"""Days of steady traffic with retention on, in minutes: `python -m bench.steady --hours 24`.

A real broker, all its processes included, whose wall clock is fast (`bench.machine.fast_clock`):
history grows old and leaves, messages expire, and messages queued for hours are carried forward.
Every few simulated hours it is killed with SIGKILL and started again. Disk, memory and the time of
the restarts must stay flat, no message may be lost or doubled, and the journal is verified at last.

Real time counts as many simulated minutes here: at 720 times the speed, a round of retention
that lasts half a second lasts six simulated minutes. So history is a little older than allowed.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from bench.brokers.memory import Memory
from bench.brokers.ports import free_port
from bench.brokers.running import Running, TargetError
from bench.load.frames import LoadError
from bench.load.traffic import BODY_BYTES, Traffic
from bench.load.wire import Endpoint
from bench.machine.fast_clock import HOUR_US, SOURCE, FastClock, start_clock
from bench.machine.preload import NoCompiler, compile_library
from daybook.client.control import ask
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import BASE, INDEX, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.retention import sealed_segments
from daybook.journal.segments.segment import segment_names

TURN_S: Final = 0.02
FEW: Final = 2
"""Of so many messages one at least arrives at once."""
LOOK_S: Final = 0.25
"""How often memory is measured, in real seconds."""
DRAIN_S: Final = 60.0
CATCH_UP_S: Final = 120.0
"""Real seconds at the end for history to leave that is too old, on a busy machine too."""
FLAT: Final = 0.1
"""A figure is flat if its line over all hours grows by less than this part of its mean."""
FLAT_MIB: Final = 4.0
"""Or by less than this, because small numbers vary by large parts."""
FLAT_S: Final = 0.25
"""Or, of restarts, by less than this."""
MIB: Final = 1 << 20
_ROOT: Final = Path(__file__).absolute().parent.parent


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run. `rate` is messages a simulated minute, `restart_every` simulated hours.

    `late_s` is the number of real seconds that rounds and a restart may take before too many
    segments stay.
    """

    hours: int = 24
    speed: int = 720
    rate: int = 1200
    max_age_minutes: int = 60
    max_bytes: int = 0
    segment_bytes: int = 256 * 1024
    restart_every: int = 3
    warm_up: int = 6
    archives: bool = False
    late_s: float = 3.0
    settings: tuple[str, ...] = ()


class Hour(msgspec.Struct, frozen=True, kw_only=True):
    """The figures at the end of a simulated hour; memory: the maximum in it. Sizes in bytes.

    `lsn` and `first_lsn` are the last and the first event of the live journal;
    `oldest_hours` is the age of the newest event of the oldest sealed segment, in simulated hours;
    `pss` is that of all processes at the end of the hour, those of retention too if one runs just
    then; `restart_s` is from a SIGKILL in this hour to the first message, 0 without one.
    """

    hour: int
    sent: int
    queued: int
    journal: int
    index: int
    base: int
    oldest_hours: float
    lsn: int
    first_lsn: int
    removed_segments: int
    carried_messages: int
    rss: dict[str, int]
    pss: int
    restart_s: float


class Line(msgspec.Struct, frozen=True):
    """A least squares line through one figure over the hours."""

    name: str
    unit: str
    mean: float
    slope: float
    grows: float
    is_flat: bool


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """The results, and the faults in sentences.

    `end` is when the events too old at the end of the last hour had left.
    """

    plan: Plan
    hours: list[Hour]
    end: Hour
    lines: list[Line]
    wrong: list[str]
    sent: int
    unanswered: int
    restarts: int
    archive_bytes: int
    verified: str


class Life:
    """A broker that is killed and started again on one data directory, with a fast clock."""

    def __init__(self, plan: Plan, directory: Path, python: str | None) -> None:
        """`python` is the interpreter of an environment with an installed wheel, if any."""
        self.data: Final = directory / "data"
        self.archive: Final = directory / "kept"
        self.clock: Final[FastClock] = start_clock(plan.speed)
        self.said = ""
        self._directory: Final = directory
        self._library: Final = compile_library(SOURCE, directory)
        self._python: Final = python
        self._settings: Final = _settings(plan, self.archive)
        self._running: Running | None = None

    @property
    def running(self) -> Running:
        """The broker that runs."""
        assert self._running is not None
        return self._running

    def start(self) -> None:
        """Start it; raises TargetError."""
        port = free_port()
        command = [self._python or sys.executable, "-m", "daybook", "serve"]
        command += ["--data", str(self.data), "--listen", f"stomp://127.0.0.1:{port}"]
        for setting in self._settings:
            command += ["--set", setting]
        environment = {} if self._python else {"PYTHONPATH": str(_ROOT / "src")}
        environment |= self.clock.environment(self._library)
        running = Running("daybook", [command], self._directory, environment)
        running.wait_until_ready(Endpoint(port, "guest", "guest", "/", "credit"), b"ready")
        self._running = running

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.running.kill()
        self._listen()

    def stop(self) -> None:
        """End it gently, if it runs."""
        if self._running is not None:
            self._running.stop()
            self._listen()
        self._running = None

    def status(self) -> dict[str, Any]:
        """The answer of `daybook status`; raises TargetError."""
        found = ask(self.data, {"do": "status"})
        if found is None:
            raise TargetError("the broker does not answer: it ended by itself")
        return found

    def _listen(self) -> None:
        """Keep the broker's log except `ready`: its log level is `error`."""
        output = (self._directory / "output").read_text("utf-8", "replace")
        self.said += "".join(
            line + "\n" for line in output.splitlines() if not line.startswith("ready ")
        )


ROUND_FAILED: Final = "retention cannot continue"
"""Logged for a round that failed, which is not a fault: `_catch_up` checks that it was repeated."""


def _settings(plan: Plan, archive: Path) -> list[str]:
    """Return the configuration: rounds and checkpoints are as frequent as in real days."""
    found = [
        "log.level=error",
        "log.format=json",
        # Deadlines go by the wall clock.
        "acceptor.connect-timeout=24h",
        f"journal.segment-bytes={plan.segment_bytes}",
        f"journal.retention-max-age={plan.max_age_minutes}m",
        f"journal.retention-max-bytes={plan.max_bytes}",
        "journal.retention-scan-period=250ms",
        "journal.checkpoint-period=1s",
        "address-setting.sick.max-delivery-attempts=3",
        # Little stays in memory, so that the index serves all the time.
        "address-setting.backlog.max-size-messages=50",
        "address-setting.held.max-size-messages=20",
    ]
    if plan.archives:
        found.append(f"journal.archive-directory={archive}")
    return [*found, *plan.settings]


class Run:
    """One run of a plan."""

    def __init__(self, plan: Plan, directory: Path, python: str | None) -> None:
        self._plan: Final = plan
        self._life: Final = Life(plan, directory, python)
        self._traffic: Final = Traffic()
        self._hours: Final[list[Hour]] = []
        self._rss: dict[str, int] = {}
        self._restart_s = 0.0
        self._restarts = 0
        self._removed_before = self._carried_before = 0
        self._sent_until = 0.0

    def run(self) -> Steady:
        """Execute the plan. Raises LoadError for bad messages, TargetError and NoCompiler."""
        try:
            self._life.start()
            self._traffic.connect(self._life.running.endpoint)
            for hour in range(1, self._plan.hours + 1):
                self._work_until(hour)
                self._hours.append(self._look(hour))
                every = self._plan.restart_every
                if every and hour % every == 0 and hour < self._plan.hours:
                    self._restart()
            self._catch_up()
            end = self._look(self._plan.hours)
            self._drain()
        finally:
            self._traffic.close()
            self._life.stop()
        return self._judge(end, self._verify())

    def _work_until(self, hour: float) -> None:
        self._sent_until = self._life.clock.hours()
        looked = 0.0
        while (now := self._life.clock.hours()) < hour:
            began = time.monotonic()
            self._traffic.add_due((now - self._sent_until) * 60 * self._plan.rate)
            self._sent_until = now
            self._traffic.turn(self._life.clock.now_us())
            if began - looked >= LOOK_S:
                looked = began
                self._look_at_memory()
            time.sleep(max(0.0, TURN_S - (time.monotonic() - began)))

    def _look_at_memory(self) -> None:
        for name, rss in memory_of(self._life.running):
            self._rss[name] = max(rss, self._rss.get(name, 0))

    def _look(self, hour: int) -> Hour:
        self._look_at_memory()
        status = self._life.status()
        data = self._life.data
        found = Hour(
            hour=hour,
            sent=self._traffic.sent,
            queued=status["messages_ready"] + status["messages_in_flight"],
            journal=disk_bytes(data / JOURNAL),
            index=disk_bytes(data / INDEX),
            base=disk_bytes(data / BASE),
            oldest_hours=round(self._oldest_hours(), 2),
            lsn=status["lsn"],
            first_lsn=status["history_from_lsn"],
            removed_segments=self._removed_before + status["retention_removed_segments"],
            carried_messages=self._carried_before + status["retention_carried_messages"],
            rss=self._rss,
            pss=Memory(self._life.running).together("Pss") * MIB,
            restart_s=self._restart_s,
        )
        self._rss = {}
        self._restart_s = 0.0
        return found

    def _oldest_hours(self) -> float:
        disk = RealDisk(self._life.data / JOURNAL)
        while True:
            try:
                for segment in sealed_segments(disk):
                    return (self._life.clock.now_us() - segment.time_max) / HOUR_US
            except FileNotFoundError:
                # It left between the listing and the opening.
                continue
            return 0.0

    def _restart(self) -> None:
        """Kill the broker, start it, and wait for the first message."""
        hour = self._hours[-1]
        self._removed_before, self._carried_before = hour.removed_segments, hour.carried_messages
        killed = time.monotonic()
        self._life.kill()
        self._traffic.cut()
        self._life.start()
        self._traffic.connect(self._life.running.endpoint)
        # Nothing may be queued.
        self._traffic.add_due(FEW)
        while not self._traffic.delivered:
            self._traffic.turn(self._life.clock.now_us())
        self._restart_s = round(time.monotonic() - killed, 2)
        self._restarts += 1

    def _catch_up(self) -> None:
        """Wait until history that is an hour older than allowed has left; raises LoadError.

        No messages are consumed meanwhile, so queued messages must still be carried. None are
        sent, unless that history is in the newest segment, which never leaves.
        """
        allowed = self._plan.max_age_minutes // 60 + 1
        if not self._plan.max_age_minutes or len(self._hours) <= allowed:
            return
        until = self._hours[-1 - allowed].lsn
        now = self._life.clock.now_us()
        give_up = time.monotonic() + CATCH_UP_S
        while self._life.status()["history_from_lsn"] <= until:
            if time.monotonic() > give_up:
                raise LoadError(f"history up to event {until} is too old, and does not leave")
            if until >= self._newest_from():
                self._traffic.add_due(FEW)
            self._traffic.turn(now)
            time.sleep(TURN_S)

    def _newest_from(self) -> int:
        """Return the first event of the newest segment."""
        names = segment_names(RealDisk(self._life.data / JOURNAL))
        return segment_first_lsn(names[-1]) or 0

    def _drain(self) -> None:
        """Consume all remaining messages; raises LoadError if some do not arrive."""
        self._traffic.is_ending = True
        give_up = time.monotonic() + DRAIN_S
        while time.monotonic() < give_up:
            self._traffic.turn(self._life.clock.now_us())
            time.sleep(TURN_S)
            status = self._life.status()
            left = status["messages_ready"] + status["messages_in_flight"]
            if self._traffic.is_settled and not left:
                return
        self._traffic.check_settled()
        raise LoadError(f"{left} messages are left in the broker that do not come")

    def _verify(self) -> str:
        """The verdict of `journal verify` at the end; raises LoadError."""
        command = [
            sys.executable,
            "-m",
            "daybook.tools.journal_cli",
            "verify",
            str(self._life.data),
        ]
        if self._plan.archives:
            command += ["--archive", str(self._life.archive)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=_ROOT, timeout=600
        )
        if done.returncode:
            raise LoadError(f"`journal verify` found something:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def _judge(self, end: Hour, verified: str) -> Steady:
        lines = list(lines_through(self._hours, self._plan.warm_up))
        wrong = list(faults(self._plan, self._hours, end))
        wrong += [f"{line.name} is not flat" for line in lines if not line.is_flat]
        complaints = [line for line in self._life.said.splitlines() if ROUND_FAILED not in line]
        if complaints:
            wrong.append(f"the broker complained: {' '.join(complaints)[:2000]}")
        return Steady(
            plan=self._plan,
            hours=self._hours,
            end=end,
            lines=lines,
            wrong=wrong,
            sent=self._traffic.sent,
            unanswered=self._traffic.unanswered,
            restarts=self._restarts,
            archive_bytes=disk_bytes(self._life.archive),
            verified=verified,
        )


# ---- looking


def disk_bytes(folder: Path) -> int:
    """Return how much disk space the files below a folder use."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:  # It left meanwhile.
            continue
    return total


def memory_of(running: Running) -> Iterator[tuple[str, int]]:
    """Name and RSS in bytes of each process of a broker; those of retention come and go."""
    names = iter(("broker", "writer"))
    for folder in running.processes():
        try:
            status = (folder / "status").read_text("utf-8", "replace")
            command = (folder / "cmdline").read_bytes()
        except OSError:  # The process ended meanwhile.
            continue
        match = re.search(r"VmRSS:\s+(\d+)", status)
        if match is None:
            continue
        name = next((name for name in ("indexer", "retiring") if name.encode() in command), "")
        yield name or next(names, "other"), int(match[1]) * 1024


# ---- judging


def lines_through(hours: Sequence[Hour], warm_up: int) -> Iterator[Line]:
    """Lines through disk, memory and restarts over the hours after the warm-up."""
    late = [hour for hour in hours if hour.hour > warm_up]
    if len(late) < 2:
        return
    for name in (JOURNAL, INDEX, BASE):
        yield line_through(name, "MiB", [(hour.hour, getattr(hour, name) / MIB) for hour in late])
    for name in ("broker", "writer", "indexer"):
        points = [(hour.hour, hour.rss.get(name, 0) / MIB) for hour in late]
        yield line_through(f"RSS of the {name}", "MiB", points)
    restarts = [(hour.hour, hour.restart_s) for hour in late if hour.restart_s]
    if len(restarts) > 1:
        yield line_through("restart", "s", restarts)


def line_through(name: str, unit: str, points: Sequence[tuple[int, float]]) -> Line:
    """The least squares line through points, and whether it is flat."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope = statistics.linear_regression(xs, ys).slope
    mean = statistics.fmean(ys)
    grows = slope * (xs[-1] - xs[0])
    allowed = max(FLAT * mean, FLAT_S if unit == "s" else FLAT_MIB)
    return Line(name, unit, round(mean, 2), round(slope, 4), round(grows, 2), grows <= allowed)


def faults(plan: Plan, hours: Sequence[Hour], end: Hour) -> Iterator[str]:
    """Yield where the live set is larger or older than the settings allow."""
    if not end.removed_segments:
        yield "no segment ever left"
    late = plan.late_s * plan.speed / 3600
    oldest = plan.max_age_minutes / 60 + late
    written = end.removed_segments * plan.segment_bytes / end.hour
    for hour in hours:
        if plan.max_age_minutes and hour.oldest_hours > oldest:
            yield (
                f"hour {hour.hour}: history is {hour.oldest_hours} hours old, at most "
                f"{oldest:.2f} may be"
            )
        # The newest segment and the next one, reserved, always exist, and queued messages may be
        # there twice (ADR 13).
        most = plan.max_bytes + 2 * (plan.segment_bytes + hour.queued * BODY_BYTES) + late * written
        if plan.max_bytes and hour.journal > most:
            yield f"hour {hour.hour}: the journal takes {hour.journal:,} bytes, above {most:,.0f}"


# ---- telling


def show(steady: Steady) -> None:
    """Print a row for each hour, the lines, and the verdict."""
    plan = steady.plan
    click.echo(
        f"{plan.hours} simulated hours, {plan.speed} times as fast as real ones, {plan.rate} "
        f"messages a simulated minute; retention-max-age {plan.max_age_minutes} minutes, "
        f"retention-max-bytes {plan.max_bytes:,}, segments of {plan.segment_bytes:,} bytes"
    )
    click.echo(
        f"{'hour':>4} {'sent':>9} {'queued':>6} {'journal':>8} {'index':>6} {'base':>5} "
        f"{'oldest':>7} {'removed':>7} {'carried':>7} {'broker':>6} {'writer':>6} {'indexer':>7} "
        f"{'PSS':>5} {'restart':>8}"
    )
    for hour in steady.hours:
        rss = [hour.rss.get(name, 0) / MIB for name in ("broker", "writer", "indexer")]
        click.echo(
            f"{hour.hour:>4} {hour.sent:>9,} {hour.queued:>6,} {hour.journal / MIB:>8.1f} "
            f"{hour.index / MIB:>6.1f} {hour.base / MIB:>5.1f} {hour.oldest_hours:>5.2f} h "
            f"{hour.removed_segments:>7,} {hour.carried_messages:>7,} {rss[0]:>6.1f} "
            f"{rss[1]:>6.1f} {rss[2]:>7.1f} {hour.pss / MIB:>5.0f} "
            + (f"{hour.restart_s:>6.2f} s" if hour.restart_s else "")
        )
    for line in steady.lines:
        click.echo(
            f"{line.name}: {line.mean} {line.unit} in the mean, {line.slope:+} {line.unit} an hour"
            f" ({line.grows:+} in all), {'flat' if line.is_flat else 'NOT flat'}"
        )
    click.echo(
        f"{steady.sent:,} messages sent, none lost, none doubled, all in order; "
        f"{steady.unanswered:,} without an answer in {steady.restarts} kills"
        + (f"; archive {steady.archive_bytes / MIB:.0f} MiB" if steady.archive_bytes else "")
    )
    click.echo(steady.verified)
    for sentence in steady.wrong:
        click.echo(f"WRONG: {sentence}")
    if not steady.wrong:
        click.echo("disk bounded, memory flat, restarts flat")


@click.command()
@click.option("--hours", type=click.IntRange(1), default=24, show_default=True)
@click.option("--speed", type=click.IntRange(1, 10_000), default=720, show_default=True)
@click.option(
    "--rate", type=click.IntRange(1), default=1200, show_default=True,
    help="Messages a simulated minute.",
)  # fmt: skip
@click.option(
    "--max-age", type=click.IntRange(0), default=60, show_default=True,
    help="retention-max-age in simulated minutes.",
)  # fmt: skip
@click.option("--max-bytes", type=click.IntRange(0), default=0, help="retention-max-bytes.")
@click.option(
    "--restart-every", type=click.IntRange(0), default=3, show_default=True,
    help="Simulated hours between two kills; 0: none.",
)  # fmt: skip
@click.option(
    "--warm-up", type=click.IntRange(0), default=6, show_default=True,
    help="Hours that the lines leave out.",
)  # fmt: skip
@click.option("--archive", is_flag=True, help="Keep the leaving segments, and verify them, too.")
@click.option("--set", "settings", multiple=True, help="Passed on to `daybook serve`.")
@click.option("--python", help="Interpreter of an environment with an installed wheel.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the data in this directory.")
def main(
    hours: int,
    speed: int,
    rate: int,
    max_age: int,
    max_bytes: int,
    restart_every: int,
    warm_up: int,
    archive: bool,
    settings: tuple[str, ...],
    python: str | None,
    as_json: bool,
    keep: Path | None,
) -> None:
    """Days of steady traffic with retention: disk, memory and restarts must not grow."""
    plan = Plan(
        hours=hours, speed=speed, rate=rate, max_age_minutes=max_age, max_bytes=max_bytes,
        restart_every=restart_every, warm_up=warm_up, archives=archive, settings=settings,
    )  # fmt: skip
    try:
        with tempfile.TemporaryDirectory(prefix="daybook-steady-") as folder:
            directory = keep or Path(folder)
            directory.mkdir(parents=True, exist_ok=True)
            steady = Run(plan, directory, python).run()
    except (LoadError, TargetError, NoCompiler) as error:
        click.echo(f"bench.steady: {error}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(msgspec.json.encode(steady).decode())
    else:
        show(steady)
    sys.exit(1 if steady.wrong else 0)


if __name__ == "__main__":
    main()
