"""How many messages of an address queues took, and how many none did.

The counters follow from events, so every fold counts what the broker counted when it decided. They
do not belong to the digest: journals from before they existed mean the same. Must never know how a
message is routed.
"""

from typing import Final, cast

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import ADDRESS, KIND, REASON, Row
from daybook.engine.facts.kinds import SAYING_UNROUTED
from daybook.engine.state.state import State

COUNTED: Final = SAYING_UNROUTED | {events.DROPPED}
"""The kinds of events that change a counter."""
UNROUTED: Final = frozenset(
    (
        reasons.NO_BINDING,
        reasons.NO_MATCHING_FILTER,
        reasons.DISABLED,
        reasons.NO_CONSUMERS,
        reasons.NO_LOCAL,
    )
)
"""The reasons of Dropped by which no queue took the message."""


def unrouted_at(kind: int, detail: bytes) -> int:
    """Return the id of the address where no queue took a message that is somewhere else now."""
    decoded = events.decode_detail(kind, detail)
    return cast(details.RoutedDetail | details.DivertedDetail, decoded).unrouted_at


def count(state: State, row: Row, detail: bytes) -> None:
    """Count an event of one of the kinds COUNTED; its address may be gone."""
    kind = row[KIND]
    reason = row[REASON]
    address = state.addresses.get(row[ADDRESS])
    if kind == events.ROUTED and address is not None:
        address.routed += reason != reasons.HISTORY_ONLY
        address.unrouted += reason == reasons.HISTORY_ONLY
    if kind in SAYING_UNROUTED:
        if reason == reasons.NO_ROUTE:
            before = state.addresses.get(unrouted_at(kind, detail))
            if before is not None:
                before.unrouted += 1
    elif reason in UNROUTED and address is not None:
        address.unrouted += 1
