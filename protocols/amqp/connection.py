"""A connection of AMQP 1.0: bytes of one peer in, commands to the broker, bytes out.

Sans-IO, as the port asks (`protocols.port`): protocol headers, SASL, open, sessions, and the ends
of all of them. A fault of the peer ends what it belongs to: a link, a session, or the connection.
Must never know sockets, clocks, tasks or disks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from daybook.engine.commands import (
    CloseConnection,
    Command,
    EndOwner,
    HostLinks,
    OpenConnection,
    Settle,
)
from daybook.engine.commands import Detach as DetachConsumer
from daybook.engine.facts.definitions import AutoLink, LinkRoute
from daybook.engine.facts.reasons import (
    AUTHENTICATION,
    CLOSED,
    DISCONNECTED,
    LIMIT,
    PROTOCOL_ERROR,
    TIMEOUT,
)
from daybook.engine.facts.settlements import FAILED
from daybook.engine.facts.values import Symbol
from daybook.engine.links.links import UNTRIED, Ending
from daybook.engine.names.host_names import host_of
from daybook.engine.names.names import NAME_BYTES_MAX, host_and_name
from daybook.engine.queues.entry import Taker
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.amqp import attaching
from daybook.protocols.amqp.faults import LinkFault, SessionFault, error
from daybook.protocols.amqp.incoming import Incoming
from daybook.protocols.amqp.options import FIRST_ROOM, AmqpOptions
from daybook.protocols.amqp.outcomes import (
    ACCEPTANCE,
    echoed,
    ending_of,
    settlement_of,
    transaction_of,
)
from daybook.protocols.amqp.outgoing import Outgoing, accept_in_front
from daybook.protocols.amqp.own_sessions import OwnSessions
from daybook.protocols.amqp.routed import RoutedLink
from daybook.protocols.amqp.sessions import AmqpSession, Link, SessionHolder, beginning
from daybook.protocols.amqp.wire.errors import (
    CONNECTION_FORCED,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    UNKNOWN_ID,
    AmqpError,
)
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    FRAME_SIZE_MIN,
    SASL,
    Frame,
    FrameReader,
    Header,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.hot import Single
from daybook.protocols.amqp.wire.kinds import AUTH, OK, RECEIVER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from daybook.protocols.port import AutoLinkRow, BrokerPort, Caller, SaslStep

_US_PER_MS: Final = 1000
_PRODUCT_LENGTH_MAX: Final = 200
"""How much of a peer's own description is shown."""
IDLE_TIME_OUT_MIN_MS: Final = 500
"""The shortest time for which a peer may ask: sessions are looked at ten times a second."""
LOOK_SHIFT: Final = 6
"""Looking at unsettled deliveries costs a unit of the budget for 2 to this power."""
ANONYMOUS: Final = "ANONYMOUS"
_ONLY: Final = "sole-connection-for-container"
"""The capability by which a peer asks to be the only connection of its container."""
_OFFERED: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", _ONLY)
_FAILED: Final = {"amqp:connection-establishment-failed": True}
"""Properties of an open that a close follows."""
_TOO_MUCH: Final = (Code.LIMIT, Code.INVALID)
_TXN_ID: Final = "txn-id"
"""The property of a flow that asks for acquisition in a transaction (part 4, 4.4.3)."""
_NOTHING: Final[Mapping[str, Any]] = {}
PRODUCT: Final = "daybook"

# The states of a connection: the part of the conversation that comes next.
HEADER: Final = "header"
LOGGING_IN: Final = "logging in"
LOGGED_IN: Final = "logged in"
OPENING: Final = "opening"
OPENED: Final = "open"
CLOSING: Final = "closed"


