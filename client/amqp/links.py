"""Links of a client: the credit to send, and the deliveries that arrive.

Must never know a session's windows or a socket.
"""

from typing import Final

from daybook.client.amqp.arriving import Arriving
from daybook.client.amqp.failures import AmqpRefused
from daybook.protocols.amqp.faults import DIRECT, DROPPED
from daybook.protocols.amqp.wire.credit import ReceiverCredit
from daybook.protocols.amqp.wire.performatives import Attach, Flow
from daybook.protocols.amqp.wire.serial import after, distance


class ClientLink:
    """A link. `is_attached` says that the peer has attached it; `refusal` that it is detached, and
    why."""

    def __init__(self, name: str, handle: int, about: str) -> None:
        self.name: Final = name
        self.handle: Final = handle
        self.about: Final = about
        self.is_attached = False
        self.refusal: AmqpRefused | None = None

    def attached(self, said: Attach) -> None:
        """Take what the peer says of the link."""
        raise NotImplementedError


class Sender(ClientLink):
    """A link by which the client sends: `credit` deliveries may leave. `tells_drops` says that the
    peer rejects a message that goes to no queue, `is_direct` that there is none: messages go to
    receivers."""

    def __init__(self, name: str, handle: int, about: str) -> None:
        super().__init__(name, handle, about)
        self.credit = 0
        self.delivery_count = 0
        self.message_bytes_max = 0
        self.tells_drops = False
        self.is_direct = False

    def attached(self, said: Attach) -> None:
        """Take what the peer says of the link; without a target it refuses it."""
        self.is_attached = said.target is not None
        self.message_bytes_max = said.max_message_size or 0
        self.tells_drops = DROPPED in said.offered_capabilities
        self.is_direct = DIRECT in said.offered_capabilities

    @property
    def why_no_credit(self) -> str:
        """Why the peer may give no credit."""
        if not self.is_direct:
            return "perhaps it is full"
        if self.delivery_count:
            return "it is a direct address, whose receivers are gone or settle nothing"
        return "it is a direct address, from which nobody receives"

    def flow_came(self, flow: Flow) -> None:
        """Take over what the peer grants."""
        if flow.link_credit is None:
            return
        known = flow.delivery_count or 0
        self.credit = max(0, flow.link_credit - distance(known, self.delivery_count))

    def delivery_left(self) -> None:
        """Count a delivery."""
        assert self.credit > 0, "the peer has not granted a delivery"
        self.credit -= 1
        self.delivery_count = after(self.delivery_count)

    def drained(self) -> None:
        """Use up the credit that is left."""
        self.delivery_count = after(self.delivery_count, self.credit)
        self.credit = 0


class Receiver(ClientLink):
    """A link by which the client receives. `wanted` deliveries in all may still be granted, None
    for any number; `window` of them at a time."""

    def __init__(
        self, name: str, handle: int, about: str, *, window: int, wanted: int | None
    ) -> None:
        super().__init__(name, handle, about)
        self.window: Final = window
        self.wanted = wanted
        self.credit = ReceiverCredit(0)
        self.arriving: Arriving | None = None

    def attached(self, said: Attach) -> None:
        """Take what the peer says of the link; without a source it refuses it."""
        self.is_attached = said.source is not None
        self.credit = ReceiverCredit(said.initial_delivery_count or 0)

    def refill(self) -> bool:
        """Return whether more deliveries are granted than before; a flow must say so."""
        before = self.credit.link_credit
        if before > self.window >> 1:
            return False
        more = self.window - before
        if self.wanted is not None:
            more = min(more, self.wanted)
            self.wanted -= more
        if more <= 0:
            return False
        self.credit.grant(before + more)
        return True
