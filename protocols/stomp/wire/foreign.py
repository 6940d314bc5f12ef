"""Headers of other brokers that Daybook does not support: refused, never ignored.

A client that sends one of them expects something that would not happen, so it gets an ERROR that
names the missing feature. Values that request the normal behaviour are accepted. Headers that are
supported are handled elsewhere (`sending`, `subscribing`). The table in docs/stomp.md lists all of
them. Must never know what a frame does.
"""

from typing import Final

from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.frames import Head
from daybook.protocols.stomp.wire.synonyms import DELIVERY_TIME

SUBSCRIBE_WITHOUT: Final = "subscribe without it"
DURABLE_BY_ID: Final = "name a durable subscription by id, with persistent:true"
UNSUBSCRIBE_BY_ID: Final = "delete a durable subscription by its id, with persistent:true"
CREATE_QUEUE: Final = (
    "have an administrator create the queue (daybook queue create), or use an address-setting"
)

REPEAT: Final = (
    "let a timer send each repetition (cron or systemd, with `daybook send`), or let its consumer"
    " send the next one in the transaction of its ACK, with AMQ_SCHEDULED_DELAY; see docs/stomp.md,"
    " Recurring messages"
)
SCHEDULE: Final = "use AMQ_SCHEDULED_DELAY, or AMQ_SCHEDULED_TIME for a time"

_SCHEDULED: Final = "scheduled delivery by this header is"
_QUEUE_ARGUMENTS: Final = "attributes of queues given by clients are"
_STREAMS: Final = "streams are"


class Foreign:
    """The meaning of a header at other brokers, its harmless values, and the advice. If a frame
    also has one of the supported headers `instead`, that one counts.
    """

    __slots__ = ("advice", "harmless", "instead", "meaning")

    def __init__(
        self,
        meaning: str,
        advice: str,
        harmless: tuple[str, ...] = (),
        instead: tuple[str, ...] = (),
    ) -> None:
        self.meaning: str = meaning
        self.advice: str = advice
        self.harmless: tuple[str, ...] = harmless
        self.instead: tuple[str, ...] = instead


def _named(
    meaning: str,
    advice: str,
    harmless: tuple[str, ...],
    *names: str,
    instead: tuple[str, ...] = (),
) -> dict[str, Foreign]:
    rule = Foreign(meaning, advice, harmless, instead)
    return {name: rule for name in names}


_ATTRIBUTES: Final[dict[str, Foreign]] = {
    **_named(
        _QUEUE_ARGUMENTS, CREATE_QUEUE, (),
        "x-queue-name", "x-queue-type", "x-queue-mode", "x-expires", "x-message-ttl",
        "x-max-length", "x-max-length-bytes", "x-overflow", "x-max-priority",
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-single-active-consumer",
    ),
}  # fmt: skip

ON_SEND: Final[dict[str, Foreign]] = {
    **_ATTRIBUTES,
    **_named(
        "repeated deliveries are", REPEAT, (),
        "AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT",
    ),
    **_named(
        _SCHEDULED, SCHEDULE, ("0",), "JMSDeliveryTime", "x-delay",
        instead=(*DELIVERY_TIME.names, "AMQ_SCHEDULED_DELAY"),
    ),
}  # fmt: skip

ON_SUBSCRIBE: Final[dict[str, Foreign]] = {
    **_ATTRIBUTES,
    **_named(
        "limits of messages kept for slow subscribers are", SUBSCRIBE_WITHOUT, ("0", "-1"),
        "activemq.maximumPendingMessageLimit",
    ),
    **_named(
        _STREAMS, SUBSCRIBE_WITHOUT, (),
        "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered",
    ),
}  # fmt: skip

ON_UNSUBSCRIBE: Final[dict[str, Foreign]] = _named(
    "durable subscriptions that end by this header are", UNSUBSCRIBE_BY_ID, ("false",), "durable"
)

ON_NACK: Final[dict[str, Foreign]] = _named(
    "rejections that bring no message back are",
    "NACK is a failed attempt; max-delivery-attempts of the address says after how many a message"
    " is dead-lettered",
    ("true",),
    "requeue",
)


def refuse(head: Head, table: dict[str, Foreign]) -> None:
    """Refuse a header of a table, unless its value is harmless or another header counts instead.

    Raises StompError.
    """
    for name in table.keys() & head.values.keys():
        rule = table[name]
        if head.values[name] not in rule.harmless and not any(
            each in head.values for each in rule.instead
        ):
            raise _unsupported(name, rule.meaning, rule.advice)


def refuse_queue_attributes(head: Head, *, is_durable: bool) -> None:
    """Refuse `durable` and `auto-delete` if they request another kind of queue. Raises StompError.

    RabbitMQ creates queues as these headers say. Here queues and durable subscriptions are durable
    and stay; other subscriptions to a topic are neither.
    """
    usual = {"durable": "true", "auto-delete": "false"}
    if not is_durable:
        usual = {"durable": "false", "auto-delete": "true"}
    for name, value in usual.items():
        if head.values.get(name, value) != value:
            raise _unsupported(
                name, _QUEUE_ARGUMENTS, CREATE_QUEUE if is_durable else DURABLE_BY_ID
            )


def asked_of_a_queue(head: Head) -> str:
    """Return what a frame asks of its queue, "" for nothing: a queue that is durable or stays."""
    asked = {"durable": "true", "auto-delete": "false"}
    return next(
        (f"{name}:{each}" for name, each in asked.items() if head.values.get(name) == each), ""
    )


def _unsupported(name: str, meaning: str, advice: str) -> StompError:
    return StompError(f"header {name}: {meaning} not supported in this version", advice)
