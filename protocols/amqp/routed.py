"""Links that are passed on to another container, and those of others that a container gets.

A frame of one end becomes the same frame of the other: its handle, its delivery numbers and the
windows are those of the session there; tags, credit, drains, states and errors pass unchanged. The
two ends are on connections of their own, and hear of each other by the engine alone. Must never
know what a message is.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from daybook.engine.commands import EndRoutedLink, Pass
from daybook.engine.facts.definitions import LinkRoute
from daybook.engine.queues.entry import Taker
from daybook.engine.refusals import Code, Refusal
from daybook.protocols.amqp.faults import LinkFault, SessionFault, error
from daybook.protocols.amqp.output import Output
from daybook.protocols.amqp.sessions import AmqpSession, Link, beginning
from daybook.protocols.amqp.wire.credit import ReceiverCredit
from daybook.protocols.amqp.wire.errors import (
    CONNECTION_FORCED,
    DETACH_FORCED,
    INVALID_FIELD,
    NOT_ALLOWED,
    AmqpError,
)
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.hot import is_plain, transfer_frames
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    Error,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.serial import distance
from daybook.protocols.amqp.wire.termini import Accepted, Source, Target
from daybook.protocols.port import RECEIVES, SENDS, LinkRow

FAR_WINDOW: Final = 64
"""How many frames of messages a container may send before the peer of the link took the first."""
_HEAD_ROOM: Final = 64
"""More than the head of a transfer takes, besides its tag and its state."""
_FRAME_BYTES: Final = 64
"""Bytes that a frame without a message counts as."""
_LOST: Final = error(DETACH_FORCED, "the container of this link is gone; attach it again")


class Piece(NamedTuple):
    """A frame of a message: `delivery` is its number at the end that it came from, and the first
    of its frames `is_first`."""

    transfer: Transfer
    payload: bytes
    delivery: int
    is_first: bool


class State(NamedTuple):
    """The state of a delivery, which the sender or the receiver of its link said."""

    delivery: int
    state: Any
    settled: bool
    by_sender: bool


class Refused(NamedTuple):
    """The container refused the link, for a reason that it said or not."""

    problem: Error | None


class Wanted(NamedTuple):
    """The attach of a peer, and the id of its container."""

    asked: Attach
    container: str


Said: TypeAlias = Attach | Flow | Piece | State
Last: TypeAlias = Detach | Refused | None


class RoutedLink(Link):
    """One end: its peer sends or receives (`sends`). `id` is what the engine knows the link by;
    `address` is the one that the peer of the near end asked for."""

    __slots__ = (
        "_behind", "_delivery", "_held", "_is_within", "_numbers", "_owed", "_tokens", "_waiting",
        "address", "credit", "id", "sends", "total",
    )  # fmt: skip

    def __init__(
        self, session: AmqpSession, handle: int, name: str, number: int, address: str, *,
        sends: bool, initial_count: int = 0, link_id: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(session, handle, name, number)
        self.address: Final = address
        self.sends: Final = sends
        self.id = link_id
        self.total = 0
        # The number of the delivery of the peer whose frames come.
        self._delivery = 0
        self._is_within = False
        # That of a peer that sends, as the receiver at the other end gave it.
        self.credit = ReceiverCredit(initial_count)
        # Frames of the peer for which the other end has no room, and how many bytes they have.
        self._waiting: Final[deque[Piece]] = deque()
        self._held = 0
        self._behind: Callable[[int], None] | None = None
        session.output.is_passing = True
        # Deliveries to the peer that are unsettled: our number by that of the other end, and back.
        self._numbers: Final[dict[int, int]] = {}
        self._tokens: Final[dict[int, int]] = {}
        # Deliveries of the peer that are unsettled.
        self._owed: Final[set[int]] = set()

    @property
    def first_chunk(self) -> int:
        """It needs nothing of the journal."""
        return 0

    @property
    def is_receiving(self) -> bool:
        """Say whether the peer receives by it."""
        return not self.sends

    def row(self) -> LinkRow:
        """Return it for administrators."""
        return LinkRow(
            self.name, SENDS if self.sends else RECEIVES, self.session.number,
            address=self.address, in_flight=len(self._tokens) + len(self._owed),
            total=self.total, waits=bool(self._waiting), memory_bytes=self.own_bytes + self._held,
        )  # fmt: skip

    # ---- from the peer

    def transfer(self, said: Transfer, payload: bytes, now: int) -> None:
        """Pass on a frame of a message."""
        is_first = not self._is_within
        if is_first:
            self._begin_delivery(said)
        elif said.delivery_id not in (None, self._delivery):
            text = f"delivery {said.delivery_id} begins before {self._delivery} has ended"
            raise LinkFault(NOT_ALLOWED, text)
        self._is_within = said.more and not said.aborted
        delivery = self._delivery
        if said.settled or said.aborted:
            self._forget_owed(delivery)
        elif delivery not in self._owed:
            self._owed.add(delivery)
            self.session.unsettled_by_peer[delivery] = self
        piece = Piece(said, payload, delivery, is_first)
        if self._waiting or not self.pass_on(piece, len(payload) + _FRAME_BYTES, now):
            self._waiting.append(piece)
            self._hold(len(payload))

    def _begin_delivery(self, said: Transfer) -> None:
        """Count a delivery of the peer, for which it needs credit. Raises LinkFault."""
        if said.delivery_id is None:
            raise LinkFault(INVALID_FIELD, "the first transfer of a delivery has no delivery-id")
        try:
            self.credit.delivery_came()
        except AmqpError as fault:
            raise LinkFault(fault.condition, fault.text) from None
        self._delivery = said.delivery_id
        self.total += 1

    def flow(self, said: Flow, now: int) -> None:
        """Pass on credit, and whatever else is said of the link. Raises LinkFault."""
        if self.sends:
            try:
                self.credit.flow_came(said)
            except AmqpError as fault:
                raise LinkFault(fault.condition, fault.text) from None
        self.pass_on(said, 0, now)

    def disposed(self, delivery: int, said: Disposition, now: int) -> None:
        """Pass on the state of a delivery to the peer."""
        token = self._tokens[delivery]
        if said.settled:
            self._forget(token)
        self.pass_on(State(token, said.state, said.settled, False), 0, now)

    def settled_by_peer(self, delivery: int, said: Disposition, now: int) -> None:
        """Pass on what the peer says of its delivery."""
        self._forget_owed(delivery)
        self.pass_on(State(delivery, said.state, said.settled, True), 0, now)

    def end(self, what: Last) -> EndRoutedLink:
        """Forget everything; return the command that ends the other end."""
        self.drop()
        return EndRoutedLink(self.id, self.session.output.connection, what)

    def drop(self) -> None:
        """Pass on no more."""
        self.is_gone = True
        self._waiting.clear()
        self._hold(-self._held)
        for token in list(self._numbers):
            self._forget(token)
        for delivery in list(self._owed):
            self._forget_owed(delivery)
        self.session.output.forget_link(self.number)

    def is_held(self, then: Callable[[int], None]) -> bool:
        """Return whether frames wait, and do something behind them if so."""
        if self._waiting:
            self._behind = then
        return bool(self._waiting)

    def pass_on(self, what: Said, size: int, now: int) -> bool:
        """Pass something on; return whether the other end has room for it."""
        output = self.session.output
        answer = output.broker.handle(Pass(self.id, output.connection, what, size), now)
        return not (isinstance(answer, Refusal) and answer.code is Code.BLOCKED)

    def _hold(self, size: int) -> None:
        self._held += size
        self.session.output.input_bytes += size
        self.session.is_held = bool(self._waiting)

    def _forget(self, token: int) -> None:
        number = self._numbers.pop(token, None)
        if number is not None:
            del self._tokens[number]
            self.session.unsettled.pop(number, None)

    def _forget_owed(self, delivery: int) -> None:
        if delivery in self._owed:
            self._owed.discard(delivery)
            self.session.unsettled_by_peer.pop(delivery, None)

    # ---- from the other end

    def passed(self, what: Said, now: int) -> None:
        """Say what the other end said."""
        if self.is_gone:
            return
        if isinstance(what, Piece):
            self._send(what)
            return
        if isinstance(what, State):
            self._say_state(what)
            return
        # Nothing overtakes what was accepted before, which is said in ranges.
        self.session.flush_accepted()
        if isinstance(what, Flow):
            self._grant(what)
            self.session.say_flow(
                handle=self.handle, delivery_count=what.delivery_count,
                link_credit=what.link_credit, available=what.available, drain=what.drain,
                echo=what.echo, properties=what.properties,
            )  # fmt: skip
        else:
            self.answered_there(what)

    def _grant(self, said: Flow) -> None:
        """Note how many deliveries a peer that sends may send."""
        if self.sends and said.link_credit is not None:
            credit = self.credit
            if said.delivery_count is None:
                # Its receiver knows of no delivery yet.
                left = said.link_credit - credit.came
            else:
                left = said.link_credit - distance(said.delivery_count, credit.delivery_count)
            credit.grant(max(left, 0))

    def answered_there(self, said: Attach) -> None:
        """Tell the peer that the container attached the link, and how."""
        answer = msgspec.structs.replace(said, name=self.name, handle=self.handle)
        self.session.output.say(self.session.channel, answer)

    def opened(self, is_open: bool, now: int) -> None:
        """Pass on frames that waited for room."""
        while self._waiting and not self.is_gone:
            piece = self._waiting[0]
            if not self.pass_on(piece, len(piece.payload) + _FRAME_BYTES, now):
                return
            self._waiting.popleft()
            self._hold(-len(piece.payload))
        self.session.output.dirty[self.session.channel] = self.session
        behind, self._behind = self._behind, None
        if behind is not None and not self.is_gone:
            behind(now)

    def route_ended(self, what: Last, now: int) -> None:
        """End the link, as the other end has, behind what it sent."""
        self.session.behind(partial(self._finish, what))

    def _finish(self, what: Last) -> None:
        if self.is_gone:
            return
        self.drop()
        self.session.flush_accepted()
        if isinstance(what, Refused):
            said = Attach(self.name, self.handle, not (SENDER if self.sends else RECEIVER))
            if not self.sends:
                said = msgspec.structs.replace(said, initial_delivery_count=0)
            self.session.output.say(self.session.channel, said)
            self.session.end_link(self.peer_handle, what.problem)
        elif what is None:
            problem = _LOST if self.session.purpose is None else None
            self.session.end_link(self.peer_handle, problem, closes=False)
        else:
            self.session.end_link(self.peer_handle, what.error, closes=what.closed)

    def _send(self, piece: Piece) -> None:
        """Send a frame of a message; in several, if the peer takes only smaller ones."""
        session, said = self.session, piece.transfer
        token = piece.delivery
        number = None
        if piece.is_first:
            number = session.number_delivery()
            self.total += 1
            if not said.settled:
                self._numbers[token], self._tokens[number] = number, token
                session.unsettled[number] = self
        elif said.settled or said.aborted:
            self._forget(token)
        session.send(self, self._frames(said, number, piece.payload), 0)

    def _frames(self, said: Transfer, number: int | None, payload: bytes) -> list[bytes]:
        channel = self.session.channel
        tag = said.delivery_tag
        if number is not None and tag is not None and is_plain(said):
            return transfer_frames(
                channel, self.handle, number, tag, bool(said.settled), (payload,),
                self.session.output.max_frame_size,
            )  # fmt: skip
        first = msgspec.structs.replace(said, handle=self.handle, delivery_id=number)
        if number is None:
            first = msgspec.structs.replace(first, delivery_tag=None, message_format=None)
        whole = frame(channel, first, payload)
        size_max = self.session.output.max_frame_size
        if len(whole) <= size_max:
            return [whole]
        head = len(whole) - len(payload)
        cuts = [0, max(size_max - head - _HEAD_ROOM, 1)]
        while cuts[-1] < len(payload):
            cuts.append(cuts[-1] + size_max - _HEAD_ROOM)
        frames = []
        for at, end in pairwise(cuts):
            more = first.more or end < len(payload)
            said = (
                msgspec.structs.replace(first, more=more)
                if not at
                else Transfer(self.handle, more=more)
            )
            frames.append(frame(channel, said, payload[at:end]))
        return frames

    def _say_state(self, what: State) -> None:
        """Say the state of a delivery: of one to the peer, which its sender said, or of one of the
        peer, which its receiver said."""
        if what.by_sender:
            number = self._numbers.get(what.delivery)
            if number is None:
                return
            if what.settled:
                self._forget(what.delivery)
            self.session.settle(number, what.state, role=SENDER, settled=what.settled)
            return
        if what.delivery not in self._owed:
            return
        if what.settled:
            self._forget_owed(what.delivery)
            if isinstance(what.state, Accepted):
                self.session.accept(what.delivery)
                return
        self.session.settle(what.delivery, what.state, settled=what.settled)


class FarEnd:
    """The purpose of a session for a link that the container gets; `leave` ends the session, in the
    end of this call."""

    def __init__(
        self,
        output: Output,
        end: Taker,
        route: LinkRoute,
        wanted: Wanted,
        leave: Callable[[AmqpSession], None],
    ) -> None:
        self._output: Final = output
        self._end: Final = end
        asked = self._asked = wanted.asked
        self._leave: Final = leave
        # Links of one name, of different peers, are different ones to the container.
        self.name: Final = f"{asked.name}@{wanted.container}"
        self.channel = -1
        self._route: Final = route
        self._link: RoutedLink | None = None
        self._refused = -1
        self._early: Final[list[Said]] = []
        self._has_ended = False
        end.receiver = self

    def begin(self, channel: int) -> None:
        """Begin the session."""
        self.channel = channel
        self._output.say(channel, beginning(self._output, FAR_WINDOW))

    def begun(self, session: AmqpSession) -> None:
        """Attach the link."""
        self.channel = -1
        asked = self._asked
        self._link = RoutedLink(
            session,
            0,
            self.name,
            self._output.number_link(),
            _address_of(asked),
            # The broker sends to the container what the peer sends.
            sends=asked.role == RECEIVER,
            link_id=self._end.id,
        )
        if self._has_ended:
            self._leave(session)
            return
        self._output.say(
            session.channel,
            msgspec.structs.replace(
                asked, name=self.name, handle=0, source=self._moved(asked.source),
                target=self._moved(asked.target),
            ),
        )  # fmt: skip

    def _moved(self, terminus: Any) -> Any:
        """Return a terminus with the address that the container knows."""
        is_there = _terminus_of(self._asked) is terminus
        if not is_there or not isinstance(terminus, Source | Target) or not terminus.address:
            return terminus
        return msgspec.structs.replace(terminus, address=self._route.there(terminus.address))

    # ---- from the container

    def answered(self, said: Attach, now: int) -> None:
        """Take the answer of the container. Raises SessionFault."""
        link, asked = self._link, self._asked
        if link is None or self._refused >= 0 or said.name != self.name or said.role == asked.role:
            raise SessionFault(NOT_ALLOWED, "the broker began this session for a link of its own")
        if _terminus_of(asked, said) is None and _terminus_of(asked) is not None:
            self._refused = said.handle
            return
        link.peer_handle = said.handle
        link.credit = ReceiverCredit(said.initial_delivery_count or 0)
        link.session.attach(link)
        there = said
        if _terminus_of(asked) is not None:
            # The peer knows the address that it asked for.
            key = "target" if asked.role == SENDER else "source"
            terminus = getattr(said, key)
            if isinstance(terminus, Source | Target) and not terminus.dynamic:
                back = msgspec.structs.replace(terminus, address=_address_of(asked))
                there = msgspec.structs.replace(said, **{key: back})
        link.pass_on(there, 0, now)
        early, self._early[:] = list(self._early), []
        self._end.receiver = link
        for each in early:
            link.passed(each, now)

    def detached(self, said: Detach) -> bool:
        """Take a detach of the container; return whether there was no link to detach."""
        link = self._link
        if link is None or said.handle != self._refused:
            return False
        self._refused = -1
        link.session.output.say(link.session.channel, Detach(0, True))
        self._tell(Refused(said.error))
        self._leave(link.session)
        return True

    def ended(self, problem: Error | None) -> None:
        """Note that the link is gone: so is its session."""
        if self._link is not None:
            self._leave(self._link.session)

    def session_ended(self, problem: Error | None) -> None:
        """Note that the session is gone."""
        link, self._link = self._link, None
        if link is not None and not link.is_gone:
            self._tell(Detach(0, True, problem) if self._end.receiver is link else Refused(problem))

    def _tell(self, what: Last) -> None:
        """End the other end."""
        link = self._link
        command = EndRoutedLink(self._end.id, self._output.connection, what)
        if link is not None:
            command = link.end(what)
        self._output.broker.handle(command, self._output.now)

    def give_up(self, text: str) -> None:
        """End the other end: the container cannot be asked."""
        self._tell(Refused(error(CONNECTION_FORCED, text)))

    # ---- from the other end, until the container has answered

    def passed(self, what: Said, now: int) -> None:
        """Keep what the other end says."""
        self._early.append(what)

    def opened(self, is_open: bool, now: int) -> None:
        """Nothing waits for room."""

    def route_ended(self, what: Last, now: int) -> None:
        """The peer does not want the link any more."""
        self._has_ended = True
        link = self._link
        if link is not None and not link.is_gone:
            link.is_gone = True
            self._leave(link.session)


class FarEnds:
    """The far ends on a connection whose sessions the container has not begun yet (`waiting`, by
    their channels), and sessions that are to end (`leaving`)."""

    def __init__(self, output: Output, channel: Callable[[], int]) -> None:
        self._output: Final = output
        self._channel: Final = channel
        self.waiting: Final[dict[int, FarEnd]] = {}
        self.leaving: Final[list[AmqpSession]] = []

    def add(self, end: Taker, route: LinkRoute, wanted: Wanted) -> None:
        """Begin a session for a link."""
        far = FarEnd(self._output, end, route, wanted, self.leaving.append)
        channel = self._channel()
        if channel < 0:
            far.give_up("the container allows no more sessions")
            return
        self.waiting[channel] = far
        far.begin(channel)


def _terminus_of(asked: Attach, answer: Attach | None = None) -> Any:
    """Return the terminus that a link is about, of its attach, or of the answer."""
    said = answer or asked
    return said.target if asked.role == SENDER else said.source


def _address_of(asked: Attach) -> str:
    terminus = _terminus_of(asked)
    address = terminus.address if isinstance(terminus, Source | Target) else ""
    return address or COORDINATOR


COORDINATOR: Final = "$coordinator"
"""The address by which links to a coordinator are routed."""


def address_to_route(asked: Attach) -> str:
    """Return the address by which an attach may be passed on; empty if it has none."""
    terminus = _terminus_of(asked)
    if terminus is None:
        return ""
    if isinstance(terminus, Source | Target):
        return terminus.address or ""
    return COORDINATOR
