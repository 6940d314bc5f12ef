"""A session: windows, links by their handles, deliveries by their numbers (part 2, section 2.5).

Must never know an address or a queue.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any, Final, Protocol

from daybook.engine.facts.definitions import AutoLink
from daybook.protocols.amqp.faults import SessionFault
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.output import Output
from daybook.protocols.amqp.wire.errors import UNATTACHED_HANDLE, AmqpError
from daybook.protocols.amqp.wire.hot import disposition_frame, flow_frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Error,
    Flow,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import Accepted
from daybook.protocols.amqp.wire.windows import SessionWindows
from daybook.protocols.port import BrokerPort, Caller, LinkCounts, LinkRow, SessionRow

LINK_BYTES: Final = 1000
"""Bytes of memory for a link, besides its name."""
INCOMING_WINDOW: Final = 2048
"""How many frames of messages a peer may send before the broker has looked at the first."""
OUTGOING_WINDOW: Final = (1 << 31) - 1
FIRST_OUTGOING: Final = 0
"""The number of the first frame that the broker sends."""
_MASK: Final = 0xFFFF_FFFF
_ACCEPTED: Final = COMPOSITES.encoded(Accepted())


class Link:
    """A link of a session; the peer receives by it, or sends.

    `handle` is that of the broker, `peer_handle` that of the peer, which differs only for links
    that the broker attached by itself: then `auto_link` says why. `number` is what the engine knows
    it by; `owns` says that a destination ends with it, `is_gone` that it has ended, `is_leaving`
    that nothing new goes over it.
    """

    __slots__ = (
        "auto_link", "handle", "is_gone", "is_leaving", "name", "number", "owns", "peer_handle",
        "session",
    )  # fmt: skip

    def __init__(self, session: "AmqpSession", handle: int, name: str, number: int) -> None:
        self.session: Final = session
        self.handle: Final = handle
        self.peer_handle = handle
        self.auto_link: AutoLink | None = None
        self.name: Final = name
        self.number: Final = number
        self.owns = False
        self.is_gone = False
        self.is_leaving = False

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that it still needs; 0 if none."""
        raise NotImplementedError

    @property
    def is_receiving(self) -> bool:
        """Whether the peer receives by it."""
        return False

    @property
    def own_bytes(self) -> int:
        """Bytes of memory that it takes by itself."""
        return LINK_BYTES + len(self.name)

    def row(self) -> LinkRow:
        """Return it for administrators."""
        raise NotImplementedError


class Waiting:
    """Something of a link that waits for the window of the peer: a frame, or its next delivery,
    which has no number before `start` sends it."""

    __slots__ = ("bytes", "frame", "gate", "link", "start")

    def __init__(
        self, link: Link, frame: bytes, gate: int, start: Callable[[], bool] | None, held: int
    ) -> None:
        self.link: Final = link
        self.frame: Final = frame
        self.gate: Final = gate
        self.start: Final = start
        self.bytes: Final = held


class Purpose(Protocol):
    """The reason for which the broker began a session: a link of its own."""

    def begun(self, session: "AmqpSession") -> None:
        """Take the session, which the peer has begun too."""
        ...

    def answered(self, said: Attach, now: int) -> None:
        """Take an attach of the peer. Raises SessionFault."""
        ...

    def detached(self, said: Detach) -> bool:
        """Take a detach of the peer; return whether there was no link to detach."""
        ...

    def ended(self, problem: Error | None) -> None:
        """Note that the link is gone."""
        ...

    def session_ended(self, problem: Error | None) -> None:
        """Note that the session is gone."""
        ...


def beginning(
    output: Output, window: int = INCOMING_WINDOW, remote_channel: int | None = None
) -> Begin:
    """Return the begin of the broker; `remote_channel` is that of the peer's, which it answers."""
    return Begin(
        remote_channel=remote_channel, next_outgoing_id=FIRST_OUTGOING, incoming_window=window,
        outgoing_window=OUTGOING_WINDOW, handle_max=output.options.max_links - 1,
    )  # fmt: skip


