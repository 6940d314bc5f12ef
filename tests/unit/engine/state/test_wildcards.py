"""Wildcard addresses: who gets what is sent elsewhere, whose limits hold, and when they end."""

import pytest

from daybook.engine import commands as c
from daybook.engine.consumers.transactions import RECIPIENTS_SHIFT
from daybook.engine.core import capacity
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.limits.pools import REGEXES, Pool
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.state.wildcards import VISITED_SHIFT
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.full import SIZE

BODY = b"x" * 100


def bind(world: World, name: str, address: str, text: str = "") -> None:
    world.ok(create_queue(name, address, MULTICAST, filter=text))


def names(world: World, event: str) -> list[int]:
    return [each.row[events.ADDRESS] for each in world.events_named(event)]


def address_id(world: World, name: str) -> int:
    return world.state.address_by_name[name].id


# ---- routing


def test_a_message_goes_to_its_own_queues_and_to_those_of_patterns(world: World) -> None:
    bind(world, "own", "news.europe")
    bind(world, "one", "news.*")
    bind(world, "any", "news.#")
    bind(world, "other", "sport.*")
    world.send("news.europe", b"1", routing_type=MULTICAST)
    world.send("news.europe.sport", b"2", routing_type=MULTICAST)
    assert world.ready("own") == [b"1"]
    assert world.ready("one") == [b"1"]
    assert world.ready("any") == [b"1", b"2"]
    assert world.ready("other") == []
    first, second = world.events_named("Routed")
    assert first.row[events.ADDRESS] == address_id(world, "news.europe")
    assert second.row[events.QUEUE] == world.queue("any").id
    world.check()


def test_an_address_that_is_made_by_a_send_matches_at_once(world: World) -> None:
    bind(world, "any", "#")
    world.send("orders", b"1")
    world.send("orders", b"2")
    assert world.ready("orders") == [b"1", b"2"]
    assert world.ready("any") == [b"1", b"2"]


def test_an_anycast_send_reaches_no_pattern(world: World) -> None:
    bind(world, "any", "#")
    world.send("orders", b"1", routing_type=ANYCAST)
    assert world.ready("orders") == [b"1"]
    assert world.ready("any") == []


def test_patterns_that_come_and_go_are_asked_again(world: World) -> None:
    world.ok(c.CreateAddress("news.a", (MULTICAST,)))
    world.send("news.a", b"0")
    bind(world, "late", "news.*")
    world.send("news.a", b"1")
    world.ok(c.DeleteQueue("late", force=True))
    bind(world, "later", "news.#")
    world.ok(c.DeleteAddress("news.*"))
    world.send("news.a", b"2")
    assert world.ready("later") == [b"2"]
    found = [reasons.REASONS[each.reason][0] for each in world.events_named("Dropped")]
    assert found == ["no-binding"]
    world.check()


def test_filters_of_patterns_hold(world: World) -> None:
    bind(world, "big", "news.*", "kind=big")
    world.ok(c.CreateAddress("news.a", (MULTICAST,)))
    world.send("news.a", b"1", headers={"kind": "small"})
    world.send("news.a", b"2", headers={"kind": "big"})
    assert world.ready("big") == [b"2"]
    (dropped,) = world.events_named("Dropped")
    assert reasons.REASONS[dropped.reason][0] == "no-matching-filter"


def test_a_subscription_with_wildcards_gets_messages_of_every_version_of_its_life(
    world: World,
) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news.*", credit_messages=10)
    world.send("news.a", b"1", routing_type=MULTICAST)
    world.send("news.b", b"2", routing_type=MULTICAST)
    assert world.taken_bodies() == [b"1", b"2"]
    for delivery in list(world.deliveries):
        world.ack(consumer, delivery.message)
    world.check()


