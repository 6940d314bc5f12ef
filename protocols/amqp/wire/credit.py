"""The credit of a link by which the peer sends (part 2, section 2.6.7).

That of the other links is counted by the engine. Must never know a session.
"""

from daybook.protocols.amqp.wire.errors import TRANSFER_LIMIT_EXCEEDED, AmqpError
from daybook.protocols.amqp.wire.performatives import Flow
from daybook.protocols.amqp.wire.serial import after, distance


class ReceiverCredit:
    """The credit of a link on which the peer sends: `link_credit` deliveries may come, and `came`
    is how many did."""

    __slots__ = ("came", "delivery_count", "link_credit")

    def __init__(self, initial_delivery_count: int) -> None:
        """Begin without credit."""
        self.delivery_count = initial_delivery_count
        self.link_credit = 0
        self.came = 0

    def grant(self, credit: int) -> None:
        """Let so many deliveries come; a flow says so."""
        self.link_credit = credit

    def delivery_came(self) -> None:
        """Count a delivery, at its first transfer. Raises AmqpError if it was not granted."""
        if self.link_credit <= 0:
            raise AmqpError(TRANSFER_LIMIT_EXCEEDED, "a delivery came without credit")
        self.link_credit -= 1
        self.came += 1
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
