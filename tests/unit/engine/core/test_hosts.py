"""Virtual hosts in the engine: the same names on two of them have nothing to do with each other."""

import pytest

from daybook.engine.commands import (
    ActOnMessages,
    Attach,
    ChangeSettings,
    Commit,
    CreateAddress,
    CreateDivert,
    DeleteSubscription,
    DropUnlisted,
    OpenConnection,
    ResetGroups,
    Send,
    SendToAll,
    SetSettings,
    Settle,
)
from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.settlements import FAILED, REJECTED
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.names import names
from daybook.engine.names.matches import Covering
from daybook.engine.names.names import beside, host_and_name, owner_of, qualified, wrong_with_host
from daybook.engine.names.patterns import PatternTrie, covers, overlap, path_of
from daybook.engine.names.syntax import DEFAULT
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Permissions
from daybook.engine.settings.settings import Settings
from tests.support.topology import create_queue
from tests.support.world import World

HOSTS = {"default": HostLimits(), "eu": HostLimits()}


@pytest.fixture(name="world")
def new_world() -> World:
    return World(hosts=HOSTS)


def bodies(world: World, consumer: int) -> list[bytes]:
    return [each.body for each in world.deliveries if each.consumer == consumer]


def test_full_names_have_a_host_unless_it_is_the_default_one() -> None:
    assert qualified("default", "q") == "q"
    assert qualified("eu", "q") == "eu::q"
    assert host_and_name("eu::q") == ("eu", "q")
    assert host_and_name("q") == ("default", "q")
    assert (beside("eu::q", "r"), beside("q", "r")) == ("eu::r", "r")
    assert names.plain("eu::a.b") == "a.b"
    assert owner_of("eu::temp.default.23.x") == owner_of("temp.default.23.x") == 23


@pytest.mark.parametrize("host", ["", "a b", "a.b", "a_b", "-a", "é", "a" * 65, "a:b", "a\n"])
def test_names_that_no_host_can_have(host: str) -> None:
    assert wrong_with_host(host) is not None


def test_patterns_match_on_their_own_host_only() -> None:
    trie: PatternTrie[str] = PatternTrie()
    for pattern in ("#", "*", "a.#", "eu::#", "eu::a.*", "us::a.b"):
        trie.add(pattern, pattern)
    assert sorted(trie.matching("a.b")) == ["#", "a.#"]
    assert sorted(trie.matching("eu::a.b")) == ["eu::#", "eu::a.*"]
    assert trie.matching("us::a") == []
    assert trie.matching("uk::a.b") == []
    trie.remove("eu::#", "eu::#")
    assert trie.matching("eu::x") == []
    everything, there = path_of("#", DEFAULT), path_of("eu::a", DEFAULT)
    assert not overlap(everything, there)
    assert not covers(everything, there)
    assert covers(path_of("eu::#", DEFAULT), there)


def test_matches_of_a_host_come_before_those_of_all() -> None:
    covering = Covering(["a.b", "#", "eu::#", "default::a.#"])
    assert covering.of("eu::a.b") == ["eu::#", "a.b", "#"]
    assert covering.of("us::a.b") == ["a.b", "#"]
    assert covering.of("a.b") == ["default::a.#", "a.b", "#"]
    assert covering.within("eu::a.*") == (["eu::#"], True)
    assert covering.within("us::a.*") == (["a.b", "#"], True)


def test_settings_name_addresses_on_the_host_of_the_address() -> None:
    settings = Settings.from_dict({"#": {"dead-letter-address": "DLQ"}})
    assert settings.resolve("eu::a").dead_letter_address == "eu::DLQ"
    assert settings.resolve("a").dead_letter_address == "DLQ"
    assert settings.resolve("eu::a").expiry_address == ""


def test_permissions_of_a_host_decide_alone() -> None:
    rules = {"#": {"send": ("*",)}}
    permissions = Permissions(rules, of_hosts={"eu": {"a": {"send": ("user:joe",)}, "q::q": {}}})
    assert permissions.allows("ann", "send", "a")
    assert not permissions.allows("ann", "send", "eu::a")
    assert permissions.allows("joe", "send", "eu::a")
    assert permissions.allows("ann", "send", "eu::b")
    assert not permissions.allows("ann", "send", "eu::q", "eu::q")
    assert permissions.allows("ann", "send", "q", "q")
    assert permissions.explain("ann", "send", "eu::a").matches == ("eu::a",)


