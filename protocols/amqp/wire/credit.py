"""The credit of a link (part 2, section 2.6.7): how many deliveries its receiver still takes.

Must never know a session.
"""

from daybook.protocols.amqp.wire.errors import TRANSFER_LIMIT_EXCEEDED, AmqpError
from daybook.protocols.amqp.wire.performatives import Flow
from daybook.protocols.amqp.wire.serial import after, distance


class SenderCredit:
    """The credit of a link on which the broker sends.

    `link_credit` deliveries may leave. With `drain` the receiver wants those that there are now,
    and the rest of its credit back.
    """

    __slots__ = ("delivery_count", "drain", "initial_delivery_count", "link_credit")

    def __init__(self, initial_delivery_count: int = 0) -> None:
        """Begin without credit."""
        self.initial_delivery_count = initial_delivery_count
        self.delivery_count = initial_delivery_count
        self.link_credit = 0
        self.drain = False

    def flow_came(self, flow: Flow) -> int:
        """Take over what the receiver grants; return by how much its credit grew, or shrank.

        A receiver that knows no delivery-count yet, because it has not seen the attach, means the
        initial one.
        """
        self.drain = flow.drain
        if flow.link_credit is None:
            return 0
        known = flow.delivery_count
        if known is None:
            known = self.initial_delivery_count
        before = self.link_credit
        self.link_credit = max(0, flow.link_credit - distance(known, self.delivery_count))
        return self.link_credit - before

    def delivery_left(self) -> None:
        """Count a delivery."""
        assert self.link_credit > 0, "the receiver has not granted a delivery"
        self.link_credit -= 1
        self.delivery_count = after(self.delivery_count)

    def drained(self) -> int:
        """Use up the credit that is left, as the answer to a drain; return how much it was."""
        unused, self.link_credit = self.link_credit, 0
        self.delivery_count = after(self.delivery_count, unused)
        return unused


class ReceiverCredit:
    """The credit of a link on which the peer sends: `link_credit` deliveries may come."""

    __slots__ = ("delivery_count", "link_credit")

    def __init__(self, initial_delivery_count: int) -> None:
        """Begin without credit."""
        self.delivery_count = initial_delivery_count
        self.link_credit = 0

    def grant(self, credit: int) -> None:
        """Let so many deliveries come; a flow says so."""
        self.link_credit = credit

    def delivery_came(self) -> None:
        """Count a delivery, at its first transfer. Raises AmqpError if it was not granted."""
        if self.link_credit <= 0:
            raise AmqpError(TRANSFER_LIMIT_EXCEEDED, "a delivery came without credit")
        self.link_credit -= 1
        self.delivery_count = after(self.delivery_count)

    def flow_came(self, flow: Flow) -> int:
        """Take over the delivery-count of the sender; return how much credit it gave back.

        A count that is behind was said in the middle of a delivery, and is ignored. Raises
        AmqpError for one that is beyond the credit.
        """
        if flow.delivery_count is None:
            return 0
        unused = distance(self.delivery_count, flow.delivery_count)
        if unused <= 0:
            return 0
        if unused > self.link_credit:
            text = f"a delivery-count of {flow.delivery_count} is beyond the credit"
            raise AmqpError(TRANSFER_LIMIT_EXCEEDED, text)
        self.delivery_count = flow.delivery_count
        self.link_credit -= unused
        return unused
