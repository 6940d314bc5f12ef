"""Running `daybook drill restore`: proves that the archive alone is enough to rebuild the broker.

The archive is verified and fetched to scratch data, the journal is verified and folded, and a
broker starts on it and stops cleanly. If the original is given, both have the same digest at
the last archived event.
"""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.history.verification.verification import Verdict, verify_data
from daybook.history.workers import adding_up
from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.errors import NoJournal
from daybook.journal.pins import Pin
from daybook.journal.segments.segment import first_lsn_of, segment_names
from daybook.recovery.moments import state_at
from daybook.recovery.readonly import journal_disk
from daybook.recovery.salvage.restoring import restore_archive
from daybook.tools.drills.reports import output as reports
from daybook.tools.drills.reports.report import Finding, Line, Report, Tried
from daybook.tools.drills.scratch.broker import DrillBroker
from daybook.tools.drills.scratch.server import Serving
from daybook.tools.drills.scratch.workplace import NO_RETENTION, furnish, need_space, workplace
from daybook.tools.terminal.printing import progress

ABOUT = "a broker rebuilt from its archive alone"
STEPS_MAX = 400


class Asked(msgspec.Struct, frozen=True):
    """The options of the drill. `directory` is the original, which may be missing."""

    archive: Archive
    directory: Path
    config: Path | None
    seed: int
    keep: Path | None = None

    def again(self) -> str:
        """Return the command that shows it again."""
        words = ["daybook", "drill", "restore", str(self.directory.resolve())]
        words += ["--archive", self.archive.url, "--seed", str(self.seed)]
        if self.config is not None:
            words += ["--config", str(self.config.resolve())]
        return shlex.join([*words, "--keep", "DIR"])


class _Steps:
    """The steps of a restore, each timed and noted in the report."""

    def __init__(self, report: Report, asked: Asked) -> None:
        self.report = report
        self._asked = asked
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, what: str) -> Iterator[Callable[[str, str], None]]:
        """Carry out a step; yield a function that records a fault (promise, text)."""
        tried = Tried(what, 1)
        self.report.tried.append(tried)
        found = len(self.report.findings)
        begun = time.perf_counter()

        def complain(promise: str, text: str) -> None:
            self.report.findings.append(Finding(promise, text, what, self._asked.again()))

        try:
            yield complain
        except (DaybookError, OSError) as error:
            complain("P8", str(error))
        self.seconds[what] = time.perf_counter() - begun
        tried.right = int(len(self.report.findings) == found)
        self.report.figures[what] = f"{self.seconds[what]:.2f} s"

    @property
    def is_fine(self) -> bool:
        """Whether there were no faults so far."""
        return not self.report.findings


def run(asked: Asked) -> Report:
    """Restore, and return the report. Raises ArchiveError, ConfigError, Failure and OSError."""
    begun = time.monotonic()
    report = reports.begun(
        "restore", ABOUT,
        {"archive": asked.archive.url, "original": str(asked.directory.resolve())}, asked.seed,
    )  # fmt: skip
    steps = _Steps(report, asked)
    with workplace(asked.keep) as folder:
        data = folder / "data"
        config = str(asked.config.resolve()) if asked.config is not None else ""
        serving = Serving(config, str(data), NO_RETENTION)
        furnish(serving, report)
        need_space(folder, asked.archive.segment_bytes())
        lsn = _fetch(asked, data, steps)
        if steps.is_fine:
            verdict = _verify(data, steps, "verified and folded the restored journal", lsn)
            if verdict is not None:
                _compare(asked, verdict, steps)
        if steps.is_fine:
            _serve(serving, folder, steps)
            _verify(data, steps, "verified it once more, with the events of the broker", 0)
    report.figures["time to restore"] = f"{sum(steps.seconds.values()):.2f} s in all"
    report.could_not.append(
        "the events behind the last archived one: they are in the live journal only, and are lost "
        "with it"
    )
    reports.finish(report, time.monotonic() - begun)
    return report


