"""Running `daybook drill bit-rot`: turns bits in the files of a copy, one at a time.

For each bit the copy is verified and a broker is started on it. `verify` must find damage in the
journal; the broker must refuse with a reason, or serve the state that the journal folds to. Then
the bit is turned back, where the broker has not replaced the file. The original is only read.
"""

import random
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from daybook.engine.facts.events import MESSAGE
from daybook.errors import DaybookError
from daybook.history.event_finder import EventFinder
from daybook.history.trail import Trail, follow
from daybook.history.verification.catalog_verification import wrong_catalogs
from daybook.history.verification.verification import verify_data
from daybook.journal.blocks.format import Damage
from daybook.journal.data_directory import (
    BASE,
    CATALOGS,
    DATA_ID,
    INDEX,
    JOURNAL,
    SNAPSHOTS,
    TABLES,
)
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.paging.catalogs.catalog_file import SUFFIX, CatalogFile
from daybook.recovery.directory import why_foreign
from daybook.recovery.readonly import journal_disk
from daybook.tools.drills.crash_points.points import points_of
from daybook.tools.drills.reports import output as reports
from daybook.tools.drills.reports.report import Finding, Report, Tried
from daybook.tools.drills.scratch.broker import BrokerTrouble, DrillBroker
from daybook.tools.drills.scratch.copies import copy_data
from daybook.tools.drills.scratch.server import Serving
from daybook.tools.drills.scratch.startable import no_start
from daybook.tools.drills.scratch.workplace import NO_RETENTION, furnish, workplace
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import progress

ABOUT: Final = "flipped bits in the files of a copy: found by verify, and refused or repaired"
ID_BYTES: Final = 32
QUESTIONS: Final = 5
"""How many messages are asked for before and after a bit of a catalog is turned."""
Answer = Trail | str
SPARE_TIMES: Final = 2
"""A copy needs so many times its size of free space: an index may be built beside the old one."""


class Asked(msgspec.Struct, frozen=True):
    """The options of the drill."""

    directory: Path
    config: Path | None
    flips: int
    minutes: float
    seed: int
    keep: Path | None = None


class Target(NamedTuple):
    """A kind of file: its files with the bytes in which a bit counts, whether `verify` must
    find each bit there, whether no broker may start with one, and whether questions about messages
    are answered from it."""

    what: str
    ranges: list[tuple[Path, int, int]]
    is_proven: bool = False
    must_refuse: bool = False
    is_asked: bool = False


def run(asked: Asked) -> Report:
    """Flip bits, and return the report. Raises JournalError, ConfigError, Failure and OSError."""
    begun = time.monotonic()
    report = reports.begun(
        "bit-rot", ABOUT,
        {
            "directory": str(asked.directory.resolve()), "flips": asked.flips,
            "config": str(asked.config or ""), "minutes": asked.minutes,
        },
        asked.seed,
    )  # fmt: skip
    with workplace(asked.keep) as folder:
        data = folder / "data"
        copy_data(asked.directory, [data], report, SPARE_TIMES)
        config = str(asked.config.resolve()) if asked.config is not None else ""
        serving = Serving(config, str(data), NO_RETENTION)
        furnish(serving, report)
        flipping = _Flipping(asked, data, DrillBroker(serving, folder / "broker.log"), report)
        try:
            flipping.settle()
            with progress("bit-rot", asked.flips) as advance:
                _flip_all(flipping, begun + asked.minutes * 60, advance)
        finally:
            flipping.broker.kill()
    starts = reports.spread("from the start of the process to ready", "ms", flipping.starts)
    report.spreads.append(starts)
    report.could_not.append(
        "the bodies of messages were not delivered to clients, and memory was not flipped"
    )
    reports.finish(report, time.monotonic() - begun)
    return report


def _flip_all(flipping: "_Flipping", deadline: float, advance: Callable[[int], None]) -> None:
    asked = flipping.asked
    done = 0
    while done < asked.flips and time.monotonic() < deadline:
        for target in flipping.targets():
            if done < asked.flips and time.monotonic() < deadline:
                flipping.flip(target, done)
                done += 1
                advance(done)
    if done < asked.flips:
        flipping.report.could_not.append(
            f"{asked.flips - done} of {asked.flips} flips: the time was over"
        )


