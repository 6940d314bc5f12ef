"""Links and connections that come again (part 2, 2.6.1 and 2.6.13; ADR 108)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import NEVER, QueueDefinition
from daybook.engine.facts.values import Symbol
from daybook.engine.messages.amqp.reader import Reader
from daybook.protocols.amqp import attaching
from daybook.protocols.amqp.wire.errors import INVALID_FIELD, STOLEN
from daybook.protocols.amqp.wire.kinds import RECEIVER, SETTLED, UNSETTLED_STATE
from daybook.protocols.amqp.wire.performatives import Attach, Close, Detach, Disposition, Open
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import Accepted, Modified, Received, Rejected, Released
from tests.support.amqp.peer import FRAME_SIZE, Peer, message
from tests.support.world import World


def said(state: Any) -> Any:
    """Return a state as it is in a map."""
    data = COMPOSITES.encoded(state)
    return Reader(data, 0, len(data)).value()


LINK = "r"
ONLY = "sole-connection-for-container"


def _with_deliveries(world: World, count: int = 1) -> list[bytes]:
    """Deliver messages to a connection that is then lost; return the tags of its deliveries."""
    peer = Peer(world).open()
    peer.sender(0, "q")
    for each in range(count):
        peer.send(0, each, message(b"%d" % each, durable=True))
    peer.receiver(1, "q", credit=count, name=LINK)
    tags = [transfer.delivery_tag or b"" for transfer, _ in peer.deliveries()]
    assert len(tags) == count
    peer.connection.connection_lost(world.now)
    world.turn()
    return tags


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_receiver_had_accepted_does_not_come_again(restarts: bool) -> None:
    world = World()
    tags = _with_deliveries(world, 3)
    if restarts:
        world.restart()
    peer = Peer(world).open()
    unsettled: dict[bytes, Any] = {tags[0]: said(Accepted()), tags[1]: None}
    peer.receiver(0, "q", credit=9, name=LINK, unsettled=unsettled)
    assert not peer.hear(Attach).unsettled
    again = [transfer.delivery_tag for transfer, _ in peer.deliveries()]
    assert again == tags[1:]


@pytest.mark.parametrize(
    ("state", "left"), [(Rejected(), 0), (Released(), 1), (Modified(undeliverable_here=True), 1)]
)
def test_other_outcomes_hold_as_well(state: Any, left: int) -> None:
    world = World()
    world.settings(q={"dead_letter_address": "dead"})
    world.ok(c.CreateQueue("dead", QueueDefinition(name="dead")))
    (tag,) = _with_deliveries(world)
    before = world.broker.lsn
    peer = Peer(world).open()
    peer.receiver(0, "q", name=LINK, unsettled={tag: said(state)})
    assert (len(world.entries("q")), len(world.entries("dead"))) == (left, 1 - left)
    ended = "Returned" if left else "DeadLettered"
    assert {"Delivered", ended} <= set(world.names_since(before))


@pytest.mark.parametrize(
    "unsettled",
    [
        {b"": said(Accepted())},
        {b"x" * 8: said(Accepted())},
        {b"x" * 16: said(Accepted())},
        {b"x" * 32: said(Accepted())},
        {bytes(8): said(Accepted())},
        {"text": said(Accepted())},
        {b"x" * 8: "no state"},
    ],
)
def test_tags_that_the_broker_did_not_give_mean_nothing(unsettled: dict[bytes, Any]) -> None:
    world = World()
    _with_deliveries(world)
    peer = Peer(world).open()
    peer.receiver(0, "q", name=LINK, unsettled=unsettled)
    assert peer.hear(Attach).source is not None
    assert len(world.entries("q")) == 1


def _settled_by(world: World, tag: bytes, **who: Any) -> bool:
    """Whether a receiver settles a delivery by its tag."""
    peer = Peer(world).open(who.get("container", "c"), user=who.get("user", "guest"))
    peer.receiver(0, "q", unsettled={tag: said(Accepted())}, name=who.get("name", LINK))
    assert peer.hear(Attach).source is not None
    assert not peer.heard(Detach)
    return not world.entries("q")


@pytest.mark.parametrize(
    "who", [{"user": "mallory"}, {"container": "other"}, {"name": "other"}]
)  # fmt: skip
def test_nobody_settles_what_another_link_had(who: dict[str, str]) -> None:
    world = World()
    (tag,) = _with_deliveries(world)
    assert not _settled_by(world, tag, **who)
    assert _settled_by(world, tag)


def test_nobody_settles_by_a_tag_that_is_invented() -> None:
    world = World()
    (tag,) = _with_deliveries(world)
    message, proof = tag[:8], tag[8:]
    beside = (int.from_bytes(message) + 1).to_bytes(8)
    for invented in (message, message + bytes(8), message + proof[::-1], beside + proof):
        assert not _settled_by(world, invented)
    assert _settled_by(world, tag)


@pytest.mark.parametrize("many", [attaching.UNKNOWN_TAGS_MAX - 1, attaching.UNKNOWN_TAGS_MAX])
def test_not_many_invented_tags_are_looked_at(many: int) -> None:
    world = World()
    (tag,) = _with_deliveries(world)
    peer = Peer(world).open()
    invented = {each.to_bytes(16): said(Accepted()) for each in range(many)}
    peer.receiver(0, "q", name=LINK, unsettled={**invented, tag: said(Accepted())})
    assert len(world.entries("q")) == (many == attaching.UNKNOWN_TAGS_MAX)


def test_states_that_end_nothing_mean_nothing() -> None:
    world = World()
    (tag,) = _with_deliveries(world)
    peer = Peer(world).open()
    peer.receiver(0, "q", name=LINK, unsettled={tag: said(Received(0, 0))})
    accepted = {tag: said(Accepted())}
    peer.receiver(1, "q", name=LINK, unsettled=accepted, settled=SETTLED)
    assert len(world.entries("q")) == 1


def test_a_sender_that_resumes_a_settled_delivery_adds_nothing() -> None:
    peer = Peer(World()).open()
    peer.sender(0, "q")
    peer.send(0, 0, b"", settled=True, resume=True, state=Accepted())
    peer.send(0, 1, message(b"new"))
    assert [each.first for each in peer.heard(Disposition)] == [1]
    assert len(peer.world.entries("q")) == 1


# ---- subscriptions of one name


def _subscribe(peer: Peer, handle: int, **values: Any) -> None:
    given = {"durable": UNSETTLED_STATE, "expiry_policy": NEVER, "capabilities": ("topic",)}
    peer.receiver(handle, "news", credit=5, name="mine", **{**given, **values})


def test_a_subscription_is_taken_over_by_a_link_of_its_name() -> None:
    world = World()
    first, second = Peer(world).open(), Peer(world).open()
    _subscribe(first, 0)
    first.sender(1, "topic://news")
    first.send(1, 0, message(b"x", durable=True))
    assert len(first.deliveries()) == 1
    _subscribe(second, 0)
    first.settle()
    detached = first.hear(Detach)
    assert (detached.closed, detached.error.condition) == (False, STOLEN)
    second.settle()
    ((transfer, _),) = second.deliveries()
    assert transfer.delivery_id is not None
    first.say(Detach(0))
    second.say(Disposition(RECEIVER, transfer.delivery_id, settled=True, state=Accepted()))
    assert not world.entries("dsub.c.mine")


def test_shared_subscriptions_are_not_taken_over() -> None:
    world = World()
    first, second = Peer(world).open(), Peer(world).open()
    for peer in (first, second):
        _subscribe(peer, 0, capabilities=("topic", "shared"))
    first.settle()
    assert not first.heard(Detach)


def test_names_of_containers_and_links_are_never_mixed_up() -> None:
    world = World()
    for container, name, values in (
        ("shop.eu", "orders", {}),
        ("shop", "eu.orders", {}),
        ("shop\\", "eu.orders", {}),
        ("shop", "x:global", {}),
        ("shop", "x", {"capabilities": ("topic", "shared", "global")}),
    ):
        peer = Peer(world).open(container)
        given = {"durable": UNSETTLED_STATE, "expiry_policy": NEVER, "capabilities": ("topic",)}
        peer.receiver(0, "news", name=name, **{**given, **values})
        assert peer.hear(Attach).source is not None
        assert not peer.heard(Detach)
    assert len([each for each in world.state.queue_by_name if each.startswith("dsub.")]) == 5


# ---- one connection for each container


def test_a_container_that_wants_one_connection_gets_one() -> None:
    world = World()
    first = Peer(world).open(desired_capabilities=(ONLY,))
    assert ONLY in first.hear(Open).offered_capabilities
    second = Peer(world).log_in()
    second.say(Open("c", max_frame_size=FRAME_SIZE, desired_capabilities=(ONLY,)))
    second.connection.admitted("", world.now)
    second.settle()
    opened, closed = second.hear(Open), second.hear(Close)
    assert opened.properties["amqp:connection-establishment-failed"] is True
    assert closed.error.condition == INVALID_FIELD
    assert closed.error.info == {"invalid-field": Symbol("container-id")}
    first.say(Close())
    world.turn()
    Peer(world).open(desired_capabilities=(ONLY,)).hear(Open)
