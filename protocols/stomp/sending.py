"""What SEND means: a plan prepared from its head, which serves every frame with the same head.

A plan holds everything that does not change from one message to the next. Must never know
the session that uses it.
"""

from typing import Final

from protocols.stomp.destinations import resolve
from protocols.stomp.errors import StompError, shortened
from protocols.stomp.frames import Head, content_length, number, parse_head, required, truth
from protocols.stomp.options import StompOptions

# Headers that say something to the broker, or that the broker itself gives to MESSAGE, and that
# are therefore no part of the message. Anything else travels with it.
_NOT_STORED: Final = frozenset(
    (
        "receipt", "transaction", "message-id", "subscription", "ack", "redelivered",
        "delivery-count", "ttl", "heart-beat",
    )
)  # fmt: skip

# Headers that would change what is delivered to whom, and that this version does not know.
_UNSUPPORTED: Final[dict[str, str]] = {
    "retain": "retained messages",
    "message_group": "message groups",
    "JMSXGroupID": "message groups",
    "_AMQ_GROUP_ID": "message groups",
    "AMQ_SCHEDULED_TIME": "scheduled delivery",
    "AMQ_SCHEDULED_DELAY": "scheduled delivery",
    "_AMQ_SCHED_DELIVERY": "scheduled delivery",
    "_AMQ_DUPL_ID": "duplicate detection",
    "_AMQ_LVQ_NAME": "last value queues",
}
_DEFAULT_PRIORITY: Final = 4


class SendPlan:
    """A SEND without its body and receipt: where to, how, and the headers to keep.

    `expires` is milliseconds since 1970 and `ttl` milliseconds from arrival, 0 for never; `length`
    is the content-length or UNTIL_NUL.
    """

    __slots__ = (
        "address", "expires", "headers", "length", "persistent", "priority", "queue",
        "routing_type", "transaction", "ttl",
    )  # fmt: skip

    def __init__(self, head: Head, options: StompOptions) -> None:
        values = head.values
        target = resolve(required(head, "destination"), values.get("destination-type"), options)
        self.address: str = target.address
        self.queue: str | None = target.queue
        self.routing_type: str | None = target.routing_type
        self.priority: int = _priority(values.get("priority"))
        self.persistent: bool = truth(head, "persistent", options.default_persistent)
        self.ttl: int = _milliseconds("ttl", values.get("ttl"))
        self.expires: int = _milliseconds("expires", values.get("expires"))
        self.transaction: str | None = (
            required(head, "transaction") if "transaction" in values else None
        )
        self.length: int = content_length(head, options)
        self.headers: bytes = _stored(head, self.ttl > 0)


def prepare(key: bytes, version: int, options: StompOptions) -> SendPlan:
    """The plan for a head of SEND, receipt cut out. Raises StompError if there can be none."""
    head = parse_head(key, version, options)
    _refuse_unsupported(head)
    return SendPlan(head, options)


def _refuse_unsupported(head: Head) -> None:
    values = head.values
    for name in _UNSUPPORTED.keys() & values.keys():
        if values[name] != "false":
            raise StompError(
                f"header {name}: {_UNSUPPORTED[name]} are not supported in this version"
                if _UNSUPPORTED[name].endswith("s")
                else f"header {name}: {_UNSUPPORTED[name]} is not supported in this version",
                "send without it",
            )
    if values.get("reply-to", "").startswith(("/temp-queue/", "/temp-topic/")):
        raise StompError(
            "header reply-to: temporary destinations are not supported in this version",
            "name a queue or a topic",
        )


def _priority(given: str | None) -> int:
    if given is None:
        return _DEFAULT_PRIORITY
    if len(given) != 1 or given not in "0123456789":
        raise StompError(f"priority is {shortened(given)}", "give a number from 0 to 9")
    return int(given)


def _milliseconds(name: str, given: str | None) -> int:
    if given is None:
        return 0
    value = number(given)
    if value is None:
        raise StompError(
            f"{name} is {shortened(given)}", "give milliseconds as a whole number, 0 for never"
        )
    return value


def _stored(head: Head, expires_follows: bool) -> bytes:
    kept = []
    for line in head.lines:
        if line.name in _NOT_STORED or (expires_follows and line.name == "expires"):
            continue
        kept.append(line.canonical + b"\n")
    return b"".join(kept)
