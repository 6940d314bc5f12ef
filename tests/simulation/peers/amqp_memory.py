"""The memory of a client of AMQP of links that it lost, until it attaches them again.

The container keeps it, so that the next connection with its id can resume the link (part 2, 2.6.13;
ADR 108). Only durable deliveries are kept: the ids of others may come again after a crash.
"""

from typing import Any, NamedTuple

from daybook.engine.messages.amqp.reader import Reader
from daybook.protocols.amqp.wire.table import COMPOSITES

Outcome = tuple[str, Any]
"""An outcome by what the ledger calls it, and its state."""
Decided = dict[int, Outcome | None]
"""The outcomes that a client has chosen, by message; None for those without one."""


class LinkMemory(NamedTuple):
    """A link of a receiver that was lost: its subscription, its place, and its deliveries with
    their tags."""

    name: str
    destination: str
    queue: str
    is_durable: bool
    decided: Decided
    tags: dict[int, bytes]


def unsettled_map(decided: Decided, tags: dict[int, bytes]) -> dict[Any, Any] | None:
    """Return what an attach says of these deliveries: their tags, with outcomes."""
    return {
        tags[message]: None if outcome is None else _value_of(outcome[1])
        for message, outcome in decided.items()
    } or None


def _value_of(state: Any) -> Any:
    data = COMPOSITES.encoded(state)
    return Reader(data, 0, len(data)).value()
