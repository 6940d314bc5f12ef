"""Where a message has been: the stops that it carries, loops, and what is sent twice."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST, AutoLink, DistributionEntry
from daybook.engine.messages.amqp.content_codec import annotations_of
from daybook.engine.messages.amqp.sections import DATA, MESSAGE_ANNOTATIONS
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.protocols.amqp.tracing import HOPS_MAX, TRACE, TRACED, mark_of, why_refused
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Attach, Disposition
from daybook.protocols.amqp.wire.termini import Accepted, Modified, Rejected
from tests.support.amqp.line import THERE as EAST
from tests.support.amqp.line import Line
from tests.support.amqp.peer import Peer, message
from tests.support.bridges import lose_outcomes
from tests.support.topology import create_queue
from tests.support.world import World
from tests.unit.protocols.amqp.test_annotations import annotations_of as read

THERE = "ab" * 16
HERE = "0" * 32


def stop(message: int, place: str = "x", *, broker: str = THERE, kind: str = "q") -> str:
    return f"{broker}/{message}/{kind}{mark_of(place)}"


def traced(*stops: Any, body: bytes = b"x") -> bytes:
    noted = section_of(MESSAGE_ANNOTATIONS, encoded({TRACE: list(stops)}))
    return noted + section_of(DATA, encoded(body))


def outcomes(peer: Peer) -> list[Any]:
    return [each.state for each in peer.heard(Disposition)]


@pytest.fixture
def peer() -> Peer:
    return Peer(World()).open()


# ---- what arrives


def test_the_journal_says_where_a_message_came_from(peer: Peer) -> None:
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(3), stop(7)))
    peer.send(0, 1, message(b"y"))
    found = [each.decoded.came_from for each in peer.world.events_named("Routed")]
    assert found == [stop(7), ""]


def test_a_message_may_not_come_back_to_where_it_was(peer: Peer) -> None:
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(4, "q", broker=HERE), stop(7)))
    (state,) = outcomes(peer)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "amqp:not-allowed"
    assert state.error.description.startswith("loop: the message was here before, as message 4,")
    assert peer.world.events_named("Routed") == []


def test_it_may_come_back_to_another_place(peer: Peer) -> None:
    """As a message does that this broker sent to a queue of another one, for its own receivers."""
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(4, "other", broker=HERE), stop(7)))
    assert isinstance(outcomes(peer)[0], Accepted)


def test_a_queue_by_its_full_name_is_a_place_of_its_own(peer: Peer) -> None:
    """A shard may get back what was sent to the address of all shards, but not what it gave away
    itself."""
    peer.sender(0, "q::q")
    own = f"{HERE}/4/q{mark_of('q', 'q')}"
    peer.send(0, 0, traced(stop(4, "q", broker=HERE), stop(7)))
    peer.send(0, 1, traced(own, stop(7)))
    first, second = outcomes(peer)
    assert isinstance(first, Accepted)
    assert isinstance(second, Rejected)


def test_it_may_not_go_round_and_round() -> None:
    """By places of which each is another one than that to which it comes."""
    around = [stop(4, "a", broker=HERE), stop(7), stop(9, "a", broker=HERE)]
    assert "loop" in why_refused(around, HERE, mark_of("b"))
    assert not why_refused(around[:2], HERE, mark_of("b"))
    assert not why_refused(around, THERE, mark_of("b"))


def test_a_phase_and_a_fallback_are_places_of_their_own() -> None:
    gone = [stop(4, "a", broker=HERE)]
    assert why_refused(gone, HERE, mark_of("a"))
    assert not why_refused(gone, HERE, mark_of("a", phase=1))
    fallen = [f"{HERE}/4/d{mark_of('a', is_fallback=True)}"]
    assert not why_refused(fallen, HERE, mark_of("a"))


def test_a_message_passes_so_many_brokers_and_no_more(peer: Peer) -> None:
    peer.sender(0, "q")
    stops = [stop(1, broker=f"{number:032x}") for number in range(1, HOPS_MAX + 1)]
    peer.send(0, 0, traced(*stops[:-1]))
    peer.send(0, 1, traced(*stops))
    first, second = outcomes(peer)
    assert isinstance(first, Accepted)
    assert second.error.description == "the message has passed 16 brokers: at most 15 are allowed"


@pytest.mark.parametrize(
    "found",
    ["text", [1], ["short"], [stop(0)], [f"{stop(1)}\n"], [stop(1).upper()], {"a": 1}, None],
)
def test_a_trace_that_is_none_is_refused(peer: Peer, found: Any) -> None:
    peer.sender(0, "q")
    noted = section_of(MESSAGE_ANNOTATIONS, encoded({TRACE: found}))
    peer.send(0, 0, noted + section_of(DATA, encoded(b"x")))
    (state,) = outcomes(peer)
    assert state.error.condition == "amqp:decode-error"
    assert "x-opt-daybook-trace" in state.error.description


# ---- the same message twice


def bodies(peer: Peer, queue: str = "q") -> list[bytes]:
    return [each.message.body for each in peer.world.entries(queue)]


def test_what_a_bridge_sends_twice_is_taken_once(peer: Peer) -> None:
    """The second time says that it was accepted, as the first time should have."""
    peer.sender(0, "q", offered=(TRACED,))
    peer.send(0, 0, traced(stop(7)))
    peer.send(0, 1, traced(stop(7)))
    peer.send(0, 2, traced(stop(8)))
    assert all(isinstance(each, Accepted) for each in outcomes(peer))
    assert bodies(peer) == [b"x", b"x"]
    (dropped,) = peer.world.events_named("Dropped")
    assert dropped.decoded.came_from == stop(7)


def test_a_large_message_too() -> None:
    peer = Peer(World(), min_large_message_size=1000).open()
    peer.sender(0, "q", offered=(TRACED,))
    for delivery in range(2):
        peer.send(0, delivery, traced(stop(7), body=b"x" * 100_000))
    assert len(peer.world.entries("q")) == 1
    assert len(peer.world.events_named("Dropped")) == 1


def test_another_queue_there_and_another_address_here_are_other_messages(peer: Peer) -> None:
    peer.sender(0, "q", offered=(TRACED,))
    peer.sender(1, "p", offered=(TRACED,))
    peer.send(0, 0, traced(stop(7, "first")))
    peer.send(0, 1, traced(stop(7, "second")))
    peer.send(1, 2, traced(stop(7, "first")))
    assert len(bodies(peer)) == 2
    assert len(bodies(peer, "p")) == 1


def test_only_a_link_that_is_traced_says_what_comes_twice(peer: Peer) -> None:
    """A client that sends what it got, with all annotations, sends a message of its own; and where
    no queue keeps a message, its number may be that of another one."""
    peer.sender(0, "q")
    peer.sender(1, "p", offered=(TRACED,))
    for delivery in range(0, 4, 2):
        peer.send(0, delivery, traced(stop(7)))
        peer.send(1, delivery + 1, traced(stop(7, kind="d")))
    assert len(bodies(peer)) == 2
    assert len(bodies(peer, "p")) == 2


def test_nobody_else_can_send_what_is_taken_for_it() -> None:
    world = World()
    bridge, other = Peer(world).open(), Peer(world)
    other.log_in("mallory")
    other.log_in = lambda user="": other  # type: ignore[method-assign]
    other.open("d")
    for each in (other, bridge):
        each.sender(0, "q", offered=(TRACED,))
        each.send(0, 0, traced(stop(7), body=each.connection.user.encode()))
    assert bodies(bridge) == [b"mallory", b"guest"]


# ---- what leaves


def test_a_link_that_asks_for_it_gets_a_stop_for_each_message(peer: Peer) -> None:
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(7)))
    peer.send(0, 1, message(b"y"))
    peer.world.send("q", b"z")
    peer.heard(Attach)
    peer.receiver(1, "q", credit=10, desired=(TRACED,))
    assert peer.hear(Attach).offered_capabilities == (TRACED,)
    own = [f"{HERE}/{each.lsn}/q{mark_of('q')}" for each in peer.world.events_named("Routed")]
    found = [read(data)["x-opt-daybook-trace"] for _, data in peer.deliveries()]
    assert found == [[stop(7), own[0]], [own[1]], [own[2]]]


def test_it_has_the_same_stop_each_time(peer: Peer) -> None:
    """Whatever a receiver notes on the message."""
    peer.world.send("q", b"z")
    peer.receiver(1, "q", credit=1, desired=(TRACED,))
    ((transfer, first),) = peer.deliveries()
    noted = {TRACE.text: [], "x-opt-mine": 1}
    state = Modified(delivery_failed=True, message_annotations=noted)
    peer.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=state))
    peer.flow(1, 1, count=1)
    ((_, second),) = peer.deliveries()
    assert read(second) == {**read(first), "x-opt-mine": 1}


def test_other_links_leave_messages_as_they_came(peer: Peer) -> None:
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(7)))
    peer.send(0, 1, message(b"y"))
    peer.heard(Attach)
    peer.receiver(1, "q", credit=10)
    assert peer.hear(Attach).offered_capabilities == ()
    first, second = [read(data) for _, data in peer.deliveries()]
    assert first == {"x-opt-daybook-trace": [stop(7)]}
    assert second == {}


def test_a_message_to_a_direct_address_has_no_queue_that_keeps_it(peer: Peer) -> None:
    peer.world.ok(c.ChangeDistributions((DistributionEntry(prefix="d"),)))
    peer.receiver(1, "d", credit=10, desired=(TRACED,))
    peer.sender(0, "d")
    peer.send(0, 0, traced(stop(7)))
    (sent,) = peer.world.events_named("Forwarded")
    ((_, data),) = peer.deliveries()
    assert read(data)["x-opt-daybook-trace"] == [stop(7), f"{HERE}/{sent.lsn}/d{mark_of('d')}"]
    assert sent.decoded.came_from == stop(7)


def test_queues_of_one_address_are_other_places(peer: Peer) -> None:
    for name in ("one", "two"):
        peer.world.ok(create_queue(name, "topic", MULTICAST))
    peer.world.send("topic", b"x")
    for handle, name in enumerate(("one", "two"), 1):
        peer.receiver(handle, f"topic::{name}", credit=1, desired=(TRACED,))
    found = {read(data)["x-opt-daybook-trace"][-1] for _, data in peer.deliveries()}
    assert len(found) == 2


def test_a_message_that_stays_stored_keeps_its_trace(peer: Peer) -> None:
    peer.sender(0, "q")
    peer.send(0, 0, traced(stop(7)))
    (entry,) = peer.world.entries("q")
    assert annotations_of(entry.message.headers) == {TRACE: [stop(7)]}


# ---- auto-links

OUT = AutoLink("out", "orders", "orders", is_out=True)
BACK = AutoLink("back", "orders", "orders", is_out=True)


def came_from(world: World, address: str = "orders") -> list[str]:
    return [each.decoded.came_from for each in world.events_named("Routed")]


def test_both_kinds_of_bridges_say_where_a_message_came_from() -> None:
    pulls = AutoLink("in", "bills", "bills", is_out=False, phase=1)
    line = Line(OUT, pulls).settle()
    line.send(line.here, "orders", b"x")
    line.send(line.there, "bills", b"y")
    line.settle()
    assert came_from(line.there)[-1] == stop(line.here.events_named("Routed")[0].lsn, "orders",
        broker=HERE,
    )  # fmt: skip
    (sent,) = (each for each in line.there.events_named("Routed") if not each.decoded.came_from)
    assert came_from(line.here)[-1] == stop(sent.lsn, "bills", broker=EAST)


def test_the_journal_says_which_consumers_take_messages_to_other_brokers() -> None:
    pulls = AutoLink("in", "bills", "bills", is_out=False, phase=1)
    line = Line(OUT, pulls).settle()
    own = Peer(line.here).open()
    own.receiver(0, "orders", credit=1)
    found = [
        [each.decoded.traced for each in world.events_named("ConsumerAttached")]
        for world in (line.here, line.there)
    ]
    assert found == [[True, False], [True]]


def test_two_bridges_do_not_send_a_message_round() -> None:
    """The one that gets it back says why not, and it is not delivered any more."""
    line = Line(OUT, user="guest", container_links=(BACK,)).settle()
    line.send(line.here, "orders", b"x")
    line.settle()
    assert len(line.here.events_named("Routed")) == 1
    (returned,) = line.there.events_named("Returned")
    assert returned.decoded.error.startswith("loop: the message was here before")
    assert not line.there.ready("orders")


def test_a_bridge_that_did_not_hear_the_outcome_sends_again_and_it_is_there_once() -> None:
    """Whichever of the two attached the link."""
    pulls = AutoLink("in", "bills", "bills", is_out=False, phase=1)
    worlds = World(), World()
    first = Line(OUT, pulls, here=worlds[0], there=worlds[1]).settle()
    first.send(worlds[0], "orders", b"x")
    first.send(worlds[1], "bills", b"y")
    lose_outcomes(first)
    Line(OUT, pulls, here=worlds[0], there=worlds[1]).settle()
    assert worlds[1].bodies("orders") == [b"x"]
    assert worlds[0].bodies("bills") == [b"y"]
    assert not worlds[0].entries("orders")
    assert not worlds[1].entries("bills")
    assert len(worlds[0].events_named("Delivered")) == 2


def test_a_waypoint_gets_back_what_went_through_a_queue_elsewhere() -> None:
    """By another phase of the address; and a fallback gets back what it sent away."""
    out = AutoLink("out", "d.a", "q", is_out=True)
    back = AutoLink("in", "d.a", "q", is_out=False, phase=1)
    line = Line(out, back).settle()
    line.send(line.here, "d.a", b"x")
    line.settle()
    sent, returned = line.here.events_named("Routed")[:2]
    assert not sent.decoded.came_from
    assert returned.decoded.came_from
