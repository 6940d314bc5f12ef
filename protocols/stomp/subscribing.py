"""The meaning of SUBSCRIBE. Must never know the session that receives it."""

from collections.abc import Callable
from typing import Final

from daybook.engine.commands import NO_HISTORY, Attach, AttachAll
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.settlements import AUTO, BY_GRANT, BY_SETTLEMENT, UNMETERED
from daybook.protocols.stomp import composite_subscribing
from daybook.protocols.stomp.reading import Reading
from daybook.protocols.stomp.wire import foreign, synonyms
from daybook.protocols.stomp.wire.destinations import Target
from daybook.protocols.stomp.wire.durable_names import durable_name
from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.frames import Head, number, required, truth
from daybook.protocols.stomp.wire.options import StompOptions

CLIENT: Final = "client"
CLIENT_INDIVIDUAL: Final = "client-individual"
_ACK_MODES: Final = (AUTO, CLIENT, CLIENT_INDIVIDUAL)

_MILLISECONDS: Final = "milliseconds since 1970"
_PRIORITY_DIGITS_MAX: Final = 9

_DEFAULT_CREDIT: Final = 655_360
_DEFAULT_CREDIT_SIZE: Final = 65_536


class SubscribeRequest:
    """A parsed SUBSCRIBE of a client with this id; `key` is its `subscription_key`.

    Deliveries use credit if they are acknowledged, which returns it; with `ack:auto` they use
    credit only if the client gave one, and then only ACK returns it.
    """

    __slots__ = (
        "ack_mode", "after", "credit_bytes", "credit_messages", "credit_policy", "destination",
        "durable_name", "exclusive", "filter", "id", "key", "needs_queue", "no_local", "options",
        "priority", "reading", "settles_by_message", "since", "targets",
    )  # fmt: skip

    def __init__(
        self, head: Head, needs_id: bool, client_id: str, options: StompOptions, connection: int
    ) -> None:
        foreign.refuse(head, foreign.ON_SUBSCRIBE)
        values = head.values
        self.destination: str = required(head, "destination")
        name = durable_name(head, client_id)
        is_named_by_id = truth(head, "persistent", False) and name is None
        id_required = needs_id or is_named_by_id or "id" in values
        self.id: str | None = required(head, "id") if id_required else None
        self.key: tuple[str, str] = subscription_key(self.id, self.destination)
        wanted_type = values.get(synonyms.SUBSCRIPTION_TYPE.chosen(values))
        # Where subscriptions need no id, ACK names none either.
        self.settles_by_message: bool = not needs_id
        self.options: StompOptions = options
        self.targets: list[Target] = composite_subscribing.targets_of(
            self.destination, wanted_type, options, connection
        )
        self.durable_name: str | None = self.id if is_named_by_id else name
        durable = self.durable_name is not None
        self.reading: Reading = Reading(head)
        composite_subscribing.check(
            self.destination,
            self.targets,
            options.syntax,
            has_start=self.reading.from_sequence is not None,
            is_durable=durable,
        )
        if durable:
            _check_durable(self.destination, self.targets[0])
        is_topic = all(
            each.routing_type == MULTICAST and each.queue is None for each in self.targets
        )
        foreign.refuse_queue_attributes(head, is_durable=durable or not is_topic)
        self.needs_queue: str = foreign.asked_of_a_queue(head)
        self.ack_mode: str = values.get("ack", AUTO)
        if self.ack_mode not in _ACK_MODES:
            raise StompError(
                f"ack is {shortened(self.ack_mode)}", "write auto, client or client-individual"
            )
        self.filter: str = values.get(synonyms.FILTER.chosen(values), "")
        credit = synonyms.CREDIT.chosen(values)
        self.credit_policy: int = BY_SETTLEMENT
        if self.ack_mode == AUTO:
            self.credit_policy = BY_GRANT if credit == "credit" else UNMETERED
        self.credit_messages, self.credit_bytes = (
            _WINDOWS[credit](values[credit]) if credit else (_DEFAULT_CREDIT, _DEFAULT_CREDIT)
        )
        self.priority: int = _priority(values)
        exclusive = synonyms.EXCLUSIVE.chosen(values)
        self.exclusive: bool = bool(exclusive) and truth(head, exclusive, False)
        if self.reading.browses and (self.priority or self.exclusive):
            what = "is exclusive" if self.exclusive else "has a priority"
            raise StompError(f"a browser that {what}", "only consumers can have that; leave it out")
        no_local = synonyms.NO_LOCAL.chosen(values)
        self.no_local: bool = bool(no_local) and truth(head, no_local, False)
        self.after, self.since = _start(head)

    @property
    def parts(self) -> int:
        """How many destinations it has."""
        return len(self.targets)

    def command(self, connection: int, receiver: object) -> Attach | AttachAll:
        """Return the command that attaches it, with the receiver of the deliveries."""
        attach = self._attach(connection, receiver)
        if composite_subscribing.is_of_several(self.targets, self.options.syntax):
            return composite_subscribing.several(attach, self.targets, self.options)
        return attach

    def _attach(self, connection: int, receiver: object) -> Attach:
        """Return the command for the first destination."""
        target = self.targets[0]
        return Attach(
            connection=connection,
            address=target.address,
            subscription=self.id if self.id is not None else self.destination,
            routing_type=MULTICAST if self.durable_name is not None else target.routing_type,
            queue=target.queue,
            durable_name=self.durable_name,
            filter=self.filter,
            acknowledges=self.ack_mode != AUTO,
            cumulative=self.ack_mode == CLIENT,
            settles_by_message=self.settles_by_message,
            credits_early=True,
            tells_retained=True,
            credit_policy=self.credit_policy,
            credit_messages=self.credit_messages,
            credit_bytes=self.credit_bytes,
            priority=self.priority,
            exclusive=self.exclusive,
            no_local=self.no_local,
            from_sequence=self.reading.from_sequence,
            browses=self.reading.browses,
            listens=self.reading.listens,
            receiver=receiver,
            after=self.after,
            since=self.since,
            needs_queue=self.needs_queue,
        )


