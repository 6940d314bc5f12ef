"""Links that are passed on to another container (Interconnect, link routing)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, LinkRoute, QueueDefinition
from daybook.engine.messages.amqp.sections import VALUE
from daybook.engine.messages.amqp.writer import section_of
from daybook.engine.settings.permissions import Permissions
from daybook.protocols.amqp.routed import FAR_WINDOW, RoutedLink, State
from daybook.protocols.amqp.wire.errors import (
    DETACH_FORCED,
    NOT_ALLOWED,
    NOT_FOUND,
    RESOURCE_DELETED,
    TRANSFER_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Released,
    Source,
    Target,
    TransactionalState,
)
from tests.support.amqp.line import Line
from tests.support.amqp.peer import Peer, message
from tests.support.world import World

ROUTES = (
    LinkRoute(prefix="far", is_in=True, connector="east"),
    LinkRoute(prefix="far", is_in=False, connector="east"),
    LinkRoute(prefix="$coordinator", is_in=True, connector="east"),
)


def message_of(value: Any) -> bytes:
    """Return a message with a described value as its body."""
    return section_of(VALUE, COMPOSITES.encoded(value))


class Triangle:
    """A client of a broker that passes links on to another one."""

    def __init__(self, *routes: LinkRoute, queues: tuple[str, ...] = ("far.q",), **options: Any):
        self.here, self.there = World(), World()
        for name in queues:
            self.there.ok(c.CreateQueue(name, QueueDefinition(name, ANYCAST)))
        self.here.ok(c.ChangeDistributions((), "stored", (), routes or ROUTES))
        self.line = Line(here=self.here, there=self.there, **options).settle()
        self.client = Peer(self.here).open("client")

    def settle(self) -> "Triangle":
        """Let all three speak until nobody has something to say."""
        for _ in range(6):
            self.client.settle()
            self.line.settle()
        self.client.settle()
        return self

    def say(self, said: Any, payload: bytes = b"") -> "Triangle":
        """Let the client say something."""
        self.client.say(said, payload)
        return self.settle()

    def sender(self, address: str = "far.q", **values: Any) -> "Triangle":
        """Attach a sender with handle 3."""
        return self.say(
            Attach(
                "s", 3, SENDER, source=Source(), target=Target(address), initial_delivery_count=0,
                **values,
            )
        )  # fmt: skip

    def receiver(self, address: str = "far.q", credit: int = 10) -> "Triangle":
        """Attach a receiver with handle 4, and give it credit."""
        self.say(Attach("r", 4, RECEIVER, source=Source(address), target=Target()))
        return self.flow(4, link_credit=credit, delivery_count=0) if credit else self

    def flow(self, handle: int, **values: Any) -> "Triangle":
        """Say something of a link."""
        return self.say(
            Flow(
                next_incoming_id=0, incoming_window=1000, next_outgoing_id=0, outgoing_window=1000,
                handle=handle, **values,
            )
        )  # fmt: skip

    def transfer(self, delivery: int, payload: bytes, **values: Any) -> "Triangle":
        """Send a message over handle 3."""
        return self.say(Transfer(3, delivery, b"tag%d" % delivery, 0, **values), payload)


def test_what_a_peer_sends_gets_to_the_container_and_the_outcome_back() -> None:
    here = Triangle().sender(properties={"shoe": "blue"})
    (there,) = here.line.heard_of(Attach)
    assert there.properties == {"shoe": "blue"}
    assert there.name == "s@client"
    assert there.target.address == "far.q"
    answer = here.client.hear(Attach)
    assert (answer.name, answer.handle, answer.role) == ("s", 3, RECEIVER)
    assert answer.target.address == "far.q"
    assert here.client.heard(Flow)[-1].link_credit > 0
    here.transfer(7, message(b"x"))
    said = here.client.hear(Disposition)
    assert (said.first, said.settled, said.state) == (7, True, Accepted())
    assert here.there.bodies("far.q") == [b"x"]
    assert here.line.heard_of(Transfer)[0].delivery_tag == b"tag7"
    assert "far.q" not in here.here.state.queue_by_name


def test_what_a_container_has_gets_to_the_peer_as_its_credit_allows() -> None:
    here = Triangle()
    for number in range(3):
        here.there.send("far.q", b"%d" % number)
    here.receiver(credit=2)
    found = here.client.deliveries()
    assert [payload[-1:] for _, payload in found] == [b"0", b"1"]
    numbers = [said.delivery_id for said, _ in found]
    here.say(Disposition(RECEIVER, numbers[0], settled=True, state=Accepted()))
    assert here.there.bodies("far.q") == [b"1", b"2"]
    here.say(Disposition(RECEIVER, numbers[1], settled=True, state=Released()))
    assert here.there.ready("far.q") == [b"1", b"2"]


def test_what_is_accepted_together_is_said_together_in_both_directions() -> None:
    here = Triangle().sender()
    here.client.heard(Attach)
    for number in range(3):
        here.client.say(Transfer(3, number, b"tag%d" % number, 0), message(b"%d" % number))
    said = here.settle().client.hear(Disposition)
    assert (said.first, said.last, said.settled, said.state) == (0, 2, True, Accepted())
    here.receiver(credit=3)
    first, _, last = [said.delivery_id for said, _ in here.client.deliveries()]
    here.say(Disposition(RECEIVER, first, last, settled=True, state=Accepted()))
    (heard,) = here.line.heard_of(Disposition)
    assert (heard.last - heard.first, heard.settled, heard.state) == (2, True, Accepted())
    assert here.there.bodies("far.q") == []


def test_an_outcome_is_said_in_front_of_what_follows_it() -> None:
    """Another outcome, or the end of the link."""
    here = Triangle().sender()
    (link,) = here.client.connection._sessions[0].links.values()
    assert isinstance(link, RoutedLink)
    here.client.said.clear()
    for number, state in enumerate((Accepted(), Released(), Accepted())):
        here.client.say(Transfer(3, number, b"tag%d" % number, 0), message(b"x"))
        link.passed(State(number, state, True, False), here.here.now)
    link.route_ended(Detach(3, closed=True), here.here.now)
    here.client.settle()
    said = [each for each, _ in here.client.said if isinstance(each, Disposition | Detach)]
    assert [each.state for each in said[:-1]] == [Accepted(), Released(), Accepted()]
    assert isinstance(said[-1], Detach)


def test_a_drain_passes_and_is_answered() -> None:
    here = Triangle()
    here.there.send("far.q", b"x")
    here.receiver(credit=0).flow(4, link_credit=5, delivery_count=0, drain=True)
    assert len(here.client.deliveries()) == 1
    answer = here.client.heard(Flow)[-1]
    assert (answer.drain, answer.delivery_count, answer.link_credit) == (True, 5, 0)


def test_a_link_that_the_container_refuses_is_refused_with_its_reason() -> None:
    here = Triangle(queues=())
    here.there.ok(c.SetSettings("#", {"auto-create-addresses": False, "auto-create-queues": False}))
    here.receiver(credit=0)
    answer = here.client.hear(Attach)
    assert answer.source is None
    assert here.client.hear(Detach).error.condition == NOT_FOUND
    assert not here.here.broker.routed.links
    assert here.line.heard_of(End)
    assert not here.line.accepted._sessions


def test_without_the_container_a_link_is_refused() -> None:
    here = Triangle(LinkRoute(prefix="far", is_in=True, connector="west")).sender()
    assert here.client.hear(Attach).target is None
    problem = here.client.hear(Detach).error
    assert problem.condition == NOT_FOUND
    assert "west, which is not connected" in problem.description


def test_a_container_that_is_lost_detaches_its_links_alone() -> None:
    here = Triangle().sender()
    here.client.heard(Attach)
    here.line.dialled.connection_lost(here.here.now)
    here.client.settle()
    detach = here.client.hear(Detach)
    assert (detach.handle, detach.closed) == (3, False)
    assert detach.error.condition == DETACH_FORCED
    assert not here.client.connection.closing
    assert not here.here.broker.routed.links


def test_a_peer_that_is_lost_detaches_its_links_there() -> None:
    here = Triangle().receiver()
    here.there.send("far.q", b"x")
    here.settle()
    assert here.there.in_flight("far.q") == [b"x"]
    here.client.connection.connection_lost(here.here.now)
    here.line.settle()
    assert here.there.ready("far.q") == [b"x"]
    (detach,) = here.line.heard_of(Detach)
    assert not detach.closed
    assert not here.line.accepted._sessions


def test_a_queue_that_is_deleted_there_detaches_with_its_error() -> None:
    here = Triangle().receiver()
    here.there.settings(**{"#": {"config-delete-addresses": "FORCE"}})
    here.there.ok(c.CreateAddress("far.q", (ANYCAST,), adopts=True, configured=True))
    here.there.handle(c.DropUnlisted(frozenset(), frozenset(), frozenset()))
    here.settle()
    assert here.client.hear(Detach).error.condition == RESOURCE_DELETED


def test_a_detach_of_the_peer_gets_there() -> None:
    here = Triangle().receiver()
    here.say(Detach(4, closed=True))
    assert here.client.hear(Detach).closed
    assert here.line.heard_of(Detach)[0].closed
    assert not here.there.queue("far.q").consumers
    assert not here.line.accepted._sessions


def test_a_transaction_of_the_container_passes() -> None:
    here = Triangle().sender()
    here.say(
        Attach("t", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    here.client.heard(Disposition)
    here.say(Transfer(5, 0, b"d", 0), message_of(Declare()))
    declared = here.client.hear(Disposition).state
    assert isinstance(declared, Declared)
    here.transfer(1, message(b"x"), state=TransactionalState(declared.txn_id))
    assert here.there.bodies("far.q") == []
    here.client.heard(Disposition)
    here.say(Transfer(5, 2, b"c", 0), message_of(Discharge(declared.txn_id)))
    assert here.there.bodies("far.q") == [b"x"]


def test_large_messages_come_in_frames_that_the_peer_can_read() -> None:
    here = Triangle()
    body = bytes(range(256)) * 2000
    here.there.send("far.q", body)
    here.client.connection.max_frame_size = 5000
    here.here.ok(c.Room(here.client.connection.connection, 1_000_000))
    here.receiver()
    ((said, payload),) = here.client.deliveries()
    assert said.delivery_tag
    assert payload.endswith(body[-1000:])
    assert len(payload) > len(body)


def test_a_peer_needs_the_permission() -> None:
    here = Triangle()
    here.here.broker.permit(Permissions({"far.#": {"consume": ("others",)}}))
    here.receiver(credit=0)
    assert here.client.hear(Detach).error.condition == UNAUTHORIZED_ACCESS
    assert not here.line.heard_of(Attach)


def test_an_address_is_another_one_there() -> None:
    route = LinkRoute(prefix="far", is_in=False, connector="east", add="near.", remove="far.")
    here = Triangle(route, queues=("near.q",)).receiver()
    assert here.line.heard_of(Attach)[0].source.address == "near.q"
    assert here.client.hear(Attach).source.address == "far.q"


def test_a_peer_that_does_not_read_holds_its_container_up() -> None:
    here = Triangle()
    for _ in range(150):
        here.there.send("far.q", bytes(50_000))
    here.there.ok(c.Room(here.line.accepted.connection, 1 << 30))
    here.here.ok(c.Room(here.client.connection.connection, 100_000))
    here.receiver(credit=1000)
    (session,) = here.line.dialled._sessions.values()
    (link,) = session.links.values()
    assert link.row().waits
    assert link.row().memory_bytes < (FAR_WINDOW + 1) * 51_000
    before = len(here.client.deliveries())
    assert before < 10
    for _ in range(150):
        here.here.broker.handle(c.Room(here.client.connection.connection, 1_000_000), here.here.now)
        here.settle()
    assert before + len(here.client.deliveries()) == 150


@pytest.mark.parametrize("sends", [True, False])
def test_a_session_that_ends_detaches_its_links_there(sends: bool) -> None:
    here = Triangle()
    here = here.sender() if sends else here.receiver()
    here.say(End())
    assert here.line.heard_of(Detach)
    assert not here.here.broker.routed.links
    assert not here.line.accepted._sessions


def test_a_number_that_each_frame_repeats_is_of_one_delivery() -> None:
    here = Triangle().sender()
    data = message(bytes(300))
    here.transfer(7, data[:100], more=True).transfer(7, data[100:200], more=True)
    here.transfer(7, data[200:])
    assert here.client.hear(Disposition).first == 7
    assert here.there.bodies("far.q") == [bytes(300)]
    here.transfer(8, data[:100], more=True).transfer(9, data)
    assert here.client.hear(Detach).error.condition == NOT_ALLOWED


def test_a_delivery_without_credit_ends_the_link_that_it_came_by() -> None:
    here = Triangle().sender()
    for number in range(3):
        here.transfer(number, message(b"x"))
    assert len(here.there.bodies("far.q")) == 3
    (session,) = (each for each in here.client.connection._sessions.values())
    (link,) = session.links.values()
    assert isinstance(link, RoutedLink)
    link.credit.grant(0)
    here.transfer(3, message(b"x"))
    assert here.client.hear(Detach).error.condition == TRANSFER_LIMIT_EXCEEDED
    assert here.line.heard_of(Detach)[0].error.condition == TRANSFER_LIMIT_EXCEEDED
    assert len(here.there.bodies("far.q")) == 3


def test_the_credit_of_a_container_is_that_of_the_peer() -> None:
    here = Triangle()
    for number in range(8):
        here.there.send("far.q", b"%d" % number)
    here.receiver(credit=2).flow(4, link_credit=1, delivery_count=1)
    assert len(here.client.deliveries()) == 2
    here.flow(4, link_credit=3, delivery_count=2)
    assert len(here.client.deliveries()) == 3
    (session,) = here.line.dialled._sessions.values()
    (link,) = session.links.values()
    assert isinstance(link, RoutedLink)
    assert (link.credit.link_credit, link.credit.came) == (0, 5)


def test_the_queue_of_a_full_name_and_a_prefix_do_not_keep_a_link_here() -> None:
    here = Triangle().sender("queue://far.q::far.q")
    assert here.line.heard_of(Attach)[0].target.address == "queue://far.q::far.q"
    here.transfer(0, message(b"x"))
    assert here.there.bodies("far.q") == [b"x"]


def test_messages_without_a_link_of_their_own_are_refused_here() -> None:
    here = Triangle()
    here.say(Attach("a", 3, SENDER, source=Source(), target=Target(), initial_delivery_count=0))
    here.transfer(0, message(b"x", to="far.q"))
    problem = here.client.hear(Disposition).state.error
    assert "links to 'far.q' are passed on to another container" in problem.description
    assert not here.here.state.queues
    stomp = here.here.connect()
    assert here.here.refused(c.Send(stomp, "far.q", b"", b"x"))
    assert here.here.refused(c.Attach(stomp, "far.q"))
