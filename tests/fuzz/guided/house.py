"""A broker for stories: the real hub, engine and sessions, without disk, network and clock.

Beside the connections of the story a bystander sends and receives on an address of its own, which
nobody else may use. Must never know what is right or wrong: `sessions` judges.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from daybook.engine import commands as c
from daybook.engine.broker import Broker
from daybook.engine.core.core import Options
from daybook.engine.settings.permissions import CONSUME, PERMISSIONS, SEND, Permissions
from daybook.engine.state.state import State
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.port import Caller, MessagingSession
from daybook.protocols.stomp.session import Session
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Peer
from daybook.server.hub.ports import HubOptions
from daybook.server.users.logins import LoginRequest
from daybook.server.users.sasl import Mechanisms
from daybook.server.users.users import Users
from tests.simulation.machine.network import Link
from tests.support.models.filters import compile_filter
from tests.support.world import SECOND, Event, unpack

START: Final = 1_700_000_000 * SECOND
BY: Final = "by"
"""The address, and the user, of the bystander."""
PASSCODE: Final = "only-the-bystander-knows-this"
STOMP: Final = StompOptions(
    max_header_length=400,
    max_headers=30,
    max_frame_head=2000,
    max_data_length=20_000,
    min_large_message_size=4_000,
    max_early_data=3_000,
    max_subscriptions=12,
    room=8_192,
    add_redeliveries_header="redeliveries",
)
AMQP: Final = AmqpOptions(
    room=8_192,
    idle_time_out_ms=600_000,
    max_frame_size=2_048,
    max_message_size=20_000,
    min_large_message_size=4_000,
    max_header_size=2_000,
    max_headers=30,
    body_timeout_ms=2_000,
    max_sessions=3,
    max_links=6,
    credit=5,
)
SETTINGS: Final[dict[str, dict[str, str | int | bool | float]]] = {
    "#": {"max-delivery-attempts": 3, "dead-letter-address": "dead", "expiry-address": "late"},
    "full": {"max-size-messages": 3, "address-full-policy": "BLOCK"},
    "slow": {"redelivery-delay": 1000, "default-ring-size": 4, "id-cache-size": 2},
    "b": {"max-size-messages": 2, "address-full-policy": "FAIL", "default-exclusive-queue": True},
    "a.b": {"default-last-value-queue": True, "default-non-destructive": True},
    "late": {"auto-delete-queues-delay": 500, "default-purge-on-no-consumers": True},
}
ADMIN: Final[tuple[Callable[[str], c.Command], ...]] = (
    lambda name: c.DeleteQueue(name, True),
    lambda name: c.PurgeQueue(name),
    lambda name: c.PauseQueue(name),
    lambda name: c.ResumeQueue(name),
    lambda name: c.DeleteAddress(name, True),
    lambda name: c.ResetGroups(name),
    lambda name: c.PauseAddress(name),
    lambda name: c.ResumeAddress(name),
    lambda name: c.ClearDuplicateIds(name),
    lambda name: c.DeliverScheduled(name),
    lambda name: c.ReleaseHeld(name),
    lambda name: c.SetSettings(name, {"max-delivery-attempts": 1, "redelivery-delay": 0}),
    lambda name: c.RemoveSettings(name),
)
NAMES: Final = ("a", "b", "a.b", "full", "slow", "dead", "late")
TURNS_MAX: Final = 3_000
"""So many turns in a row, without new input, are a broker that never comes to rest."""


class MemoryWriter:
    """A journal in memory; while it is `slow`, nothing becomes durable."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.waiting: deque[int] = deque()
        self.slow = False
        self.pending_bytes = 0

    def submit(self, batch: Any) -> None:
        """Take a batch."""
        self.events.extend(unpack(batch))
        self.waiting.append(batch.last_lsn)

    def mark(self, time: int) -> None:
        """Blocks without events are not kept."""


