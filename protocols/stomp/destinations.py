"""Names of destinations: what a `destination` header means to the broker.

`/queue/NAME` is anycast, `/topic/NAME` multicast, `/dsub/ID` the queue of a durable subscription,
any other NAME leaves the routing type to `destination-type` or to the address. NAME may be
ADDRESS::QUEUE, one queue of an address. Must never know which addresses exist.
"""

from typing import Final

from daybook.engine.definitions import ANYCAST, MULTICAST
from daybook.engine.names import RESERVED, TEMPORARY, wrong_with
from daybook.protocols.stomp.errors import StompError, shortened
from daybook.protocols.stomp.options import StompOptions

_TYPES: Final[dict[str, str]] = {"ANYCAST": ANYCAST, "MULTICAST": MULTICAST}
_TEMPORARY: Final = ("/temp-queue/", "/temp-topic/")


class Target:
    """The meaning of a destination: an address, maybe one queue of it, maybe a routing type.

    `durable_id` names the durable subscription for `/dsub/ID`; its queue is then `queue`.
    """

    __slots__ = ("address", "durable_id", "queue", "routing_type")

    def __init__(
        self, address: str, queue: str | None, routing_type: str | None, durable_id: str = ""
    ) -> None:
        self.address: str = address
        self.queue: str | None = queue
        self.routing_type: str | None = routing_type
        self.durable_id: str = durable_id


def resolve(destination: str, wanted_type: str | None, options: StompOptions) -> Target:
    """Resolve a destination with the value of `destination-type`. Raises StompError."""
    hint = None
    if wanted_type is not None:
        hint = _TYPES.get(wanted_type.upper())
        if hint is None:
            raise StompError(
                f"destination-type is {shortened(wanted_type)}", "write ANYCAST or MULTICAST"
            )
    if destination.startswith(_TEMPORARY):
        raise _not_supported(destination, "temporary destinations are", "name a queue or a topic")
    if destination.startswith(options.dsub_prefix):
        return _durable(destination, destination[len(options.dsub_prefix) :])
    if destination.startswith(options.queue_prefix):
        return _named(destination, destination[len(options.queue_prefix) :], ANYCAST, hint)
    if destination.startswith(options.topic_prefix):
        return _named(destination, destination[len(options.topic_prefix) :], MULTICAST, hint)
    return _named(destination, destination, None, hint)


def _durable(destination: str, durable_id: str) -> Target:
    _check(destination, durable_id)
    return Target("", f"dsub.{durable_id}", None, durable_id)


def _named(destination: str, name: str, by_prefix: str | None, hint: str | None) -> Target:
    if by_prefix and hint and by_prefix != hint:
        raise StompError(
            f"destination {shortened(destination)} is {by_prefix}, destination-type says {hint}",
            "leave destination-type out, or use a destination without a prefix",
        )
    routing_type = by_prefix or hint
    address, separator, queue = name.partition("::")
    if not separator:
        _check(destination, name)
        return Target(name, None, routing_type)
    if not address or not queue or "::" in queue:
        raise StompError(
            f"destination {shortened(destination)} does not name one queue of an address",
            "write ADDRESS::QUEUE",
        )
    _check(destination, address)
    _check(destination, queue)
    return Target(address, queue, routing_type)


def _check(destination: str, name: str) -> None:
    """Check a name by the engine's rule, with errors about destinations. Raises StompError."""
    if not name:
        raise StompError(
            f"destination {shortened(destination)} names nothing", "give a name after the prefix"
        )
    if "," in name:
        raise _not_supported(destination, "composite destinations are", "name one destination")
    if any(character in name for character in RESERVED):
        raise _not_supported(destination, "wildcards are", "name one destination")
    if name.startswith(TEMPORARY):
        raise StompError(
            f"destination {shortened(destination)} is under temp., which belongs to temporary"
            " destinations, and this connection has none: they are not supported in this version",
            "use a name that does not begin with temp.",
        )
    wrong = wrong_with(name)
    if wrong is not None:
        raise StompError(f"destination {shortened(destination)}: {wrong}", "use another name")


def _not_supported(destination: str, what: str, advice: str) -> StompError:
    return StompError(
        f"destination {shortened(destination)}: {what} not supported in this version", advice
    )
