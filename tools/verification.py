"""Proving a data directory: chain, crcs and footers, then the fold, digests and invariants.

The bytes are judged by `journal.verify`. If they are sound the events are folded with the engine's
own `apply`, the digest is compared with what each BrokerStopped recorded, and the state at the end
must satisfy the engine's invariants. Nothing is changed.
"""

from collections.abc import Callable
from typing import cast

import msgspec

from engine import events
from engine.apply import MisfitError, apply
from engine.digest import digest
from engine.events import KIND, Row
from engine.invariants import check
from engine.state import State
from journal.block import Block
from journal.disk import Disk
from journal.reader import read_blocks
from journal.verify import Fault, Report, verify
from paging.layout import LAYOUT
from recovery.fold import FoldError, fold_block


class Verdict(msgspec.Struct):
    """What was found. `faults` names damaged places, `wrong` what does not add up in events."""

    report: Report
    wrong: list[str] = []
    digests_compared: int = 0
    digest: str = ""
    folded_lsn: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.report.ok and not self.wrong

    @property
    def faults(self) -> list[Fault]:
        """Damaged places."""
        return self.report.faults


def verify_data(disk: Disk, progress: Callable[[int], None]) -> Verdict:
    """Verify a journal; `progress` is told the bytes checked and folded so far, twice their sum.

    Raises NoJournal, NewerFormat and OSError; damage is in the verdict.
    """
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done)

    verdict = Verdict(verify(disk, progress=advance))
    if not verdict.report.ok:
        verdict.wrong.append(
            "the events were not folded, because the bytes that they come from are damaged"
        )
        return verdict
    first = verdict.report.first_lsn
    if first > 1 and verdict.report.archived:
        # Fetched from an archive: nothing is missing that should be there.
        return verdict
    if first > 1:
        verdict.wrong.append(
            f"the journal begins at LSN {first}: its beginning, LSN 1 to {first - 1}, is missing; "
            "if it was archived, name the archive with --archive, else restore the segments "
            "before from a backup (nothing was folded)"
        )
        return verdict
    state = State()
    try:
        # Up to where the bytes were checked: a running broker goes on writing meanwhile.
        for block in read_blocks(disk, LAYOUT, to_lsn=verdict.report.last_lsn):
            _fold(block, state, verdict)
            advance(block.header.block_bytes)
    except (FoldError, MisfitError) as error:
        verdict.wrong.append(str(error))
        return verdict
    verdict.wrong += [f"event {verdict.folded_lsn}: {wrong}" for wrong in check(state)]
    verdict.digest = digest(state)
    return verdict


def _fold(block: Block, state: State, verdict: Verdict) -> None:
    if block.is_mark:
        return
    if events.BROKER_STOPPED not in block.columns()[KIND].tolist():
        verdict.folded_lsn = fold_block(block, state)
        return
    for event in block.events():
        lsn, row, detail, headers, body = cast(tuple[int, Row, bytes, bytes, bytes], event)
        if row[KIND] == events.BROKER_STOPPED:
            _compare(lsn, detail, state, verdict)
        apply(state, lsn, row, detail, headers, body)
        verdict.folded_lsn = lsn


def _compare(lsn: int, detail: bytes, state: State, verdict: Verdict) -> None:
    """Compare the digest that a clean stop recorded with that of the fold."""
    stopped = cast(events.BrokerStoppedDetail, events.decode_detail(events.BROKER_STOPPED, detail))
    folded = digest(state)
    verdict.digests_compared += 1
    if stopped.digest != folded:
        verdict.wrong.append(
            f"event {lsn}: the broker stopped with digest {stopped.digest}, but the events "
            f"before it fold to {folded}"
        )
