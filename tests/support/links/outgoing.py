"""A link by which the peer receives: deliveries wait here for the window of the connection."""

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from daybook.engine.commands import Detach
from daybook.engine.effects import REDELIVERED
from daybook.engine.facts.reasons import REASONS
from daybook.engine.messages.annotations import unpacked
from daybook.engine.messages.content import view_of
from daybook.protocols.port import DeliveredMessage, Pull
from tests.support.links.wire import frame
from tests.support.worlds.second_format import has_typed_body

if TYPE_CHECKING:
    from tests.support.links.session import LinksSession

PIECE_BYTES: Final = 16 * 1024
"""How much of a body is in one frame."""
DELIVERY_BYTES: Final = 256
"""The memory of a waiting delivery."""


class Delivery:
    """A message on its way out. `done` counts chunks that were pulled, `left` is the rest."""

    def __init__(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        view = view_of(message)
        self.id: Final = message.id
        self.gate: Final = gate
        self.head: dict[str, Any] | None = {
            "standard": {name: said for name, said in view.standard._asdict().items() if said},
            "properties": view.properties,
            "typed": has_typed_body(message.flags, message.headers),
            "count": count,
            "redelivered": bool(marks & REDELIVERED),
            "annotations": list(unpacked(message.annotations).items()),
        }
        self.chunks: Final = message.chunks
        self.done = 0
        self.left = message.body_bytes
        self.ready: Final[deque[bytes]] = deque()
        # The frames that follow it.
        self.after: Final[list[bytes]] = []
        if not message.chunks:
            self.put(message.body)

    def put(self, piece: bytes) -> None:
        """Cut a piece of the body for frames."""
        self.ready.extend(
            piece[at : at + PIECE_BYTES] for at in range(0, max(len(piece), 1), PIECE_BYTES)
        )


class Outgoing:
    """The link, which is the receiver of its consumer and the taker of what it pulls."""

    def __init__(self, session: "LinksSession", number: int) -> None:
        self.session: Final = session
        self.number: Final = number
        self.consumer = 0
        self._deliveries: Final[deque[Delivery]] = deque()
        self._is_pulling = False

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk that was not pulled; 0 if none."""
        left = (each.chunks[each.done :] for each in self._deliveries)
        return min((chunks[0] for chunks in left if chunks), default=0)

    @property
    def unsent_bytes(self) -> int:
        """The memory of the waiting deliveries."""
        ready = sum(len(piece) for each in self._deliveries for piece in each.ready)
        return ready + DELIVERY_BYTES * len(self._deliveries)

    # ---- from the engine and the hub

    def deliver(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        """Take a delivery."""
        self._deliveries.append(Delivery(message, count, marks, gate))
        self.session.pump()

    def drained(self, unused: int, total: int) -> None:
        """Answer a drain, behind what was delivered for it."""
        self._say_behind(frame("drained", self.number, unused, total))

    def browsed(self) -> None:
        """Say that everything was browsed."""
        self._say_behind(frame("browsed", self.number))

    def settled(self, messages: tuple[int, ...], reason: int, gate: int) -> None:
        """Links have one queue, so all that ends does so with them."""
        raise AssertionError

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """End the link, and nothing else: what waits is gone with the queue."""
        if self.session.links.get(self.number) is self:
            self.session.gate = max(self.session.gate, gate)
            self.session.end_link(self.number, REASONS[reason][0], text)

    def _say_behind(self, output: bytes) -> None:
        if self._deliveries:
            self._deliveries[-1].after.append(output)
        else:
            self.session.say(output)

    def take(self, piece: bytes, now: int) -> None:
        """Take a piece of the body of the first delivery."""
        self._is_pulling = False
        if self._deliveries:
            first = self._deliveries[0]
            first.done += 1
            first.put(piece)
            self.session.pump()

    def give_up(self, why: str, now: int) -> None:
        """The body cannot be read: the delivery is aborted, and the link ends."""
        self.session.broker.handle(Detach(self.consumer), now)
        self.session.end_link(self.number, "unreadable", why)

    # ---- from the session

    def pump(self) -> bool:
        """Send one frame, or ask for what it needs; return whether one was sent."""
        if not self._deliveries:
            return False
        first = self._deliveries[0]
        if not first.ready:
            if not self._is_pulling:
                self._is_pulling = True
                chunks, done = first.chunks, first.done
                before = chunks[done - 1] if done else 0
                self.session.pulls.append(
                    Pull(self, chunks[done], before, first.gate, first.id, self.consumer)
                )
            return False
        piece = first.ready.popleft()
        first.left -= len(piece)
        head, first.head = first.head, None
        more = first.left > 0
        self.session.say(frame("transfer", self.number, first.id, head, piece, more), first.gate)
        if not more:
            self._deliveries.popleft()
            self.session.out += first.after
        return True

    def forget(self) -> None:
        """Send no more."""
        self._deliveries.clear()

    def waiting_ids(self, most: int) -> list[int]:
        """Return ids of messages that wait."""
        return [each.id for each in islice(self._deliveries, most)]
