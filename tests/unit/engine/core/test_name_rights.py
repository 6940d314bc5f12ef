"""Names of queues belong to those who have a right to them (ADR 77): every way to create a queue is
tried by a user of another place, and then the owner of the name uses it."""

from collections.abc import Callable

import msgspec
import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.names.names import DURABLE, numbered, unnumbered, wrong_with
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.send_outcome import Outcome
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from tests.support.topology import create_queue
from tests.support.world import MANY, World

ALL = tuple(PERMISSIONS)
Try = Callable[[World, int], c.Command]


def rules(who: str, *permissions: str) -> dict[str, tuple[str, ...]]:
    return {each: (f"user:{who}",) for each in permissions}


RULES = {"mall.#": rules("mallory", *ALL), "pay.#": rules("bob", *ALL)}


def connect(world: World, user: str) -> int:
    return world.ok(c.OpenConnection("stomp", "10.0.0.1:5", user, room=MANY))


@pytest.fixture
def place() -> World:
    world = World()
    world.broker.permit(Permissions(RULES))
    return world


def in_transaction(world: World, mallory: int) -> c.Command:
    world.begin(mallory)
    return c.Send(mallory, "mall.x", b"", b"x", queue="pay.roll", transaction="t")


WAYS: dict[str, Try] = {
    "SEND": lambda _, m: c.Send(m, "mall.x", b"", b"x", queue="pay.roll"),
    "SEND multicast": lambda _, m: c.Send(
        m, "mall.x", b"", b"x", queue="pay.roll", routing_type=MULTICAST
    ),
    "SEND of a large message": lambda _, m: c.Chunk(
        c.Send(m, "mall.x", b"", b"", queue="pay.roll"), b"x"
    ),
    "SEND to several": lambda _, m: c.SendToAll(
        m, [c.Send(m, "mall.y", b"", b"x"), c.Send(m, "mall.x", b"", b"x", queue="pay.roll")]
    ),
    "SEND in a transaction": in_transaction,
    "SUBSCRIBE": lambda _, m: c.Attach(m, "mall.x", queue="pay.roll"),
    "SUBSCRIBE to a topic": lambda _, m: c.Attach(
        m, "mall.x", queue="pay.roll", routing_type=MULTICAST
    ),
    "SUBSCRIBE to several": lambda _, m: c.AttachAll(
        m, [c.Attach(m, "mall.y"), c.Attach(m, "mall.x", queue="pay.roll")]
    ),
    "browse": lambda _, m: c.Attach(m, "mall.x", queue="pay.roll", browses=True),
    "one more queue of an address": lambda w, m: (
        w.send("mall.x", connection=m) and c.Send(m, "mall.x", b"", b"x", queue="pay.roll")
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_nobody_takes_the_name_of_a_queue_elsewhere(place: World, way: str) -> None:
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    refusal = place.handle(WAYS[way](place, mallory))
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.NOT_ALLOWED
    assert "'pay.roll'" in refusal.text
    assert "pay.roll" not in place.state.queue_by_name
    (denial,) = place.broker.rights.denials
    assert (denial.user, denial.permission) == ("mallory", "create-durable-queue")
    place.send("pay.roll", b"1", connection=bob)
    place.attach(bob, "pay.roll")
    assert place.taken_bodies() == [b"1"]
    place.check()


@pytest.mark.parametrize("way", WAYS)
def test_the_owner_of_both_names_may(place: World, way: str) -> None:
    place.broker.permit(Permissions({"#": rules("mallory", *ALL)}))
    place.ok(WAYS[way](place, connect(place, "mallory")))


def test_a_rule_for_the_one_queue_allots_the_name(place: World) -> None:
    place.broker.permit(Permissions({**RULES, "mall.x::desk": rules("mallory", *ALL)}))
    mallory = connect(place, "mallory")
    place.send("mall.x", b"1", mallory, queue="desk")
    assert place.bodies("desk") == [b"1"]
    refusal = place.refused(c.Send(mallory, "mall.x", b"", b"x", queue="till"))
    assert "no rule is for 'mall.x::till'" in refusal.text
    place.send("mall.x", b"2", mallory, queue="mall.x.till")


def test_rules_of_a_virtual_host_allot_first() -> None:
    own = {"eu": {"a.#": rules("bob", *ALL)}}
    found = Permissions({"a::q": rules("bob", *ALL)}, of_hosts=own)
    assert found.allots("a", "q")
    assert not found.allots("eu::a", "eu::q")
    own = {"eu": {"a::q": rules("bob", *ALL)}}
    assert Permissions({}, of_hosts=own).allots("eu::a", "eu::q")


@pytest.mark.parametrize("address", ["mall.x", "dsub.bob"])
def test_names_of_durable_subscriptions_are_for_them_alone(place: World, address: str) -> None:
    place.broker.permit(Permissions({**RULES, "dsub.#": rules("mallory", *ALL)}))
    mallory, bob = connect(place, "mallory"), connect(place, "bob")
    for command in (
        c.Send(mallory, address, b"", b"x", queue="dsub.bob"),
        c.Attach(mallory, address, queue="dsub.bob"),
    ):
        assert "are those of durable subscriptions" in place.refused(command).text
    place.attach(bob, "pay.x", durable_name="bob")
    assert place.queue("dsub.bob").address.name == "pay.x"


@pytest.mark.parametrize("is_there", [False, True])
def test_nobody_takes_the_name_of_a_durable_subscription(place: World, is_there: bool) -> None:
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    taken = place.attach(mallory, "mall.x", durable_name="bob")
    if not is_there:
        place.detach(taken)
    own = place.attach(bob, "pay.x", durable_name="bob")
    queue = place.state.consumers[own].queue
    assert queue.address.name == "pay.x"
    assert unnumbered(queue.name) == f"{DURABLE}bob"
    place.send("mall.x", b"hers", connection=mallory)
    place.send("pay.x", b"his", connection=bob)
    assert place.taken_bodies(own) == [b"his"]
    # Its colleagues share it: the number belongs to the address, not to the user.
    place.broker.permit(Permissions({**RULES, "pay.#": {each: ("*",) for each in ALL}}))
    carol = connect(place, "carol")
    assert place.state.consumers[place.attach(carol, "pay.x", durable_name="bob")].queue is queue
    place.check()


def test_a_number_that_makes_a_name_unique_is_told_to_nobody(place: World) -> None:
    """It would say that somebody else has a subscription of the name."""
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    place.attach(bob, "pay.x", durable_name="d")
    place.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "mall.dead"})
    own = place.attach(mallory, "mall.x", durable_name="d")
    assert place.state.consumers[own].queue.name != "dsub.d"
    before = place.broker.lsn
    sent = place.handle(c.Send(mallory, "mall.x", b"", b"hers"))
    assert isinstance(sent, int)
    assert place.broker.outcome(before, mallory) == Outcome(("dsub.d",))
    place.turn()
    place.nack(own, sent)
    reader = place.attach(mallory, "mall.dead")
    (dead,) = place.taken(reader)
    assert b"_AMQ_ORIG_QUEUE:dsub.d\n" in dead.headers
    assert b"_DAYBOOK_DEATH_QUEUE:dsub.d\n" in dead.headers
    assert b"{1" not in dead.headers
    assert b"{2" not in dead.headers
    place.check()