def test_the_same_names_on_two_hosts(world: World) -> None:
    here, there = world.connect(client_id="c"), world.connect(host="eu", client_id="c")
    for host, connection in (("default", here), ("eu", there)):
        world.attach(connection, qualified(host, "news"), durable_name="mine")
    for host, connection in (("default", here), ("eu", there)):
        world.send(qualified(host, "q"), host.encode(), connection, duplicate_id="1")
        world.send(qualified(host, "news"), host.encode(), connection, routing_type=MULTICAST)
    assert sorted(world.state.queue_by_name) == ["dsub.mine", "eu::dsub.mine", "eu::q", "q"]
    assert world.state.queue_by_name["q"].message_count == 1
    consumers = [world.attach(here, "q"), world.attach(there, "eu::q")]
    assert [bodies(world, each) for each in consumers] == [[b"default"], [b"eu"]]
    world.check()
    world.restart()
    queues = world.state.queue_by_name
    assert {name: queue.message_count for name, queue in queues.items()} == {
        "q": 1, "eu::q": 1, "dsub.mine": 1, "eu::dsub.mine": 1,
    }  # fmt: skip
    assert world.state.addresses_on == {"default": 2, "eu": 2}
    again = world.connect(host="eu")
    assert isinstance(world.handle(DeleteSubscription("mine", again)), int)
    world.turn()
    assert "dsub.mine" in queues
    assert "eu::dsub.mine" not in queues
    world.check()


def test_wildcards_stay_on_their_host(world: World) -> None:
    here, there = world.connect(), world.connect(host="eu")
    consumers = [world.attach(here, "#"), world.attach(there, "eu::#")]
    world.send("a.b", b"here", here, routing_type=MULTICAST)
    world.send("eu::a.b", b"there", there, routing_type=MULTICAST)
    assert [bodies(world, each) for each in consumers] == [[b"here"], [b"there"]]
    world.check()


def test_dead_letters_stay_on_their_host_and_go_back_there(world: World) -> None:
    wanted = {
        "#": {
            "dead-letter-address": "dead", "max-delivery-attempts": 1,
            "auto-create-dead-letter-resources": True,
        }
    }  # fmt: skip
    world.ok(ChangeSettings(wanted, "full"))
    there = world.connect(host="eu")
    message = world.send("eu::q", b"x", there, routing_type=ANYCAST)
    consumer = world.attach(there, "eu::q")
    world.ok(Settle(consumer, message, False, None, FAILED))
    queue = world.state.queue_by_name["eu::DLQ.q"]
    assert queue.address.name == "eu::dead"
    assert queue.definition.filter == "_AMQ_ORIG_ADDRESS = 'q'"
    assert queue.message_count == 1
    head = queue.head()
    assert head is not None
    assert b"_AMQ_ORIG_ADDRESS:q\n" in head.message.headers
    assert b"_AMQ_ORIG_QUEUE:q\n" in head.message.headers
    world.ok(ActOnMessages("eu::DLQ.q", "retry"))
    assert queue.message_count == 0
    assert world.state.queue_by_name["eu::q"].message_count == 1
    assert "q" not in world.state.queue_by_name
    world.check()


def test_diverts_stay_on_their_host(world: World) -> None:
    for name, host in (("d", "default"), ("eu::d", "eu")):
        definition = DivertDefinition(
            name=name,
            address=qualified(host, "a"),
            forwarding_addresses=(qualified(host, "b"),),
        )
        world.ok(CreateDivert(definition))
    world.send("eu::a", b"x", routing_type=ANYCAST)
    assert "b" not in world.state.address_by_name
    assert "eu::b" in world.state.address_by_name
    crossing = DivertDefinition(name="eu::e", address="eu::a", forwarding_addresses=("b",))
    assert "not on virtual host 'eu'" in world.refused(CreateDivert(crossing)).text
    crossing = DivertDefinition(name="e", address="eu::a", forwarding_addresses=("eu::b",))
    assert "another virtual host" in world.refused(CreateDivert(crossing)).text
    world.check()


def test_what_the_configuration_no_longer_lists_goes_on_its_host_only(world: World) -> None:
    force = {"#": {"config-delete-queues": "FORCE", "config-delete-addresses": "FORCE"}}
    world.ok(ChangeSettings(force, "full"))
    for name in ("q", "eu::q"):
        command = create_queue(name, name)
        command.configured = True
        world.ok(command)
    world.ok(DropUnlisted(frozenset({"q"}), frozenset({"q"}), frozenset()))
    assert list(world.state.queue_by_name) == ["q"]
    world.check()