class Chunks:
    """Reads chunks from a journal in memory."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def chunks(self, lsns: Sequence[int], before: int) -> list[bytes]:
        """The bodies of these events."""
        return [self.events[lsn - 1].body for lsn in lsns]


class House:
    """The broker, its clock, and the units that one piece of input and one turn spent at most."""

    def __init__(self) -> None:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        self.now = START
        self.turn_due = False
        self.writer: Final = MemoryWriter()
        self.links: list[Link] = []
        self.said: dict[Link, bytearray] = {}
        self.heard: dict[Link, bytearray] = {}
        self.late: list[Callable[[], None]] = []
        self.most_input = self.most_turn = 0
        self.stuck = False
        broker = Broker(State(), 1, Options(compile_filter=compile_filter))
        self.broker: Final = broker
        self.hub: Final = Hub(
            broker, self.writer, HubOptions(),
            clock=lambda: self.now, schedule=self._schedule, authenticate=self._authenticate,
            admit=lambda request: "", mechanisms=Mechanisms(Users("")),
        )  # fmt: skip
        self.hub.chunks = Chunks(self.writer.events)
        self.hub.request(c.Start(version="fuzz", skipped=0))
        self.hub.request(c.ChangeSettings(SETTINGS))
        everybody = {name: ("*",) for name in PERMISSIONS}
        rules = {"#": everybody, BY: {SEND: (f"user:{BY}",), CONSUME: (f"user:{BY}",)}}
        rules[BY]["create-address"] = rules[BY]["create-durable-queue"] = (f"user:{BY}",)
        broker.permit(Permissions(rules))
        self.rest()

    def _schedule(self) -> None:
        self.turn_due = True

    def _authenticate(
        self, request: LoginRequest, answer: Callable[[str | None, str], None]
    ) -> None:
        user: str | None = request.login or "guest"
        if user == "wrong" or (user == BY and request.passcode != PASSCODE):
            user = None
        if user == "late":
            self.late.append(lambda: answer("late", ""))
        else:
            answer(user, "" if user else "wrong passcode")

    # ---- connections

    def connect(self, options: StompOptions | AmqpOptions = STOMP) -> Link:
        """A new connection, of the protocol that has these options."""
        link = Link(len(self.said), 4096, self._watch)
        self.said[link], self.heard[link] = bytearray(), bytearray()
        caller = Caller(str(link.serial), self.hub.mechanisms.offered, is_loopback=True)
        session: MessagingSession
        if isinstance(options, AmqpOptions):
            session = AmqpConnection(self.broker, options, caller, "fuzz")
        else:
            session = Session(self.broker, options, caller, "fuzz")
        link.hub, link.clock = self.hub, lambda: self.now
        link.peer = Peer(session, link, caller, "fuzz", options.room)
        self.links.append(link)
        self.hub.opened(link.peer)
        return link

    def _watch(self, link: Link, data: bytes) -> None:
        self.said[link] += data

    def feed(self, link: Link, data: bytes, count: int = 1 << 20) -> None:
        """Give bytes to a connection, at most `count` at a time, as long as it is read."""
        link.to_broker += data
        while link.can_reach_broker():
            heard = bytes(link.to_broker[:count])
            before = self.broker.budget.spent
            link.carry_to_broker(count)
            self.most_input = max(self.most_input, self.broker.budget.spent - before)
            self.heard[link] += heard

    def lose(self, link: Link) -> None:
        """A client is gone."""
        if not link.broker_gone:
            link.client_gone = True
            link.end()

    # ---- time

    def rest(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(TURNS_MAX):
            moved = False
            if self.turn_due:
                self.turn_due = False
                before = self.broker.budget.spent
                self.hub.turn()
                self.most_turn = max(self.most_turn, self.broker.budget.spent - before)
                moved = True
            while self.writer.waiting and not self.writer.slow:
                self.hub.durable(self.writer.waiting.popleft())
                moved = True
            for link in self.links:
                if link.can_reach_client():
                    link.carry_to_client(len(link.to_client))
                if link.can_reach_broker():
                    self.feed(link, b"")
                    moved = True
                if link.is_to_end():
                    link.end()
                    moved = True
            self.links = [link for link in self.links if not link.broker_gone]
            if not moved and not self.turn_due:
                return
        self.stuck = True

    def sleep(self, microseconds: int) -> None:
        """Time passes, in steps that a loop would notice."""
        for _ in range(3):
            self.now += microseconds // 3 + 1
            self.hub.tick()
            self.rest()

    def answer_late(self) -> None:
        """The logins that took long are answered."""
        late, self.late = self.late, []
        for answer in late:
            answer()