def test_each_client_means_its_own_subscription_by_a_name(place: World) -> None:
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    place.detach(place.attach(mallory, "mall.x", durable_name="d"))
    place.detach(place.attach(bob, "pay.x", durable_name="d"))
    names = sorted(place.state.queue_by_name)
    place.send("mall.x", b"hers", connection=mallory)
    place.send("pay.x", b"his", connection=bob)
    for connection, body in ((bob, b"his"), (mallory, b"hers")):
        consumer = place.attach(connection, "", queue="dsub.d")
        assert place.taken_bodies(consumer) == [body]
        place.detach(consumer)
        place.ok(c.Send(connection, "", b"", body + b" too", queue="dsub.d"))
        browser = c.Attach(
            connection, "", queue="dsub.d", browses=True, credit_messages=MANY, credit_bytes=MANY
        )
        shown = place.ok(browser)
        place.turn()
        place.ok(c.Detach(shown))
    assert [place.bodies(name) for name in names] == [
        [b"hers", b"hers too"], [b"his", b"his too"],
    ]  # fmt: skip
    # Bob moves his own to another topic, and ends it.
    place.detach(place.attach(bob, "pay.y", durable_name="d"))
    assert sorted(place.state.queue_by_name) == names
    assert place.queue(names[1]).address.name == "pay.y"
    place.ok(c.DeleteSubscription("d", bob))
    assert sorted(place.state.queue_by_name) == names[:1]
    assert not place.state.numbered
    place.refused(c.DeleteSubscription("d", bob))
    place.ok(c.DeleteSubscription("d", mallory))
    place.check()


def test_a_rule_for_the_queue_counts_whatever_its_number(place: World) -> None:
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    place.detach(place.attach(mallory, "mall.x", durable_name="d"))
    place.detach(place.attach(bob, "pay.x", durable_name="d"))
    place.broker.permit(
        Permissions({**RULES, "pay.#": {e: ("*",) for e in ALL}, "pay.x::dsub.d": rules("bob")})
    )
    refusal = place.refused(c.Attach(connect(place, "carol"), "pay.x", durable_name="d"))
    assert refusal.text == (
        "user 'carol' may not consume from queue 'dsub.d' of address 'pay.x'; the permission"
        " consume is missing there"
    )


def test_an_obstacle_of_ones_own_is_said(place: World) -> None:
    less = tuple(each for each in ALL if each != "delete-durable-queue")
    bob = connect(place, "bob")
    place.detach(place.attach(bob, "pay.x", durable_name="d"))
    place.broker.permit(Permissions({"pay.#": rules("bob", *less)}))
    refusal = place.refused(c.Attach(bob, "pay.y", durable_name="d"))
    assert "may not delete queue 'dsub.d' of address 'pay.x'" in refusal.text


def test_a_numbered_name_is_nobodys_to_give() -> None:
    name = numbered("dsub.bob", 7)
    assert unnumbered(name) == "dsub.bob"
    assert wrong_with(name) is not None
    assert unnumbered("plain") == "plain"


def test_a_restart_finds_both_subscriptions(place: World) -> None:
    bob, mallory = connect(place, "bob"), connect(place, "mallory")
    place.attach(mallory, "mall.x", durable_name="d")
    place.attach(bob, "pay.x", durable_name="d")
    place.restart()
    place.broker.permit(Permissions(RULES))
    again = place.attach(connect(place, "bob"), "pay.x", durable_name="d")
    assert place.state.consumers[again].queue.address.name == "pay.x"
    assert len(place.state.queue_by_name) == 2


def test_what_the_operator_creates_needs_no_right(place: World) -> None:
    place.ok(create_queue("pay.roll", "mall.x"))
    # Bob has a right to the name, and learns that it is taken, but not by whom.
    refusal = place.refused(c.Send(connect(place, "bob"), "pay.roll", b"", b"x"))
    assert refusal.code is Code.ALREADY_EXISTS
    assert "mall.x" not in refusal.text
    assert msgspec.structs.asdict(place.queue("pay.roll").definition)["routing_type"] == ANYCAST
