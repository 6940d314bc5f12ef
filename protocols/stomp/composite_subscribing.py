"""Composite destinations in SUBSCRIBE: one subscription to several queues and topics, and to the
queues that match a name with wildcards.

Must never know which queues there are, or what one subscription shares (`engine.queues.consumer`).
"""

from typing import Final

import msgspec

from daybook.engine.commands import Attach, AttachAll
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.names.syntax import Syntax
from daybook.protocols.stomp.wire.destinations import Target, divided, resolve
from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.options import StompOptions

ONE_DESTINATION: Final = (
    "subscribe to each destination by itself; sequence numbers are those of one queue"
)


def targets_of(
    destination: str, wanted_type: str | None, options: StompOptions, connection: int
) -> list[Target]:
    """Resolve all names of a destination to subscribe to. Raises StompError."""
    return [
        resolve(name, wanted_type, options, connection, is_subscribed=True)
        for name in divided(destination, options.spelling)
    ]


def is_of_several(targets: list[Target], syntax: Syntax) -> bool:
    """Whether a subscription may have several queues: it has several names, or a pattern of
    queues."""
    return len(targets) > 1 or _is_pattern_of_queues(targets[0], syntax)


def check(
    destination: str, targets: list[Target], syntax: Syntax, *, has_start: bool, is_durable: bool
) -> None:
    """Refuse headers that only a subscription to one destination can have. Raises StompError."""
    if has_start and is_of_several(targets, syntax):
        raise StompError(
            f"from-seq on {shortened(destination)}, which may be several destinations",
            ONE_DESTINATION,
        )
    if is_durable and len(targets) > 1:
        raise StompError(
            f"a durable subscription to {shortened(destination)}, which is several destinations",
            "make a durable subscription for each topic, or one to a topic with wildcards; then"
            " subscribe to all of them together, as in /dsub/A,/dsub/B",
        )


def several(attach: Attach, targets: list[Target], options: StompOptions) -> AttachAll:
    """Return the command for all targets, each with the attributes of that for the first."""
    parts = [
        msgspec.structs.replace(
            attach, address=each.address, queue=each.queue, routing_type=each.routing_type
        )
        for each in targets
    ]
    return AttachAll(attach.connection, parts, options.max_wildcard_queues)


def _is_pattern_of_queues(target: Target, syntax: Syntax) -> bool:
    is_queue = target.routing_type == ANYCAST and target.queue is None
    return is_queue and syntax.is_pattern(target.address)
