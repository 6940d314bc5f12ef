"""A link by which the peer sends. It alone waits when its address is full.

Messages are given to the broker one after the other. Must never know how a link is attached.
"""

from typing import Any, Final

from daybook.engine.commands import (
    FORWARDED,
    Chunk,
    Command,
    DetachSender,
    GiveUpSend,
    Send,
    SettleSent,
)
from daybook.engine.effects import REDELIVERED
from daybook.engine.facts.own_headers import OWN_HEADERS, VALIDATED_USER
from daybook.engine.facts.settlements import ACCEPTED
from daybook.engine.links.links import Ending
from daybook.engine.messages.amqp.content_codec import (
    size_of_body,
    with_footer,
    with_own,
    without,
)
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.amqp import arriving, tracing
from daybook.protocols.amqp.addressing import Place, place_of
from daybook.protocols.amqp.faults import LinkFault, dropped, error, error_of
from daybook.protocols.amqp.outcomes import fitting, state_of, transaction_of
from daybook.protocols.amqp.sessions import AmqpSession, Link
from daybook.protocols.amqp.wire.credit import ReceiverCredit
from daybook.protocols.amqp.wire.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_ALLOWED,
    UNKNOWN_ID,
    AmqpError,
)
from daybook.protocols.amqp.wire.hot import Single
from daybook.protocols.amqp.wire.kinds import FIRST
from daybook.protocols.amqp.wire.performatives import Error, Transfer
from daybook.protocols.amqp.wire.termini import Accepted, Rejected, TransactionalState
from daybook.protocols.port import SENDS, LinkRow

AHEAD_BYTES: Final = 1 << 20
"""About how many bytes of messages a link may send before the broker has looked at the first."""
CREDIT_MIN: Final = 10
DIRECT_CREDIT: Final = 250
"""The most messages that a link may have on their way to receivers of a direct address, where no
queue stores them before their outcome is known."""
STATE_HEAD_ROOM: Final = 64
"""Room for what a frame with a state has besides that."""
_OWN_MARKS: Final = (
    b"_AMQ_", b"_DAYBOOK_", b"JMSX",
    b"x-opt-ORIG", b"x-opt-ACTUAL", b"x-opt-VALIDATED", b"x-opt-DAYBOOK",
)  # fmt: skip
"""Parts of the names of properties and annotations that only the broker sets."""
CHUNK_BYTES: Final = 64 * 1024
PIECES_MAX: Final = 100
"""How many pieces of a message are kept apart."""
ATTEMPTS_MAX: Final = (1 << 16) - 1
"""More attempts of another broker than this are not counted."""
LOOK_BYTES: Final = 16 * 1024
"""How many bytes further the body of a large message is looked for again."""


def _may_name_own(headers: bytes) -> bool:
    """Return whether a name that only the broker sets may be among the bytes."""
    # `in` would first try to take the name as a number.
    find = headers.find
    return any(find(mark) >= 0 for mark in _OWN_MARKS)


class Unsendable(Exception):
    """A message that the broker does not take; the error says why."""

    def __init__(self, problem: Error) -> None:
        super().__init__(problem.description)
        self.problem: Final = problem


class Message:
    """A message that arrives, in one frame or in several. `txn_id` is that of its transaction,
    `mode` says who settles it first."""

    __slots__ = (
        "body_bytes", "bytes", "chunk", "chunks", "delivery", "held", "is_counted", "is_large",
        "is_refused", "is_settled", "is_whole", "look_at", "mode", "pieces", "send", "txn_id",
    )  # fmt: skip

    def __init__(self, delivery: int, txn_id: bytes | None, mode: int) -> None:
        self.delivery: Final = delivery
        self.mode: Final = mode
        self.txn_id: Final = txn_id
        self.pieces: list[bytes] = []
        # How many bytes of a large message there must be before its body is looked for.
        self.look_at = 0
        self.bytes = 0
        # How many bytes of it are in memory.
        self.held = 0
        self.is_settled = False
        # Whether its transaction waits for it.
        self.is_counted = False
        self.is_whole = False
        self.is_large = False
        # How long the body of a large message is, -1 for all that follows.
        self.body_bytes = -1
        # What still arrives of it is not kept.
        self.is_refused = False
        self.send: Send | None = None
        self.chunks: Final[list[int]] = []
        # The piece that the broker has not taken yet.
        self.chunk: Chunk | None = None

    def add(self, piece: bytes) -> None:
        """Add a piece; many small ones take no more memory than they have bytes."""
        self.pieces.append(piece)
        if len(self.pieces) > PIECES_MAX:
            self.pieces = [b"".join(self.pieces)]


