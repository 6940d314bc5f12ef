"""The end of a lead that is to cost a moment: another node leads next, which has everything.

    serving --(the broker is to end)--> closing --(the journal is closed)--> waiting --(the next
    leader has acknowledged its end)--> the lease is given back, and the next one stands at once

Invariants: the lease is given back only when the next leader has everything, or when the hand-over
has failed. Nothing depends on that for safety: the next leader asks the others, like every one.
Must never know how nodes are reached.
"""

from collections.abc import Mapping
from typing import Final

from daybook.errors import DaybookError
from daybook.replication.shipping import Shipment

BEHIND_MAX: Final = 100_000
"""So many events may the next leader lack when the hand-over begins."""


class HandOverRefused(DaybookError):
    """The lead is not handed over, and nothing was changed; the text says why."""


class HandingOver:
    """A hand-over that has begun: to a node, "" to nobody in particular."""

    def __init__(self, to: str, until: int) -> None:
        self.to: Final = to
        self.until: Final = until
        self.is_closed = False

    def is_ready(self, shipments: Mapping[str, Shipment]) -> bool:
        """Whether the lease may be given back."""
        if not self.is_closed or not self.to:
            return self.is_closed
        shipment = shipments.get(self.to)
        return shipment is not None and shipment.has_all


def next_leader(shipments: Mapping[str, Shipment]) -> str:
    """Return the follower that has most; "" if there is none."""
    there = {
        name: each.acked
        for name, each in shipments.items() if each.is_joined and each.acked is not None
    }  # fmt: skip
    return max(sorted(there), key=lambda name: there[name], default="")


def check_next(name: str, shipments: Mapping[str, Shipment], lsn: int) -> None:
    """Raise HandOverRefused if a node cannot lead next; the journal ends with an event."""
    shipment = shipments.get(name)
    if shipment is None or not shipment.is_joined or shipment.acked is None:
        raise HandOverRefused(
            f"'{name}' does not follow now; see 'daybook cluster status', and try again"
        )
    behind = lsn - shipment.acked
    if behind > BEHIND_MAX:
        raise HandOverRefused(
            f"'{name}' is {behind:,} events behind; try again when it has caught up"
        )
