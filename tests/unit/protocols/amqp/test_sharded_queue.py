"""A sharded queue over two brokers, of which one opened the connection (12.1.4.1)."""

from typing import Any

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import (
    ANYCAST,
    BY_GROUP,
    BY_LOAD,
    AutoLink,
    DistributionEntry,
    QueueDefinition,
    Waypoint,
)
from daybook.engine.facts.details import RoutedDetail
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.settlements import ACCEPTED, BY_GRANT
from daybook.engine.links.links import Ending
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import Message
from daybook.protocols.amqp.incoming import DIRECT_CREDIT
from daybook.protocols.amqp.tracing import mark_of
from daybook.protocols.amqp.wire.performatives import Flow
from daybook.protocols.port import ACTIVE
from tests.support.amqp.line import Line
from tests.support.amqp.peer import Peer
from tests.support.world import World
from tests.support.worlds.auditing import judged

TABLE = (DistributionEntry(pattern="orders", waypoint=True),)
OUT = AutoLink("out", "orders", "orders::orders", is_out=True, shard="east")
IN = AutoLink("in", "orders", "orders::orders", is_out=False, phase=1)


class Client:
    """A sender and a receiver at one broker; it accepts what it gets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connection = world.connect()
        self.got: list[bytes] = []
        self.ends: dict[Any, Ending] = {}
        self.stored: list[int] = []
        self.receiver = 0
        answer = world.handle(c.AttachSender(self.connection, "orders", receiver=self))
        assert isinstance(answer, int)
        self.sender = answer

    def receive(self) -> None:
        answer = self.world.handle(
            c.Attach(
                self.connection, "orders", credit_policy=BY_GRANT, credit_messages=1000,
                credit_bytes=0, receiver=self,
            )
        )  # fmt: skip
        assert isinstance(answer, int)
        self.receiver = answer

    def send(self, number: int, group: str = "") -> None:
        headers = build([("JMSXGroupID", group)]) if group else b""
        command = c.Send(
            self.connection, "orders", headers, b"%d" % number, sender=self.sender, token=number,
            format=GROUPED if group else 0,
        )  # fmt: skip
        answer = self.world.handle(command)
        assert isinstance(answer, int)
        if answer > 0:
            self.stored.append(number)

    def deliver(self, message: Message, count: int, marks: int, gate: int) -> None:
        self.got.append(message.body)
        self.world.handle(c.Settle(self.receiver, message.id))

    def ended(self, token: Any, ending: Ending, now: int) -> None:
        self.ends[token] = ending

    def opened(self, is_open: bool, now: int) -> None:
        """Ignore it."""


class Shards(Line):
    """Two brokers: the one here has the sharded queue, the one there a queue of its name. If they
    are mutual, both have the sharded queue, with links to each other."""

    def __init__(
        self, *, shard_by: str = BY_LOAD, local: bool = True, is_mutual: bool = False
    ) -> None:
        here, there = World(), World()
        shards = (Waypoint("orders", local, shard_by, ("east",)),)
        here.ok(c.ChangeDistributions(TABLE, waypoints=shards))
        if is_mutual:
            there.ok(c.ChangeDistributions(TABLE, waypoints=shards))
        there.ok(c.CreateQueue("orders", QueueDefinition("orders", ANYCAST)))
        links = (OUT, IN) if is_mutual else ()
        super().__init__(OUT, IN, here=here, there=there, user="guest", container_links=links)
        self.settle()
        self.client = Client(here)
        self.settle()

    def send(self, *numbers: int, group: str = "") -> None:  # type: ignore[override]
        for number in numbers:
            self.client.send(number, group)
            self.settle()

    def end(self) -> None:
        """The connection between the brokers breaks."""
        for world, connection in ((self.here, self.dialled), (self.there, self.accepted)):
            world.close(connection.connection, reasons.DISCONNECTED)
        for _ in range(3):
            self.here.dispatch()
            for effect in self.here.effects:
                effect.hand_to(effect.consumer.receiver, self.here.now)
            self.here.effects.clear()


def _bodies(world: World) -> list[bytes]:
    return world.bodies("orders") if "orders" in world.state.queue_by_name else []


def test_both_shards_store_and_consumers_here_get_from_both() -> None:
    shards = Shards()
    shards.send(*range(20))
    here, there = _bodies(shards.here), _bodies(shards.there)
    assert len(here) > 4 < len(there)
    assert sorted(map(int, here + there)) == list(range(20))
    ended = {number for number, end in shards.client.ends.items() if end == Ending(ACCEPTED)}
    assert sorted([*ended, *shards.client.stored]) == list(range(20))
    shards.client.receive()
    shards.settle()
    assert sorted(map(int, shards.client.got)) == list(range(20))
    assert _bodies(shards.here) == _bodies(shards.there) == []
    assert judged(shards.here.journal) == judged(shards.there.journal) == []


def test_credit_is_that_of_a_queue_as_an_outcome_waits_for_a_disk() -> None:
    """On the link of a client, and on the one that brings what is stored there."""
    shards = Shards()
    peer = Peer(shards.here).open()
    peer.sender(0, "orders")
    assert peer.hear(Flow).link_credit == shards.dialled.options.credit
    peer.receiver(1, "orders", credit=1)
    shards.settle()
    assert shards.heard_of(Flow)[-1].link_credit == shards.dialled.options.credit
    shards.here.ok(c.ChangeDistributions((*TABLE, DistributionEntry(prefix="direct"))))
    peer.receiver(2, "direct", credit=1)
    peer.sender(3, "direct")
    assert peer.hear(Flow).link_credit == DIRECT_CREDIT


def test_what_comes_for_the_queue_by_its_full_name_is_an_ordinary_message() -> None:
    """The event says where it came from, and not that it was named: nobody else could get it."""
    shards = Shards(local=False)
    shards.send(1)
    (routed,) = shards.there.events_named("Routed")
    (sent,) = shards.here.events_named("Forwarded")
    assert routed.decoded == RoutedDetail(
        came_from=f"{shards.here.broker.identity}/{sent.lsn}/d{mark_of('orders')}"
    )
    assert judged(shards.there.journal) == []


def test_a_consumer_there_gets_what_its_own_queue_has() -> None:
    shards = Shards()
    shards.send(*range(6))
    stored = _bodies(shards.there)
    assert stored
    there = shards.there.connect()
    consumer = shards.there.attach(there, "orders")
    shards.settle()
    got = [each.body for each in shards.there.deliveries if each.consumer == consumer]
    assert got == stored


def test_without_the_other_broker_its_shard_gets_nothing_and_nothing_is_lost() -> None:
    shards = Shards()
    shards.send(*range(6))
    shards.end()
    for number in range(6, 12):
        shards.client.send(number)
    shards.here.dispatch()
    assert set(range(6, 12)) <= set(shards.client.stored)
    again = Line(OUT, IN, here=shards.here, there=shards.there).settle()
    shards.client.receive()
    again.settle()
    assert sorted(map(int, shards.client.got)) == list(range(12))


def test_a_group_is_stored_in_its_order_at_one_broker() -> None:
    shards = Shards(shard_by=BY_GROUP)
    for number in range(40):
        shards.send(number, group=f"g{number % 8}")
    here, there = ([int(each) for each in _bodies(w)] for w in (shards.here, shards.there))
    assert here
    assert there
    assert not {each % 8 for each in here} & {each % 8 for each in there}
    assert (here, there) == (sorted(here), sorted(there))


def test_a_queue_that_is_all_elsewhere() -> None:
    shards = Shards(local=False)
    shards.send(1, 2)
    assert _bodies(shards.there) == [b"1", b"2"]
    assert "orders" not in shards.here.state.queue_by_name
    shards.client.receive()
    shards.settle()
    assert shards.client.got == [b"1", b"2"]
    assert _bodies(shards.there) == []


def test_brokers_that_have_the_shards_of_each_other() -> None:
    """Nothing goes round, and a consumer of either gets from both."""
    shards = Shards(is_mutual=True)
    here, there = shards.client, Client(shards.there)
    assert [each.state for each in shards.accepted.auto_links] == [ACTIVE, ACTIVE]
    for number in range(10):
        here.send(number)
        shards.settle()
        there.send(100 + number)
        shards.settle()
    wanted = [*range(10), *range(100, 110)]
    stored = sorted(map(int, _bodies(shards.here) + _bodies(shards.there)))
    assert stored == wanted
    there.receive()
    shards.settle()
    assert sorted(map(int, there.got)) == wanted
    here.receive()
    for number in range(10, 20):
        here.send(number)
        shards.settle()
    assert sorted(map(int, here.got + there.got)) == sorted([*wanted, *range(10, 20)])
    assert here.got
    assert judged(shards.here.journal) == judged(shards.there.journal) == []
