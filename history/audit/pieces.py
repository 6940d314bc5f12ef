"""Cutting an audit into pieces, so that several processes have equal shares of the work.

A piece begins at a snapshot, whose state is there, or else at the end of any block: then its state
is folded from the snapshot before, which costs a part of what judging the same events costs. So
pieces without snapshots become shorter from one to the next. Must never know what a piece does.
"""

from collections.abc import Sequence
from heapq import heapreplace
from typing import Final

from daybook.journal.disk import Disk
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT

PIECES_PER_PROCESS: Final = 16
"""So many pieces at most, so that a long one at the end keeps nobody waiting."""
PIECE_EVENTS_MIN: Final = 100_000
"""A piece is no shorter: restoring a snapshot costs as much as judging some thousand events."""
FOLD_SHARE: Final = 0.12
"""What folding an event costs, as a share of judging it."""
TRIED: Final = 6
"""So many of the longest and of the shortest spans may be divided."""
VAIN_MOST: Final = 4
"""So many divisions may save nothing before no more are tried."""


def beginnings(
    disk: Disk, places: Sequence[int], after: int, last: int, processes: int
) -> list[int]:
    """Return the events behind which pieces of a span begin, the first one `after`.

    `places` are the events with a snapshot, in order. Raises JournalError.
    """
    least = max((last - after) // (PIECES_PER_PROCESS * processes), PIECE_EVENTS_MIN)
    begins = [after]
    for place in places:
        if place - begins[-1] >= least and last - place >= least:
            begins.append(place)
    spans = list(zip(begins, [*begins[1:], last], strict=True))
    lengths = _best_lengths([end - begin for begin, end in spans], processes)
    found = []
    for (begin, end), parts in zip(spans, lengths, strict=True):
        found.append(begin)
        for length in parts[:-1]:
            place = end_of_block(disk, found[-1] + length)
            if found[-1] < place < end:
                found.append(place)
    return found


def _best_lengths(wholes: Sequence[int], processes: int) -> list[list[int]]:
    """Return how long the parts of each span between snapshots are, so that all are done early."""
    parts = [1] * len(wholes)
    best = _divided(wholes, parts)
    if processes == 1:
        return best
    by_length = sorted(range(len(wholes)), key=lambda at: wholes[at])
    tried = sorted({*by_length[:TRIED], *by_length[-TRIED:]})
    vain = 0
    while vain < VAIN_MOST:
        steps = []
        for at in tried:
            if wholes[at] // (parts[at] + 1) >= PIECE_EVENTS_MIN:
                more = [*parts[:at], parts[at] + 1, *parts[at + 1 :]]
                steps.append((_duration(_divided(wholes, more), processes), more))
        if not steps:
            break
        duration, parts = min(steps)
        vain += 1
        if duration < _duration(best, processes):
            best, vain = _divided(wholes, parts), 0
    return best


def _divided(wholes: Sequence[int], parts: Sequence[int]) -> list[list[int]]:
    return [_lengths(whole, count) for whole, count in zip(wholes, parts, strict=True)]


def _lengths(whole: int, parts: int) -> list[int]:
    """Return the lengths of parts that take equally long: each later one folds those before."""
    if parts < 2:
        return [whole]
    weights = [(1 - FOLD_SHARE) ** number for number in range(parts)]
    return [int(whole * weight / sum(weights)) for weight in weights]


def _duration(divided: Sequence[Sequence[int]], processes: int) -> float:
    """Return how long it takes, in judged events: a process that is ready takes the longest."""
    costs = []
    for parts in divided:
        before = 0
        for length in parts:
            costs.append(length + FOLD_SHARE * before)
            before += length
    ready = [0.0] * processes
    for cost in sorted(costs, reverse=True):
        heapreplace(ready, ready[0] + cost)
    return max(ready)


def end_of_block(disk: Disk, lsn: int) -> int:
    """Return the last event of the block with an event: the events of a block are judged together.
    Raises JournalError."""
    for block in read_blocks(disk, LAYOUT, from_lsn=lsn, to_lsn=lsn, heaps=False):
        if block.count and block.last_lsn >= lsn:
            return block.last_lsn
    return lsn