class AmqpConnection(SessionHolder):
    """One connection; its attributes are those of the port."""

    def __init__(
        self, broker: BrokerPort, options: AmqpOptions, caller: Caller, server_name: str
    ) -> None:
        super().__init__(broker, options, caller)
        self.login_request: SaslStep | None = None
        self.host_request: str | None = None
        self.refusal: tuple[int, str, str, str] | None = None
        self.closing = False
        self.is_blocked = False
        self.is_unheard = False
        self.awaits_disk = False
        self.has_stalled = False
        self.urgent = b""
        self.close_delay_ms = 0
        self.error = ""
        self.next_deadline = 0
        self._container_id: Final = options.container or server_name
        # The name of the peer's host, on a connection that the broker opens.
        self.peer_host: str | None = None
        self._reader: Final = FrameReader(options.max_frame_size)
        self._state = HEADER
        self._mechanism = ""
        self._proof: bytes | None = None
        self._open: Open | None = None
        self._is_open_said = False
        self._session_count = 0
        self.own: Final = OwnSessions(self, self._sessions, self._wake)
        self._open_by = caller.log_in_by
        self._heard = 0
        self._spoken = 0
        self._peer_idle_us = 0

    # ---- for the port

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory that hold input."""
        return self._reader.buffered_bytes + self.input_bytes + self.links_bytes

    @property
    def auto_links(self) -> Sequence[AutoLinkRow]:
        """The auto-links on the connection."""
        return self.own.rows

    @property
    def peer_product(self) -> str:
        """The product that the peer says it is, with its version."""
        said = self._open.properties or {} if self._open is not None else {}
        shown = [said.get("product"), said.get("version")]
        return " ".join(each for each in shown if isinstance(each, str))[:_PRODUCT_LENGTH_MAX]

    # ---- input

    def receive(self, data: bytes, now: int) -> None:
        """Process bytes of the peer."""
        self._heard = now
        if self.closing:
            return
        self._reader.receive(data)
        if not self.has_more:
            self._go_on(now)

    def proceed(self, now: int) -> None:
        """Resume what was unfinished: first the input, then the commands of links."""
        if self.has_more and not self.closing:
            self.has_more = False
            self._go_on(now)
        if self.has_unfinished and not self.closing:
            self.has_unfinished = False
            for link in list(self.unfinished.values()):
                assert isinstance(link, Incoming)
                self._push(link, now)
            self._flush(now)

    def _go_on(self, now: int) -> None:
        try:
            if self._resume(now):
                self._read(now)
        except AmqpError as fault:
            self._fail(fault.condition, fault.text, PROTOCOL_ERROR, now)
        self._flush(now)

    def _resume(self, now: int) -> bool:
        """Finish commands of the last turn; return whether there are none any more."""
        return self.resume(now) and self._give_back(now)

    def _give_back(self, now: int) -> bool:
        """Give back what transactions that were rolled back had settled."""
        while self.give_back and self.connection:
            if self.broker.budget.is_spent:
                self.has_more = True
                return False
            consumer, message = self.give_back[-1]
            answer = self.broker.handle(Settle(consumer, message, outcome=FAILED), now)
            if isinstance(answer, Refusal) and answer.code is Code.UNFINISHED:
                self.has_more = True
                return False
            self.give_back.pop()
        return True

    def _read(self, now: int) -> None:
        """Process frames while there are some, and the turn is not used up."""
        reader = self._reader
        budget = self.broker.budget
        while not (self.closing or self.login_request or self.host_request is not None):
            if budget.is_spent:
                self.has_more = True
                return
            takes_singles = self._state is OPENED and not self.is_passing
            single = reader.next_single() if takes_singles else None
            if single is not None:
                budget.spent += 1
                self._on_single(single, now)
            elif not self._is_read(reader.next(), now):
                return
            if self.give_back:
                self._give_back(now)
            if self.has_more:
                return

    def _is_read(self, found: Header | Frame | None, now: int) -> bool:
        """Process a header or a frame; return whether there was one."""
        if found is None:
            return False
        # Frames of messages cost what their commands do.
        self.broker.budget.spent += 1
        if isinstance(found, Header):
            self._on_header(found, now)
        elif self._state is OPENED:
            self._on_frame(found, now)
        else:
            self._on_early(found, now)
        return True

    def conclude(self, now: int) -> None:
        """Say what effects had for consequences."""
        self._flush(now)

    def _flush(self, now: int) -> None:
        """Say what the frames of this call had for consequences."""
        if self.discharging and not self.closing:
            self._discharge(now)
        if self.thirsty:
            for link in list(self.thirsty.values()):
                if not link.session.is_ended:
                    link.refill()
            self.thirsty.clear()
        if self.partial and not self.next_deadline:
            self._set_deadline(now)
        while self.own.leaving:
            self._end_own(self.own.leaving.pop(), now)
        if self.dirty:
            for session in self.dirty.values():
                session.flush()
            self.dirty.clear()
        if self.out:
            self._spoken = now

    def _discharge(self, now: int) -> None:
        """Resume commits that waited for messages."""
        waiting = list(self.discharging.values())
        self.discharging.clear()
        for link in waiting:
            assert isinstance(link, Incoming)
            self._push(link, now)

    # ---- before the open

    def _on_header(self, header: Header, now: int) -> None:
        if header.protocol == SASL and self._state is HEADER:
            self.out.append(protocol_header(SASL))
            self.say(0, SaslMechanisms(tuple(self.caller.mechanisms)))
            self._state = LOGGING_IN
        elif header.protocol == AMQP and self._state is LOGGED_IN:
            self.out.append(protocol_header(AMQP))
            self._state = OPENING
        elif header.protocol == AMQP and ANONYMOUS in self.caller.mechanisms:
            # A peer that does not log in is a guest, where guests may come.
            self.out.append(protocol_header(AMQP))
            self._mechanism = ANONYMOUS
            self.login_request = SaslStep(ANONYMOUS, b"", self)
            self._state = LOGGING_IN
        else:
            # The answer is the header of what the broker speaks (2.2).
            self.out.append(protocol_header(SASL))
            self._refuse(PROTOCOL_ERROR, "no header of AMQP 1.0 with SASL")
            self._end(self.options.die_delay_ms)

    def _on_early(self, found: Frame, now: int) -> None:
        said = found.performative
        if isinstance(said, SaslInit) and self._state is LOGGING_IN and not self._mechanism:
            if said.mechanism not in self.caller.mechanisms:
                self._refuse(AUTHENTICATION, f"SASL mechanism {said.mechanism[:40]}")
                self._say_outcome(AUTH)
                self._end(self.options.die_delay_ms)
                return
            self._mechanism = said.mechanism
            self.login_request = SaslStep(said.mechanism, said.initial_response, self)
        elif isinstance(said, SaslResponse) and self._state is LOGGING_IN and self._mechanism:
            self.login_request = SaslStep(self._mechanism, said.response, self)
        elif isinstance(said, Open) and self._state is OPENING:
            self._on_open(said)
        elif said is None:
            return
        elif self._state is OPENING:
            raise AmqpError(ILLEGAL_STATE, "the first frame must be open")
        else:
            raise AmqpError(FRAMING_ERROR, "this frame of SASL is not expected")

    def challenge(self, challenge: bytes, now: int) -> None:
        """The login has another step."""
        self.login_request = None
        self.say(0, SaslChallenge(challenge))
        self._go_on(now)

    def prove(self, proof: bytes) -> None:
        """The outcome takes this along."""
        self._proof = proof

    def authenticated(self, user: str | None, text: str, now: int) -> None:
        """The login was checked."""
        self.login_request = None
        if self.closing:
            return
        if user is None:
            self._refuse(AUTHENTICATION, text)
            if self._reader.is_in_sasl:
                self._say_outcome(AUTH)
                self._end(self.options.die_delay_ms)
            else:
                self._fail(UNAUTHORIZED_ACCESS, text, AUTHENTICATION, now)
            return
        self.user = user
        if self._reader.is_in_sasl:
            self._say_outcome(OK)
            self._state = LOGGED_IN
        else:
            self._state = OPENING
        self._go_on(now)

    def _say_outcome(self, code: int) -> None:
        self.say(0, SaslOutcome(code, self._proof if code == OK else None))

    def _refuse(self, reason: int, text: str) -> None:
        self.refusal = (reason, "AMQP 1.0", "", text)

    def _on_open(self, said: Open) -> None:
        self._check_open(said)
        self._open = said
        self.host_request = host_of(said.hostname, self.options.virtual_hosts)

    def _check_open(self, said: Open) -> None:
        if said.max_frame_size < FRAME_SIZE_MIN:
            raise AmqpError(NOT_ALLOWED, f"max-frame-size is below {FRAME_SIZE_MIN}")
        if len(said.container_id) > NAME_BYTES_MAX:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "the container id is too long")
        if 0 < (said.idle_time_out or 0) < IDLE_TIME_OUT_MIN_MS:
            # Section 2.4.5: a peer that cannot support a time-out closes the connection.
            text = f"idle-time-out is {said.idle_time_out} ms, and below {IDLE_TIME_OUT_MIN_MS} ms"
            raise AmqpError(NOT_ALLOWED, text)

    def admitted(self, text: str, now: int) -> None:
        """The virtual host was checked: the connection is opened."""
        host, self.host_request = self.host_request, None
        said = self._open
        if self.closing or host is None or said is None:
            return
        if text:
            self._refuse(AUTHENTICATION, text)
            self._fail(UNAUTHORIZED_ACCESS, text, AUTHENTICATION, now)
            return
        room = min(FIRST_ROOM, self.options.room or FIRST_ROOM)
        answer = self.broker.handle(
            OpenConnection(
                "AMQP 1.0", self.caller.name, self.user, said.container_id, room, host=host,
                only=_ONLY in said.desired_capabilities, connector=self.connector,
            ),
            now,
        )  # fmt: skip
        if isinstance(answer, Refusal):
            self._refuse_open(answer, now)
            return
        self.connection = answer
        self.container = said.container_id
        self.host = host
        self.max_frame_size = min(said.max_frame_size, self.options.max_frame_size)
        self.own.channel_max = min(said.channel_max, self.options.max_sessions - 1)
        self._peer_idle_us = (said.idle_time_out or 0) * _US_PER_MS
        self._state = OPENED
        if not self._is_open_said:
            self._say_open(answer)
        if self.connector or self.caller.is_container:
            self.broker.handle(HostLinks(answer, self, self.connector), now)
        self.own.renew(self._wanted_links(said), now)
        self._heard = now
        self._set_deadline(now)
        self._go_on(now)

    def _wanted_links(self, said: Open) -> Sequence[AutoLink]:
        """Return the links that the broker attaches to this peer, on its virtual host."""
        links = self.caller.auto_links(said.container_id)
        return [each for each in links if host_and_name(each.address)[0] == self.host]

    def _refuse_open(self, refusal: Refusal, now: int) -> None:
        """Close a connection that the engine refuses; clients of JMS expect these words for an id
        that is in use."""
        if refusal.code is not Code.ALREADY_EXISTS:
            self._fail(RESOURCE_LIMIT_EXCEEDED, refusal.text, LIMIT, now)
            return
        self._say_open(properties=_FAILED)
        where = {"invalid-field": Symbol("container-id")}
        self._fail(INVALID_FIELD, refusal.text, LIMIT, now, where)

    def _say_open(self, gate: int = 0, properties: Mapping[str, Any] = _NOTHING) -> None:
        self._is_open_said = True
        options = self.options
        self.say(
            0,
            Open(
                self._container_id, self.peer_host, max_frame_size=options.max_frame_size,
                channel_max=options.max_sessions - 1,
                idle_time_out=options.idle_time_out_ms // 2 or None,
                offered_capabilities=_OFFERED, properties={"product": PRODUCT, **properties},
            ),
            gate,
        )  # fmt: skip

    # ---- frames of an open connection

    def _on_single(self, single: Single, now: int) -> None:
        """Take a whole message."""
        session = self._session_on(single.channel)
        if session.is_ended:
            return
        try:
            link = self._sender_of(session, single.handle)
        except SessionFault as fault:
            self._end_session(session, fault, now)
            return
        if not isinstance(link, Incoming):
            return
        try:
            link.take_single(single, now)
        except LinkFault as problem:
            self._end_link(session, link.peer_handle, problem, now)

    def _session_on(self, channel: int) -> AmqpSession:
        session = self._sessions.get(channel)
        if session is None:
            raise AmqpError(NOT_ALLOWED, f"there is no session on channel {channel}")
        return session

    def _sender_of(self, session: AmqpSession, handle: int) -> Incoming | RoutedLink | None:
        """Count a transfer and return its link, None if that is leaving. Raises SessionFault."""
        session.count_transfer()
        link = session.links.get(handle)
        if isinstance(link, Incoming) or (isinstance(link, RoutedLink) and link.sends):
            return link
        if handle in session.leaving:
            return None
        session.link(handle)
        raise SessionFault(NOT_ALLOWED, f"link {handle} is that of a receiver")

    def _on_frame(self, found: Frame, now: int) -> None:
        said = found.performative
        channel = found.channel
        if self._is_done_without(said, channel, now):
            return
        session = self._session_on(channel)
        if session.is_ended and not isinstance(said, End):
            return
        try:
            self._on_session_frame(session, said, found.payload, channel, now)
        except SessionFault as fault:
            self._end_session(session, fault, now)

    def _is_done_without(self, said: Any, channel: int, now: int) -> bool:
        """Handle a frame that needs no session; return whether it was one."""
        if said is None:
            return True
        if isinstance(said, Begin):
            self._on_begin(channel, said)
        elif isinstance(said, Close):
            self._on_close(said, now)
        elif isinstance(said, Open):
            raise AmqpError(ILLEGAL_STATE, "the connection is open already")
        else:
            return False
        return True

    def _on_session_frame(
        self, session: AmqpSession, said: Any, payload: bytes, channel: int, now: int
    ) -> None:
        if isinstance(said, Transfer):
            link = self._sender_of(session, said.handle)
            if link is None:
                return
            try:
                link.transfer(said, payload, now)
            except LinkFault as fault:
                self._end_link(session, link.peer_handle, fault, now)
        elif isinstance(said, Disposition):
            self._on_disposition(session, said, now)
        elif isinstance(said, Flow):
            self._on_flow(session, said, now)
        elif isinstance(said, Attach):
            if session.purpose is not None:
                session.purpose.answered(said, now)
            else:
                attaching.attach(session, said, now)
        elif isinstance(said, Detach):
            if session.purpose is None or not session.purpose.detached(said):
                attaching.detach(session, said, now)
        else:
            assert isinstance(said, End)
            self._on_end(session, channel, said, now)

    def _on_close(self, said: Close, now: int) -> None:
        self.say(0, Close())
        self._close(CLOSED, "", now)
        self._end(0)

    def _on_begin(self, channel: int, said: Begin) -> None:
        if channel in self._sessions:
            raise AmqpError(NOT_ALLOWED, f"channel {channel} has a session already")
        if channel >= self.options.max_sessions:
            raise AmqpError(NOT_ALLOWED, f"channel {channel} is above channel-max")
        self._session_count += 1
        number = self._session_count
        if said.remote_channel is not None:
            self._sessions[channel], purpose = self.own.begun(number, said)
            purpose.begun(self._sessions[channel])
            return
        ours = self.own.free_channel(channel)
        self._sessions[channel] = AmqpSession(self, ours, number, said)
        self.say(ours, beginning(self, remote_channel=channel))

    def route_begun(self, end: Taker, route: LinkRoute, asked: Any, now: int) -> None:
        """Attach a link that is passed on to the peer."""
        self.own.route(end, route, asked)

    def attach_link(self, link: AutoLink, now: int) -> None:
        """Attach one more auto-link."""
        if self._state is OPENED:
            self.own.attach_one(link, now)
            self._flush(now)

    def renew_auto_links(self, now: int) -> None:
        """Attach auto-links that were added, and end those that were removed."""
        if self._state is OPENED and self._open is not None:
            self.own.renew(self._wanted_links(self._open), now)
            self._flush(now)

    def _wake(self, at: int) -> None:
        if not self.next_deadline or at < self.next_deadline:
            self.next_deadline = at

    def _on_flow(self, session: AmqpSession, said: Flow, now: int) -> None:
        session.flow(said)
        if said.handle is not None and said.handle not in session.leaving:
            link = session.link(said.handle)
            if isinstance(link, Outgoing):
                if _TXN_ID in (said.properties or _NOTHING):
                    fault = LinkFault(NOT_IMPLEMENTED, "transactions do not acquire messages")
                    self._end_link(session, link.peer_handle, fault, now)
                    return
                link.flow(said, now)
                if said.echo:
                    session.say_flow(handle=link.handle, **link.state_of_flow())
                return
            if isinstance(link, RoutedLink):
                try:
                    link.flow(said, now)
                except LinkFault as fault:
                    self._end_link(session, link.peer_handle, fault, now)
                return
            assert isinstance(link, Incoming)
            self._on_flow_of_sender(session, link, said, now)
        elif said.echo:
            session.say_flow()

    def _on_flow_of_sender(
        self, session: AmqpSession, link: Incoming, said: Flow, now: int
    ) -> None:
        """Take note of the credit that a sender has not used."""
        try:
            link.credit.flow_came(said)
        except AmqpError as fault:
            self._end_link(session, link.peer_handle, LinkFault(fault.condition, fault.text), now)
            return
        link.available = said.available
        link.has_stopped = link.is_leaving and not said.link_credit
        self.thirsty[link.number] = link
        if said.echo:
            credit = link.credit
            session.say_flow(
                handle=link.handle, delivery_count=credit.delivery_count,
                link_credit=credit.link_credit,
            )  # fmt: skip

    def _on_disposition(self, session: AmqpSession, said: Disposition, now: int) -> None:
        if said.role != RECEIVER:
            self._on_settled_by_sender(session, said, now)
            return
        if said.state is None and not said.settled:
            return
        found = session.settled_range(said, session.unsettled)
        self.broker.budget.spent += len(session.unsettled) >> LOOK_SHIFT
        self._settle(session, found, said, now)

    def _on_settled_by_sender(self, session: AmqpSession, said: Disposition, now: int) -> None:
        """Forget deliveries of settle mode second, which their sender settles; all others are
        settled already."""
        waiting = session.unsettled_by_peer
        if not said.settled or not waiting:
            return
        self.broker.budget.spent += len(waiting) >> LOOK_SHIFT
        for delivery in session.settled_range(said, waiting):
            link = waiting.pop(delivery)
            if isinstance(link, RoutedLink):
                link.settled_by_peer(delivery, said, now)
                continue
            assert isinstance(link, Incoming)
            link.settled_by_peer(delivery, now)

    def _settle(
        self, session: AmqpSession, deliveries: list[int], said: Disposition, now: int
    ) -> None:
        """Settle deliveries, the first one first."""
        budget = self.broker.budget
        ending = ending_of(said.state)
        if ending is ACCEPTANCE and said.settled and transaction_of(said.state) is None:
            deliveries = accept_in_front(session, deliveries, now)
        for place, delivery in enumerate(deliveries):
            if budget.is_spent or not self._is_ended(session, delivery, ending, said, now):
                self.keep(partial(self._settle, session, deliveries[place:], said))
                return

    def _is_ended(
        self,
        session: AmqpSession,
        delivery: int,
        ending: Ending | None,
        said: Disposition,
        now: int,
    ) -> bool:
        """End a delivery; return whether all of that is done."""
        link = session.unsettled.get(delivery)
        if isinstance(link, RoutedLink):
            link.disposed(delivery, said, now)
        if not isinstance(link, Outgoing):
            return True
        is_settled: bool = said.settled
        message = link.unsettled[delivery]
        if message in link.ended:
            # Its outcome is said, and changes no more (3.4).
            if is_settled:
                link.forget(delivery)
            return True
        txn_id = transaction_of(said.state)
        if ending is None:
            if not is_settled:
                return True
            ending, txn_id = ending_of(link.default) or UNTRIED, None
        awaits = link.awaits_sender and not is_settled
        if ending is ACCEPTANCE and txn_id is None:
            command = Settle(link.consumer, message)
            command.awaits = awaits
            answer = self.broker.handle(command, now)
        else:
            if txn_id is not None and txn_id not in self.transactions:
                fault = LinkFault(UNKNOWN_ID, "there is no such transaction")
                self._end_link(session, link.peer_handle, fault, now)
                return True
            transaction = txn_id.hex() if txn_id is not None else None
            command = settlement_of(link.consumer, message, ending, transaction)
            command.awaits = awaits
            answer = self._end_delivery(link, command, txn_id, now)
        if isinstance(answer, Refusal) and answer.code is Code.UNFINISHED:
            return False
        if awaits and not isinstance(answer, Refusal):
            link.ended[message] = delivery, echoed(said.state)
            return True
        link.forget(delivery)
        if not is_settled:
            self.gate = max(self.gate, 0 if isinstance(answer, Refusal) else answer)
            session.settle_sent(delivery, echoed(said.state))
        return True

    def _end_delivery(
        self, link: Outgoing, command: Settle, txn_id: bytes | None, now: int
    ) -> int | Refusal:
        """End a delivery in any way, perhaps in a transaction that is open; return the answer."""
        answer = self.broker.handle(command, now)
        if isinstance(answer, Refusal):
            if command.annotations and answer.code in _TOO_MUCH:
                # A disposition cannot be refused; the message comes again without them.
                command.annotations = None
                answer = self.broker.handle(command, now)
            if isinstance(answer, Refusal) and answer.code is Code.UNFINISHED:
                return answer
        if txn_id is not None:
            if isinstance(answer, Refusal) and answer.code is Code.NOT_ALLOWED:
                # It can be in no transaction, which must not seem to be carried out.
                self.doomed.add(txn_id)
            # A refused delivery comes again, too, when the transaction is rolled back.
            self.transactions[txn_id].append((link.consumer, command.message))
        return answer

    def _on_end(self, session: AmqpSession, channel: int, said: End, now: int) -> None:
        purpose = session.purpose
        if session.is_ended:
            del self._sessions[channel]
            if purpose is not None:
                purpose.session_ended(said.error)
            return

        def left(now: int) -> None:
            self._sessions.pop(channel, None)
            self.say(session.channel, End())
            if purpose is not None:
                purpose.session_ended(said.error)

        self._leave(session, left, now, said.error)

    def _leave(
        self,
        session: AmqpSession,
        left: Callable[[int], None],
        now: int,
        problem: Error | None,
    ) -> None:
        """Detach the links of a session that ends, and give up what it owned."""
        links = session.detach_all(problem)
        session.forget()
        end = EndOwner(self.connection, session=session.number)
        self.work(chain(self._ends_of(links, now, problem=problem), (end,)), left, now)

    def _ends_of(
        self,
        links: Sequence[Link],
        now: int,
        *,
        closes: bool = False,
        problem: Error | None = None,
    ) -> Iterator[Command]:
        """Forget links, and yield the commands that end them in the broker: their session ends, or
        with `closes` they alone, for a reason that links which are passed on say."""
        for link in links:
            if isinstance(link, Incoming):
                link.give_up(now)
            elif isinstance(link, RoutedLink):
                yield link.end(Detach(link.handle, closes, problem))
            elif isinstance(link, Outgoing):
                link.drop()
                yield DetachConsumer(link.consumer, closes=link.ends(closes=closes))
            if link.owns:
                yield EndOwner(self.connection, link=link.number)

    def _push(self, link: Incoming, now: int) -> None:
        try:
            link.push(now)
        except LinkFault as fault:
            self._end_link(link.session, link.peer_handle, fault, now)

    def _end_link(self, session: AmqpSession, handle: int, fault: LinkFault, now: int) -> None:
        """End a link on behalf of the broker."""
        link = session.links.get(handle)

        def left(now: int) -> None:
            if not session.is_ended:
                session.end_link(handle, problem)

        links = [link] if link is not None else []
        problem = error(fault.condition, fault.text)
        self.work(self._ends_of(links, now, closes=True, problem=problem), left, now)

    def _end_session(self, session: AmqpSession, fault: AmqpError, now: int) -> None:
        """End a session on behalf of the broker."""
        problem = error(fault.condition, fault.text)
        self._leave(session, lambda now: self.say(session.channel, End(problem)), now, problem)

    def _end_own(self, session: AmqpSession, now: int) -> None:
        """End a session that the broker began, and needs no longer."""
        if not session.is_ended:
            self._leave(session, lambda now: self.say(session.channel, End()), now, None)

    # ---- for the hub

    def is_sender_waiting(self, link: int) -> bool:
        """Whether a link waits for room."""
        return link in self.waiting

    def resume_sender(self, link: int, now: int) -> None:
        """Give the command of a link again."""
        found = self.waiting.pop(link, None)
        if isinstance(found, Incoming):
            found.is_waiting = False
            self._push(found, now)
            self._flush(now)

    def is_ahead(self, durable_lsn: int, chunk_count: int) -> bool:
        """Whether chunks of arriving bodies are far ahead of the disk."""
        return any(
            len(link.arriving_chunks) > chunk_count
            and link.arriving_chunks[-chunk_count] > durable_lsn
            for link in self.large.values()
        )

    def tick(self, now: int) -> None:
        """Do what is due: an empty frame, or the end of a silent peer."""
        if self.closing:
            return
        if self._state is not OPENED:
            self._tick_before_open(now)
            return
        limit = self.options.idle_time_out_ms * _US_PER_MS
        if self.is_unheard:
            self._heard = now
        if limit and now - self._heard >= limit:
            self._fail(
                RESOURCE_LIMIT_EXCEEDED,
                f"nothing was heard for {(now - self._heard) // _US_PER_MS} ms", TIMEOUT, now,
            )  # fmt: skip
            return
        self._end_unfinished(now)
        self.own.tick(now)
        self._flush(now)
        if self._peer_idle_us and now - self._spoken >= self._peer_idle_us // 2:
            if self.awaits_disk:
                self.urgent = EMPTY_FRAME
            else:
                self.out.append(EMPTY_FRAME)
            self._spoken = now
        self._set_deadline(now)

    def _end_unfinished(self, now: int) -> None:
        """End the links whose deliveries did not continue in time."""
        limit = self.options.body_timeout_ms * _US_PER_MS
        for link in list(self.partial.values()):
            assert isinstance(link, Incoming)
            if self.is_unheard or link.is_waiting:
                link.last_piece = now
            elif limit and now - link.last_piece >= limit:
                text = f"a delivery did not continue within {self.options.body_timeout_ms} ms"
                fault = LinkFault(RESOURCE_LIMIT_EXCEEDED, text)
                self._end_link(link.session, link.peer_handle, fault, now)

    def _set_deadline(self, now: int) -> None:
        times = []
        if self.partial and self.options.body_timeout_ms:
            times.append(now + self.options.body_timeout_ms * _US_PER_MS)
        if self.options.idle_time_out_ms:
            times.append(self._heard + self.options.idle_time_out_ms * _US_PER_MS)
        if self._peer_idle_us:
            times.append(self._spoken + self._peer_idle_us // 2)
        if self.own.deadline:
            times.append(self.own.deadline)
        self.next_deadline = max(min(times), now + 1) if times else 0

    def _tick_before_open(self, now: int) -> None:
        limit = self.options.connect_timeout_ms * _US_PER_MS
        if not limit:
            return
        if self.is_unheard or not self._open_by:
            self._open_by = now + limit
        elif now >= self._open_by:
            self._fail(
                RESOURCE_LIMIT_EXCEEDED, f"not open within {limit // _US_PER_MS} ms", TIMEOUT, now
            )
            return
        self.next_deadline = self._open_by

    def clock_stepped(self, step: int, now: int) -> None:
        """Times move along with the clock."""
        self._heard = self._spoken = now
        self.own.clock_stepped(step)
        if self._open_by:
            self._open_by = now + self.options.connect_timeout_ms * _US_PER_MS
        if self.next_deadline:
            self.next_deadline = now + 1

    def listen_again(self, now: int) -> None:
        """The peer is read again."""
        self.is_unheard = False
        self._heard = now

    def is_taking(self, now: int) -> None:
        """The peer reads the output, so it is alive."""
        self._heard = max(self._heard, now)

    # ---- the end

    def dismiss(self, what: str, advice: str, now: int, reason: int = LIMIT) -> None:
        """End the connection on behalf of the broker."""
        if not self.closing:
            self._fail(CONNECTION_FORCED, f"{what}; {advice}" if advice else what, reason, now)

    def farewell(self, text: str) -> bytes:
        """Return a close that says why: the peer may connect elsewhere, or later."""
        if self._state is not OPENED:
            return b""
        return frame(0, Close(error(CONNECTION_FORCED, text)))

    def connection_lost(self, now: int, reason: int = DISCONNECTED, text: str = "") -> None:
        """The connection is gone."""
        self._close(reason, text, now)
        self._end(0)

    def _fail(
        self,
        condition: str,
        text: str,
        reason: int,
        now: int,
        info: dict[str, Any] | None = None,
    ) -> None:
        """Close the connection with an error, in whatever state it is."""
        self.error = text
        if self._state is HEADER:
            self.out.append(protocol_header(SASL))
        elif self._state in (OPENING, OPENED):
            if not self._is_open_said:
                self._say_open()
            self.say(0, Close(error(condition, text, info)))
        elif self._state is LOGGING_IN and self._reader.is_in_sasl:
            self._say_outcome(AUTH)
        if self.refusal is None and self._state is not OPENED:
            self._refuse(reason, text)
        self._close(reason, text, now)
        self._end(self.options.die_delay_ms)

    def _close(self, reason: int, text: str, now: int) -> None:
        for session in self._sessions.values():
            for link in session.detach_all():
                link.is_gone = True
            session.forget()
        self._sessions.clear()
        self.forget_all()
        if self.connection:
            self.broker.handle(CloseConnection(self.connection, reason, text), now)
            self.connection = 0

    def _end(self, delay_ms: int) -> None:
        if not self.closing:
            self.closing = True
            self.close_delay_ms = delay_ms
        self._state = CLOSING
        self.has_more = False
        self.next_deadline = 0
        self.login_request = self.host_request = None