class AmqpSession:
    """One session of a connection.

    `channel` is that of its output, `number` what the engine knows it by. `links` are by the
    handles of the peer; `leaving` are handles that the broker detached, until the peer does.
    `is_ended` says that the broker has ended it. It `is_held` while something of the peer waits
    elsewhere: its window is not widened. `purpose` is set if the broker began it.
    """

    __slots__ = (
        "_accepted", "_accepted_to", "_next_delivery", "_unsent", "_waiting", "channel", "is_ended",
        "is_held", "leaving", "links", "number", "output", "purpose", "unsettled",
        "unsettled_by_peer", "windows",
    )  # fmt: skip

    def __init__(
        self,
        output: Output,
        channel: int,
        number: int,
        begin: Begin,
        window: int = INCOMING_WINDOW,
    ) -> None:
        self.output: Final = output
        self.channel: Final = channel
        self.number: Final = number
        self.links: Final[dict[int, Link]] = {}
        self.leaving: Final[set[int]] = set()
        self.is_ended = False
        self.is_held = False
        self.purpose: Purpose | None = None
        # Deliveries to the peer that it has not settled: the link by their number. And deliveries
        # of the peer whose outcome it knows and has to settle itself (settle mode second).
        self.unsettled: Final[dict[int, Link]] = {}
        self.unsettled_by_peer: Final[dict[int, Link]] = {}
        self.windows: Final = SessionWindows(begin, window, FIRST_OUTGOING)
        self._next_delivery = 0
        # What waits for the window of the peer, and what is to be done behind it.
        self._waiting: deque[Waiting | Callable[[], None]] = deque()
        self._unsent = 0
        # The first and the last of the deliveries of the peer, one behind the other, that were
        # accepted since the last look; -1 for none.
        self._accepted = -1
        self._accepted_to = -1

    def row(self) -> SessionRow:
        """Return it for administrators."""
        return SessionRow(
            self.number, len(self.links), self.windows.incoming_window, self.windows.outgoing_room,
            len(self.unsettled), len(self.unsettled_by_peer), self._unsent,
        )  # fmt: skip

    # ---- what arrives

    def count_transfer(self) -> None:
        """Count a frame of a message. Raises SessionFault."""
        windows = self.windows
        try:
            windows.transfer_came()
        except AmqpError as fault:
            raise SessionFault(fault.condition, fault.text) from None
        if windows.incoming_window < windows.incoming_window_max >> 1:
            self.output.dirty[self.channel] = self

    def link(self, handle: int) -> "Link":
        """Return a link. Raises SessionFault."""
        found = self.links.get(handle)
        if found is None:
            raise SessionFault(UNATTACHED_HANDLE, f"no link is attached to handle {handle}")
        return found

    def flow(self, flow: Flow) -> None:
        """Take the windows of the peer. Raises SessionFault."""
        try:
            self.windows.flow_came(flow, FIRST_OUTGOING)
        except AmqpError as fault:
            raise SessionFault(fault.condition, fault.text) from None
        self.pump()

    def settled_range(self, disposition: Disposition, known: Mapping[int, "Link"]) -> list[int]:
        """Return the numbers of the deliveries that a disposition is about, among those that are
        unsettled in one direction."""
        first = disposition.first
        last = disposition.last if disposition.last is not None else first
        count = (last - first & _MASK) + 1
        if count > len(known):
            return [each for each in known if each - first & _MASK < count]
        return [each for at in range(count) if (each := first + at & _MASK) in known]

    # ---- what leaves

    def accept(self, delivery: int) -> None:
        """Tell the peer, with the next look, that a message was accepted."""
        if self._accepted >= 0:
            if delivery == self._accepted_to + 1 & _MASK:
                self._accepted_to = delivery
                return
            self.flush_accepted()
        self._accepted = self._accepted_to = delivery
        self.output.dirty[self.channel] = self

    def settle(
        self, delivery: int, state: Any, *, role: bool = RECEIVER, settled: bool = True
    ) -> None:
        """Tell the peer the state of a delivery, which is settled, unless the peer does that."""
        self.flush_accepted()
        encoded = COMPOSITES.encoded(state)
        self.output.out.append(
            disposition_frame(self.channel, role, delivery, delivery, settled, encoded)
        )

    def flush_accepted(self) -> None:
        """Tell the peer what was accepted, in one range."""
        first, self._accepted = self._accepted, -1
        if first >= 0:
            self.output.out.append(
                disposition_frame(self.channel, RECEIVER, first, self._accepted_to, True, _ACCEPTED)
            )

    def flush(self) -> None:
        """Tell the peer what it may know and send now."""
        self.flush_accepted()
        windows = self.windows
        if windows.incoming_window < windows.incoming_window_max >> 1 and not (
            self.is_ended or self.is_held
        ):
            windows.widen()
            self.say_flow()

    def say_flow(self, **link: Any) -> None:
        """Say the windows, and perhaps the state of a link."""
        windows = self.windows
        self.output.say(
            self.channel,
            Flow(
                next_incoming_id=windows.next_incoming_id, incoming_window=windows.incoming_window,
                next_outgoing_id=windows.next_outgoing_id, outgoing_window=OUTGOING_WINDOW, **link,
            ),
        )  # fmt: skip

    def say_credit(self, handle: int, delivery_count: int, credit: int) -> None:
        """Give a sender credit."""
        windows = self.windows
        self.output.out.append(
            flow_frame(
                self.channel, windows.next_incoming_id, windows.incoming_window,
                windows.next_outgoing_id, OUTGOING_WINDOW, handle=handle,
                delivery_count=delivery_count, link_credit=credit,
            )
        )  # fmt: skip

    def attach(self, link: Link) -> None:
        """Add a link, and charge its memory to the connection."""
        self.links[link.peer_handle] = link
        self._charge(link, 1)

    def detach(self, handle: int, problem: Error | None = None) -> None:
        """Remove a link, if it is there."""
        link = self.links.pop(handle, None)
        if link is not None:
            self._charge(link, -1)
            if self.purpose is not None:
                self.purpose.ended(problem)

    def end_link(
        self, handle: int, problem: Error | None, gate: int = 0, *, closes: bool = True
    ) -> None:
        """Detach a link on behalf of the broker; its handle is in use until the peer does too."""
        link = self.links.get(handle)
        own = link.handle if link is not None else handle
        self.detach(handle, problem)
        self.leaving.add(handle)
        self.output.say(self.channel, Detach(own, closes, problem), gate)

    def detach_all(self, problem: Error | None = None) -> list[Link]:
        """Remove all links; return them."""
        links = list(self.links.values())
        for link in links:
            self.detach(link.peer_handle, problem)
        return links

    def _charge(self, link: Link, times: int) -> None:
        self.output.attached += times
        self.output.receiving += times * link.is_receiving
        self.output.links_bytes += times * link.own_bytes

    def number_delivery(self) -> int:
        """Return the number of a new delivery."""
        number = self._next_delivery
        self._next_delivery = number + 1 & _MASK
        return number

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for the window of the peer."""
        return bool(self._waiting)

    def send(self, link: Link, frames: list[bytes], gate: int) -> None:
        """Send frames of a message as the window of the peer allows."""
        output = self.output
        windows = self.windows
        if not self._waiting and len(frames) <= windows.outgoing_room:
            for _ in frames:
                windows.transfer_left()
            output.out += frames
            if gate > output.gate:
                output.gate = gate
            return
        for each in frames:
            self._wait(Waiting(link, each, gate, None, len(each)))
        self.pump()

    def hold(self, link: Link, start: Callable[[], bool]) -> None:
        """Start a delivery when the window of the peer has room for it; and another one, when
        others had their turn, if `start` returns that there is one."""
        self._waiting.append(Waiting(link, b"", 0, start, 0))
        self.pump()

    def _wait(self, each: Waiting) -> None:
        self._waiting.append(each)
        self._hold(each.bytes)

    def behind(self, action: Callable[[], None]) -> None:
        """Do something when all that waits has been sent."""
        if self._waiting:
            self._waiting.append(action)
        else:
            action()

    def pump(self) -> None:
        """Send what waited for the window of the peer. Nothing leaves for a link that is gone."""
        output = self.output
        windows = self.windows
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Waiting):
                if not (windows.outgoing_room or first.link.is_gone):
                    return
                self._waiting.popleft()
                self._hold(-first.bytes)
                if first.link.is_gone:
                    continue
                if first.start is not None:
                    self._start(first, first.start)
                    continue
                windows.transfer_left()
                output.out.append(first.frame)
                output.gate = max(output.gate, first.gate)
            else:
                self._waiting.popleft()
                first()

    def _start(self, waiting: Waiting, start: Callable[[], bool]) -> None:
        """Send a delivery in front of all that waits."""
        behind = self._waiting
        self._waiting = deque()
        is_more = start()
        if self._waiting:
            self._waiting.extend(behind)
        else:
            self._waiting = behind
        if is_more:
            self._waiting.append(waiting)

    def _hold(self, size: int) -> None:
        self._unsent += size
        self.output.unsent_bytes += size

    def forget(self) -> None:
        """Send and settle no more."""
        self.is_ended = True
        self._waiting.clear()
        self._hold(-self._unsent)
        self._accepted = -1
        self.unsettled.clear()
        self.unsettled_by_peer.clear()

    def settle_sent(self, delivery: int, state: Any) -> None:
        """Tell a receiver that the broker settled a delivery too."""
        self.settle(delivery, state, role=SENDER)


class SessionHolder(Output):
    """An output with the sessions of its connection, which administrators see."""

    def __init__(self, broker: BrokerPort, options: AmqpOptions, caller: Caller) -> None:
        super().__init__(broker, options, caller)
        # By the channel of the peer; the same number is ours.
        self._sessions: Final[dict[int, AmqpSession]] = {}

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that is still needed."""
        chunks = (
            link.first_chunk for each in self._sessions.values() for link in each.links.values()
        )
        return min(filter(None, chunks), default=0)

    @property
    def link_counts(self) -> LinkCounts:
        """How many sessions and links there are."""
        sending = self.attached - self.receiving
        return LinkCounts(len(self._sessions), sending, self.receiving)

    def link_rows(self, first: int, count: int) -> list[LinkRow]:
        """Return so many of the links, from one on."""
        every = (each.links.values() for each in self._sessions.values())
        return [each.row() for each in islice(chain.from_iterable(every), first, first + count)]

    def session_rows(self, first: int, count: int) -> list[SessionRow]:
        """Return so many of the sessions, from one on."""
        return [each.row() for each in islice(self._sessions.values(), first, first + count)]
