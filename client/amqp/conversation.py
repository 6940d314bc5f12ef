"""A connection of AMQP 1.0 on the side of a client, without a socket or a clock: bytes in, bytes
out, and what the peer said.

It has one session, whose channel is 0. The wire is that of the broker (`protocols.amqp.wire`): one
table for both sides. Fault model: the peer may send anything, at any time; a frame that no peer may
send raises AmqpClientError. Must never know a socket.
"""

from collections import deque
from typing import Any, Final

from daybook.client.amqp.arriving import Arrived, Arriving
from daybook.client.amqp.failures import AmqpClientError, AmqpRefused, refused
from daybook.client.amqp.links import ClientLink, Receiver, Sender
from daybook.client.amqp.login import Login
from daybook.protocols.amqp.wire.errors import AmqpError
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    FRAME_SIZE_MIN,
    SASL,
    Frame,
    FrameReader,
    Header,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import (
    FIRST,
    OK,
    RECEIVER,
    SENDER,
    SETTLED,
    UNSETTLED,
)
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from daybook.protocols.amqp.wire.serial import after, distance
from daybook.protocols.amqp.wire.termini import Received as ReceivedState
from daybook.protocols.amqp.wire.termini import Released, TransactionalState
from daybook.protocols.amqp.wire.windows import SessionWindows

FRAME_BYTES: Final = 1 << 16
WINDOW: Final = 2048
HANDLES: Final = 1 << 16
_OUTGOING: Final = (1 << 31) - 1
_HEAD_ROOM: Final = 128
"""More than a transfer has in front of its payload, with a transaction."""
_CHANNEL: Final = 0