def _fetch(asked: Asked, data: Path, steps: _Steps) -> int:
    """Verify the archive and fetch it; return the last archived event."""
    archive = asked.archive
    total = archive.segment_bytes()
    with steps.step("verified the archive") as complain, progress("verifying", total) as advance:
        found = archive.verify(progress=adding_up(advance))
        for fault in found.faults:
            complain("P7", f"{fault.url}, offset {fault.offset}: {fault.what}")
        if not found.archived and not found.faults:
            complain("drill", _nothing_archived(asked))
    if not steps.is_fine:
        return 0
    last_lsn = 0
    with steps.step("fetched the archive") as complain, progress("fetching", total) as advance:
        entries = restore_archive(archive, data, adding_up(advance))
        last_lsn = entries[-1].last_lsn
        steps.report.figures |= {
            "segments": f"{len(entries):,}",
            "events": f"{entries[0].first_lsn:,} to {last_lsn:,}",
            "bytes": f"{total:,}",
        }
    seconds = steps.seconds["fetched the archive"]
    steps.report.figures["fetched"] = f"{total / 1e6 / max(seconds, 1e-9):,.1f} MB/s"
    return last_lsn


def _nothing_archived(asked: Asked) -> str:
    """Return the sentence about an archive without segments."""
    is_wrong = not (asked.directory / JOURNAL).is_dir()
    strange = f", and {asked.directory} is not a data directory" if is_wrong else ""
    return (
        f"no segment is archived in {asked.archive.url}{strange}: name the archive with --archive "
        "URL, or the configuration file that names it with --config FILE"
    )


def _verify(data: Path, steps: _Steps, what: str, lsn: int) -> Verdict | None:
    """Verify the restored journal; return the verdict if that was possible."""
    disk = RealDisk(data / JOURNAL)
    size = sum((disk.path / name).stat().st_size for name in segment_names(disk))
    points: list[tuple[float, float]] = []
    verdicts: list[Verdict] = []
    begun = time.perf_counter()
    with steps.step(what) as complain, progress("verifying", 2 * size) as advance:

        def told(done: int) -> None:
            advance(done)
            points.append((time.perf_counter() - begun, done / 2e6))

        verdict = verify_data(disk, told)
        verdicts.append(verdict)
        for fault in verdict.faults:
            complain("P7", f"{fault.segment}, offset {fault.offset}: {fault.what}")
        for wrong in verdict.wrong:
            complain("P2", wrong)
        if lsn and verdict.report.last_lsn != lsn:
            complain("P1", f"the journal ends with event {verdict.report.last_lsn}, not with {lsn}")
    for verdict in verdicts if lsn else ():
        rate = verdict.report.events / max(steps.seconds[what], 1e-9)
        steps.report.figures["replay rate"] = f"{rate:,.0f} events/s, checks included"
        step = max(1, len(points) // STEPS_MAX)
        steps.report.lines.append(
            Line("verifying and folding", "seconds", "MB, half for each", points[::step])
        )
    return verdicts[0] if verdicts else None


def _compare(asked: Asked, verdict: Verdict, steps: _Steps) -> None:
    """Compare the restored state with that of the original at the last archived event."""
    lsn = verdict.folded_lsn
    missing = ""
    try:
        disk = journal_disk(asked.directory)
        if not segment_names(disk):
            missing = "the original has no segments"
        elif first_lsn_of(disk) > lsn + 1:
            with steps.step("followed the archive into the original") as complain:
                complain(
                    "P1", f"events {lsn + 1} to {first_lsn_of(disk) - 1} are in neither of them"
                )
            return
    except NoJournal as error:
        missing = str(error)
    if missing:
        steps.report.could_not.append(f"comparing with the original: {missing}")
        return
    what = "compared the digest with the original at the last archived event"
    with steps.step(what) as complain, Pin(asked.directory):
        with state_at(asked.directory, disk, lsn, note=lambda _: None) as state:
            theirs, queues = digest(state), _counts(state)
        if theirs != verdict.digest:
            complain(
                "P2",
                f"at event {lsn} the original has the digest {theirs}, and the restored one "
                f"{verdict.digest}; messages in the queues of the original: {queues}",
            )
        steps.report.figures["digest at the last archived event"] = theirs
        steps.report.figures["messages in queues there"] = f"{sum(queues.values()):,}"


def _counts(state: State) -> dict[str, int]:
    return {queue.name: queue.message_count for queue in state.queues.values()}


def _serve(serving: Serving, folder: Path, steps: _Steps) -> None:
    """Start a broker on the restored directory, and stop it cleanly."""
    broker = DrillBroker(serving, folder / "broker.log")
    try:
        with steps.step("started a broker on it") as complain:
            broker.start()
        if steps.is_fine:
            with steps.step("stopped it cleanly") as complain:
                code = broker.stop()
                if code or broker.traceback():
                    complain("P8", f"the broker ended with {code}: {broker.last_words()}")
    finally:
        broker.kill()