class _Flipping:
    """Flips bits of a copy, one after the other."""

    def __init__(self, asked: Asked, data: Path, broker: DrillBroker, report: Report) -> None:
        self.asked: Final = asked
        self.broker: Final = broker
        self.report: Final = report
        self.starts: Final[list[float]] = []
        self._data: Final = data
        self._tried: Final[dict[str, Tried]] = {}
        self._outcomes: Final = {"refused": 0, "served": 0, "found by verify": 0}

    def settle(self) -> None:
        """Start and stop a broker on the sound copy, so that index and marks are there."""
        try:
            self.broker.start()
            self.broker.stop()
        except BrokerTrouble as error:
            why = self.broker.reason() or str(error)
            original = str(self.asked.directory)
            raise no_start(self.asked.directory, why.replace(str(self._data), original)) from error
        wrong = self._verified()
        if wrong:
            raise Failure(f"the copy is wrong before any bit is turned: {wrong}")

    def targets(self) -> Iterator[Target]:
        """Yield the targets for damage that exist."""
        data = self._data
        disk = RealDisk(data / JOURNAL)
        segments: list[tuple[Path, int, int]] = []
        names = segment_names(disk)
        ends: dict[str, int] = {}
        for point in points_of(disk):
            # The last block of the newest segment counts as torn: nothing proves it.
            ends[point.segment] = point.offset
        for name in names[:-1]:
            segments.append((disk.path / name, 0, (disk.path / name).stat().st_size))
        if names[-1] in ends:
            segments.append((disk.path / names[-1], 0, ends[names[-1]]))
        yield Target("segments", segments, True)
        for what, folder, pattern in (
            ("snapshots", SNAPSHOTS, "*.mdb"), ("the base", BASE, "*.mdb"),
            ("the index", INDEX, TABLES),
        ):  # fmt: skip
            files = [path for path in sorted((data / folder).glob(pattern)) if path.is_file()]
            if files:
                ranges = [(path, 0, path.stat().st_size) for path in files]
                yield Target(what, ranges)
        catalogs = sorted((data / CATALOGS).glob("*" + SUFFIX))
        if catalogs:
            ranges = [(path, 0, path.stat().st_size) for path in catalogs]
            yield Target("catalogs", ranges, True, is_asked=True)
        if (data / DATA_ID).exists():
            yield Target(DATA_ID, [(data / DATA_ID, 0, ID_BYTES)], must_refuse=True)

    def flip(self, target: Target, number: int) -> None:
        """Turn one bit, verify, start, compare; turn it back."""
        chance = random.Random(f"{self.asked.seed} {number}")
        path, begin, end = chance.choice(target.ranges)
        bit = chance.randrange(begin * 8, end * 8)
        tried = self._tried.setdefault(target.what, Tried(f"a bit in {target.what}"))
        self.report.tried = list(self._tried.values())
        tried.count += 1
        found = len(self.report.findings)
        where = f"{path.relative_to(self._data)}, byte {bit // 8}, bit {bit % 8}"
        messages = messages_of(self._data, path, chance) if target.is_asked else []
        known = answers(self._data, messages)
        inode = _turn(path, bit)
        wrong = self._verified()
        self._ask(messages, known, where)
        self._outcomes["found by verify"] += bool(wrong)
        if target.is_proven and not wrong:
            self._complain("P7", "verify does not find it", where)
        is_served = self._serve(where)
        if is_served:
            self._ask(messages, known, where)
        if is_served and target.must_refuse:
            self._complain("P8", "the broker serves although this is damaged", where)
        self._outcomes["served" if is_served else "refused"] += 1
        if path.exists() and path.stat().st_ino == inode and target.what != "the index":
            _turn(path, bit)
        elif not is_served:
            # The index is derived: without it the next start makes another.
            shutil.rmtree(self._data / INDEX, ignore_errors=True)
        wrong = self._verified()
        if wrong and len(self.report.findings) == found:
            self._complain("P2", f"after the bit was turned back: {wrong}", where)
        tried.right += len(self.report.findings) == found
        self.report.figures |= {key: f"{count:,}" for key, count in self._outcomes.items()}

    def _verified(self) -> str:
        """Return the finding of `verify`, "" if there is none."""
        disk = RealDisk(self._data / JOURNAL)
        try:
            verdict = verify_data(
                disk, lambda done: None, base=self._data / BASE, snapshots=self._data / SNAPSHOTS
            )
        except DaybookError as error:
            return str(error)
        if verdict.faults:
            return f"{verdict.faults[0].segment}: {verdict.faults[0].what}"
        if verdict.wrong:
            return verdict.wrong[0]
        wrong = next((each for each in wrong_catalogs(self._data, disk) if each), "")
        return wrong or why_foreign(self._data, data_id_of(disk).hex())

    def _ask(self, messages: list[int], known: list[Answer], where: str) -> None:
        """Ask the questions that were answered before the bit was flipped."""
        for message, before, now in zip(
            messages, known, answers(self._data, messages), strict=True
        ):
            if before != now:
                what = f"the trail of message {message} is another with a damaged catalog"
                self._complain("P6", f"{what}: {now}" if isinstance(now, str) else what, where)

    def _serve(self, where: str) -> bool:
        """Start a broker and stop it; return whether it served."""
        begun = len(self.broker.log.read_bytes())
        try:
            self.starts.append(self.broker.start() * 1000)
        except BrokerTrouble as error:
            self.broker.kill()
            if "Traceback" in self.broker.log.read_text("utf-8", errors="replace")[begun:]:
                self._complain("bug", f"the start ends with a traceback: {error}", where)
            elif "the broker cannot start" not in str(error):
                self._complain("P8", f"the start ends without a reason: {error}", where)
            return False
        try:
            code = self.broker.stop()
        except BrokerTrouble as error:
            self._complain("P8", str(error), where)
            self.broker.kill()
            return True
        if code:
            self._complain("P8", f"the stop ended with {code}: {self.broker.last_words()}", where)
        return True

    def _complain(self, promise: str, what: str, where: str) -> None:
        self.report.findings.append(Finding(promise, what, where, again(self.asked)))


