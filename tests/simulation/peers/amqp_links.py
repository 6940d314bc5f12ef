"""Sessions and links of a simulated client of AMQP: its counts, and its right to send."""

from collections import deque
from typing import Any

from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.performatives import Flow, Transfer
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.peers.amqp_memory import Decided, Outcome
from tests.simulation.peers.amqp_wire import head_of, message_of_tag
from tests.simulation.peers.clients import Subscription
from tests.simulation.peers.ledger import Sent


class Session:
    """A session: the numbers of its frames and deliveries, and both windows."""

    def __init__(self, link: Link, channel: int, window: int) -> None:
        self.channel = channel
        self.window = window
        self.is_begun = False
        self.is_over = False
        self.next_delivery = 0
        self._link = link
        self._outgoing = 0
        self._room = 0
        self._incoming = 0
        self._left = window

    def say(self, performative: Any, payload: bytes = b"") -> None:
        """Write a frame."""
        self._link.to_broker += frame(self.channel, performative, payload)

    def may_send(self) -> bool:
        """Whether the broker takes another frame of a message."""
        return self.is_begun and not self.is_over and self._room > 0

    def send(self, transfer: Transfer, payload: bytes = b"") -> None:
        """Write a frame of a message."""
        self._room -= 1
        self._outgoing += 1
        self.say(transfer, payload)

    def begun(self, window: int) -> None:
        """The broker has begun it, too."""
        self.is_begun = True
        self._room = window

    def flow_came(self, flow: Flow) -> None:
        """Take the window of the broker."""
        self._room = (flow.next_incoming_id or 0) + flow.incoming_window - self._outgoing

    def transfer_came(self) -> None:
        """Count a frame of a message; widen the window when half of it is used."""
        if self._left <= 0:
            raise Violation("protocol", f"a transfer is beyond the window of {self.channel}")
        self._left -= 1
        self._incoming += 1
        if self._left <= self.window // 2 and not self.is_over:
            self.say_flow()

    def say_flow(self, **link: Any) -> None:
        """Say the windows, and perhaps the credit of a link."""
        self._left = self.window
        self.say(
            Flow(
                next_incoming_id=self._incoming, incoming_window=self.window,
                next_outgoing_id=self._outgoing, outgoing_window=1 << 20, **link,
            )
        )  # fmt: skip


class Sender:
    """A link by which the client sends: to `destination`, or where each message says with ""."""

    def __init__(self, session: Session, handle: int, name: str, destination: str) -> None:
        self.session = session
        self.handle = handle
        self.name = name
        self.destination = destination
        self.is_attached = False
        self.is_leaving = False
        self.is_coordinator = False
        self.credit = 0
        self.count = 0
        # The rest of the last message, which may be aborted if it was never sent before.
        self.rest: deque[tuple[Transfer, bytes]] = deque()
        self.sent: Sent | None = None
        self.may_abort = False

    def can_send(self) -> bool:
        """Whether a message may begin."""
        ready = self.is_attached and not (self.is_leaving or self.rest) and self.credit > 0
        return ready and self.session.may_send()

    def flow_came(self, flow: Flow) -> None:
        """Take credit."""
        self.credit = (flow.delivery_count or 0) + (flow.link_credit or 0) - self.count

    def begin(self) -> int:
        """Return the number of a new delivery."""
        self.credit -= 1
        self.count += 1
        number = self.session.next_delivery
        self.session.next_delivery = number + 1
        return number


class Receiver:
    """A link by which the client receives."""

    def __init__(
        self, session: Session, handle: int, subscription: Subscription, is_settled: bool
    ) -> None:
        self.session = session
        self.handle = handle
        self.name = subscription.record.name
        self.subscription = subscription
        self.is_settled = is_settled
        self.is_attached = False
        self.is_leaving = False
        self.count = 0
        self.limit = 0
        self.tells = ""
        # The tags of durable messages; outcomes of which the broker has not said that it knows
        # them, with their message, by number; and deliveries that it resumes, until it is attached.
        self.durable: dict[int, bytes] = {}
        self.waiting: dict[int, tuple[int, Outcome]] = {}
        self.resumes: Decided = {}
        self._arriving: tuple[int, int] | None = None

    def grant(self, credit: int, *, drain: bool) -> None:
        """Give the broker credit."""
        self.limit = max(self.limit, self.count + credit)
        self.session.say_flow(
            handle=self.handle, delivery_count=self.count, link_credit=credit, drain=drain
        )

    def flow_came(self, flow: Flow) -> None:
        """The answer to a drain: credit that is gone."""
        if flow.drain and flow.delivery_count is not None:
            if not self.count <= flow.delivery_count <= self.limit:
                raise Violation("protocol", f"{self.name} got {self.count} of {self.limit}: {flow}")
            self.count = flow.delivery_count

    def forget(self, numbers: range) -> None:
        """The broker has settled deliveries."""
        for number in numbers:
            self.waiting.pop(number, None)

    def unknown_ends(self) -> Decided:
        """Return the durable deliveries whose end the client does not know, with its outcomes."""
        found: Decided = dict.fromkeys(self.subscription.unsettled)
        found.update(self.waiting.values())
        return {**self.resumes, **{each: found[each] for each in found if each in self.durable}}

    def transfer_came(self, said: Transfer, payload: bytes) -> tuple[int, int] | None:
        """Take a frame; return the number and the message of the delivery if it was the last."""
        if self._arriving is None:
            assert said.delivery_id is not None, said
            message = message_of_tag(said.delivery_tag)
            self._arriving = said.delivery_id, message
            if head_of(payload).durable:
                self.durable[message] = said.delivery_tag or b""
            self.count += 1
            if self.count > self.limit:
                raise Violation("protocol", f"{self.name} got {self.count} of {self.limit}: {said}")
        arrived = self._arriving
        if said.more and not said.aborted:
            return None
        self._arriving = None
        return None if said.aborted else arrived
