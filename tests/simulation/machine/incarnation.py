"""One life of the simulated broker: from recovery to the crash or stop that ends it.

It is what `server.service` is for the real one, with the simulator in the place of the event loop:
the same hub, sessions, engine, recovery and journal, wired to simulated transports and disk.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from daybook.engine.broker import Broker
from daybook.engine.commands import ChangeDistributions, ChangeSettings
from daybook.engine.core.core import Options
from daybook.engine.facts.definitions import AutoLink, DistributionEntry, Waypoint
from daybook.journal.blocks.batch import BatchLike
from daybook.journal.disk import Disk
from daybook.journal.journal import Journal
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.dialling import DialledConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.port import Caller, MessagingSession, Outbound
from daybook.protocols.stomp import Session
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.recovery.directory import Recovered
from daybook.recovery.starting import start_after
from daybook.server.hub.hub import Hub
from daybook.server.hub.peer import Peer
from daybook.server.hub.ports import HubOptions
from daybook.server.hub.turn_lengths import (
    DELIVERY_UNITS,
    SLICE_LEAST,
    SLICE_UNITS,
    TURN_UNITS,
)
from daybook.server.users.logins import LoginRequest
from daybook.server.users.sasl import PLAIN, Mechanisms
from daybook.server.users.users import Users
from tests.simulation.judges.violation import Violation
from tests.simulation.machine.network import Link
from tests.simulation.machine.writer import SteppedWriter

DEAD_LETTER_QUEUE = "dead"
MAX_ATTEMPTS = 4
SETTINGS: dict[str, dict[str, str | int | bool | float]] = {
    "#": {"max-delivery-attempts": -1},
    "orders.#": {
        "max-delivery-attempts": MAX_ATTEMPTS,
        "dead-letter-address": DEAD_LETTER_QUEUE,
        "expiry-address": "expired",
    },
}

WriterFactory = Callable[[Journal, Callable[[BatchLike], None]], SteppedWriter]


class Incarnation:
    """Broker, hub and writer of one life, and what waits to be called."""

    def __init__(
        self,
        recovered: Recovered,
        clock: Callable[[], int],
        *,
        options: Options,
        hub_options: HubOptions,
        stomp: StompOptions,
        amqp: AmqpOptions,
        disk: Disk,
        settings: dict[str, dict[str, str | int | bool | float]],
        journal_non_persistent: str,
        table: tuple[DistributionEntry, ...],
        make_writer: WriterFactory,
        note_live: Callable[[Broker], None],
        name: str = "sim",
        identity: str = "0" * 32,
        waypoints: tuple[Waypoint, ...] = (),
    ) -> None:
        self.clock = clock
        self.name = name
        self.stomp = stomp
        self.amqp = amqp
        self.turn_due = False
        # The units of a slice, 0 for as many as a real broker has.
        self.slice_units = 0
        self.logins: list[Callable[[str | None, str], None]] = []
        self.stopped = False
        self._answers = 0
        self._asked = 0
        self.broker = Broker(recovered.state, recovered.journal.next_lsn, options, identity)
        self.writer = make_writer(recovered.journal, lambda _: note_live(self.broker))
        self.hub = Hub(
            self.broker,
            self.writer,
            hub_options,
            clock=clock,
            schedule=self._schedule,
            authenticate=self._authenticate,
            admit=lambda request: "",
            mechanisms=Mechanisms(Users("")),
        )
        self.writer.on_durable = self.hub.durable
        self.writer.on_failure = self.hub.failed
        self.hub.chunks = ContentReader(disk, LAYOUT)
        self.ask(start_after(recovered, disk, "sim", options.lsns_reserved))
        self.ask(ChangeSettings(settings, journal_non_persistent))
        if table:
            self.ask(ChangeDistributions(table, waypoints=waypoints))

    @property
    def is_serving(self) -> bool:
        """Whether what start-up decided is durable, so that clients may come."""
        return self._answers == self._asked

    def ask(self, command: Any) -> None:
        """A command of the configuration, which must not be refused."""
        self._asked += 1
        self.hub.request(command, self._answered)

    def lift_limits(self, settings: dict[str, dict[str, str | int | bool | float]]) -> None:
        """Put settings in force, and no limits of the broker."""
        self.broker.configure(replace(self.broker.options, global_max_messages=0))
        self.ask(ChangeSettings(settings, self.broker.state.journal_non_persistent))

    def _answered(self, answer: Any) -> None:
        if not isinstance(answer, int):
            raise Violation("protocol", f"the configuration was refused: {answer}")
        self._answers += 1

    def _schedule(self) -> None:
        self.turn_due = True

    def _authenticate(
        self, request: LoginRequest, answer: Callable[[str | None, str], None]
    ) -> None:
        assert request.login == "guest"
        self.logins.append(answer)

    def accept(self, link: Link, auto_links: tuple[AutoLink, ...] = ()) -> None:
        """A peer connects. If it is a container, it gets auto-links."""
        caller = Caller(str(link.serial))
        session: MessagingSession
        if link.is_amqp:
            caller = Caller(str(link.serial), lambda _: (PLAIN,))
            caller.secret = b"secret"
            caller.auto_links = lambda container: auto_links
            session = AmqpConnection(self.broker, self.amqp, caller, self.name)
        else:
            session = Session(self.broker, self.stomp, caller, self.name)
        self._open(link, session, caller)

    def dial(self, link: Link, outbound: Outbound) -> None:
        """Connect to another broker."""
        caller = Caller(str(link.serial))
        session = DialledConnection(self.broker, self.amqp, caller, outbound)
        self._open(link, session, caller)

    def _open(self, link: Link, session: MessagingSession, caller: Caller) -> None:
        link.hub = self.hub
        link.clock = self.clock
        room = self.amqp.room if link.is_amqp else self.stomp.room
        link.peer = Peer(session, link, caller, "sim", room)
        self.hub.opened(link.peer)

    def turn(self) -> None:
        """A turn of the hub."""
        self.turn_due = False
        if self.slice_units:
            self._shorten(self.slice_units)
        self.hub.turn()

    def lengthen(self) -> None:
        """Let turns have as much room as in a real broker, so that a run ends soon."""
        if self.slice_units:
            self.slice_units = SLICE_UNITS

    def _shorten(self, units: int) -> None:
        """Let turns have less room, in proportion; the hub takes back what it lengthens itself."""
        lengths = self.hub.turns.lengths
        lengths.slice = units
        lengths.least = max(units * SLICE_LEAST // SLICE_UNITS, 2)
        lengths.turn = units * TURN_UNITS // SLICE_UNITS
        lengths.delivery = units * DELIVERY_UNITS // SLICE_UNITS

    def hear_news(self) -> None:
        """The hub hears the next thing of the writer."""
        what, value = self.writer.news.popleft()
        if what == "durable":
            assert isinstance(value, int)
            self.hub.durable(value)
        elif what == "failed":
            assert isinstance(value, Exception)
            self.hub.failed(value)
        else:
            self.hub.disk_full("the broker's disk is full" if what == "full" else "")

    def stop(self) -> None:
        """Begin a clean stop."""

        def stopped(_: Any) -> None:
            self.stopped = True

        self.hub.stop(stopped)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way between engine and disk."""
        return not (
            self.writer.has_work
            or self.writer.news
            or self.turn_due
            or self.logins
            or self.broker.pending.rows
        )

    @property
    def is_closing(self) -> bool:
        """Whether connections are being closed that no session asks for: perhaps in later turns."""
        return any(each.is_left for each in self.broker.work.closing.values())

    def abandoned(self, links: Iterable[Link]) -> list[int]:
        """Return the connections that have none of these links, and that nobody closes."""
        broker = self.broker
        known = {each.peer.session.connection for each in links if each.peer is not None}
        known |= {each.connection.id for each in broker.work.closing.values() if each.is_left}
        # The broker has one of its own.
        known.add(broker.direct.connection)
        return [each for each in broker.state.connections if each not in known]
