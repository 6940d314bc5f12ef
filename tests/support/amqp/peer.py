"""A peer that speaks AMQP 1.0 to a connection of the broker, both without sockets or clocks."""

from typing import Any, Final

from daybook.engine.messages.amqp.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    VALUE,
    Header,
    Properties,
)
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.options import AmqpOptions
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    SASL,
    Frame,
    FrameReader,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.frames import (
    Header as ProtocolHeader,
)
from daybook.protocols.amqp.wire.kinds import FIRST, RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import Attach, Begin, Flow, Open, SaslInit, Transfer
from daybook.protocols.amqp.wire.termini import Source, Target
from daybook.protocols.port import Caller, SaslStep
from tests.support.world import World

FRAME_SIZE: Final = 1 << 20
WINDOW: Final = 1 << 20


def message(
    body: Any = b"x",
    *,
    durable: bool = False,
    properties: dict[str, Any] | None = None,
    to: str | None = None,
    standard: Properties | None = None,
    **header: Any,
) -> bytes:
    """Return the sections of a message: the header, standard properties (or only `to`), those of
    the application, and a body."""
    head = SECTIONS.encoded(Header(durable=durable, **header))
    if to is not None:
        standard = Properties(to=to)
    if standard is not None:
        head += SECTIONS.encoded(standard)
    if properties:
        head += section_of(APPLICATION_PROPERTIES, encoded(properties))
    section = section_of(DATA if isinstance(body, bytes) else VALUE, encoded(body))
    return head + section


def follow(world: World, connection: AmqpConnection) -> None:
    """Do what follows in a broker: deliveries, and turns that are left."""
    broker = world.broker
    for _ in range(10_000):
        broker.budget.allow(1 << 40)
        if connection.has_more or connection.has_unfinished:
            connection.proceed(world.now)
        broker.dispatch(world.now)
        effects, broker.effects[:] = list(broker.effects), []
        for effect in effects:
            if isinstance(effect, tuple):
                consumer, *delivery = effect
                consumer.receiver.deliver(*delivery)
            else:
                effect.hand_to(effect.consumer.receiver, world.now)
        connection.conclude(world.now)
        if not (effects or connection.has_more or connection.has_unfinished):
            break
    world.dispatch()


class Peer:
    """The peer, and the connection that it speaks to. `said` are frames of the broker that no test
    has looked at yet."""

    def __init__(
        self, world: World, mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS"), **options: Any
    ) -> None:
        self.world: Final = world
        caller = Caller("peer", lambda _: mechanisms)
        caller.secret = b"secret"
        self.connection: Final = AmqpConnection(
            world.broker, AmqpOptions(**options), caller, "broker"
        )
        self._reader: Final = FrameReader(FRAME_SIZE, FRAME_SIZE)
        self.said: list[Any] = []
        self.connection.tick(world.now)

    # ---- bytes

    def feed(self, data: bytes) -> None:
        """Give the connection bytes, and let the broker do all that follows."""
        self.connection.receive(data, self.world.now)
        self.settle()

    def settle(self) -> None:
        """Do what follows: deliveries, pieces of bodies, turns that are left."""
        follow(self.world, self.connection)
        self._read()

    def _read(self) -> None:
        for data in self.connection.out:
            self._reader.receive(data)
        self.connection.out = []
        while (found := self._reader.next()) is not None:
            if isinstance(found, Frame):
                self.said.append((found.performative, found.payload))
            else:
                assert isinstance(found, ProtocolHeader)
                self.said.append((found, b""))

    def say(self, performative: Any, payload: bytes = b"", channel: int = 0) -> None:
        """Send a frame."""
        self.feed(frame(channel, performative, payload))

    def heard(self, kind: type) -> list[Any]:
        """Return the performatives of a kind that came, and forget them."""
        found = [each for each, _ in self.said if isinstance(each, kind)]
        self.said = [each for each in self.said if not isinstance(each[0], kind)]
        return found

    def hear(self, kind: type) -> Any:
        """Return the one performative of a kind that came."""
        (found,) = self.heard(kind)
        return found

    def deliveries(self) -> list[tuple[Transfer, bytes]]:
        """Return the messages that came, each with the first frame of it."""
        found: list[tuple[Transfer, bytes]] = []
        is_open = False
        for said, payload in self.said:
            if not isinstance(said, Transfer):
                continue
            if is_open:
                found[-1] = found[-1][0], found[-1][1] + payload
            else:
                found.append((said, payload))
            is_open = said.more
        self.heard(Transfer)
        return found

    # ---- steps

    def log_in(self, user: str = "guest") -> "Peer":
        """Log in by SASL; the test is the one who knows passwords."""
        self.feed(protocol_header(SASL))
        self.say(SaslInit("PLAIN", b"\0guest\0guest"))
        assert isinstance(self.connection.login_request, SaslStep)
        self.connection.authenticated(user, "", self.world.now)
        self.settle()
        self.feed(protocol_header(AMQP))
        return self

    def open(self, container: str = "c", *, user: str = "guest", **values: Any) -> "Peer":
        """Log in, open the connection, and begin a session on channel 0."""
        self.log_in(user)
        self.say(Open(container, max_frame_size=FRAME_SIZE, **values))
        assert self.connection.host_request is not None
        self.connection.admitted("", self.world.now)
        self.settle()
        self.begin()
        return self

    def begin(self, channel: int = 0, window: int = WINDOW) -> None:
        """Begin a session."""
        self.say(
            Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=WINDOW),
            channel=channel,
        )

    def sender(
        self,
        handle: int,
        address: str | None,
        *,
        name: str = "",
        mode: int = FIRST,
        offered: tuple[str, ...] = (),
        **values: Any,
    ) -> None:
        """Attach a link to send by."""
        target = Target(address, **values)
        self.say(
            Attach(
                name or f"s{handle}",
                handle,
                SENDER,
                rcv_settle_mode=mode,
                source=Source(),
                target=target,
                initial_delivery_count=0,
                offered_capabilities=offered,
            )
        )

    def receiver(
        self,
        handle: int,
        address: str | None,
        credit: int = 0,
        *,
        name: str = "",
        settled: int = 2,
        mode: int = FIRST,
        unsettled: dict[Any, Any] | None = None,
        of_link: dict[str, Any] | None = None,
        desired: tuple[str, ...] = (),
        **values: Any,
    ) -> None:
        """Attach a link to receive by, and give it credit."""
        source = Source(address, **values)
        self.say(
            Attach(
                name or f"r{handle}",
                handle,
                RECEIVER,
                snd_settle_mode=settled,
                rcv_settle_mode=mode,
                source=source,
                target=Target(),
                unsettled=unsettled,
                properties=of_link,
                desired_capabilities=desired,
            )
        )
        if credit:
            self.flow(handle, credit)

    def flow(self, handle: int, credit: int, count: int = 0, **values: Any) -> None:
        """Give a link credit."""
        self.say(
            Flow(
                next_incoming_id=0,
                incoming_window=WINDOW,
                next_outgoing_id=0,
                outgoing_window=WINDOW,
                handle=handle,
                delivery_count=count,
                link_credit=credit,
                **values,
            )
        )

    def send(self, handle: int, delivery: int, data: bytes, **values: Any) -> None:
        """Send a message in one frame."""
        values = {"delivery_tag": b"t%d" % delivery, "message_format": 0, **values}
        self.say(Transfer(handle, delivery, **values), data)
