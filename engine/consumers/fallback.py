"""Queues of direct addresses: they are emptied as soon as somebody receives.

While nobody receives, messages to an address with `enable-fallback` enter the queue of its name. Of
a sharded queue one shard may be a queue here, behind the address as those of other brokers are.
When receivers are there, a consumer of the broker itself takes what is stored, in order, and sends
it to the phase of the address at which they receive, like any sender; the outcome of each message
is that of its delivery from the queue. It is on a connection of its own, that no peer has. Must
never know how a receiver is chosen.
"""

from typing import Any, Final

from daybook.engine.commands import (
    FORWARDED,
    Attach,
    AttachSender,
    OpenConnection,
    Send,
    Settle,
)
from daybook.engine.consumers.connections import open_connection
from daybook.engine.consumers.subscriptions import begin_consuming, detach_consumer
from daybook.engine.core.core import Core
from daybook.engine.direct import attaching
from daybook.engine.direct.forwarding import entry_for, forward
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import OWN_PROTOCOL
from daybook.engine.facts.events import FORMAT, GROUPED
from daybook.engine.facts.settlements import BY_SETTLEMENT, RELEASED
from daybook.engine.links.links import CAPACITY, DirectAddress, Ending
from daybook.engine.messages.message import Message
from daybook.engine.queues.consumer import UNLIMITED
from daybook.engine.refusals import Refusal
from daybook.engine.settling.settlement import settle


class Emptying:
    """The way of what a queue has to its direct address: the receiver of a consumer of the queue,
    and of what its messages' sender hears."""

    __slots__ = ("_core", "_name", "consumer", "sender")

    def __init__(self, core: Core, name: str) -> None:
        self._core: Final = core
        self._name: Final = name
        self.consumer = 0
        self.sender = 0

    def deliver(self, message: Message, count: int, marks: int, gate: int) -> None:
        """Send a message on."""
        core = self._core
        sender = core.direct.senders.get(self.sender)
        entry = entry_for(core, self._name)
        address = sender.address if sender is not None else None
        answer: int | Refusal | None = None
        if sender is not None and entry is not None and address is not None and address.receivers:
            send = self._sent(message, sender.connection_id)
            answer = forward(core, send, entry, count, marks, message.id)
        if answer != FORWARDED:
            self.ended(message.id, Ending(RELEASED), core.now)

    def _sent(self, message: Message, connection: int) -> Send:
        return Send(
            connection, self._name, message.headers, message.body, priority=message.priority,
            persistent=message.persistent, expires=message.expires, chunks=message.chunks,
            body_bytes=message.body_bytes, format=message.flags & (FORMAT | GROUPED),
            annotations=message.annotations, sender=self.sender, token=message.id,
        )  # fmt: skip

    def ended(self, token: Any, ending: Ending, now: int) -> None:
        """End the delivery from the queue as the receiver has ended the message."""
        command = Settle(
            self.consumer, token, outcome=ending.outcome, error=ending.error,
            condition=ending.condition, not_here=ending.not_here, annotations=ending.annotations,
        )  # fmt: skip
        if self.consumer not in self._core.state.consumers:
            return
        if isinstance(settle(self._core, command), Refusal) and ending.annotations:
            # As for any consumer: the message comes again without them.
            command.annotations = None
            settle(self._core, command)

    def opened(self, is_open: bool, now: int) -> None:
        """Ignore it: messages come only while somebody receives."""

    def browsed(self) -> None:
        """Nothing is browsed."""

    def drained(self, unused: int, total: int) -> None:
        """Nothing is drained."""

    def settled(self, messages: tuple[int, ...], reason: int, gate: int) -> None:
        """Deliveries that the broker ended need no outcome."""

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """The queue is gone; there may be another one of its name, then or later."""
        if self._core.direct.emptied.get(self._name) is self:
            _end(self._core, self._name)
            self._core.direct.changed[self._name] = None


def review(core: Core) -> None:
    """Begin or end emptying queues of addresses whose receivers came or went, or which have a queue
    now."""
    changed = list(core.direct.changed)
    core.direct.changed.clear()
    for name in changed:
        root = core.direct.addresses.get(name)
        address = root.found_at(root.entry.receiving_phase) if root is not None else None
        has_receivers = address is not None and bool(address.receivers)
        if name in core.direct.emptied:
            if not has_receivers:
                _end(core, name)
        elif address is not None and has_receivers:
            _begin(core, address)


def _begin(core: Core, address: DirectAddress) -> None:
    name = address.name
    queue = core.state.queue_by_name.get(name)
    if queue is None or queue.deleting:
        return
    connection = _connection(core)
    emptying = Emptying(core, name)
    asked = AttachSender(connection, name, name=OWN_PROTOCOL, receiver=emptying)
    emptying.sender = attaching.begin_sending(core, asked, address)
    command = Attach(
        connection, queue.address.name, subscription=OWN_PROTOCOL, queue=name,
        credit_policy=BY_SETTLEMENT, credit_messages=CAPACITY, credit_bytes=0, receiver=emptying,
    )  # fmt: skip
    emptying.consumer = begin_consuming(core, command, queue, None).id
    core.direct.emptied[name] = emptying


def _connection(core: Core) -> int:
    """Return the connection of the broker itself, which is opened when it is first needed."""
    if core.direct.connection not in core.state.connections:
        opened = open_connection(
            core, OpenConnection(OWN_PROTOCOL, "the broker itself", "", room=UNLIMITED)
        )
        assert not isinstance(opened, Refusal), opened.text
        core.state.connections[opened].is_trusted = True
        core.direct.connection = opened
    return core.direct.connection


def _end(core: Core, name: str) -> None:
    emptying: Emptying = core.direct.emptied.pop(name)
    sender = core.direct.senders.get(emptying.sender)
    if sender is not None:
        attaching.detach(core, sender, reasons.CLOSED)
    consumer = core.state.consumers.get(emptying.consumer)
    while consumer is not None and not detach_consumer(core, consumer, reasons.CLOSED):
        # At most CAPACITY deliveries return.
        core.budget.allow(CAPACITY)
