"""A link by which the peer receives: the receiver of its consumer, and the taker of large bodies.

Must never know how a link is attached.
"""

from collections import deque
from functools import partial
from typing import Any, Final, TypeAlias

from daybook.engine.commands import AcceptAll, Credit, Detach
from daybook.engine.facts import reasons
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.amqp.faults import detached, error
from daybook.protocols.amqp.leaving import front_of, is_as_it_came, parts_of
from daybook.protocols.amqp.sessions import AmqpSession, Link
from daybook.protocols.amqp.tags import Tags
from daybook.protocols.amqp.tracing import onward, stop_of, with_stop
from daybook.protocols.amqp.wire.errors import INTERNAL_ERROR
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.hot import SHORT_NUMBERS, TransferHeads, transfer_frames
from daybook.protocols.amqp.wire.performatives import Flow, Transfer
from daybook.protocols.amqp.wire.serial import distance
from daybook.protocols.port import RECEIVES, DeliveredMessage, LinkRow, Pull

_MASK: Final = 0xFFFF_FFFF
_HEAD_ROOM: Final = 64
"""More than the head of a transfer behind the first one of a delivery takes."""
_ALIKE_BYTES: Final = 512
"""Longer headers are not remembered."""
_WAITING_BYTES: Final = 256
"""Bytes of memory for a delivery that waits, besides its message."""


def _size_of(message: DeliveredMessage) -> int:
    """Return how many bytes of memory a delivery takes while it waits."""
    return _WAITING_BYTES + len(message.headers) + len(message.body)


Behind: TypeAlias = tuple[DeliveredMessage, int, int, int] | tuple[int, int]
"""A delivery, or the answer to a drain."""


class Large:
    """A large message on its way: `done` chunks have been pulled."""

    __slots__ = ("chunks", "done", "gate", "message", "tail")

    def __init__(self, message: DeliveredMessage, gate: int, tail: bytes) -> None:
        self.message: Final = message.id
        self.chunks: Final = message.chunks
        self.gate: Final = gate
        self.tail: Final = tail
        self.done = 0