class Incoming(Link):
    """The link. Without a `place` each message says where it goes (anonymous terminus).
    `is_waiting` is set while its command waits for room. `mode` is its receiver settle mode;
    `unsettled` are the deliveries of mode second that the peer has not settled: they use up
    credit until it does. No message longer than `single_max` is taken at once.

    `sender` is the id of a link that leads to a direct address, or may, else 0: it `is_open` while
    somebody receives there. `forwarded` are its deliveries that have not ended, with their settle
    modes: they use up credit too.

    `tells_drops` says that the sender hears of messages that no queue takes, `has_stopped` that it
    knows that its credit was taken back.
    `is_traced` says that its peer adds a stop to the trace of each message, `phase` is that of the
    address (`protocols.amqp.tracing`)."""

    __slots__ = (
        "_arrivals", "_average", "_forwarded_max", "_messages", "_target", "available", "credit",
        "forwarded", "has_stopped", "is_open", "is_traced", "is_waiting", "last_piece", "mode",
        "phase", "place", "sender", "single_max", "tells_drops", "unsettled",
    )  # fmt: skip

    def __init__(
        self,
        session: AmqpSession,
        handle: int,
        name: str,
        number: int,
        place: Place | None,
        initial_count: int = 0,
    ) -> None:
        super().__init__(session, handle, name, number)
        self.place: Final = place
        self.credit: Final = ReceiverCredit(initial_count)
        self.is_waiting = False
        self.mode = FIRST
        self.unsettled: Final[set[int]] = set()
        self.sender = 0
        self.is_open = True
        self.is_traced = False
        self.has_stopped = False
        self.tells_drops = False
        self.phase = 0
        self.forwarded: Final[dict[int, int]] = {}
        self._forwarded_max = DIRECT_CREDIT
        # How many messages wait at the peer, if it says that.
        self.available: int | None = None
        # When the last frame of a message came that is not whole.
        self.last_piece = 0
        self._messages: Final[list[Message]] = []
        self._average = 0
        options = session.output.options
        self._target: Final = options.credit
        self._arrivals: Final = arriving.Arrivals(options.max_headers)
        self.single_max = min(options.max_message_size, options.min_large_message_size)

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk of a message that is not sent yet; 0 if none."""
        return min((each.chunks[0] for each in self._messages if each.chunks), default=0)

    @property
    def arriving_chunks(self) -> list[int]:
        """The chunks of the message that arrives."""
        return self._messages[-1].chunks if self._messages else []

    def row(self) -> LinkRow:
        """Return it for administrators."""
        held = sum(each.held for each in self._messages)
        return LinkRow(
            self.name, SENDS, self.session.number,
            address=self.place.address if self.place is not None else None,
            credit=self.credit.link_credit, in_flight=len(self._messages) + len(self.forwarded),
            total=self.credit.came, waits=self.is_waiting, memory_bytes=self.own_bytes + held,
        )  # fmt: skip

    # ---- from the session

    def take_single(self, single: Single, now: int) -> None:
        """Take a message in one frame, at once if none waits. Raises LinkFault."""
        data = single.payload
        if self._messages or len(data) > self.single_max:
            transfer = Transfer(self.handle, single.delivery, settled=single.is_settled)
            self.transfer(transfer, data, now)
            return
        self._count_delivery()
        try:
            send = self._send_of(data, None, now)
        except Unsendable as found:
            self._reject(self._begin_single(single, None), found.problem)
            self.push(now)
            return
        output = self.session.output
        if self.sender:
            self._let_hear(send, single.delivery, self.mode, is_settled=single.is_settled)
        answer = output.broker.handle(send, now)
        if isinstance(answer, Refusal):
            if self._is_refused(self._begin_single(single, send), answer):
                self.push(now)
            return
        self._note_size(len(data))
        if not single.is_settled:
            self._accept(single.delivery, None, self.mode, answer)
        if self.credit.link_credit <= self._target >> 1:
            output.thirsty[self.number] = self

    def _begin_single(self, single: Single, send: Send | None) -> Message:
        """Keep a message in one frame that the broker does not take now."""
        message = Message(single.delivery, None, self.mode)
        message.is_settled = single.is_settled
        message.bytes = len(single.payload)
        message.is_whole = True
        message.send = send
        self._messages.append(message)
        return message

    def transfer(self, transfer: Transfer, payload: bytes, now: int) -> None:
        """Take a frame of a message. Raises LinkFault."""
        message = self._messages[-1] if self._messages else None
        if message is None or message.is_whole:
            message = self._begin(transfer)
        elif transfer.delivery_id is not None and transfer.delivery_id != message.delivery:
            text = f"delivery {transfer.delivery_id} begins before {message.delivery} has ended"
            raise LinkFault(NOT_ALLOWED, text)
        if transfer.aborted:
            self._leave(self._messages.pop())
            self.session.output.thirsty[self.number] = self
            self.session.output.partial.pop(self.number, None)
            return
        output = self.session.output
        size = len(payload)
        if size:
            message.add(payload)
        message.bytes += size
        message.held += size
        output.input_bytes += size
        if message.bytes > output.options.max_message_size:
            raise LinkFault(MESSAGE_SIZE_EXCEEDED, "the message is larger than max-message-size")
        if transfer.settled:
            message.is_settled = True
        if transfer.resume and message.is_settled:
            # It only says that a delivery of an earlier link is settled.
            message.is_refused = not message.bytes
        more: bool = transfer.more
        message.is_whole = not more
        if more:
            self.last_piece = now
            output.partial[self.number] = self
        elif output.partial:
            output.partial.pop(self.number, None)
        if not (self.is_waiting or self.number in output.unfinished):
            self.push(now)

    def _begin(self, transfer: Transfer) -> Message:
        delivery = transfer.delivery_id
        if delivery is None:
            raise LinkFault(INVALID_FIELD, "the first transfer of a delivery has no delivery-id")
        self._count_delivery()
        state = transfer.state
        txn_id = transaction_of(state)
        mode = self.mode
        if transfer.rcv_settle_mode is not None and transfer.rcv_settle_mode != mode:
            if mode == FIRST:
                raise LinkFault(
                    INVALID_FIELD, "the link has the receiver settle mode first, and so have all of"
                    " its transfers",
                )  # fmt: skip
            mode = FIRST
        message = Message(delivery, txn_id, mode)
        if txn_id is not None:
            message.is_counted = True
            self.session.output.count_work(txn_id, 1)
        self._messages.append(message)
        return message

    def _count_delivery(self) -> None:
        try:
            self.credit.delivery_came()
        except AmqpError as fault:
            raise LinkFault(fault.condition, fault.text) from None

    def refill(self) -> None:
        """Give the peer credit again, if it has used up half of it and nothing waits."""
        if self.is_waiting or self.is_gone or self.is_leaving or not self.is_open:
            return
        target = self._target
        if self.sender:
            target = max(min(target, self._forwarded_max) - len(self.forwarded), 0)
        if self._average:
            target = min(target, max(CREDIT_MIN, AHEAD_BYTES // self._average))
        if self.unsettled:
            target = max(target - len(self.unsettled), 0)
        if self.credit.link_credit <= target >> 1 and target:
            self.credit.grant(target)
            self.session.say_credit(self.handle, self.credit.delivery_count, target)

    def stop(self, now: int) -> None:
        """Take the credit back. Messages that the peer has sent by then may still come."""
        self.is_leaving = True
        self.session.say_flow(
            handle=self.handle, delivery_count=self.credit.delivery_count, link_credit=0, echo=True
        )

    @property
    def is_still(self) -> bool:
        """Whether nothing more comes, and each message that came has its outcome."""
        return self.has_stopped and not (self._messages or self.forwarded or self.unsettled)

    def push(self, now: int) -> None:
        """Give the broker what has arrived. Raises LinkFault."""
        output = self.session.output
        messages = self._messages
        if output.unfinished:
            output.unfinished.pop(self.number, None)
        while messages:
            message = messages[0]
            if message.is_refused:
                self._forget(message)
                if not message.is_whole:
                    return
                messages.pop(0)
                continue
            try:
                command = self._next(message, now)
            except Unsendable as found:
                self._reject(message, found.problem)
                continue
            if command is None:
                return
            if self.sender and type(command) is Send:
                is_settled = message.is_settled
                self._let_hear(command, message.delivery, message.mode, is_settled=is_settled)
            before = output.broker.lsn
            answer = output.broker.handle(command, now)
            if isinstance(answer, Refusal):
                if not self._is_refused(message, answer):
                    return
            elif type(command) is Chunk:
                self._piece_done(message, command, answer)
            else:
                self._done(message, answer, before)
        output.thirsty[self.number] = self

    def _is_refused(self, message: Message, answer: Refusal) -> bool:
        """Return whether a refusal is final; otherwise the same command has to be given again.
        Raises LinkFault."""
        output = self.session.output
        if answer.code is Code.BLOCKED:
            self.is_waiting = True
            output.waiting[self.number] = self
            return False
        if answer.code is Code.UNFINISHED:
            output.unfinished[self.number] = self
            output.has_unfinished = True
            return False
        if answer.code is Code.DUPLICATE:
            # It says that a message is there: then that must be durable.
            output.gate = max(output.gate, output.broker.lsn)
        self._reject(message, error_of(answer))
        return True

    def give_up(self, now: int) -> None:
        """Forget what was not accepted: the link ends."""
        self.is_gone = True
        output = self.session.output
        if self.unsettled:
            waiting = self.session.unsettled_by_peer
            for delivery in self.unsettled:
                waiting.pop(delivery, None)
            self.unsettled.clear()
        while self._messages:
            self._leave(self._messages.pop())
        self.forwarded.clear()
        if self.sender:
            output.broker.handle(DetachSender(self.sender), now)
        if output.connection:
            output.broker.handle(GiveUpSend(output.connection, self.number), now)
        output.forget_link(self.number)

    # ---- messages

    def _leave(self, message: Message) -> None:
        """Forget a message, for which its transaction waits no longer."""
        self._forget(message)
        if message.is_counted:
            assert message.txn_id is not None
            message.is_counted = False
            self.session.output.count_work(message.txn_id, -1)

    def _take(self, message: Message) -> bytes:
        """Return what has arrived of a message, and keep it no longer."""
        pieces = message.pieces
        self._forget(message)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _keep(self, message: Message, data: bytes) -> None:
        message.pieces = [data]
        message.held = len(data)
        self.session.output.input_bytes += len(data)

    def _forget(self, message: Message) -> None:
        if message.held:
            self.session.output.input_bytes -= message.held
            message.held = 0
            message.pieces = []
        message.chunk = None
        if message.is_large:
            self.session.output.large.pop(self.number, None)

    def _next(self, message: Message, now: int) -> Command | None:
        """Return the next command for a message, None if more has to arrive. Raises Unsendable."""
        if message.send is not None and not message.is_large:
            return message.send
        limit = self.session.output.options.min_large_message_size
        if message.is_large:
            return self._next_of_large(message)
        if message.bytes > limit:
            try:
                return self._begin_large(message, now)
            except Malformed as found:
                raise Unsendable(error(DECODE_ERROR, str(found))) from None
        if not message.is_whole:
            return None
        message.send = self._send_of(self._take(message), message.txn_id, now)
        return message.send

    def _send_of(self, data: bytes, txn_id: bytes | None, now: int) -> Send:
        """Return the command for a whole message. Raises Unsendable."""
        try:
            said, headers, body, trace = self._arrivals.read(data, now)
            return self._send(txn_id, said, headers, body, trace)
        except Malformed as found:
            raise Unsendable(error(DECODE_ERROR, str(found))) from None

    def _send(
        self,
        txn_id: bytes | None,
        said: arriving.Said,
        headers: bytes,
        body: bytes,
        trace: tuple[str, ...],
    ) -> Send:
        output = self.session.output
        place = self.place
        if place is None:
            if not said.to:
                raise Unsendable(error(INVALID_FIELD, "the message does not say where it goes: to"))
            place = place_of(said.to, output.host, (), output.prefixes)
        if said.has_names and _may_name_own(headers):
            headers = without(headers, OWN_HEADERS)
        if output.names_users and output.user:
            headers = with_own(headers, {VALIDATED_USER: output.user})
        send = arriving.send_of(
            said, place, headers, body,
            connection=output.connection, link=self.number, transaction=self._transaction(txn_id),
        )  # fmt: skip
        if trace:
            self._trace(send, trace)
        if self.auto_link is not None:
            self._count(send, said)
        return send

    def _count(self, send: Send, said: arriving.Said) -> None:
        """Pass on what another broker says of earlier deliveries. Few say that a delivery is the
        first: it counts only where the others say so, too."""
        send.attempt = min(said.attempts, ATTEMPTS_MAX) + 1
        if said.attempts or (said.is_again and self.is_traced):
            send.marks = REDELIVERED

    def _trace(self, send: Send, trace: tuple[str, ...]) -> None:
        """Say where a message came from, and let it come once. Raises Unsendable."""
        output = self.session.output
        mark = tracing.mark_of(send.address, send.queue, self.phase)
        why = tracing.why_refused(trace, output.broker.identity, mark)
        if why:
            raise Unsendable(error(NOT_ALLOWED, why))
        send.came_from = newest = trace[-1]
        is_once = self.is_traced and tracing.is_sent_once(newest)
        if is_once and send.transaction is None and not send.duplicate_id:
            # Nobody else can send what is taken for it.
            send.duplicate_id = f"{newest} {output.connector}/{output.user}"

    def _transaction(self, txn_id: bytes | None) -> str | None:
        if txn_id is None:
            return None
        if txn_id not in self.session.output.transactions:
            raise Unsendable(error(UNKNOWN_ID, "there is no such transaction"))
        return txn_id.hex()

    def _begin_large(self, message: Message, now: int) -> Command | None:
        if message.bytes < message.look_at and not message.is_whole:
            return None
        message.look_at = message.bytes + LOOK_BYTES
        data = self._take(message)
        begun = arriving.begin_large(data, now, self.session.output.options.max_headers)
        if begun is None:
            if message.is_whole or len(data) > self.session.output.options.max_header_size:
                raise Malformed("the message has no body, or too much in front of it")
            self._keep(message, data)
            return None
        headers, body_at, said = begun
        message.send = self._send(message.txn_id, said, headers, b"", said.trace)
        message.body_bytes = size_of_body(headers)
        message.is_large = True
        self._keep(message, data[body_at:])
        return self._next_of_large(message)

    def _next_of_large(self, message: Message) -> Command | None:
        send = message.send
        assert send is not None
        is_due = message.is_whole or message.held >= CHUNK_BYTES
        if message.chunk is None and message.held and is_due:
            piece = self._cut(message, send)
            if piece:
                self.session.output.large[self.number] = self
                message.chunk = Chunk(send, piece, message.chunks[-1] if message.chunks else 0)
        if message.chunk is not None:
            return message.chunk
        if not message.is_whole:
            return None
        send.chunks = tuple(message.chunks)
        return send

    def _cut(self, message: Message, send: Send) -> bytes:
        """Return the next piece of a large body, which is empty behind the last one.

        A footer behind it becomes part of the headers, as that of other messages. Other sections,
        and a footer that is long, stay behind the body and belong to it.
        """
        data, message.pieces = b"".join(message.pieces), []
        room = message.body_bytes - send.body_bytes
        if message.body_bytes < 0 or len(data) <= room:
            return data
        if room > 0:
            message.pieces = [data[room:]]
            return data[:room]
        headers = None
        if message.is_whole and len(data) < CHUNK_BYTES:
            headers = with_footer(send.headers, data)
        if headers is None:
            message.body_bytes = -1
            return data
        send.headers = headers
        self.session.output.input_bytes -= message.held
        message.held = 0
        return b""

    def _piece_done(self, message: Message, chunk: Chunk, answer: int) -> None:
        """A piece of a large message was taken."""
        size = len(chunk.body)
        message.chunk = None
        message.held -= size
        self.session.output.input_bytes -= size
        chunk.send.body_bytes += size
        message.chunks.append(answer)

    def tell_drops(self) -> None:
        """Let the sender hear of messages that no queue takes; each is looked at by itself."""
        self.tells_drops = True
        self.single_max = -1

    def _done(self, message: Message, answer: int, before: int) -> None:
        """A message was taken, by events after the LSN `before`."""
        self._leave(self._messages.pop(0))
        self._note_size(message.bytes)
        if message.is_settled:
            return
        if self.tells_drops and message.txn_id is None:
            outcome = self.session.output.broker.outcome(before, self.session.output.connection)
            if outcome is not None and outcome.reason:
                self.session.output.gate = max(self.session.output.gate, answer)
                self._tell(message.delivery, message.mode, Rejected(dropped(outcome.reason)))
                return
        self._accept(message.delivery, message.txn_id, message.mode, answer)

    def _note_size(self, size: int) -> None:
        self._average = (self._average * 7 + size >> 3) if self._average else size

    def _accept(self, delivery: int, txn_id: bytes | None, mode: int, answer: int) -> None:
        """Tell the sender that a message was taken, once the event `answer` is durable; or later,
        how receivers ended it, if they got it."""
        if answer == FORWARDED:
            self.forwarded[delivery] = mode
            return
        output = self.session.output
        if answer > output.gate:
            output.gate = answer
        if txn_id is None and mode == FIRST:
            self.session.accept(delivery)
            return
        accepted = Accepted()
        state = accepted if txn_id is None else TransactionalState(txn_id, accepted)
        self._tell(delivery, mode, state)

    # ---- direct addresses

    def attached(self, sender: int) -> None:
        """Take the id that the engine gave the link, 0 if it leads to queues alone."""
        self.sender = sender
        if self.session.output.broker.is_waypoint(sender):
            # An outcome comes after a disk, as that of a queue here does.
            self._forwarded_max = self._target
        self.is_open = not sender or self.place is None

    def _let_hear(self, send: Send, delivery: int, mode: int, *, is_settled: bool) -> None:
        """Say who hears of the end of a message, unless it is settled, and who settles it last."""
        send.sender = self.sender
        send.confirms = mode != FIRST
        send.token = None if is_settled else delivery

    def ended(self, token: Any, ending: Ending, now: int) -> None:
        """Tell the sender how receivers ended a message."""
        delivery: int = token
        mode = self.forwarded.pop(delivery, None)
        if self.is_gone or mode is None:
            return
        if ending.outcome == ACCEPTED and mode == FIRST:
            self.session.accept(delivery)
        else:
            state = state_of(ending)
            if ending.info or ending.annotations or ending.condition:
                state = fitting(state, self.session.output.max_frame_size - STATE_HEAD_ROOM)
            self._tell(delivery, mode, state)
        self.session.output.thirsty[self.number] = self

    def settled_by_peer(self, delivery: int, now: int) -> None:
        """Take the settlement of a delivery of mode second: its sender knows the outcome."""
        self.unsettled.discard(delivery)
        output = self.session.output
        output.thirsty[self.number] = self
        if self.sender:
            output.broker.handle(SettleSent(self.sender, delivery), now)

    def opened(self, is_open: bool, now: int) -> None:
        """Give credit, because somebody receives now; or take it back, because nobody does."""
        if self.is_gone or is_open == self.is_open:
            return
        self.is_open = is_open
        credit = self.credit
        if is_open:
            self.session.output.thirsty[self.number] = self
        elif credit.link_credit:
            self.session.say_flow(
                handle=self.handle, delivery_count=credit.delivery_count,
                link_credit=credit.link_credit, drain=True,
            )  # fmt: skip

    def _reject(self, message: Message, problem: Error) -> None:
        """Tell the sender that a message is refused. Raises LinkFault for one that was settled: no
        outcome can tell it, so the end of its link does."""
        message.is_refused = True
        self._leave(message)
        if not message.is_settled:
            self._tell(message.delivery, message.mode, Rejected(problem))
            return
        output = self.session.output
        if message.txn_id in output.transactions:
            output.doomed.add(message.txn_id)
        raise LinkFault(problem.condition, problem.description or "a settled message is refused")

    def _tell(self, delivery: int, mode: int, state: Any) -> None:
        """Tell the sender an outcome; in the mode second it settles the delivery itself."""
        settled = mode == FIRST
        if not settled:
            self.unsettled.add(delivery)
            self.session.unsettled_by_peer[delivery] = self
        self.session.settle(delivery, state, settled=settled)
