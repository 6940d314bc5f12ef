"""Proving that a journal is the one that was signed and anchored, for `journal verify`.

A statement names the hash of a block, and with it all history up to there. The hashes are those
that the check of the bytes has found, so a journal that was changed and hashed again has others.
Keys are linked by changes of the key that both have signed. Only reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from daybook.history.verification.trusted_keys import ANCHORS, SIGNATURES, TrustedKeys
from daybook.history.verification.verify_work import CheckedSegment, SeenStatement
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import data_id_of
from daybook.journal.segments.verify import Report
from daybook.recovery.signing.statements import (
    Statement,
    StatementError,
    noted_in,
    read_anchors,
    statement_of,
)

UNSIGNED_CHECKPOINTS: Final = 3
"""So many checkpoints may follow the last signature: a notary may have just died with the
broker."""

BAD_LINES_SHOWN: Final = 10
"""So many lines of a file of anchors are shown that are none; the others are counted."""


class Proven(msgspec.Struct):
    """The results of checks by keys and anchors.

    History is signed up to `signed_lsn`, anchored up to `anchored_lsn`; 0 if it is not, or if that
    was not asked. `anchors_unsigned` of the anchors that match are unsigned; the signatures of
    `anchors_unchecked` were not checked, because no key was given. `anchors_of_others` were left
    out, as it was asked. `signatures_of_source` were not compared: they are about the data
    directory from which this one was made (fork, salvage).
    """

    signatures: int = 0
    signed_lsn: int = 0
    signed_at: int = 0
    signed_by: str = ""
    keys: list[str] = []
    anchors: int = 0
    anchored_lsn: int = 0
    anchors_before: int = 0
    anchors_unsigned: int = 0
    anchors_unchecked: int = 0
    anchors_of_others: int = 0
    signatures_of_source: int = 0
    wrong: list[str] = []


class Anchors(msgspec.Struct):
    """The content of files of anchors: the statements, and the faults of other lines.

    `of_others` were left out, because it was said which data directory it must be.
    """

    statements: list[Statement] = []
    wrong: list[str] = []
    of_others: int = 0

    def __bool__(self) -> bool:
        return bool(self.statements or self.wrong)

    def leave_out_others(self, data_id: str) -> None:
        """Leave out the anchors of other data directories than this one, if it has any."""
        own = [each for each in self.statements if each.data_id == data_id]
        self.of_others = len(self.statements) - len(own)
        if self.statements and not own:
            self.wrong.append(f"none of the anchors is of the data directory {data_id}")
        self.statements = own

    def foreign(self, data_id: str) -> Iterator[str]:
        """Yield the faults of anchors of other data directories than this one."""
        found: dict[str, list[int]] = {}
        for each in self.statements:
            if each.data_id != data_id:
                found.setdefault(each.data_id, []).append(each.lsn)
        for other, lsns in found.items():
            which = (
                f"{len(lsns):,} anchors, the first of them of event {lsns[0]}, are"
                if len(lsns) > 1
                else f"the anchor of event {lsns[0]} is"
            )
            yield (
                f"{which} of another data directory ({other}), this is {data_id}: it was put in "
                "the place of the other, or several brokers, such as a fork, keep their anchors in"
                " one place; --data-id says which of them this must be"
            )


class Proof:
    """The keys that are trusted (32 bytes each), and the anchors that the journal must have.

    `kept` is the file of the notary in the data directory, with the statement of a clean end.
    """

    def __init__(self, keys: Sequence[bytes], anchors: Anchors, kept: Path) -> None:
        self._trusted: Final = TrustedKeys(keys)
        self._anchors: Final = anchors
        self._kept: Final = kept
        self._last_of_notary: Statement | None = None
        self._found = Proven(wrong=[*anchors.wrong], anchors_of_others=anchors.of_others)
        if self.has_keys:
            self._read_kept()

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to prove."""
        return self.has_keys or bool(self._anchors)

    @property
    def has_keys(self) -> bool:
        """Whether to check signatures."""
        return bool(self._trusted)

    def wanted(self) -> frozenset[int]:
        """The events at which the hash of a block is needed."""
        lsns = {each.lsn for each in self._anchors.statements}
        if self._last_of_notary is not None:
            lsns.add(self._last_of_notary.lsn)
        return frozenset(lsns)

    def _read_kept(self) -> None:
        try:
            noted = noted_in(self._kept)
            self._last_of_notary = noted.statement if noted is not None else None
        except (OSError, StatementError) as error:
            self._wrong(
                f"{error}, so the signature of a clean end is"
                " missing; if the last signature in the journal is new enough, delete the file"
            )

    def _wrong(self, text: str) -> None:
        self._found.wrong.append(text)

    def judge(self, disk: Disk, report: Report, checks: Sequence[CheckedSegment]) -> Proven:
        """Compare all statements with a journal whose bytes are sound. Raises JournalError."""
        hashes = {lsn: found for each in checks for lsn, found in each.hashes.items()}
        data_id = data_id_of(disk).hex()
        if self.has_keys:
            # Statements of a source name its data id, and blocks that may be written again here.
            begun = max((lsn for each in checks for lsn in each.source_ends), default=0)
            changes = (
                change for each in checks for change in each.changes if change.said_at > begun
            )
            self._found.wrong += self._trusted.link(
                data_id, ((f"event {each.said_at}", each.detail) for each in changes)
            )
            told = [said for each in checks for said in each.statements]
            statements = [said for said in told if said.said_at > begun]
            self._found.signatures_of_source = len(told) - len(statements)
            self._judge_signatures(disk, report, data_id, statements, hashes)
            checkpoints = [
                said.of_lsn for each in checks for said in each.recorded
                if said.of_lsn > self._found.signed_lsn and said.of_lsn != said.said_at
            ]  # fmt: skip
            self._judge_end(report, len(checkpoints))
        self._judge_anchors(report, data_id, hashes)
        self._found.wrong += self._trusted.unknown()
        self._found.keys = self._trusted.ids
        return self._found

    def _judge_signatures(
        self,
        disk: Disk,
        report: Report,
        data_id: str,
        statements: Iterable[SeenStatement],
        hashes: dict[int, str],
    ) -> None:
        for seen in statements:
            statement = statement_of(data_id, seen.lsn, seen.detail)
            if seen.lsn < report.first_lsn:
                # Its events have left the journal.
                found = statement.block_hash
            else:
                found = seen.found_hash or _hash_at(disk, seen.lsn)
            self._judge(f"event {seen.said_at}", statement, found)
        last = self._last_of_notary
        if last is None:
            return
        if last.data_id != data_id:
            self._wrong(f"{self._kept} is of another data directory ({last.data_id})")
        elif last.lsn > report.last_lsn:
            self._wrong(
                f"{self._kept}: history was signed up to event {last.lsn}, and the journal ends "
                f"with {report.last_lsn}: its end was removed"
            )
        elif last.lsn >= report.first_lsn:
            self._judge(str(self._kept), last, hashes.get(last.lsn, ""))

    def _judge(self, where: str, statement: Statement, found_hash: str) -> None:
        """Judge a signed statement, given the hash of the block that it is about."""
        if not self._trusted.knows(statement, SIGNATURES):
            return
        wrong = ""
        if not self._trusted.has_signed(statement):
            wrong = "the signature does not match"
        elif statement.block_hash != found_hash:
            wrong = (
                "the journal up to there is not the one that was signed"
                if found_hash
                else "no block of the journal ends there"
            )
        if wrong:
            self._wrong(f"{where}: the signature up to event {statement.lsn}: {wrong}")
            return
        found = self._found
        found.signatures += 1
        if statement.lsn > found.signed_lsn:
            found.signed_lsn, found.signed_at = statement.lsn, statement.time
            found.signed_by = statement.key

    def _judge_end(self, report: Report, unsigned: int) -> None:
        found = self._found
        if not found.signatures:
            self._wrong("no signature of the given key: the journal is not proven")
        elif unsigned > UNSIGNED_CHECKPOINTS:
            self._wrong(
                f"the last signature is of event {found.signed_lsn}, but {unsigned} checkpoints "
                f"follow up to event {report.last_lsn}: signatures were removed, or the broker "
                "could not sign, or signing was turned off"
            )

    def _judge_anchors(self, report: Report, data_id: str, hashes: dict[int, str]) -> None:
        found = self._found
        found.wrong += self._anchors.foreign(data_id)
        for each in self._anchors.statements:
            wrong = ""
            if each.data_id != data_id:
                continue
            if each.lsn > report.last_lsn:
                wrong = f"the journal ends with event {report.last_lsn}: its end was removed"
            elif self.has_keys and not each.is_unsigned:
                if not self._trusted.knows(each, ANCHORS):
                    continue
                wrong = "" if self._trusted.has_signed(each) else "the signature does not match"
            if not wrong and each.lsn < report.first_lsn:
                found.anchors_before += 1
                continue
            if not wrong and hashes.get(each.lsn) != each.block_hash:
                wrong = "the journal up to there is another one"
            if wrong:
                self._wrong(f"the anchor of event {each.lsn}: {wrong}")
            else:
                found.anchors += 1
                found.anchors_unsigned += each.is_unsigned
                found.anchors_unchecked += not (each.is_unsigned or self.has_keys)
                found.anchored_lsn = max(found.anchored_lsn, each.lsn)


def _hash_at(disk: Disk, lsn: int) -> str:
    """Return the hash of the block that ends with an event, "" if none does."""
    try:
        for block in read_blocks(disk, from_lsn=lsn, to_lsn=lsn):
            if block.count and block.last_lsn == lsn:
                return block.hash.hex()
    except JournalError:
        return ""
    return ""


def anchors_in(paths: Iterable[Path]) -> Anchors:
    """Return the anchors of several files. Raises StatementError, OSError."""
    found = Anchors()
    for path in paths:
        bad = 0
        for each in read_anchors(path):
            if isinstance(each, Statement):
                found.statements.append(each)
                continue
            bad += 1
            if bad <= BAD_LINES_SHOWN:
                found.wrong.append(str(each))
        if bad > BAD_LINES_SHOWN:
            found.wrong.append(f"{path}: {bad - BAD_LINES_SHOWN:,} more lines are not anchors")
    return found