class Outgoing(Link):
    """The link. `consumer` is the id of its consumer once it is attached. `is_settled` says that
    deliveries are settled when they are sent. `subscription` is the name of the durable
    subscription that closing the link ends, or empty. `is_subscription` says that closing it
    ends any other, and so does the end of its session, unless it `outlives_session`. `mark` is the
    place from which messages leave, if they are traced (`protocols.amqp.tracing`), else empty.

    It `awaits_sender` if its deliveries are settled last by the senders to a direct address (mode
    second). `ended` are those, by message, whose outcome the peer has said: with their numbers, and
    the states that it hears again when they are settled."""

    __slots__ = (
        "_behind", "_count", "_front", "_headers", "_heads", "_held_bytes", "_in_all", "_large",
        "_middle", "address", "awaits_sender", "consumer", "default", "ended", "is_settled",
        "is_subscription", "limit", "mark", "outlives_session", "subscription", "tags", "unsettled",
    )  # fmt: skip

    def __init__(
        self,
        session: AmqpSession,
        handle: int,
        name: str,
        number: int,
        address: str | None = None,
        *,
        is_settled: bool,
    ) -> None:
        super().__init__(session, handle, name, number)
        self.is_settled: Final = is_settled
        self.consumer = 0
        self.address: Final = address
        self.default: Any = None
        self.subscription = ""
        self.is_subscription = False
        # How many deliveries there may be in all, 0 for any number.
        self.limit = 0
        self.outlives_session = False
        self.mark = ""
        self.awaits_sender = False
        self.ended: Final[dict[int, tuple[int, Any]]] = {}
        # Bytes of memory for deliveries behind a large one.
        self._held_bytes = 0
        # The ids of messages by their delivery numbers.
        self.unsettled: Final[dict[int, int]] = {}
        output = session.output
        self.tags: Final = Tags(
            output.caller.secret, output.user, output.container, name, address or ""
        )
        self._heads: Final = TransferHeads(session.channel, handle, is_settled)
        # Of the last delivery: the header of the transfer, the headers of the message, and the
        # bytes that became of them.
        self._front = self._headers = self._middle = b""
        # The delivery-count: deliveries, and credit that drains took back; and that which would
        # use up the credit of the peer.
        self._count = 0
        self._in_all = 0
        self._large: Large | None = None
        # Deliveries that wait for a large one or the window, and what is to be said behind them.
        self._behind: Final[deque[Behind]] = deque()

    def ends(self, *, closes: bool) -> bool:
        """Whether its subscription ends with it, which is closed, or else only its session."""
        return self.is_subscription and (closes or not self.outlives_session)

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that was not pulled; 0 if none."""
        large = self._large
        if large is not None and large.done < len(large.chunks):
            return large.chunks[large.done]
        behind = [each[0] for each in self._behind if len(each) == 4]
        return min((each.chunks[0] for each in behind if each.chunks), default=0)

    @property
    def is_receiving(self) -> bool:
        """Say that the peer receives by it."""
        return True

    def row(self) -> LinkRow:
        """Return it for administrators."""
        return LinkRow(
            self.name, RECEIVES, self.session.number, self.consumer, self.address,
            credit=max(self._in_all - self._count, 0), in_flight=len(self.unsettled),
            total=self._count,
            waits=self._large is not None or bool(self._behind),
            memory_bytes=self.own_bytes + self._held_bytes,
        )  # fmt: skip

    # ---- effects

    def deliver(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        """Send a delivery, the count-th attempt; behind all others that wait.

        It gets a number when it leaves: should the link end before, no number is missing.
        """
        if self.is_gone:
            return
        session = self.session
        is_first = not self._behind and self._large is None
        if is_first and not session.is_waiting and session.windows.remote_incoming_window > 0:
            self._send(message, count, marks, gate)
            return
        self._behind.append((message, count, marks, gate))
        self._hold(message, 1)
        if is_first:
            session.hold(self, self._turn)

    def _turn(self) -> bool:
        """Send the first that waits: the window of the session has room for it. Return whether
        another one is to follow, when others had their turn."""
        each = self._pop_behind()
        assert len(each) == 4
        self._send(*each)
        return self._is_another()

    def _is_another(self) -> bool:
        """Answer drains, which need no room; return whether a delivery is to follow now."""
        while self._behind and self._large is None:
            first = self._behind[0]
            if len(first) == 4:
                return True
            self._behind.popleft()
            self.session.behind(partial(self._say_drained, first[1]))
        return False

    def _send(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        session = self.session
        delivery = session.number_delivery()
        self._count += 1
        front = front_of(message, count, marks, session.output.now if message.expires else 0)
        if not self.is_settled:
            self.unsettled[delivery] = message.id
            session.unsettled[delivery] = self
        if self._is_alike(message, front):
            parts = [self._middle, message.body]
        else:
            parts = self._parts_of(message, front)
        if message.chunks:
            self._begin_large(delivery, self.tags.tag(message.id), message, parts, gate)
        elif not self._send_usual(message.id, delivery, parts, gate):
            session.send(
                self,
                transfer_frames(
                    session.channel, self.handle, delivery, self.tags.tag(message.id),
                    self.is_settled, parts, session.output.max_frame_size,
                ),
                gate,
            )  # fmt: skip

    def _parts_of(self, message: DeliveredMessage, front: bytes) -> list[bytes]:
        """Return the parts of a message, behind its header section."""
        output = self.session.output
        try:
            if not self.mark:
                parts = parts_of(message, front, output.prefixes)
                self._remember(message, front, parts)
                return parts
            stop = stop_of(message, output.broker.identity, self.mark)
            return with_stop(message, front, stop) or parts_of(
                message, front, output.prefixes, onward(message, stop)
            )
        except Malformed:
            return [front, message.headers, message.body]

    def _is_alike(self, message: DeliveredMessage, front: bytes) -> bool:
        """Whether a message has the same in front of its body as the one before."""
        return front is self._front and message.headers == self._headers and is_as_it_came(message)

    def _remember(self, message: DeliveredMessage, front: bytes, parts: list[bytes]) -> None:
        """Remember what is in front of a body, if the next message can have the same there."""
        if len(parts) == 3 and is_as_it_came(message) and len(message.headers) <= _ALIKE_BYTES:
            self._front, self._headers = front, message.headers
            self._middle = front + parts[1]

    def _send_usual(self, message: int, delivery: int, parts: list[bytes], gate: int) -> bool:
        """Send a message in a frame as most are; return whether it can have one."""
        size = 0
        for part in parts:
            size += len(part)
        output = self.session.output
        if delivery < SHORT_NUMBERS or self._heads.size + size > output.max_frame_size:
            return False
        proof = self.tags.proof(message)
        output.out.append(self._heads.head(delivery, message, proof, size))
        output.out += parts
        self.session.windows.transfer_left()
        if gate > output.gate:
            output.gate = gate
        return True

    def drained(self, unused: int, total: int) -> None:
        """Answer a drain, behind what was delivered for it."""
        if self._behind or self._large is not None:
            self._behind.append((unused, total))
        else:
            self.session.behind(partial(self._say_drained, total))

    def _say_drained(self, total: int) -> None:
        if not self.is_gone:
            self._count = total
            self.session.say_flow(handle=self.handle, drain=True, **self.state_of_flow())

    def browsed(self) -> None:
        """Ignore the end of a browse: a drain tells it."""

    def settled(self, messages: tuple[int, ...], reason: int, gate: int) -> None:
        """Forget deliveries that the broker ended; settle those whose outcome the peer has said."""
        for said in [self.ended[each] for each in messages if each in self.ended]:
            self.forget(said[0])
            self.session.settle_sent(*said)
        if self.awaits_sender:
            return
        ended = set(messages)
        for delivery in [each for each, message in self.unsettled.items() if message in ended]:
            self.forget(delivery)

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """End the link: its queue is gone."""
        if self.is_gone:
            return
        self.drop()
        # What another link took over is still there.
        closes = reason != reasons.STOLEN
        self.session.end_link(self.peer_handle, detached(reason, text), gate, closes=closes)

    # ---- from the session

    def flow(self, flow: Flow, now: int) -> None:
        """Take credit: how many deliveries there may be in all."""
        if flow.link_credit is None or self.is_leaving:
            return
        # The count of the peer is as wide as its field; the engine counts on.
        behind = distance(self._count & _MASK, flow.delivery_count or 0)
        self._in_all = max(self._count + behind, 0) + flow.link_credit
        if self.limit:
            self._in_all = min(self._in_all, self.limit)
        command = Credit(self.consumer, in_all=self._in_all, drains=flow.drain)
        self.session.output.ask(command, lambda answer, now: None, now)

    def stop(self, now: int) -> None:
        """Take no more messages; those on their way get their outcomes."""
        self.is_leaving = True
        self._in_all = self._count
        command = Credit(self.consumer, in_all=self._count)
        self.session.output.ask(command, lambda answer, now: None, now)

    @property
    def is_still(self) -> bool:
        """Whether each message that it took has its outcome."""
        return not (self.unsettled or self._large or self._behind)

    def state_of_flow(self) -> dict[str, Any]:
        """Return its delivery-count, what is left of the credit, and how many messages wait."""
        # A peer may have said more than a field can hold.
        credit = min(max(self._in_all - self._count, 0), _MASK)
        available = self.session.output.broker.available(self.consumer)
        return {
            "delivery_count": self._count & _MASK, "link_credit": credit, "available": available,
        }  # fmt: skip

    def accept_all(self, deliveries: list[int], now: int) -> int:
        """Accept the first of these deliveries, which the peer has settled, as many as are of this
        link and as the budget allows; return how many."""
        output, unsettled = self.session.output, self.unsettled
        messages: list[int] = []
        for delivery in deliveries[: output.broker.budget.left]:
            message = unsettled.get(delivery)
            if message is None:
                break
            messages.append(message)
        answer = output.broker.handle(AcceptAll(self.consumer, messages), now)
        if isinstance(answer, Refusal) and answer.code is Code.UNFINISHED:
            return 0
        known = self.session.unsettled
        for delivery in deliveries[: len(messages)]:
            message = unsettled.pop(delivery, None)
            if message is not None:
                known.pop(delivery, None)
                if self.ended:
                    self.ended.pop(message, None)
        return len(messages)

    def forget(self, delivery: int) -> None:
        """Forget a delivery that is settled."""
        if delivery in self.unsettled:
            self.ended.pop(self.unsettled.pop(delivery), None)
            self.session.unsettled.pop(delivery, None)

    def _hold(self, message: DeliveredMessage, times: int) -> None:
        size = times * _size_of(message)
        self.session.output.unsent_bytes += size
        self._held_bytes += size

    def drop(self) -> None:
        """Send no more."""
        self.is_gone = True
        self._large = None
        while self._behind:
            self._pop_behind()
        for delivery in list(self.unsettled):
            self.forget(delivery)

    # ---- large messages

    def _begin_large(
        self, delivery: int, tag: bytes, message: DeliveredMessage, parts: list[bytes], gate: int
    ) -> None:
        tail = parts[3] if len(parts) > 3 and not parts[2] else b""
        head = b"".join(parts[:3] if tail else parts)
        session = self.session
        size = session.output.max_frame_size - _HEAD_ROOM
        first = Transfer(self.handle, delivery, tag, 0, self.is_settled, more=True)
        frames = [frame(session.channel, first, head[:size])]
        if len(head) > size:
            frames += self._frames_of(head[size:], is_last=False)
        self._large = Large(message, gate, tail)
        session.send(self, frames, gate)
        session.behind(self._pull)

    def _pull(self) -> None:
        large = self._large
        if large is None or self.is_gone:
            return
        before = large.chunks[large.done - 1] if large.done else 0
        self.session.output.pulls.append(
            Pull(self, large.chunks[large.done], before, large.gate, large.message, self.consumer)
        )

    def _frames_of(self, piece: bytes, *, is_last: bool) -> list[bytes]:
        """Return further frames of a delivery; its end is in the last one of the last piece."""
        session = self.session
        size = session.output.max_frame_size - _HEAD_ROOM
        return [
            frame(
                session.channel,
                Transfer(self.handle, more=not is_last or at + size < len(piece)),
                piece[at : at + size],
            )
            for at in range(0, max(len(piece), 1), size)
        ]

    def take(self, piece: bytes, now: int) -> None:
        """Take a piece of the body."""
        large = self._large
        if large is None or self.is_gone:
            return
        large.done += 1
        is_last = large.done == len(large.chunks)
        if is_last:
            piece += large.tail
        session = self.session
        session.send(self, self._frames_of(piece, is_last=is_last), large.gate)
        session.behind(self._end_large if is_last else self._pull)

    def give_up(self, why: str, now: int) -> None:
        """The body cannot be read: the delivery is aborted, and the link ends."""
        session = self.session
        if self.is_gone:
            return
        session.send(self, [frame(session.channel, Transfer(self.handle, aborted=True))], 0)
        command = Detach(self.consumer, reason=reasons.UNREADABLE)
        session.output.ask(command, lambda answer, now: None, now)
        self.drop()
        session.end_link(self.peer_handle, error(INTERNAL_ERROR, why))

    def _pop_behind(self) -> Behind:
        each = self._behind.popleft()
        if len(each) == 4:
            self._hold(each[0], -1)
        return each

    def _end_large(self) -> None:
        self._large = None
        if self._is_another():
            self.session.hold(self, self._turn)


def accept_in_front(session: AmqpSession, deliveries: list[int], now: int) -> list[int]:
    """Accept the first of these deliveries, within the budget: all of a link at once; return those
    that remain."""
    budget = session.output.broker.budget
    while deliveries and not budget.is_spent:
        link = session.unsettled.get(deliveries[0])
        count = link.accept_all(deliveries, now) if isinstance(link, Outgoing) else 0
        if not count:
            break
        deliveries = deliveries[count:]
    return deliveries
