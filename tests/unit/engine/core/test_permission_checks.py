"""Permissions in the engine: every command of a client is checked, and what follows from it not."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.core.permission_checks import DENIALS_MAX, SENDERS_MAX, refused_consumer
from daybook.engine.facts.definitions import (
    ANYCAST,
    MULTICAST,
    AutoLink,
    DistributionEntry,
    DivertDefinition,
)
from daybook.engine.names.syntax import Syntax
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from tests.support.topology import create_queue
from tests.support.world import MANY, World

ALL = {permission: ("all",) for permission in PERMISSIONS}


class Place:
    """A world with rules, and connections of users."""

    def __init__(self, **rules: dict[str, tuple[str, ...]]) -> None:
        self.world = World()
        self.rules: dict[str, dict[str, tuple[str, ...]]] = {}
        self.permit({name.replace("__", "."): rule for name, rule in rules.items()})

    def permit(self, rules: dict[str, dict[str, tuple[str, ...]]]) -> None:
        """Put rules in force; root has the role `all`."""
        roles = {"root": frozenset({"all"}), "alice": frozenset({"sales"})}
        self.world.broker.permit(Permissions(rules, roles))
        self.world.broker.let_wildcards_follow()

    def connect(self, user: str) -> int:
        return self.world.ok(c.OpenConnection("stomp", "10.0.0.1:5", user, room=MANY))

    def refused(self, command: c.Command, permission: str) -> str:
        """Execute a command that must be refused for want of a permission."""
        self.world.broker.rights.denials.clear()
        refusal = self.world.refused(command)
        assert refusal.code is Code.NOT_ALLOWED
        assert f"the permission {permission} is missing there" in refusal.text
        assert [each.permission for each in self.world.broker.rights.denials] == [permission]
        return refusal.text


def rule(*permissions: str, who: str = "sales") -> dict[str, tuple[str, ...]]:
    return {permission.replace("_", "-"): (who,) for permission in permissions}


def test_a_send_needs_the_permission() -> None:
    place = Place(a=rule("consume"))
    place.world.ok(create_queue("a", "a"))
    alice = place.connect("alice")
    text = place.refused(c.Send(alice, "a", b"", b"x"), "send")
    assert text == "user 'alice' may not send to address 'a'; the permission send is missing there"
    denial = place.world.broker.rights.denials[0]
    assert denial == (alice, "alice", "send", "a", "", "10.0.0.1:5")
    assert place.refused(c.Send(alice, "a", b"", b"x", queue="a"), "send") == text
    place.refused(c.Chunk(c.Send(alice, "a", b"", b""), b"x"), "send")
    place.permit({"a": rule("send")})
    place.world.ok(c.Send(alice, "a", b"", b"x"))
    assert place.world.ready("a") == [b"x"]
    place.world.check()


def test_a_send_is_refused_again_when_the_rules_change() -> None:
    place = Place(a=rule("send", "create_address", "create_durable_queue"))
    alice = place.connect("alice")
    place.world.ok(c.Send(alice, "a", b"", b"x"))
    assert (alice, "a", None) in place.world.broker.rights.senders
    place.permit({"a": {}})
    place.refused(c.Send(alice, "a", b"", b"y"), "send")
    place.world.broker.permit(None)
    place.world.ok(c.Send(alice, "a", b"", b"z"))
    assert place.world.ready("a") == [b"x", b"z"]


def test_in_a_transaction_the_send_is_refused_not_the_commit() -> None:
    place = Place(a=ALL)
    alice = place.connect("alice")
    place.world.begin(alice)
    place.refused(c.Send(alice, "a", b"", b"x", transaction="t"), "send")
    place.world.commit(alice)
    place.world.check()


def test_what_a_send_creates_needs_permissions() -> None:
    place = Place(a=rule("send"))
    alice = place.connect("alice")
    send = c.Send(alice, "a", b"", b"x")
    place.refused(send, "create-durable-queue")
    place.permit({"a": rule("send", "create_durable_queue")})
    place.refused(send, "create-address")
    place.permit({"a": rule("send", "create_durable_queue", "create_address")})
    place.world.ok(send)
    place.permit({"a": rule("send")})
    place.world.ok(send)
    # An address that goes is not created again by who may no more.
    place.world.ok(c.DeleteAddress("a", force=True))
    place.refused(send, "create-durable-queue")


def test_another_routing_type_is_a_change_of_the_address() -> None:
    place = Place(a=rule("send"))
    place.world.ok(c.CreateAddress("a", (ANYCAST,)))
    place.refused(
        c.Send(place.connect("alice"), "a", b"", b"x", routing_type=MULTICAST), "create-address"
    )


def test_consumers_need_the_permission() -> None:
    place = Place(a=rule("send"))
    place.world.ok(create_queue("a", "a"))
    place.world.ok(create_queue("q", "a"))
    alice = place.connect("alice")
    for command in (
        c.Attach(alice, "a"),
        c.Attach(alice, "a", queue="q"),
        c.Attach(alice, "a", routing_type=MULTICAST),
        c.Attach(alice, "a", durable_name="d", routing_type=MULTICAST),
        c.Attach(alice, "", queue="q"),
    ):
        place.refused(command, "consume")
    place.permit({"a": rule("send"), "a::q": rule("consume")})
    place.world.attach(alice, "a", queue="q")
    place.refused(c.Attach(alice, "a"), "consume")


def test_browsers_need_another_permission() -> None:
    place = Place(a=rule("consume"), b=rule("browse"))
    place.world.ok(create_queue("a", "a"))
    place.world.ok(create_queue("b", "b"))
    alice = place.connect("alice")
    place.refused(c.Attach(alice, "a", browses=True), "browse")
    place.refused(c.Attach(alice, "b"), "consume")
    place.world.ok(c.Attach(alice, "b", browses=True))


def test_a_durable_subscription_is_browsed_where_it_is() -> None:
    place = Place(**{"#": ALL}, mine=rule("browse", "consume", "create_durable_queue"))
    root, alice = place.connect("root"), place.connect("alice")
    place.world.ok(c.Attach(root, "secret", durable_name="all"))
    closed = place.world.refused(c.Attach(alice, "mine", durable_name="all", browses=True))
    absent = place.world.refused(c.Attach(alice, "mine", durable_name="no", browses=True))
    assert closed.text.startswith("there is no durable subscription 'all' to browse")
    assert absent.text == closed.text.replace("'all'", "'no'")
    place.world.ok(c.Attach(root, "mine", durable_name="all", browses=True))


def test_an_address_gives_the_queue_that_is_checked() -> None:
    place = Place()
    place.world.ok(create_queue("q", "a"))
    place.permit({"a": rule("consume"), "a::q": {}})
    alice = place.connect("alice")
    place.refused(c.Attach(alice, "a"), "consume")


def test_a_subscription_creates_a_queue() -> None:
    place = Place(a=rule("consume"))
    place.world.ok(c.CreateAddress("a", (MULTICAST,)))
    alice = place.connect("alice")
    place.refused(c.Attach(alice, "a"), "create-non-durable-queue")
    place.refused(c.Attach(alice, "a", durable_name="d"), "create-durable-queue")
    place.permit({"a": rule("consume", "create_non_durable_queue")})
    consumer = place.world.attach(alice, "a")
    # Its own queue goes with it, whatever the rights to delete queues.
    place.world.detach(consumer)
    assert list(place.world.state.queue_by_name) == []


def test_wildcards_reach_no_address_that_is_closed() -> None:
    place = Place()
    place.permit({"#": rule("consume", "create_address", "create_non_durable_queue")})
    alice = place.connect("alice")
    place.world.attach(alice, "a.#")
    place.permit(
        {
            "#": rule("consume", "create_address", "create_non_durable_queue"),
            "a.secret": {},
        }
    )
    text = place.refused(c.Attach(alice, "a.#"), "consume")
    assert "may not consume from address 'a.#'" in text
    place.refused(c.Attach(alice, "#"), "consume")
    place.world.attach(alice, "b.#")


def test_wildcards_of_other_characters_mean_every_name() -> None:
    place = Place()
    place.world.ok(create_queue("q", "a.*", MULTICAST))
    place.world.ok(c.ChangeSettings({}, syntax=Syntax("/", ">", "+").text))
    roles = {"alice": frozenset({"sales"})}
    rules = {">": rule("consume"), "x/y": {}}
    place.world.broker.permit(Permissions(rules, roles, Syntax("/", ">", "+")))
    place.refused(c.Attach(place.connect("alice"), "a.*", queue="q"), "consume")


def test_a_durable_subscription_is_not_carried_away() -> None:
    place = Place()
    all_of_it = rule("consume", "create_address", "create_durable_queue", "delete_durable_queue")
    root, alice = place.connect("root"), place.connect("alice")
    place.permit({"secret": ALL, "public": all_of_it})
    place.world.detach(place.world.attach(root, "secret", durable_name="d"))
    place.world.send("secret", b"x")
    # It gets a subscription of its own, as if there were none of the name.
    place.world.detach(place.world.attach(alice, "public", durable_name="d"))
    assert place.world.queue("dsub.d").address.name == "secret"
    place.world.ok(c.DeleteSubscription("d", alice))
    assert place.world.bodies("dsub.d") == [b"x"]
    place.permit({"secret": all_of_it, "public": all_of_it})
    place.world.attach(alice, "public", durable_name="d")
    assert place.world.queue("dsub.d").address.name == "public"


def test_nobody_gets_another_address_by_sharing_a_subscription() -> None:
    place = Place()
    place.permit({"secret": ALL, "public": {name: ("*",) for name in PERMISSIONS}})
    alice, root = place.connect("alice"), place.connect("root")
    consumer = place.world.attach(alice, "public", durable_name="d")
    place.world.detach(place.world.attach(root, "secret", durable_name="d"))
    place.world.send("secret", b"x")
    assert place.world.queue("dsub.d").address.name == "public"
    assert place.world.bodies("dsub.d") == []
    again = place.world.attach(root, "public", durable_name="d")
    assert place.world.state.consumers[again].queue.name == "dsub.d"
    place.world.detach(consumer)


def test_new_rules_are_asked_for_what_each_consumer_does() -> None:
    place = Place()
    place.world.ok(create_queue("a", "a"))
    alice = place.connect("alice")
    consumers = [
        place.world.attach(alice, "a"),
        place.world.attach(alice, "a", browses=True, listens=True),
    ]

    def refused(*granted: str) -> list[bool]:
        rules = Permissions({"a": rule(*granted)}, {"alice": frozenset({"sales"})})
        state = place.world.state
        found = [refused_consumer(state, rules, state.consumers[each]) for each in consumers]
        return [each is not None for each in found]

    assert refused("consume", "browse") == [False, False]
    assert refused("consume") == [False, True]
    assert refused("browse") == [True, False]


def test_what_the_broker_keeps_of_others_needs_the_permission_everywhere() -> None:
    place = Place()
    place.world.settings(
        all={"retroactive-message-count": 3, "default-queue-routing-type": "ANYCAST"}
    )
    place.world.ok(create_queue("secret", "secret"))
    place.world.send("secret", b"x")
    kept = [queue for queue in place.world.state.queues.values() if queue.definition.keeps]
    assert kept
    alice = place.connect("alice")
    place.permit({"#": rule("browse", "consume", "send"), "secret": {}})
    for queue in kept:
        browse = c.Attach(alice, queue.address.name, queue=queue.name, browses=True)
        place.refused(browse, "browse")
        place.refused(c.Send(alice, queue.address.name, b"", b"x", queue=queue.name), "send")


def test_a_queue_that_is_named_alone_is_checked_where_it_is() -> None:
    place = Place()
    root, alice = place.connect("root"), place.connect("alice")
    place.world.detach(place.world.attach(root, "public", durable_name="d"))
    place.permit({"secret": ALL, "public": ALL | rule("send")})
    send = c.Send(alice, "", b"", b"x", queue="dsub.d")
    place.world.ok(send)
    place.permit({"secret": ALL, "public": {name: ("*",) for name in PERMISSIONS}})
    place.world.ok(send)
    place.world.ok(c.Detach(place.world.attach(root, "secret", durable_name="d")))
    place.refused(send, "send")


@pytest.mark.parametrize("has_consumer", [False, True])
def test_ending_a_durable_subscription_needs_the_permission(has_consumer: bool) -> None:
    place = Place(a=rule("consume", "create_address", "create_durable_queue"))
    alice = place.connect("alice")
    consumer = place.world.attach(alice, "a", durable_name="d", routing_type=MULTICAST)
    if has_consumer:
        place.refused(c.Detach(consumer, delete_durable=True), "delete-durable-queue")
        place.world.detach(consumer)
    place.refused(c.DeleteSubscription("d", alice), "delete-durable-queue")
    place.permit({"a": rule("delete_durable_queue")})
    if not has_consumer:
        place.world.detach(consumer)
    place.world.ok(c.DeleteSubscription("d", alice))
    assert "dsub.d" not in place.world.state.queue_by_name


def test_what_follows_from_a_message_needs_no_permission() -> None:
    place = Place()
    definition = DivertDefinition(name="d", address="a", forwarding_addresses=("copies",))
    place.world.ok(c.CreateDivert(definition))
    place.world.settings(all={"dead-letter-address": "dead", "max-delivery-attempts": 1})
    place.world.ok(create_queue("a", "a"))
    place.permit({"a": rule("send", "consume")})
    alice = place.connect("alice")
    place.world.ok(c.Send(alice, "a", b"", b"x"))
    assert place.world.ready("copies") == [b"x"]
    consumer = place.world.attach(alice, "a")
    place.world.nack(consumer, place.world.taken()[0].message)
    assert place.world.ready("dead") == [b"x"]
    assert not place.world.broker.rights.is_forwarding
    place.refused(c.Send(alice, "copies", b"", b"x"), "send")
    place.world.check()


def test_temporary_destinations_need_permissions_by_their_names() -> None:
    place = Place(temp__default__1__r=rule("send"))
    alice = place.connect("alice")
    name = f"temp.default.{alice}.r"
    for missing, given in (
        ("consume", ()),
        ("create-non-durable-queue", ("consume",)),
        ("create-address", ("consume", "create_non_durable_queue")),
    ):
        place.permit({"temp.#": rule(*given)})
        place.refused(c.Attach(alice, name, routing_type=ANYCAST), missing)
        place.refused(c.Attach(alice, name, routing_type=MULTICAST), missing)
    place.permit({"temp.#": rule("consume", "create_non_durable_queue", "create_address")})
    place.world.attach(alice, name, routing_type=ANYCAST)
    place.refused(c.Send(place.connect("bob"), name, b"", b"x"), "send")
    place.permit({"temp.#": rule("send", who="*")})
    place.world.ok(c.Send(place.connect("bob"), name, b"", b"x"))


def test_administrators_and_the_configuration_are_not_checked() -> None:
    place = Place(a={})
    place.world.ok(create_queue("a", "a"))
    place.world.send("a", b"x")
    place.world.ok(c.DeleteQueue("a", force=True))


def test_a_refusal_is_recorded_without_a_trace_in_the_state() -> None:
    place = Place()
    place.world.ok(create_queue("q", "a"))
    alice = place.connect("alice")
    before = len(place.world.journal)
    place.world.ok(c.RecordDenial(alice, "alice", "consume", "a", "q", "10.0.0.1:5"))
    place.world.ok(c.RecordDenial(99, "bob", "send", "nowhere", "", "10.0.0.1", 7))
    place.world.ok(c.RecordDenial(count=100))
    events = place.world.journal[before:]
    assert [event.name for event in events] == ["PermissionRefused"] * 3
    assert events[0].decoded.user == "alice"
    assert events[1].decoded.count == 7
    place.world.check()


def test_what_is_remembered_is_bounded() -> None:
    place = Place()
    place.permit({"#": rule("send", "create_address", "create_durable_queue")})
    broker = place.world.broker
    alice, bob = place.connect("alice"), place.connect("bob")
    broker.rights.senders.update((alice, f"a{number}", None) for number in range(SENDERS_MAX))
    place.world.ok(c.Send(alice, "b", b"", b"x"))
    assert broker.rights.senders == {(alice, "b", None)}
    for number in range(DENIALS_MAX + 10):
        assert isinstance(place.world.handle(c.Send(bob, f"a{number}", b"", b"x")), Refusal)
    assert len(broker.rights.denials) == DENIALS_MAX


def test_a_long_name_is_cut_in_the_text() -> None:
    place = Place(a={})
    refusal: Any = place.world.handle(c.Send(place.connect("alice"), "x" * 5000, b"", b""))
    assert len(refusal.text) < 400


@pytest.mark.parametrize(
    ("match", "pattern", "allowed"),
    [
        ("news.#", "news.I*", True),
        ("news.#", "news.{[a-z]}.b", True),
        ("news.*", "news.{[a-z]}", True),
        ("news.*", "news.#.b", False),
        ("news.#", "#.b", False),
        ("news.a", "news.a*", False),
        ("*.b", "{a}.b", True),
    ],
)
def test_a_pattern_needs_permission_for_all_that_it_may_match(
    match: str, pattern: str, allowed: bool
) -> None:
    place = Place()
    place.permit({match: rule("consume", "create-address", "create-non-durable-queue")})
    alice = place.connect("alice")
    answer = place.world.handle(c.Attach(alice, pattern, routing_type=MULTICAST))
    assert isinstance(answer, Refusal) is not allowed


def test_a_rule_for_some_names_of_a_pattern_counts() -> None:
    place = Place()
    granted = rule("consume", "create-address", "create-non-durable-queue")
    place.permit({"#": granted, "news.secret": rule("consume", who="board")})
    alice = place.connect("alice")
    for pattern in ("news.s*", "news.{.*}", "#.secret", "*.secre{t}"):
        place.refused(c.Attach(alice, pattern, routing_type=MULTICAST), "consume")
    for pattern in ("news.p*", "news.{[a-r].*}", "#.open"):
        place.world.ok(c.Attach(alice, pattern, routing_type=MULTICAST, subscription=pattern))


def test_a_sender_may_ask_before_it_sends() -> None:
    place = Place(a=rule("send"))
    alice = place.connect("alice")
    ask = c.AttachSender(alice, "a")
    place.refused(ask, "create-durable-queue")
    place.permit({"a": rule("send", "create_durable_queue", "create_address")})
    assert place.world.ok(ask) == 0
    assert "a" not in place.world.state.address_by_name
    place.world.ok(create_queue("a", "a"))
    place.permit({"a": rule("send")})
    place.world.ok(ask)
    place.refused(c.AttachSender(alice, "a", routing_type=MULTICAST), "create-address")
    place.permit({"a": rule("consume")})
    place.refused(ask, "send")
    place.refused(c.AttachSender(alice, "a", queue="a"), "send")
    place.world.check()


def test_what_a_divert_may_take_is_not_refused_before_it_comes() -> None:
    place = Place(a=rule("send"))
    place.world.ok(c.CreateAddress("a", (MULTICAST,)))
    alice = place.connect("alice")
    ask = c.AttachSender(alice, "a", routing_type=ANYCAST)
    place.refused(ask, "create-durable-queue")
    divert = DivertDefinition("d", "a", ("b",), exclusive=True, filter="colour = 'red'")
    place.world.ok(c.CreateDivert(divert))
    assert place.world.ok(ask) == 0
    place.world.check()


# ---- connections that the broker opened

OUT = AutoLink("out", "a", "there", is_out=True)
IN = AutoLink("in", "a", "there", is_out=False)


def test_links_of_the_configuration_need_no_permission() -> None:
    place = Place(a=rule("send"))
    world = place.world
    own = world.ok(c.OpenConnection("amqp", "east:5672", "", room=MANY, connector="east"))
    (opened,) = [each for each in world.journal if each.name == "ConnectionOpened"]
    assert opened.decoded.connector == "east"
    world.ok(c.AttachSender(own, "a", auto_link=IN))
    world.ok(c.Send(own, "a", b"", b"x"))
    consumer = world.attach(own, "a", auto_link=OUT)
    assert world.bodies("a") == [b"x"]
    state, permissions = world.state, world.broker.rights.permissions
    assert permissions is not None
    assert refused_consumer(state, permissions, state.consumers[consumer]) is None
    assert not world.broker.rights.denials


def test_the_peer_of_a_connector_attaches_nothing_by_itself() -> None:
    world = Place(a=ALL).world
    own = world.ok(c.OpenConnection("amqp", "east:5672", "", room=MANY, connector="east"))
    for command in (c.AttachSender(own, "a"), c.Attach(own, "a")):
        assert "give the connector a user" in world.refused(command).text
    assert world.broker.lsn == own


def test_a_connector_with_a_user_has_the_rights_of_that_user() -> None:
    place = Place(a=rule("send"))
    own = place.world.ok(
        c.OpenConnection("amqp", "east:5672", "alice", room=MANY, connector="east")
    )
    place.refused(c.Attach(own, "a", auto_link=OUT), "consume")
    place.refused(c.Attach(own, "a"), "consume")


def test_no_client_gets_the_right_of_the_configuration() -> None:
    place = Place(a=rule("send"))
    nobody = place.connect("")
    place.refused(c.Attach(nobody, "a", auto_link=OUT), "consume")
    place.refused(c.AttachSender(nobody, "a", auto_link=IN), "send")


def test_new_rules_do_not_concern_consumers_of_the_broker_itself() -> None:
    """One empties the queue of an address that falls back to it."""
    world = Place(a=rule("send", "consume", "create_address", "create_durable_queue")).world
    world.ok(c.ChangeDistributions((DistributionEntry(prefix="a", enable_fallback=True),)))
    alice = world.ok(c.OpenConnection("stomp", "10.0.0.1:5", "alice", room=MANY))
    world.ok(c.Send(alice, "a", b"", b"x"))
    world.attach(alice, "a")
    (consumer,) = world.queue("a").consumers
    permissions = world.broker.rights.permissions
    assert permissions is not None
    assert refused_consumer(world.state, permissions, consumer) is None
    assert not world.broker.rights.denials
