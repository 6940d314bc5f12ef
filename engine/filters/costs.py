"""The cost of a filter, estimated from its parts. Must never know how it is asked.

A step is a sixteenth of a unit of the budget, some 0.25 microseconds uncompiled. The real work of a
filter is close to the estimate, so that hundreds of filters fit into a turn like other counted
work.
"""

from typing import Final, NamedTuple

from daybook.engine.filters import nodes
from daybook.engine.filters.liking import steps_of
from daybook.engine.filters.naming import is_late

SCAN_SHIFT: Final = 9
"""Reading the headers once takes a step for 2 to this power of bytes."""
UNREAD_SHIFT: Final = 1
"""Decoding the names of properties takes a step for 2 to this power of bytes."""
PART_STEPS: Final = 3
"""The basic cost of a part."""
LIKE_STEPS: Final = 6
PIECE_STEPS: Final = 2
"""The cost of the search for one piece of a LIKE."""
ANY_SCANS: Final = 16
"""How much longer the search for a piece with `_` takes than that for a string."""
ANY_PIECES_MAX: Final = 32
"""How many pieces with `_` behind a `%` a new filter may have: each is looked for at every place of
a value."""
LATE_STEPS_MAX: Final = 64
"""The limit of steps for a new filter of a topic that needs facts known only when a message is
routed.
"""


class Cost(NamedTuple):
    """The cost of a filter: steps, and the number of reads of the headers.

    `wild` counts the pieces of LIKE that have a `_` and are looked for at every place. `is_late`
    marks a filter that needs facts known only when a message is routed.
    """

    steps: int
    scans: int
    wild: int
    is_late: bool


def cost_of(filter_: nodes.Node) -> Cost:
    """Return the cost of a filter that consists of this."""
    steps, scans, wild, late = 0, 1, 0, False
    left = [filter_]
    while left:
        node = left.pop()
        left += nodes.parts_of(node)
        steps += PART_STEPS
        if isinstance(node, nodes.Like):
            pieces, any_pieces = steps_of(node.pattern, node.escape)
            steps += LIKE_STEPS + PIECE_STEPS * pieces
            is_sought = pieces > 1
            scans += pieces - any_pieces + ANY_SCANS * any_pieces * is_sought
            wild += any_pieces * is_sought
        elif isinstance(node, nodes.Name):
            late = late or is_late(node.name)
    return Cost(steps, scans, wild, late)


def wrong_with(cost: Cost, *, of_topic: bool) -> str:
    """Return why a new filter would cost too much, empty if it does not."""
    if cost.wild > ANY_PIECES_MAX:
        return (
            f"it looks for {cost.wild} pieces with '_' between '%', and {ANY_PIECES_MAX} are the"
            " most"
        )
    if of_topic and cost.is_late and cost.steps > LATE_STEPS_MAX:
        return (
            "a subscription to a topic that asks for the id or the address of a message has room"
            " for a few comparisons only; ask for other properties"
        )
    return ""