def test_messages_do_not_move_to_another_host(world: World) -> None:
    world.ok(create_queue("q", "q"))
    world.ok(create_queue("eu::q", "eu::q"))
    world.send("q", b"x")
    for action in ("move", "copy"):
        refusal = world.refused(ActOnMessages("q", action, target="eu::q"))
        assert "another virtual host" in refusal.text


def test_nothing_is_created_on_a_host_that_there_is_not(world: World) -> None:
    for command in (
        create_queue("us::q", "us::q"),
        CreateAddress("us::a", (ANYCAST,)),
        create_queue("q", "eu::q"),
        CreateDivert(DivertDefinition("us::d", "us::a", ("us::b",))),
    ):
        assert world.refused(command).code is Code.INVALID


def test_a_queue_is_found_by_its_host_and_its_address(world: World) -> None:
    world.ok(CreateAddress("a", (ANYCAST,)))
    for name, address in (("q", "a"), ("eu::q", "eu::a")):
        world.ok(create_queue(name, address))
    for given, name in (
        ("q", "q"), ("a::q", "q"), ("eu::q", "eu::q"), ("eu::a::q", "eu::q"),
    ):  # fmt: skip
        found = find_queue(world.state, given)
        assert isinstance(found, Queue)
        assert found.name == name
    assert isinstance(find_queue(world.state, "us::q"), Refusal)
    assert isinstance(find_queue(world.state, "eu::b::q"), Refusal)
    assert world.refused(ResetGroups("eu::other")).code is Code.NOT_FOUND


def test_a_name_that_could_mean_two_queues_is_refused(world: World) -> None:
    world.ok(create_queue("eu", "eu"))
    world.ok(create_queue("q", "eu"))
    world.ok(create_queue("eu::q", "eu::q"))
    found = find_queue(world.state, "eu::q")
    assert isinstance(found, Refusal)
    assert "virtual host" in found.text


def test_a_host_that_is_gone_keeps_its_messages(world: World) -> None:
    there = world.connect(host="eu")
    wanted = {"#": {"dead-letter-address": "dead"}}
    world.ok(ChangeSettings(wanted, "full"))
    message = world.send("eu::q", b"x", there, routing_type=ANYCAST)
    consumer = world.attach(there, "eu::q")
    world.broker.options.hosts = {"default": HostLimits()}
    world.ok(Settle(consumer, message, False, None, REJECTED))
    assert world.state.queue_by_name["eu::dead"].message_count == 1
    world.restart()
    assert world.state.queue_by_name["eu::dead"].message_count == 1


def test_a_host_has_only_so_many_connections_queues_and_addresses() -> None:
    few = HostLimits(max_connections=1, max_addresses=2, max_queues=2)
    world = World(hosts={"default": HostLimits(), "eu": few})
    there = world.connect(host="eu")
    for _ in range(2):
        world.connect()
    refusal = world.refused(OpenConnection("stomp", "peer", "guest", host="eu"))
    assert refusal.text.startswith("virtual host 'eu' has 1 connections, and max-connections is 1")
    for name in ("a", "b"):
        world.send(f"eu::{name}", b"", there, routing_type=ANYCAST)
        world.send(name, b"", routing_type=ANYCAST)
    refusal = world.refused(Send(there, "eu::c", b"", b"", routing_type=ANYCAST))
    assert "max-queues is 2" in refusal.text
    refusal = world.refused(Send(there, "eu::c", b"", b"", routing_type=MULTICAST))
    assert "max-addresses is 2" in refusal.text
    refusal = world.refused(Attach(there, "eu::a", routing_type=MULTICAST))
    assert "max-queues is 2" in refusal.text
    temporary = f"eu::temp.default.{there}.x"
    refusal = world.refused(Attach(there, temporary, routing_type=ANYCAST))
    assert "max-queues is 2" in refusal.text
    world.send("c", b"", routing_type=ANYCAST)
    world.check()