def subscription_key(id: str | None, destination: str) -> tuple[str, str]:
    """Return the key of a subscription of a connection: its id, or in 1.0 its destination."""
    return ("id", id) if id is not None else ("destination", destination)


def _check_durable(destination: str, target: Target) -> None:
    if target.routing_type == ANYCAST or target.queue is not None:
        raise StompError(
            f"a durable subscription to {shortened(destination)}, which is not a topic",
            "a durable subscription is made on a topic; subscribe to a queue, to ADDRESS::QUEUE"
            " or to /dsub/ID without persistent, and without a name",
        )


def _priority(values: dict[str, str]) -> int:
    """Return the priority of the consumer, from the header of any of the known brokers."""
    name = synonyms.CONSUMER_PRIORITY.chosen(values)
    text = values[name].strip() if name else "0"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _PRIORITY_DIGITS_MAX):
        raise StompError(
            f"{name} is {shortened(text)}",
            "give a whole number; consumers with a higher one are served first",
        )
    return int(text)


def _start(head: Head) -> tuple[int, int]:
    """Return where the history for a new queue begins: after an event, and since a time."""
    name = synonyms.RETROACTIVE.chosen(head.values)
    if name and not truth(head, name, True):
        return NO_HISTORY, 0
    found = []
    for header, what in (("retroactive-after", "an event"), ("retroactive-since", _MILLISECONDS)):
        given = head.values.get(header, "0")
        value = number(given.strip())
        if value is None:
            raise StompError(f"{header} is {shortened(given)}", f"give the number of {what}")
        found.append(value)
    return found[0], found[1]


def _credit(given: str) -> tuple[int, int]:
    """Apollo: COUNT or COUNT,BYTES; deliveries continue while one of the windows is positive."""
    messages, comma, size = given.partition(",")
    count = number(messages.strip())
    size_bytes = number(size.strip()) if comma else _DEFAULT_CREDIT_SIZE
    if count is None or size_bytes is None:
        raise StompError(
            f"credit is {shortened(given)}", "write credit:COUNT or credit:COUNT,BYTES"
        )
    return count, size_bytes


def _prefetch_count(given: str) -> tuple[int, int]:
    """RabbitMQ: messages that may be unacknowledged, 0 for any number."""
    count = number(given)
    if count is None:
        raise StompError(
            f"prefetch-count is {shortened(given)}", "give a number of messages, 0 for any number"
        )
    return (count, 0) if count else (_DEFAULT_CREDIT, _DEFAULT_CREDIT)


def _prefetch_size(given: str) -> tuple[int, int]:
    """ActiveMQ: messages that may be unacknowledged; 0 means pulling, which STOMP does not have."""
    count = number(given)
    if not count:
        raise StompError(
            f"activemq.prefetchSize is {shortened(given)}", "give a number of messages from 1 on"
        )
    return count, 0


def _consumer_window(given: str) -> tuple[int, int]:
    """Artemis: bytes that may be unacknowledged, 0 for one message at a time, -1 for no limit."""
    if given == "-1":
        return _DEFAULT_CREDIT, _DEFAULT_CREDIT
    size = number(given)
    if size is None:
        raise StompError(
            f"consumer-window-size is {shortened(given)}",
            "give a number of bytes, 0 for one message at a time, -1 for no limit",
        )
    return (0, size) if size else (1, 0)


_WINDOWS: Final[dict[str, Callable[[str], tuple[int, int]]]] = {
    "credit": _credit,
    "prefetch-count": _prefetch_count,
    "activemq.prefetchSize": _prefetch_size,
    "consumer-window-size": _consumer_window,
}
