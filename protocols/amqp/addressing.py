"""What addresses of sources and targets mean: names on a virtual host, queues, routing types.

Must never know which names exist.
"""

from typing import Final, NamedTuple, TypeAlias

from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.names.names import DIVIDER, HOST, qualified

Prefixes: TypeAlias = tuple[tuple[str, str], ...]
"""Prefixes of addresses, each with the routing type that it fixes."""
_ROUTING_TYPES: Final = {
    "queue": ANYCAST, "temporary-queue": ANYCAST, "topic": MULTICAST, "temporary-topic": MULTICAST,
}  # fmt: skip
"""What capabilities say, as clients of JMS use them."""


class Place(NamedTuple):
    """The full name of an address, that of a queue on it or None, and the routing type that is
    asked for, if one is."""

    address: str
    queue: str | None
    routing_type: str | None


def place_of(text: str, host: str, capabilities: tuple[str, ...], prefixes: Prefixes) -> Place:
    """Return what an address means: PREFIX ADDRESS::QUEUE, all but the address optional."""
    routing_type = next(
        (_ROUTING_TYPES[each] for each in capabilities if each in _ROUTING_TYPES), None
    )
    text, fixed = without_prefix(text, prefixes)
    routing_type = fixed or routing_type
    address, divider, queue = text.partition(DIVIDER)
    return Place(
        qualified(host, address), qualified(host, queue) if divider else None, routing_type
    )


def without_prefix(text: str, prefixes: Prefixes) -> tuple[str, str | None]:
    """Return an address without its prefix, and the routing type that this fixes, None for none."""
    for prefix, fixed in prefixes:
        if text.startswith(prefix):
            return text.removeprefix(prefix), fixed
    return text, None


def shown(full: str, host: str) -> str:
    """Return a full name as clients of a virtual host spell it."""
    return full if host == HOST else full.removeprefix(qualified(host, ""))
