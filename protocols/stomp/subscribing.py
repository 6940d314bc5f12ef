"""What SUBSCRIBE means. Must never know the session that it is sent on."""

from typing import Final

from engine.commands import ANYCAST, MULTICAST, Attach
from protocols.stomp.destinations import Target, resolve
from protocols.stomp.errors import StompError, shortened
from protocols.stomp.frames import Head, number, required, truth
from protocols.stomp.options import StompOptions

AUTO: Final = "auto"
CLIENT: Final = "client"
CLIENT_INDIVIDUAL: Final = "client-individual"
_ACK_MODES: Final = (AUTO, CLIENT, CLIENT_INDIVIDUAL)

_DEFAULT_CREDIT: Final = 655_360
_DEFAULT_CREDIT_SIZE: Final = 65_536

# Headers that would change what is delivered, and that this version does not know.
_UNSUPPORTED: Final[dict[str, str]] = {
    "browser": "browsing subscriptions",
    "browser-end": "browsing subscriptions",
    "include-seq": "sequence numbers",
    "from-seq": "sequence numbers",
    "exclusive": "exclusive subscriptions",
    "activemq.exclusive": "exclusive subscriptions",
    "activemq.retroactive": "retroactive subscriptions",
    "no-local": "subscriptions without the connection's own messages",
    "durable-subscription-name": "durable subscriptions named by this header",
    "durable-subscriber-name": "durable subscriptions named by this header",
    "activemq.subscriptionName": "durable subscriptions named by this header",
}


class SubscribeRequest:
    """A SUBSCRIBE understood; `key` is what `subscription_key` makes of it."""

    __slots__ = (
        "ack_mode", "credit_bytes", "credit_messages", "destination", "durable_name", "filter",
        "id", "key", "target",
    )  # fmt: skip

    def __init__(self, head: Head, needs_id: bool, options: StompOptions) -> None:
        _refuse_unsupported(head)
        values = head.values
        self.destination: str = required(head, "destination")
        durable = truth(head, "persistent", False)
        id_required = needs_id or durable or "id" in values
        self.id: str | None = required(head, "id") if id_required else None
        self.key: tuple[str, str] = subscription_key(self.id, self.destination)
        wanted_type = values.get("subscription-type", values.get("destination-type"))
        self.target: Target = resolve(self.destination, wanted_type, options)
        self.durable_name: str | None = self.id if durable else None
        if durable:
            _check_durable(self.destination, self.target)
        self.ack_mode: str = values.get("ack", AUTO)
        if self.ack_mode not in _ACK_MODES:
            raise StompError(
                f"ack is {shortened(self.ack_mode)}", "write auto, client or client-individual"
            )
        self.filter: str = values.get("selector", "")
        self.credit_messages: int = _DEFAULT_CREDIT
        self.credit_bytes: int = _DEFAULT_CREDIT
        credit = values.get("credit")
        if credit is not None:
            self.credit_messages, self.credit_bytes = _credit(credit)

    def attach(self, connection: int, receiver: object) -> Attach:
        """The command that carries it out, for deliveries to this receiver."""
        target = self.target
        return Attach(
            connection=connection,
            address=target.address,
            subscription=self.id if self.id is not None else self.destination,
            routing_type=MULTICAST if self.durable_name is not None else target.routing_type,
            queue=target.queue,
            durable_name=self.durable_name,
            filter=self.filter,
            acknowledges=self.ack_mode != AUTO,
            ack_mode=self.ack_mode,
            credit_messages=self.credit_messages,
            credit_bytes=self.credit_bytes,
            receiver=receiver,
        )


def subscription_key(id: str | None, destination: str) -> tuple[str, str]:
    """What tells subscriptions of a connection apart: the id, in 1.0 else the destination."""
    return ("id", id) if id is not None else ("destination", destination)


def _refuse_unsupported(head: Head) -> None:
    for name in _UNSUPPORTED.keys() & head.values.keys():
        if head.values[name] != "false" or name in ("include-seq", "from-seq"):
            raise StompError(
                f"header {name}: {_UNSUPPORTED[name]} are not supported in this version",
                "subscribe without it"
                if "durable" not in _UNSUPPORTED[name]
                else "name a durable subscription by id, with persistent:true",
            )


def _check_durable(destination: str, target: Target) -> None:
    if target.routing_type == ANYCAST or target.queue is not None:
        raise StompError(
            f"persistent:true on destination {shortened(destination)}, which is not a topic",
            "a durable subscription is made on a topic; subscribe to a queue, to ADDRESS::QUEUE"
            " or to /dsub/ID without persistent",
        )


def _credit(given: str) -> tuple[int, int]:
    messages, comma, size = given.partition(",")
    count = number(messages.strip())
    size_bytes = number(size.strip()) if comma else _DEFAULT_CREDIT_SIZE
    if count is None or size_bytes is None:
        raise StompError(
            f"credit is {shortened(given)}", "write credit:COUNT or credit:COUNT,BYTES"
        )
    return count, size_bytes
