"""A model of the credit of a link on which the broker sends, which the engine counts in its way."""

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