class Conversation:
    """The conversation. `out` are bytes to send. `is_open` says that the session has begun,
    `is_closed` that the peer has closed the connection; `refusal` is why it detached a link.

    `outcomes` has the states by which the peer ended deliveries of this client, until the caller
    removes them; `confirmed` are deliveries to it that the peer has settled, too.
    """

    def __init__(self, peer: str, login: Login, opening: Open) -> None:
        """`peer` is what errors call the other side."""
        self.out = bytearray(protocol_header(SASL))
        self.is_open = False
        self.is_closed = False
        self.keep_alive_ms = 0
        self.refusal: AmqpRefused | None = None
        self.arrived: Final[deque[tuple[Receiver, Arrived]]] = deque()
        self.outcomes: Final[dict[int, Any]] = {}
        self.confirmed: Final[set[int]] = set()
        self.now_ms = 0
        self._peer: Final = peer
        self._login: Final = login
        self._opening: Final = opening
        self._reader: Final = FrameReader(FRAME_BYTES)
        self._frame_bytes = FRAME_SIZE_MIN
        self._headers = 0
        self._is_logged_in = False
        self._windows: SessionWindows | None = None
        self._links: Final[dict[str, ClientLink]] = {}
        # Links by the handles of the peer.
        self._by_handle: Final[dict[int, ClientLink]] = {}
        self._handles = 0
        self._deliveries = 0
        # Deliveries of this client that the peer has not settled.
        self._unsettled: Final[set[int]] = set()

    # ---- what arrives

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer. Raises AmqpClientError."""
        self._reader.receive(data)
        try:
            while not self.is_closed and (found := self._reader.next()) is not None:
                if isinstance(found, Header):
                    self._on_header(found)
                elif found.performative is not None:
                    self._on_frame(found)
        except AmqpError as fault:
            raise AmqpClientError(
                f"{self._peer} does not speak AMQP 1.0 as it must: {fault.text}"
            ) from fault

    def _on_header(self, header: Header) -> None:
        if header.protocol != (SASL, AMQP)[min(self._headers, 1)]:
            raise AmqpClientError(f"{self._peer} does not speak AMQP 1.0 with logins (SASL)")
        self._headers += 1

    def _on_frame(self, found: Frame) -> None:
        said = found.performative
        handler = self._HANDLERS.get(type(said))
        if handler is None or not self._is_timely(said):
            raise self._unexpected(said)
        if isinstance(said, Transfer):
            self._on_transfer(said, found.payload)
        else:
            handler(self, said)

    def _is_timely(self, said: Any) -> bool:
        """Whether a frame may come now: those of SASL until the login, others behind it, and those
        of the session once that has begun."""
        if isinstance(said, _OF_SASL) or not self._is_logged_in:
            return isinstance(said, _OF_SASL) and not self._is_logged_in
        return self._windows is not None or isinstance(said, (Open, Begin, Close))

    def _unexpected(self, said: Any) -> AmqpClientError:
        return AmqpClientError(f"{self._peer} sent {type(said).__name__} where it must not")

    # ---- login and open

    def _on_mechanisms(self, said: SaslMechanisms) -> None:
        mechanism, first = self._login.choose(said.sasl_server_mechanisms)
        self._say(SaslInit(mechanism, first, self._opening.hostname))

    def _on_challenge(self, said: SaslChallenge) -> None:
        self._say(SaslResponse(self._login.respond(said.challenge)))

    def _on_outcome(self, said: SaslOutcome) -> None:
        if said.code != OK:
            raise self._login.refusal()
        self._login.accepted(said.additional_data)
        self._is_logged_in = True
        self.out += protocol_header(AMQP)
        self._say(self._opening)
        self._say(
            Begin(
                next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=_OUTGOING,
                handle_max=HANDLES - 1,
            )
        )  # fmt: skip

    def _on_open(self, said: Open) -> None:
        if said.max_frame_size < FRAME_SIZE_MIN:
            raise AmqpClientError(f"{self._peer} takes frames of {said.max_frame_size} bytes only")
        self._frame_bytes = min(said.max_frame_size, FRAME_BYTES)
        self.keep_alive_ms = said.idle_time_out or 0

    def _on_begin(self, said: Begin) -> None:
        if self._windows is not None:
            raise self._unexpected(said)
        self._windows = SessionWindows(said, WINDOW, 0)
        self.is_open = True

    def _on_close(self, said: Close) -> None:
        self.is_closed = True
        if said.error is not None:
            raise refused(f"{self._peer} closed the connection", said.error)

    def _on_end(self, said: End) -> None:
        raise refused(f"{self._peer} ended the session", said.error)

    # ---- links

    def attach_sender(
        self, target: Any, source: Any, about: str, *, name: str = "", desired: tuple[str, ...] = ()
    ) -> Sender:
        """Attach a link to send by; `about` is what errors call it, `desired` are capabilities."""
        handle = self._new_handle()
        link = Sender(name or f"sender-{handle}", handle, about)
        self._links[link.name] = link
        said = Attach(
            link.name, handle, SENDER, snd_settle_mode=UNSETTLED, rcv_settle_mode=FIRST,
            source=source, target=target, initial_delivery_count=0, desired_capabilities=desired,
        )  # fmt: skip
        self._say(said)
        return link

    def attach_receiver(
        self,
        source: Any,
        target: Any,
        about: str,
        *,
        name: str = "",
        window: int,
        wanted: int | None = None,
        is_settled: bool = False,
    ) -> Receiver:
        """Attach a link to receive by: in all `wanted` deliveries, None for all, at most `window`
        of them at a time."""
        handle = self._new_handle()
        link = Receiver(
            name or f"receiver-{handle}", handle, about, window=window, wanted=wanted
        )  # fmt: skip
        self._links[link.name] = link
        said = Attach(
            link.name, handle, RECEIVER, snd_settle_mode=SETTLED if is_settled else UNSETTLED,
            rcv_settle_mode=FIRST, source=source, target=target,
        )  # fmt: skip
        self._say(said)
        return link

    def _new_handle(self) -> int:
        handle, self._handles = self._handles, self._handles + 1
        return handle

    def _on_attach(self, said: Attach) -> None:
        link = self._links.get(said.name)
        if link is None or said.role == (RECEIVER if isinstance(link, Receiver) else SENDER):
            raise self._unexpected(said)
        self._by_handle[said.handle] = link
        link.attached(said)
        if isinstance(link, Receiver) and link.is_attached:
            self.refill(link)

    def _on_detach(self, said: Detach) -> None:
        link = self._link(said.handle)
        del self._by_handle[said.handle]
        self._links.pop(link.name, None)
        what = "ended the link to" if link.is_attached else "refused"
        link.refusal = self.refusal = refused(f"{self._peer} {what} {link.about}", said.error)
        self._say(Detach(link.handle, closed=True))

    def _link(self, handle: int) -> ClientLink:
        link = self._by_handle.get(handle)
        if link is None:
            raise AmqpClientError(f"{self._peer} named link {handle}, which is not attached")
        return link

    # ---- windows and credit

    @property
    def _session(self) -> SessionWindows:
        assert self._windows is not None, "frames of links come after begin"
        return self._windows

    @property
    def room(self) -> int:
        """How many frames of messages the peer still takes."""
        return self._session.outgoing_room

    @property
    def payload_bytes_max(self) -> int:
        """The longest payload of a transfer."""
        return self._frame_bytes - _HEAD_ROOM

    def _on_flow(self, said: Flow) -> None:
        self._session.flow_came(said, 0)
        link = self._link(said.handle) if said.handle is not None else None
        if isinstance(link, Sender):
            link.flow_came(said)
            if said.drain:
                link.drained()
        if said.echo or (isinstance(link, Sender) and said.drain):
            self._say_flow(link)

    def refill(self, link: Receiver) -> None:
        """Grant deliveries again, if many of those granted came."""
        if link.refusal is None and link.refill():
            self._say_flow(link)

    def _say_flow(self, link: ClientLink | None) -> None:
        windows = self._session
        state: dict[str, Any] = {}
        if isinstance(link, Sender):
            state = {"delivery_count": link.delivery_count, "link_credit": link.credit}
        elif isinstance(link, Receiver):
            credit = link.credit
            state = {"delivery_count": credit.delivery_count, "link_credit": credit.link_credit}
        self._say(
            Flow(
                next_incoming_id=windows.next_incoming_id, incoming_window=windows.incoming_window,
                next_outgoing_id=windows.next_outgoing_id, outgoing_window=_OUTGOING,
                handle=link.handle if link is not None else None, **state,
            )
        )  # fmt: skip

    # ---- deliveries of this client

    def begin_delivery(self, link: Sender) -> int:
        """Begin a message, for which the link has credit; return its number."""
        link.delivery_left()
        number, self._deliveries = self._deliveries, after(self._deliveries)
        self._unsettled.add(number)
        return number

    def transfer(
        self,
        link: Sender,
        number: int,
        payload: bytes,
        *,
        is_first: bool,
        has_more: bool,
        txn_id: bytes = b"",
    ) -> None:
        """Send a frame of a message, for which there is room."""
        state = TransactionalState(txn_id) if txn_id else None
        if is_first:
            tag = number.to_bytes(4, "big")
            said = Transfer(
                link.handle, number, tag, 0, settled=False, more=has_more, state=state
            )  # fmt: skip
        else:
            said = Transfer(link.handle, more=has_more)
        self._session.transfer_left()
        self._say(said, payload)

    def abort(self, link: Sender, number: int) -> None:
        """Take back a message that is not whole."""
        self._unsettled.discard(number)
        self._session.transfer_left()
        self._say(Transfer(link.handle, aborted=True))

    def _on_disposition(self, said: Disposition) -> None:
        last = said.last if said.last is not None else said.first
        if said.role == SENDER:
            if said.settled:
                self.confirmed.update(_numbers(said.first, last))
            return
        state = said.state
        if isinstance(state, ReceivedState) or (state is None and not said.settled):
            return
        count = distance(said.first, last) + 1
        for each in [each for each in self._unsettled if 0 <= distance(said.first, each) < count]:
            self._unsettled.discard(each)
            self.outcomes[each] = state if state is not None else Released()
        if not said.settled:
            self._say(Disposition(SENDER, said.first, last, settled=True, state=state))

    # ---- deliveries to this client

    @property
    def is_within_message(self) -> bool:
        """Whether a message has begun to arrive, and is not whole."""
        return any(
            isinstance(link, Receiver) and link.arriving is not None
            for link in self._links.values()
        )

    def _on_transfer(self, said: Transfer, payload: bytes) -> None:
        windows = self._session
        windows.transfer_came()
        if windows.incoming_window < WINDOW >> 1:
            windows.widen()
            self._say_flow(None)
        link = self._link(said.handle)
        if not isinstance(link, Receiver):
            raise self._unexpected(said)
        arriving = link.arriving
        if arriving is None:
            if said.delivery_id is None:
                raise AmqpClientError(f"{self._peer} sent a message without a number")
            link.credit.delivery_came()
            arriving = link.arriving = Arriving(said.delivery_id)
        if said.aborted:
            arriving.close()
            link.arriving = None
            return
        arriving.is_settled = arriving.is_settled or bool(said.settled)
        arriving.take(payload)
        if not said.more:
            link.arriving = None
            self.arrived.append((link, arriving.whole(link.about, self.now_ms)))

    def settle(self, number: int, state: Any, *, is_settled: bool = False) -> None:
        """Say the outcome of a delivery; unless it `is_settled` already, the peer confirms it."""
        self._say(Disposition(RECEIVER, number, number, settled=is_settled, state=state))

    # ---- output

    def close(self) -> None:
        """Say that this client is done."""
        self._say(Close())

    def discard(self) -> None:
        """Discard the messages that have arrived."""
        for link in self._links.values():
            if isinstance(link, Receiver) and link.arriving is not None:
                link.arriving.close()
        for _, message in self.arrived:
            message.content.close()

    def _say(self, performative: Any, payload: bytes = b"") -> None:
        self.out += frame(_CHANNEL, performative, payload)

    _HANDLERS: Final[dict[type, Any]] = {
        SaslMechanisms: _on_mechanisms, SaslChallenge: _on_challenge, SaslOutcome: _on_outcome,
        Open: _on_open, Begin: _on_begin, Close: _on_close, End: _on_end, Attach: _on_attach,
        Detach: _on_detach, Flow: _on_flow, Disposition: _on_disposition, Transfer: _on_transfer,
    }  # fmt: skip


_OF_SASL: Final = (SaslMechanisms, SaslChallenge, SaslOutcome)


def _numbers(first: int, last: int) -> list[int]:
    """Return the numbers of a range, of which no peer means more than a few thousand."""
    count = distance(first, last) + 1
    if not 0 < count <= 1 << 16:
        raise AmqpError("amqp:invalid-field", f"a disposition is of {count} deliveries")
    return [after(first, each) for each in range(count)]
