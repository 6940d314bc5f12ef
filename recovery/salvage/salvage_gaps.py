"""The gaps of a salvage: in the order of events, and before the first segment.

Must never know how a gap is filled.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from daybook.journal.segments.sound_blocks import Gap


def in_order(gaps: Iterable[Gap]) -> list[Gap]:
    """Return gaps in the order of events; of two that begin together, the longer one stays.

    One of unknown length always stays, behind the other.
    """
    found: list[Gap] = []
    end = 0
    for gap in sorted(gaps, key=lambda gap: (gap.first_lsn, -gap.last_lsn)):
        if gap.last_lsn < gap.first_lsn or gap.last_lsn > end:
            found.append(gap)
            end = max(end, gap.last_lsn)
    return found


def begin_of(gaps: list[Gap], first_lsn: int) -> int:
    """Return the beginning of the remaining events: the first sound one, or a gap before it."""
    return min([first_lsn, *(gap.first_lsn for gap in gaps)])


def head_gap(begins: int, left_until: int, state_lsn: int) -> Gap | None:
    """Return the gap before the remaining events, if there is one.

    Up to `left_until` segments had left by retention, which is not damage if a state (of the event
    `state_lsn`, 0 if there is none) has the messages queued then.
    """
    first = left_until if state_lsn >= begins - 1 else min(left_until, state_lsn)
    if first + 1 >= begins:
        return None
    what = "segments before the first are missing"
    if not state_lsn:
        what = "the messages queued at the beginning are unknown"
    return Gap(first + 1, begins - 1, "", 0, 0, what)


def missing_in(gaps: list[Gap]) -> Callable[[int], bool]:
    """Return a function that says whether an event is in one of these gaps, which are in order."""
    known = [gap for gap in gaps if gap.first_lsn <= gap.last_lsn]
    firsts = [gap.first_lsn for gap in known]

    def is_missing(lsn: int) -> bool:
        at = bisect_right(firsts, lsn) - 1
        return at >= 0 and lsn <= known[at].last_lsn

    return is_missing
