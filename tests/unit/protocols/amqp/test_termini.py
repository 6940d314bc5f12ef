"""Sources of topics that are neither durable nor shared: what detaching keeps, and what ends it
(part 3, 3.5.6)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.protocols.amqp.faults import LinkFault
from daybook.protocols.amqp.wire.errors import STOLEN
from daybook.protocols.amqp.wire.performatives import Attach, Begin, Detach, End
from tests.support.amqp.peer import Peer, message
from tests.support.world import World

TOPIC = "topic://news"


@pytest.fixture
def peer() -> Peer:
    return Peer(World()).open()


def _attach(peer: Peer, handle: int, **values: Any) -> None:
    peer.receiver(handle, TOPIC, 9, name="s", **values)
    assert peer.hear(Attach).source.address == TOPIC


def _bodies(peer: Peer) -> list[bytes]:
    peer.settle()
    return [data[-1:] for _, data in peer.deliveries()]


def _queues(world: World) -> set[str]:
    """The queues there are, after a scan for those that nobody uses."""
    world.ok(c.DeleteUnused())
    while world.broker.scans_names:
        world.ok(c.DeleteUnused())
    world.check()
    return set(world.state.queue_by_name)


@pytest.mark.parametrize("policy", ["session-end", "connection-close"])
def test_detaching_keeps_what_a_policy_keeps(peer: Peer, policy: str) -> None:
    _attach(peer, 0, expiry_policy=policy)
    (queue,) = _queues(peer.world)
    peer.say(Detach(0))
    peer.world.send("news", b"1")
    assert _queues(peer.world) == {queue}
    _attach(peer, 1, expiry_policy=policy)
    assert _bodies(peer) == [b"1"]
    peer.say(Detach(1))
    peer.say(End())
    assert bool(_queues(peer.world)) == (policy == "connection-close")
    peer.connection.connection_lost(peer.world.now)
    assert not _queues(peer.world)


@pytest.mark.parametrize("policy", ["session-end", "connection-close", "link-detach", "never"])
@pytest.mark.parametrize("seconds", [0, 5])
def test_closing_removes_it(peer: Peer, policy: str, seconds: int) -> None:
    _attach(peer, 0, expiry_policy=policy, timeout=seconds)
    peer.say(Detach(0, closed=True))
    assert peer.hear(Detach).error is None
    assert not _queues(peer.world)


@pytest.mark.parametrize("policy", ["session-end", "connection-close", "link-detach"])
def test_the_time_begins_as_the_policy_says(policy: str) -> None:
    world = World()
    peer = Peer(world).open()
    _attach(peer, 0, expiry_policy=policy, timeout=5)
    peer.say(Detach(0))
    world.send("news", b"1")
    ends = {"link-detach": 0, "session-end": 1, "connection-close": 2}[policy]
    for step in range(3):
        if step == 1:
            peer.say(End())
        elif step == 2:
            peer.connection.connection_lost(world.now)
        if step == ends:
            break
        world.sleep(60)
        assert _queues(world)
    world.sleep(4)
    assert _queues(world)
    # A client that comes back in time, on another connection too, gets the message.
    again = Peer(world).open()
    _attach(again, 0, expiry_policy=policy, timeout=5)
    assert _bodies(again) == [b"1"]
    again.connection.connection_lost(world.now)
    world.sleep(4)
    assert _queues(world)
    world.sleep(1)
    assert not _queues(world)


def test_with_a_time_it_belongs_to_the_link_that_attached_last(peer: Peer) -> None:
    _attach(peer, 0, timeout=5)
    peer.receiver(1, TOPIC, name="s", timeout=5)
    assert peer.hear(Detach).error.condition == STOLEN
    assert len(_queues(peer.world)) == 1


def test_without_a_time_links_of_one_name_live_beside_each_other(peer: Peer) -> None:
    for handle in range(2):
        _attach(peer, handle)
    peer.sender(7, TOPIC)
    peer.send(7, 0, message(b"1"))
    assert _bodies(peer) == [b"1", b"1"]
    for handle in range(2):
        peer.say(Detach(handle, closed=True))
    assert not _queues(peer.world)


def test_a_restart_ends_it() -> None:
    world = World()
    peer = Peer(world).open()
    _attach(peer, 0, expiry_policy="never")
    assert _queues(world)
    world.restart()
    assert not _queues(world)


def test_a_link_that_the_broker_ends_leaves_nothing(peer: Peer) -> None:
    _attach(peer, 0, expiry_policy="connection-close")
    session = peer.connection._sessions[0]
    peer.connection._end_link(session, 0, LinkFault("amqp:internal-error", ""), peer.world.now)
    peer.settle()
    assert peer.hear(Detach).closed
    assert not _queues(peer.world)


def test_a_session_that_ends_leaves_what_its_connection_keeps(peer: Peer) -> None:
    for handle, policy in enumerate(("session-end", "connection-close")):
        peer.receiver(handle, TOPIC, expiry_policy=policy)
    kept = peer.world.state.consumers[max(peer.world.state.consumers)].queue.name
    peer.say(End())
    assert _queues(peer.world) == {kept}
    peer.heard(Begin)
    peer.heard(Attach)
    peer.begin()
    peer.receiver(1, TOPIC, expiry_policy="connection-close")
    assert _queues(peer.world) == {kept}


def test_closing_needs_no_right(peer: Peer) -> None:
    rules = {name: ("*",) for name in PERMISSIONS if not name.startswith("delete-")}
    peer.world.broker.permit(Permissions({"#": rules}))
    for seconds in (0, 5):
        _attach(peer, 0, timeout=seconds)
        peer.say(Detach(0, closed=True))
        assert peer.hear(Detach).error is None
        assert not _queues(peer.world)


def test_a_session_that_ends_leaves_what_has_a_time(peer: Peer) -> None:
    _attach(peer, 0, timeout=5)
    peer.say(End())
    peer.world.sleep(4)
    assert _queues(peer.world)
    peer.world.sleep(1)
    assert not _queues(peer.world)


def test_who_names_its_queue_does_not_end_it(peer: Peer) -> None:
    for seconds, policy in ((5, "link-detach"), (0, "connection-close")):
        _attach(peer, 0, timeout=seconds, expiry_policy=policy)
        (queue,) = _queues(peer.world)
        peer.say(Detach(0))
        peer.receiver(1, f"news::{queue}")
        assert peer.hear(Attach).source.address == f"news::{queue}"
        peer.say(Detach(1, closed=True))
        assert _queues(peer.world) == {queue}
        _attach(peer, 0, timeout=seconds, expiry_policy=policy)
        peer.say(Detach(0, closed=True))


# ---- sources whose address alone says that they are of a topic

TOPICS = ("by its settings", "by what is there")


def _with_topic(how: str) -> World:
    world = World()
    if how == TOPICS[0]:
        world.settings(news={"default_address_routing_type": "MULTICAST"})
    else:
        world.ok(c.CreateAddress("news", routing_types=(MULTICAST,)))
    return world


@pytest.mark.parametrize("how", TOPICS)
@pytest.mark.parametrize("values", [{"durable": 2}, {"expiry_policy": "never"}, {"timeout": 60}])
def test_a_source_is_a_subscription_by_the_routing_type_of_its_address(
    how: str, values: dict[str, Any]
) -> None:
    world = _with_topic(how)
    peer = Peer(world).open()
    peer.receiver(0, "news", 9, name="s", **values)
    assert peer.hear(Attach).source.address == "news"
    assert _queues(world) == {"dsub.c.s"}
    peer.say(Detach(0))
    world.send("news", b"1")
    peer.receiver(1, "news", 9, name="s", **values)
    assert _bodies(peer) == [b"1"]


@pytest.mark.parametrize("how", TOPICS)
def test_such_a_subscription_can_be_shared(how: str) -> None:
    world = _with_topic(how)
    for number in range(2):
        peer = Peer(world).open()
        peer.receiver(0, "news", 1, name=f"s|{number}", capabilities=("shared",))
        assert peer.hear(Attach).source is not None
    (queue,) = _queues(world)
    assert len(world.queue(queue).consumers) == 2


@pytest.mark.parametrize("how", TOPICS)
def test_every_subscriber_of_such_an_address_gets_a_copy(how: str) -> None:
    world = _with_topic(how)
    peers = [Peer(world).open() for _ in range(2)]
    for peer, mode in zip(peers, (None, "copy"), strict=True):
        peer.receiver(0, "news", 9, distribution_mode=mode)
        assert peer.hear(Attach).source is not None
    peers[0].sender(1, "news")
    peers[0].send(1, 0, message(b"1"))
    assert [_bodies(peer) for peer in peers] == [[b"1"], [b"1"]]


def test_a_durable_source_of_a_queue_is_no_subscription() -> None:
    world = World()
    world.settings(q={"default_address_routing_type": "ANYCAST"})
    world.ok(c.CreateAddress("both", routing_types=(ANYCAST, MULTICAST)))
    peer = Peer(world).open()
    for handle, address in enumerate(("q", "both")):
        peer.receiver(handle, address, 9, name=address, durable=2, expiry_policy="never")
        assert peer.hear(Attach).source is not None
    assert set(world.state.queue_by_name) == {"q", "both"}
