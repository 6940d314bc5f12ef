"""A verification of a data directory as `journal verify` and the console carry it out: everything
that is asked for in one verdict, and its report.

Must never know how a verdict is shown.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from daybook.history.reports.report import VERIFY, Asker, Finding, Report, ended
from daybook.history.verification.catalog_verification import wrong_catalogs
from daybook.history.verification.folding_ranges import Plan
from daybook.history.verification.index_verification import IndexCopy
from daybook.history.verification.signature_proof import Anchors, Proof, anchors_in
from daybook.history.verification.verification import Verdict, verify_data
from daybook.journal.data_directory import BASE, SNAPSHOTS
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import data_id_of
from daybook.recovery.directory import why_foreign
from daybook.texts import counted, moment

_OF_EVENT: Final = re.compile(r"\bevent (\d{1,18})\b")


class VerifyAsked(msgspec.Struct, frozen=True):
    """What to verify: the options of the command. `archive` is a named one; another may be the
    default. `public_keys` and `anchors` are files."""

    path: Path
    with_index: bool = False
    one_by_one: bool = False
    resumes: bool = False
    with_archive: bool = False
    processes: int | None = None
    archive: str = ""
    public_keys: tuple[Path, ...] = ()
    anchors: tuple[Path, ...] = ()
    data_id: str = ""
    begin: int = 0

    def command(self) -> str:
        """Return the command."""
        words = ["journal", "verify", "--data", str(self.path)]
        words += ["--from", str(self.begin)] if self.begin else []
        flags = {
            "--index": self.with_index, "--one-by-one": self.one_by_one, "--resume": self.resumes,
            "--with-archive": self.with_archive and not self.archive,
        }  # fmt: skip
        words += [flag for flag, is_set in flags.items() if is_set]
        words += ["--archive", self.archive] if self.archive else []
        for option, files in (("--public-key", self.public_keys), ("--anchor", self.anchors)):
            for file in files:
                words += [option, str(file)]
        return shlex.join([*words, *(["--data-id", self.data_id] if self.data_id else [])])

    def why_not_from(self) -> str:
        """Return the part that cannot be checked from an event on, and why; "" if everything
        can."""
        parts = {
            "--index": (self.with_index, "compares the index with the state"),
            "--one-by-one": (self.one_by_one, "folds the state"),
            "--resume": (self.resumes, "remembers the state"),
        }
        told = (f"{option} {why}" for option, (is_set, why) in parts.items() if is_set)
        found = next(told, "")
        return found and f"{found} that all events give, and --from reads the last ones alone"


def why_not_begin(begin: int, last_lsn: int) -> str:
    """Return why a verification cannot begin with an event of a journal, "" if it can."""
    if begin <= last_lsn:
        return ""
    return f"the last event is {last_lsn}: there is nothing to check from {begin} on"


def proof_of(asked: VerifyAsked) -> tuple[list[bytes], Anchors]:
    """Read the keys and anchors that must prove history. Raises DaybookError, OSError."""
    keys = []
    if asked.public_keys:
        # Slow to load, and only needed with a key.
        from daybook.recovery.signing.signing_keys import load_public  # noqa: PLC0415

        keys = [load_public(file) for file in asked.public_keys]
    anchors = anchors_in(asked.anchors)
    if asked.data_id:
        anchors.leave_out_others(asked.data_id)
    return keys, anchors


def verdict_on(
    asked: VerifyAsked,
    disk: Disk,
    advance: Callable[[int], None],
    *,
    index: IndexCopy | None = None,
    plan: Plan | None = None,
    proof: Proof | None = None,
) -> Verdict:
    """Verify a journal, and the files derived from it if they are asked for; `advance` gets the
    bytes checked and folded so far. Raises the errors of `verify_data`."""
    path = asked.path
    verdict = verify_data(
        disk, advance, one_by_one=asked.one_by_one, base=path / BASE, index=index,
        snapshots=path / SNAPSHOTS if asked.with_index else None, plan=plan, proof=proof,
        begin=asked.begin,
    )  # fmt: skip
    if asked.with_index and verdict.report.ok:
        for wrong in wrong_catalogs(path, disk):
            verdict.catalogs_compared += 1
            verdict.derived += [wrong] if wrong else []
    if verdict.report.ok and (foreign := why_foreign(path, data_id_of(disk).hex())):
        verdict.wrong.append(foreign)
    return verdict


def report_of(verdict: Verdict, asker: Asker) -> Report:
    """Return the report of a verdict."""
    findings = list(_findings(verdict))
    return ended(
        asker, VERIFY, ok=verdict.ok, result=_result(verdict), facts=list(_facts(verdict)),
        findings=findings, finding_count=len(findings), notes=verdict.notes,
    )  # fmt: skip


def _result(verdict: Verdict) -> str:
    if verdict.ok:
        return f"intact from event {verdict.begun_at} on" if verdict.begun_at else "intact"
    if verdict.is_journal_ok:
        return "the journal is intact; files derived from it are not"
    return counted(len(verdict.faults) + len(verdict.wrong), "fault")


def _findings(verdict: Verdict) -> Iterator[Finding]:
    for fault in verdict.faults:
        what = f"{fault.segment}, offset {fault.offset}: {fault.what}"
        yield Finding(what, "damaged", lsn=fault.lsn)
    for kind, texts in (("wrong", verdict.wrong), ("derived", verdict.derived)):
        for text in texts:
            named = _OF_EVENT.search(text)
            yield Finding(text, kind, lsn=int(named[1]) if named else 0)


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    report, proven = verdict.report, verdict.proven
    yield "events", f"{report.first_lsn} to {report.last_lsn}"
    if verdict.skipped:
        yield "LSNs that a start skipped", f"{verdict.skipped:,}"
    yield "blocks", f"{report.blocks:,} in {counted(report.segments, 'segment')}"
    if verdict.segments_known or verdict.ranges_known:
        yield (
            "verified before, and not changed since",
            f"{counted(verdict.segments_known, 'segment')}, "
            f"{counted(verdict.ranges_known, 'range')} of the fold",
        )
    if report.ok:
        yield "last hash", report.last_hash
    if verdict.folded_lsn:
        yield "digest of the state", verdict.digest
        yield "digests compared", f"{verdict.digests_compared:,}"
    if verdict.index_lsn is not None:
        yield "index compared", f"at event {verdict.index_lsn}"
    if verdict.snapshots_compared or verdict.catalogs_compared:
        yield "snapshots compared", f"{verdict.snapshots_compared:,}"
        yield "catalogs compared", f"{verdict.catalogs_compared:,}"
    if proven is not None and proven.signatures:
        yield (
            "signed",
            f"up to event {proven.signed_lsn} ({moment(proven.signed_at)}) by {proven.signed_by}",
        )
    if proven is not None and proven.anchors:
        yield "anchored", f"up to event {proven.anchored_lsn}, by {proven.anchors:,} anchors"
