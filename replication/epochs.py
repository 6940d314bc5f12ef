"""Which epoch each part of a journal is of, and up to where two journals agree.

In an epoch a node only appends. So two journals that have blocks which one node wrote in one epoch
have the same ones, up to the end of the shorter one, and the same ones before. An arbiter that lost
its memory may grant an epoch to two nodes; then one of them at most got acknowledgements.

Must never know how a node came to lead.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from daybook.journal.places import BEFORE_ALL, Place


class Beginning(NamedTuple):
    """An epoch, the place from which on the journal is of it, and the node that led."""

    epoch: int
    place: Place
    node: str


FIRST: Final = Beginning(0, BEFORE_ALL, "")
"""The epoch of what a broker wrote before it had standbys."""


def begun(beginnings: Sequence[Beginning], newest: Beginning) -> tuple[Beginning, ...]:
    """Return the epochs of a journal in which a new one begins at its end.

    A node that joined a leader knows its epochs, and may have got nothing of the last ones.
    """
    return (*(each for each in beginnings if each.place < newest.place), newest)


def agreed_end(
    ours: Sequence[Beginning], our_end: Place, theirs: Sequence[Beginning], their_end: Place
) -> Place:
    """Return the place up to which two journals of the same data id have the same bytes."""
    mine, others = _spans(ours, our_end), _spans(theirs, their_end)
    shared = max(begun for begun in mine if begun in others)
    return min(mine[shared], others[shared])


def _spans(beginnings: Sequence[Beginning], end: Place) -> dict[Beginning, Place]:
    """Return where each epoch ends: at the latest where a newer one begins."""
    found: dict[Beginning, Place] = {}
    for each in reversed([FIRST, *beginnings]):
        found[each] = end
        end = min(end, each.place)
    return found


def epoch_at_end(beginnings: Sequence[Beginning], end: Place) -> int:
    """Return the epoch of the last block of a journal."""
    return max((each.epoch for each in beginnings if each.place < end), default=FIRST.epoch)