def test_a_transaction_with_one_address_too_many_is_refused_as_a_whole() -> None:
    world = World(hosts={"default": HostLimits(), "eu": HostLimits(max_addresses=1)})
    there = world.connect(host="eu")
    world.begin(there)
    for name in ("eu::a", "eu::a", "eu::b"):
        world.ok(Send(there, name, b"", b"x", routing_type=MULTICAST, transaction="t"))
    refusal = world.handle(Commit(there, "t"))
    assert isinstance(refusal, Refusal)
    assert "max-addresses is 1" in refusal.text
    assert "eu::a" not in world.state.address_by_name
    both = [Send(there, name, b"", b"x", routing_type=MULTICAST) for name in ("eu::a", "eu::b")]
    assert "max-addresses is 1" in world.refused(SendToAll(there, both)).text
    world.check()


def test_queues_of_the_broker_itself_do_not_stop_a_commit_that_was_checked() -> None:
    world = World(hosts={"default": HostLimits(), "eu": HostLimits(max_queues=2)})
    world.ok(ChangeSettings({"#": {"retroactive-message-count": 5}}, "full"))
    there = world.connect(host="eu")
    world.begin(there)
    # The first one makes a history, and with that there are two queues.
    for name in ("eu::a", "eu::b"):
        world.ok(Send(there, name, b"", b"x", routing_type=ANYCAST, transaction="t"))
    world.commit(there)
    assert world.ready("eu::a") == world.ready("eu::b") == [b"x"]
    refusal = world.refused(Send(there, "eu::c", b"", b"x", routing_type=ANYCAST))
    assert "max-queues is 2" in refusal.text
    world.check()


def test_a_host_holds_only_so_many_bytes_paged_or_not() -> None:
    world = World(hosts={"default": HostLimits(), "eu": HostLimits(max_size=2000)})
    world.ok(ChangeSettings({"eu::paged": {"max-size-messages": 0}}, "full"))
    there = world.connect(host="eu")
    for place in ("eu::q", "eu::paged"):
        world.send(place, b"x" * 900, there, routing_type=ANYCAST)
    refusal = world.refused(Send(there, "eu::r", b"", b"y", routing_type=ANYCAST))
    assert refusal.code is Code.LIMIT
    assert refusal.text.startswith("virtual host 'eu' is full: its queues hold ")
    world.send("q", b"x" * 5000, routing_type=ANYCAST)
    world.attach(there, "eu::paged", acknowledges=False)
    world.send("eu::r", b"y", there, routing_type=ANYCAST)
    world.check()


def test_a_queue_is_not_created_on_an_address_that_is_a_host_by_mistake(world: World) -> None:
    refusal = world.refused(create_queue("made", "eu", ANYCAST))
    assert refusal.text.startswith("'eu' is a virtual host; for a queue on it, name the host")
    world.ok(create_queue("eu::made", "eu::made", ANYCAST))
    # Somebody may have such an address all the same.
    world.ok(create_queue("eu", "eu", ANYCAST))
    world.ok(create_queue("made", "eu", ANYCAST))


def test_a_mistyped_host_makes_nothing(world: World) -> None:
    before = world.broker.next_lsn
    for command in (
        # HOST::NAME of the command line, which takes it for ADDRESS::QUEUE.
        create_queue("orders", "eux", ANYCAST),
        create_queue("eux::orders", "eux::orders", ANYCAST),
        create_queue("eux::orders", "orders", ANYCAST),
        CreateAddress("eux::orders", (ANYCAST,)),
        SetSettings("eux::orders", {"max-delivery-attempts": 3}),
    ):
        refusal = world.refused(command)
        assert "virtual host 'eux'" in refusal.text
    assert world.broker.next_lsn == before
    # A name that no host can have is an address, as is one that was created.
    world.ok(create_queue("desk", "shop.eu", ANYCAST))
    world.ok(CreateAddress("eux", (ANYCAST,)))
    world.ok(create_queue("orders", "eux", ANYCAST))


def test_without_virtual_hosts_nothing_is_mistaken_for_one() -> None:
    world = World(hosts={})
    world.ok(create_queue("desk", "shop", ANYCAST))
    refusal = world.refused(CreateAddress("eux::orders", (ANYCAST,)))
    assert refusal.text == (
        "there is no virtual host 'eux'; name one that the configuration lists (default)"
    )


def test_a_refusal_lists_some_virtual_hosts() -> None:
    world = World(hosts={"default": HostLimits()} | {f"h{n}": HostLimits() for n in range(20)})
    refusal = world.refused(CreateAddress("eux::orders", (ANYCAST,)))
    assert refusal.text.endswith("h7, h8, ...)")