def test_a_durable_subscription_moves_from_a_pattern_to_another(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news.*", durable_name="d")
    world.detach(consumer)
    world.send("news.a", b"1", routing_type=MULTICAST)
    world.restart()
    connection = world.connect()
    world.attach(connection, "sport.#", durable_name="d", credit_messages=10)
    world.send("news.a", b"2", routing_type=MULTICAST)
    world.send("sport.a.b", b"3", routing_type=MULTICAST)
    assert world.taken_bodies() == [b"1", b"3"]
    # The first pattern has no queue any more: it went.
    assert "news.*" not in world.state.address_by_name
    world.check()


@pytest.mark.parametrize(
    "command",
    [
        c.Send(0, "news.*", b"", b"x"),
        c.Send(0, "news.*", b"", b"x", routing_type=MULTICAST),
        c.Send(0, "news.#", b"", b"x", queue="q"),
        c.CreateAddress("news.*", (ANYCAST,)),
        c.CreateAddress("news.#", (ANYCAST, MULTICAST)),
        c.CreateAddress("news.#more", (MULTICAST,)),
        c.CreateAddress("news.**", (MULTICAST,)),
        c.CreateAddress("news.{(}", (MULTICAST,)),
        c.CreateAddress("news.}*", (MULTICAST,)),
        c.CreateAddress("news.{a\nb}", (MULTICAST,)),
        c.CreateAddress("news.{" + "a" * 5_000 + "}", (MULTICAST,)),
        create_queue("q", "news.{a}", ANYCAST),
        create_queue("q", "news.*", ANYCAST),
        create_queue("news.*", "news.*", MULTICAST),
    ],
)
def test_what_makes_no_sense_is_refused(world: World, command: c.Command) -> None:
    bind(world, "there", "news.*")
    answer = world.handle(command)
    assert isinstance(answer, Refusal)
    assert answer.code is Code.INVALID
    assert any(each in answer.text for each in "*#{}")
    world.check()


def test_dead_letters_go_to_patterns_too(world: World) -> None:
    world.settings(**{"orders": {"max_delivery_attempts": 1, "dead_letter_address": "dead.orders"}})
    bind(world, "all-dead", "dead.#")
    connection = world.connect()
    consumer = world.attach(connection, "orders", credit_messages=1)
    world.send("orders", b"1")
    world.nack(consumer, world.deliveries[-1].message)
    assert world.ready("dead.orders") == world.ready("all-dead") == [b"1"]


def test_a_committed_transaction_counts_the_entries_of_patterns(world: World) -> None:
    world = World(max_transaction_entries=2)
    for number in range(1 << RECIPIENTS_SHIFT):
        bind(world, f"q{number}", "news.*" if number % 2 else "news.#")
    connection = world.connect()
    world.ok(c.Begin(connection, "t"))
    world.ok(c.Send(connection, "news.a", b"", b"x", None, transaction="t"))
    answer = world.handle(c.Send(connection, "news.a", b"", b"x", None, transaction="t"))
    assert isinstance(answer, Refusal)
    assert "max-transaction-entries" in answer.text


# ---- limits


def limited(world: World, policy: str) -> None:
    world.settings(**{"news.*": {"max_size_messages": 1, "address_full_policy": policy}})
    bind(world, "all", "news.*")
    bind(world, "own", "news.a")
    # The settings match the address too, but it is empty: the pattern is full.
    world.send("news.b", BODY, routing_type=MULTICAST)


def test_a_full_pattern_that_drops_does_so_for_its_own_queues(world: World) -> None:
    limited(world, "DROP")
    world.send("news.a", BODY, routing_type=MULTICAST)
    assert len(world.ready("all")) == 1
    assert world.ready("own") == [BODY]
    (dropped,) = world.events_named("Dropped")
    assert dropped.row[events.ADDRESS] == address_id(world, "news.*")
    assert reasons.REASONS[dropped.reason][0] == "max-size-messages"
    # Now both are full, and nobody takes it.
    world.send("news.a", BODY, routing_type=MULTICAST)
    assert names(world, "Dropped")[1:] == [address_id(world, "news.a"), address_id(world, "news.*")]
    world.check()


def test_a_full_address_that_drops_leaves_patterns_alone(world: World) -> None:
    world.settings(**{"news.a": {"max_size_messages": 0, "address_full_policy": "DROP"}})
    bind(world, "all", "news.*")
    bind(world, "own", "news.a")
    world.send("news.a", BODY, duplicate_id="1")
    assert world.ready("all") == [BODY]
    assert world.ready("own") == []
    # It arrived somewhere, so the same again is a duplicate.
    world.send("news.a", BODY, duplicate_id="1")
    assert world.ready("all") == [BODY]


def test_what_is_dropped_everywhere_may_be_sent_again(world: World) -> None:
    world.settings(**{"news.#": {"max_size_messages": 0, "address_full_policy": "DROP"}})
    bind(world, "all", "news.*")
    bind(world, "own", "news.a")
    world.send("news.a", BODY, duplicate_id="1")
    world.settings()
    world.send("news.a", BODY, duplicate_id="1")
    assert world.ready("all") == world.ready("own") == [BODY]


def test_a_full_pattern_fails_senders_to_what_it_matches(world: World) -> None:
    limited(world, "FAIL")
    answer = world.handle(c.Send(0, "news.a", b"", BODY, routing_type=MULTICAST))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.LIMIT
    assert "address 'news.*' is full" in answer.text
    assert world.ready("own") == []


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_full_pattern_blocks_senders_until_there_is_room(
    world: World, in_transaction: bool
) -> None:
    limited(world, "BLOCK")
    connection = world.connect()
    command: c.Command = c.Send(connection, "news.a", b"", BODY, routing_type=MULTICAST)
    if in_transaction:
        world.ok(c.Begin(connection, "t"))
        world.ok(c.Send(connection, "news.a", b"", BODY, MULTICAST, transaction="t"))
        command = c.Commit(connection, "t")
    answer = world.handle(command)
    assert isinstance(answer, Refusal)
    assert answer.code is Code.BLOCKED
    assert world.broker.room.waiting.address_of((connection, 0)) == "news.*"
    assert capacity.next_in_line(world.broker, "news.*") is None
    world.ok(c.PurgeQueue("all"))
    assert capacity.next_in_line(world.broker, "news.*") == (connection, 0)
    world.ok(command)
    assert world.ready("all") == world.ready("own") == [BODY]
    assert world.broker.room.waiting.address_of((connection, 0)) is None
    world.check()


def test_a_pattern_pages_alone_and_has_bodies_journaled(world: World) -> None:
    world.settings(**{"news.*": {"max_size_messages": 1}, "news.a": {"max_size_messages": -1}})
    bind(world, "all", "news.*")
    bind(world, "own", "news.a")
    for number in range(3):
        world.send("news.a", b"%d" % number, persistent=False)
    paging = [a.name for a in world.state.addresses.values() if a.paging]
    assert paging == ["news.*"]
    routed = world.events_named("Routed")
    assert [each.body for each in routed] == [b"", b"1", b"2"]
    assert world.broker.room.sizes.bytes == 3 * (SIZE - len(BODY) + 1)


# ---- what exists


def test_a_pattern_made_on_demand_ends_with_its_last_queue(world: World) -> None:
    connection = world.connect()
    first = world.attach(connection, "news.*")
    second = world.attach(connection, "news.*")
    world.detach(first)
    assert "news.*" in world.state.address_by_name
    world.detach(second)
    assert "news.*" not in world.state.address_by_name
    assert world.broker.wildcards.nodes == 0
    world.check()


def test_a_pattern_made_by_command_stays(world: World) -> None:
    world.ok(c.CreateAddress("news.*", (MULTICAST,)))
    connection = world.connect()
    world.detach(world.attach(connection, "news.*"))
    world.restart()
    assert world.state.address_by_name["news.*"].is_wildcard


def test_a_pattern_without_subscriptions_does_not_outlive_a_restart(world: World) -> None:
    world.attach(world.connect(), "news.*")
    world.restart()
    assert "news.*" not in world.state.address_by_name
    assert world.broker.wildcards.nodes == 0
    world.check()


def test_a_pattern_waits_for_queues_that_are_being_emptied(world: World) -> None:
    world.attach(world.connect(), "news.*", durable_name="d")
    for number in range(200):
        world.send("news.a", b"%d" % number, routing_type=MULTICAST)
    world.restart()
    consumer = world.attach(world.connect(), "news.*")
    world.broker.budget.allow(10)
    world.ok(c.DeleteSubscription("d"))
    assert world.broker.has_more
    world.detach(consumer)
    assert "news.*" in world.state.address_by_name
    while world.broker.has_more:
        world.broker.budget.allow(10)
        world.broker.go_on(world.now)
        world.check()
    assert "news.*" not in world.state.address_by_name


def test_an_address_whose_messages_a_pattern_holds_is_not_deleted_by_mistake(world: World) -> None:
    bind(world, "all", "news.*")
    world.send("news.a", BODY, routing_type=MULTICAST)
    answer = world.handle(c.DeleteAddress("news.a"))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.NOT_ALLOWED
    assert "queue 'all' of address 'news.*' holds messages" in answer.text
    world.ok(c.DeleteAddress("news.a", force=True))
    assert world.ready("all") == [BODY]
    world.check()


def test_deleting_a_pattern_by_command_deletes_its_queues(world: World) -> None:
    world.attach(world.connect(), "news.*", durable_name="d")
    world.restart()
    world.ok(c.DeleteAddress("news.*", force=True))
    assert "dsub.d" not in world.state.queue_by_name
    assert "news.*" not in world.state.address_by_name
    world.check()


def test_an_address_is_not_deleted_before_a_queue_that_is_being_deleted(world: World) -> None:
    connection = world.connect()
    consumer = world.attach(connection, "news", routing_type=MULTICAST, credit_messages=200)
    for number in range(200):
        world.send("news", b"%d" % number, routing_type=MULTICAST)
    world.broker.budget.allow(60)
    assert world.handle(c.Detach(consumer)) == UNFINISHED
    assert world.handle(c.DeleteAddress("news", force=True)) == UNFINISHED
    world.turn()
    world.broker.budget.allow(1000)
    world.ok(c.Detach(consumer))
    while world.broker.has_more:
        world.broker.go_on(world.now)
    world.ok(c.DeleteAddress("news", force=True))
    world.check()


# ---- words that match in part


def test_words_that_match_in_part_are_found_after_a_restart_too(world: World) -> None:
    patterns = ("price.*.I*", "price.*.*{[0-9]}", "price.#.IBM", "price.{NYSE|.*Q}.#", "{p.*e}")
    for number, pattern in enumerate(patterns):
        bind(world, f"q{number}", pattern)
    for _ in range(2):
        world.send("price.NYSE.IBM", b"1", routing_type=MULTICAST)
        world.send("price.TOKYO.X7", b"2", routing_type=MULTICAST)
        world.send("price.a.b.IBM", b"3", routing_type=MULTICAST)
        world.send("price", b"4", routing_type=MULTICAST)
        assert [world.ready(f"q{number}") for number in range(5)] == [
            [b"1"], [b"2"], [b"1", b"3"], [b"1"], [b"4"],
        ]  # fmt: skip
        for number in range(5):
            world.ok(c.PurgeQueue(f"q{number}"))
        world.restart()
    world.check()


def test_clients_have_so_many_words_that_match_in_part(world: World) -> None:
    def peer_of(user: int) -> int:
        return world.ok(c.OpenConnection("stomp", "p", f"user{user}"))

    def fill(pool: Pool, text: str) -> None:
        """Take all of a pool, as so many users and connections as that takes."""
        assert isinstance(pool.of_connection, int)
        assert isinstance(pool.of_all, int)
        number = 0
        for place in range(pool.of_all):
            if not place % pool.of_connection:
                number = peer_of(place // pool.of_connection)
            address = f"{place}.{text}"
            world.attach(number, address, routing_type=MULTICAST, subscription=str(place))

    fill(REGEXES, "{a}")
    peer = peer_of(1000)
    command = c.Attach(peer, "a.{b}", routing_type=MULTICAST, subscription="b")
    refusal = world.refused(command)
    assert refusal.code is Code.LIMIT
    assert "have 100 regular expressions in names of subscriptions, and the" in refusal.text
    # Whole words have no such limit, neither has the configuration.
    world.attach(peer, "a.*", routing_type=MULTICAST, subscription="whole")
    world.ok(c.CreateAddress("a.{c}", (MULTICAST,)))
    for number in range(100):
        world.ok(c.CreateAddress(f"b.{number}*", (MULTICAST,)))
    assert world.broker.pattern_charges.parts.of("", 0) == (0, 0)
    for connection in list(world.state.connections):
        world.close(connection)
    assert not world.broker.pattern_charges.parts.of_user
    peer = peer_of(1000)
    world.ok(c.DeleteAddress("a.{c}"))
    world.attach(peer, "a.b*.{c}", routing_type=MULTICAST)


def test_a_name_costs_what_it_is_compared_with(world: World) -> None:
    for number in range(400):
        world.ok(c.CreateAddress(f"{number}*.x", (MULTICAST,)))
    before = world.broker.budget.spent
    world.send("name.x", b"", routing_type=MULTICAST)
    assert world.broker.budget.spent - before >= 400 >> VISITED_SHIFT
