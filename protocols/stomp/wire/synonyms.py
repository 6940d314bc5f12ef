"""Headers that mean the same, in their order: which one counts when a frame has several.

Clients that are written for several brokers send a setting in the spelling of each of them. This
table is the one place that decides between them. docs/stomp.md is drawn from it. Must never know
what a value means.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import msgspec

from daybook.protocols.stomp.wire.errors import StompError


class Rule(Enum):
    """How the others are treated when a frame has several of these headers."""

    FIRST = "the first one counts; the others are not read"
    SAME = "they must have the same value"
    EARLIEST = "the earliest time counts"
    LATEST = "the latest time counts"


def _as_it_is(value: str) -> str:
    return value


class Synonyms(msgspec.Struct, frozen=True):
    """Names of one setting, the one that counts first.

    `risk` says what a contradiction would lead to, where the values must be the same; `meaning_of`
    makes two spellings of one value equal.
    """

    frames: str
    what: str
    names: tuple[str, ...]
    rule: Rule
    risk: str = ""
    meaning_of: Callable[[str], str] = _as_it_is

    def chosen(self, values: dict[str, str]) -> str:
        """Return the name of the header that counts, empty if the frame has none of them."""
        return self.chosen_of((name for name in self.names if name in values), values)

    def chosen_of(self, given: Iterable[str], values: dict[str, str]) -> str:
        """Return which of the given headers counts. An empty one counts only if all are empty.

        Raises StompError if their values must be the same and are not.
        """
        present = list(given)
        names = [name for name in present if values[name]] or present[:1]
        if self.rule is Rule.SAME and len({self.meaning_of(values[name]) for name in names}) > 1:
            raise StompError(
                f"{' and '.join(names)} mean the same, and their values differ",
                f"give one value to all of them, or send only {names[0]}",
            )
        return names[0] if names else ""


ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
"""The routing type as Artemis stores it with a message: 0 is anycast, 1 multicast."""
_ROUTING_TYPES: Final = {"0": "ANYCAST", "1": "MULTICAST"}


def routing_type_of(value: str) -> str:
    """Return the routing type for a number or a name of it, in capitals."""
    return _ROUTING_TYPES.get(value, value).upper()


_SUBSCRIBE: Final = "SUBSCRIBE"
_SEND: Final = "SEND"
_OTHER_MESSAGES: Final = "the subscriber would get other messages than one of them asks for"

CREDIT: Final = Synonyms(
    _SUBSCRIBE,
    "credit of a subscription",
    ("credit", "prefetch-count", "activemq.prefetchSize", "consumer-window-size"),
    Rule.FIRST,
)
CONSUMER_PRIORITY: Final = Synonyms(
    _SUBSCRIBE,
    "priority of a consumer",
    ("priority", "consumer-priority", "activemq.priority", "x-priority"),
    Rule.FIRST,
)
FILTER: Final = Synonyms(
    _SUBSCRIBE, "filter", ("selector", "filter"), Rule.SAME, _OTHER_MESSAGES, str.strip
)
EXCLUSIVE: Final = Synonyms(
    _SUBSCRIBE,
    "exclusive subscription",
    ("exclusive", "activemq.exclusive"),
    Rule.SAME,
    "several consumers would break the order that one of them asks for",
)
NO_LOCAL: Final = Synonyms(
    _SUBSCRIBE,
    "no messages of its own connection",
    ("no-local", "noLocal", "activemq.noLocal"),
    Rule.SAME,
    _OTHER_MESSAGES,
)
RETROACTIVE: Final = Synonyms(
    _SUBSCRIBE,
    "messages from before",
    ("retroactive", "activemq.retroactive"),
    Rule.SAME,
    _OTHER_MESSAGES,
)
SUBSCRIPTION_TYPE: Final = Synonyms(
    _SUBSCRIBE,
    "routing type",
    ("subscription-type", "destination-type"),
    Rule.SAME,
    "the subscriber would share a queue, or not, against one of them",
    routing_type_of,
)
DURABLE_NAME: Final = Synonyms(
    "SUBSCRIBE, UNSUBSCRIBE",
    "name of a durable subscription",
    (
        "durable-subscription-name", "durable-subscriber-name", "activemq.subscriptionName",
        "activemq.subcriptionName", "subscription-name",
    ),
    Rule.SAME,
    "another subscription would be used, or deleted, than one of them names",
)  # fmt: skip
"""Without the small and capital letters, hyphens, dots and underscores that clients vary."""
DESTINATION_TYPE: Final = Synonyms(
    _SEND,
    "routing type",
    (ROUTING_TYPE, "destination-type"),
    Rule.SAME,
    "the message would go to one consumer, or to all, against one of them",
    routing_type_of,
)
LIFETIME: Final = Synonyms(
    _SEND, "when a message expires", ("expires", "ttl", "expiration"), Rule.EARLIEST
)
DELIVERY_TIME: Final = Synonyms(
    _SEND,
    "time of delivery",
    ("_AMQ_SCHED_DELIVERY", "AMQ_SCHEDULED_TIME"),
    Rule.LATEST,
)
DELIVERY: Final = Synonyms(
    _SEND,
    "scheduled delivery; a time of 0 is none, and the last two are refused where they are alone",
    ("AMQ_SCHEDULED_TIME", "AMQ_SCHEDULED_DELAY", "JMSDeliveryTime", "x-delay"),
    Rule.FIRST,
)
GROUP: Final = Synonyms(
    _SEND, "message group", ("JMSXGroupID", "_AMQ_GROUP_ID", "message_group"), Rule.FIRST
)
GROUP_SEQUENCE: Final = Synonyms(
    _SEND, "number in its group", ("JMSXGroupSeq", "_AMQ_GROUP_SEQUENCE"), Rule.FIRST
)

ALL: Final = (
    CREDIT, CONSUMER_PRIORITY, FILTER, EXCLUSIVE, NO_LOCAL, RETROACTIVE, SUBSCRIPTION_TYPE,
    DURABLE_NAME, DESTINATION_TYPE, LIFETIME, DELIVERY_TIME, DELIVERY, GROUP, GROUP_SEQUENCE,
)  # fmt: skip
