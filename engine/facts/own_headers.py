"""The headers of messages that the broker alone sets: the one table of them.

They show facts of the journal. The broker removes headers of these names from arriving messages, so
that readers may trust them; even so, no decision depends on them. Protocols, diverts and the page
on security follow this table. Must never know how a header is written.
"""

from typing import Final

BLANKS: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"
"""Characters that clients may trim from names; names of headers keep them."""

VALIDATED_USER: Final = "_AMQ_VALIDATED_USER"

ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
ORIGINAL_MESSAGE_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
ORIGINAL_ROUTING_TYPE: Final = "_AMQ_ORIG_ROUTING_TYPE"
ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"

DEATH_REASON: Final = "_DAYBOOK_DEATH_REASON"
DEATH_ADDRESS: Final = "_DAYBOOK_DEATH_ADDRESS"
DEATH_QUEUE: Final = "_DAYBOOK_DEATH_QUEUE"
DEATH_COUNT: Final = "_DAYBOOK_DEATH_COUNT"
DEATH_TIME: Final = "_DAYBOOK_DEATH_TIME"
DEATH_ATTEMPTS: Final = "_DAYBOOK_DEATH_ATTEMPTS"
DEATH_ENDED: Final = "_DAYBOOK_DEATH_ENDED"
DEATH_CONSUMER: Final = "_DAYBOOK_DEATH_CONSUMER"
DEATH_USER: Final = "_DAYBOOK_DEATH_USER"
DEATH_ERROR: Final = "_DAYBOOK_DEATH_ERROR"
DEATHS: Final = "_DAYBOOK_DEATHS"

DEATH_HEADERS: Final[dict[str, str]] = {
    DEATH_REASON: "why it died: `delivery-limit`, `rejected`, `expired` or `no-route`",
    DEATH_ADDRESS: "the address that it was sent to",
    DEATH_QUEUE: "the queue that it was in; empty if no queue took it",
    DEATH_COUNT: "how often it died for this reason in this queue",
    DEATH_TIME: "when it died last, in milliseconds since 1970",
    DEATH_ATTEMPTS: "how often it was delivered there before",
    DEATH_ENDED: "how the last delivery ended: `nack`, `disconnected`, `timeout`, `rollback`, ...",
    DEATH_CONSUMER: "the id of the consumer of that delivery",
    DEATH_USER: "the login of that consumer",
    DEATH_ERROR: "what that consumer said of it: the header `error` of its NACK",
    DEATHS: "all deaths as JSON, the newest first: reason, address, queue, count and time of each",
}
"""Their meanings, by name."""

OWN_HEADERS: Final[dict[str, str]] = {
    VALIDATED_USER: "the login of its sender (`populate-validated-user`)",
    ORIGINAL_ADDRESS: "the address that the original of a copy was sent to",
    ORIGINAL_QUEUE: "the queue that the original was in, or the divert that made the copy",
    ORIGINAL_MESSAGE_ID: "the id of the original",
    ORIGINAL_ROUTING_TYPE: "the routing type of the original: 0 is anycast, 1 multicast",
    ACTUAL_EXPIRY: "when the original expired, in milliseconds since 1970",
    **DEATH_HEADERS,
    # A JMS client believes that its provider says these (JMS 2.0, section 3.5.9).
    "JMSXUserID": "of JMS: the user of the sender; not set",
    "JMSXAppID": "of JMS: the application of the sender; not set",
    "JMSXDeliveryCount": "of JMS: how often it was delivered; not set, see `delivery-count`",
    "JMSXProducerTXID": "of JMS: the transaction it was sent in; not set",
    "JMSXConsumerTXID": "of JMS: the transaction it was received in; not set",
    "JMSXRcvTimestamp": "of JMS: when it was received; not set",
    "JMSXState": "of JMS: the state of the message; not set",
}
"""Their meanings, by name."""


def _annotation_of(name: str) -> str:
    return "x-opt-" + name.removeprefix("_").removeprefix("AMQ_").replace("_", "-")


ANNOTATIONS: Final = {
    name: _annotation_of(name) for name in OWN_HEADERS if not name.startswith("JMSX")
}
"""Message annotations of AMQP 1.0 that show the same, by the name of the header; those of Artemis
have its names (`x-opt-ORIG-ADDRESS`)."""
