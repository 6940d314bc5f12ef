"""Folding blocks of the journal into the state, with the engine's own `apply`.

Used by a start, by `journal verify` and by everything else that needs the state at an LSN. Only
reads.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from daybook.engine.facts.events import BY_NUMBER, COLUMNS, Row
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.state.address_counts import COUNTED, count
from daybook.engine.state.apply import APPLY
from daybook.engine.state.state import State
from daybook.errors import DaybookError
from daybook.journal.blocks.block import Block


class FoldError(DaybookError):
    """An event does not fit the state, or is of a kind that this version does not know."""


def fold_block(block: Block, state: State, to_lsn: int | None = None) -> int:
    """Apply the events of a block, up to `to_lsn` if given; return the LSN of the last one applied.

    Raises FoldError, which names the event.
    """
    apply = APPLY
    applied = block.first_lsn - 1
    row: tuple[int, ...] = (0,) * len(COLUMNS)
    events = cast(Iterator[tuple[int, Row, bytes, bytes, bytes]], block.events())
    try:
        for lsn, row, detail, headers, body in events:
            if to_lsn is not None and lsn > to_lsn:
                break
            apply[row[0]](state, lsn, row, detail, headers, body)
            if row[0] in COUNTED:
                count(state, row, detail)
            applied = lsn
    except (KeyError, ValueError, IndexError, MismatchError) as error:
        raise FoldError(_describe(block, applied + 1, row[0], error)) from error
    return applied


def _describe(block: Block, lsn: int, kind: int, error: Exception) -> str:
    where = f"event {lsn} (segment {block.segment}, block at offset {block.offset})"
    if kind not in BY_NUMBER:
        return (
            f"{where} is of kind {kind}, which this version does not know: use the version of "
            "Daybook that wrote the journal, or a newer one"
        )
    why = f"{error.args[0]} does not exist" if isinstance(error, KeyError) else str(error)
    return f"{where}, {BY_NUMBER[kind].name}, does not fit the state before it: {why}"


def fold(blocks: Iterable[Block], state: State, to_lsn: int | None = None) -> int:
    """Apply all blocks, up to `to_lsn` if given; return the last LSN applied, 0 if none.

    Raises FoldError, and JournalError from reading the blocks.
    """
    applied = 0
    for block in blocks:
        if block.count:
            applied = fold_block(block, state, to_lsn)
        if to_lsn is not None and applied >= to_lsn:
            break
    return applied