def again(asked: Asked) -> str:
    """Return the command that shows it again."""
    words = ["daybook", "drill", "bit-rot", str(asked.directory.resolve())]
    if asked.config is not None:
        words += ["--config", str(asked.config.resolve())]
    words += ["--flips", str(asked.flips), "--minutes", f"{asked.minutes:g}"]
    return shlex.join([*words, "--seed", str(asked.seed)])


def _turn(path: Path, bit: int) -> int:
    """Turn a bit of a file; return its inode."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte[0] ^ 1 << bit % 8]))
    return path.stat().st_ino


def messages_of(data: Path, catalog: Path, chance: random.Random) -> list[int]:
    """Return a sample of messages to which something happened in the part of the journal that a
    sound catalog is about. Raises JournalError."""
    try:
        told = CatalogFile(catalog).told
    except Damage:
        return []
    disk = journal_disk(data)
    sample = [chance.randint(told.first_lsn, told.last_lsn) for _ in range(QUESTIONS)]
    events = [EventFinder(disk).at(lsn) for lsn in sample]
    # An event that is not a message is a question, too: the answer must say so.
    return [
        (event.row[MESSAGE] if event is not None else 0) or lsn
        for event, lsn in zip(events, sample, strict=True)
    ]


def answers(data: Path, messages: Sequence[int]) -> list[Answer]:
    """Return the trail of each message, or the sentence that there is none.

    Catalogs only save time: with a damaged one every answer must be that of the journal.
    """
    disk = journal_disk(data)
    with closing(EventFinder(disk, data)) as finder:
        return [_answer(data, message, finder) for message in messages]


def _answer(data: Path, message: int, finder: EventFinder) -> Answer:
    try:
        return follow(finder, message, data)
    except DaybookError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
