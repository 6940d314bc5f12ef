"""Queues that are created for messages that were not delivered, expired, or found no queue."""

from daybook.engine.commands import CreateAddress, DeleteUnused, ExpireDue, PurgeQueue
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.headers import as_dict
from daybook.engine.names import names
from daybook.engine.refusals import Code
from daybook.engine.routing.dead_letter_addresses import Resources, origin_filter, queue_name
from daybook.engine.settings.settings import Settings
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.deaths import other_headers

SEGREGATED = {
    "max_delivery_attempts": 1,
    "dead_letter_address": "DLA",
    "auto_create_dead_letter_resources": True,
}
EXPIRING = {"expiry_address": "late", "auto_create_expiry_resources": True}
UNROUTED = {"dead_letter_address": "DLA", "send_to_dla_on_no_route": True}


def killed(world: World, address: str, body: bytes = b"x", **values: object) -> None:
    """A message whose only attempt fails."""
    world.send(address, body, **values)
    connection = world.connect()
    consumer = world.attach(connection, address)
    for delivery in world.taken(consumer):
        world.nack(consumer, delivery.message)
    world.close(connection)


def test_dead_letters_are_segregated_by_their_address(world: World) -> None:
    world.settings(all=SEGREGATED)
    for address in ("stocks", "orders", "stocks"):
        killed(world, address, address.encode())
    assert world.bodies("DLQ.stocks") == [b"stocks", b"stocks"]
    assert world.bodies("DLQ.orders") == [b"orders"]
    created = world.queue("DLQ.stocks")
    assert (created.address.name, created.definition.routing_type) == ("DLA", MULTICAST)
    assert created.definition.filter == "_AMQ_ORIG_ADDRESS = 'stocks'"
    assert "DLA" not in world.state.queue_by_name
    world.restart()
    killed(world, "stocks", b"later")
    assert world.bodies("DLQ.stocks")[-1] == b"later"
    world.check()


def test_expired_messages_are_segregated_with_prefix_and_suffix(world: World) -> None:
    world.settings(all=EXPIRING | {"expiry_queue_prefix": "", "expiry_queue_suffix": ".EXP"})
    world.send("stocks", b"old", expires=world.now // 1000 + 10)
    world.sleep(1)
    world.ok(ExpireDue())
    (entry,) = world.entries("stocks.EXP")
    headers = as_dict(entry.message.headers)
    assert headers["_AMQ_ORIG_ADDRESS"] == headers["_AMQ_ORIG_QUEUE"] == "stocks"
    assert headers["_AMQ_ACTUAL_EXPIRY"] == str(world.now // 1000)
    assert "_AMQ_ORIG_MESSAGE_ID" in headers
    world.check()


def test_what_came_through_a_wildcard_is_of_the_address_it_was_sent_to(world: World) -> None:
    world.settings(all=SEGREGATED)
    connection = world.connect()
    consumer = world.attach(connection, "news.*", durable_name="d", routing_type=MULTICAST)
    world.send("news.eu", b"x", routing_type=MULTICAST)
    world.nack(consumer, world.taken(consumer)[0].message)
    assert world.bodies("DLQ.news.eu") == [b"x"]


def test_an_anycast_dead_letter_address_gets_the_queue_besides_its_own(world: World) -> None:
    world.ok(create_queue("DLQ", "DLA"))
    world.settings(all=SEGREGATED)
    killed(world, "q")
    assert world.bodies("DLQ") == world.bodies("DLQ.q") == [b"x"]
    assert world.state.address_by_name["DLA"].definition.routing_types == (ANYCAST, MULTICAST)


def test_a_name_that_somebody_took_before_holds_the_message(world: World) -> None:
    world.ok(create_queue("DLQ.q", "elsewhere"))
    world.settings(all=SEGREGATED)
    killed(world, "q")
    assert world.held("q") == [b"x"]
    (held,) = world.events_named("Held")
    assert held.decoded.text == "queue 'DLQ.q' is on address 'elsewhere', not on 'DLA'"


def test_the_names_are_kept_for_them(world: World) -> None:
    world.settings(all=SEGREGATED | EXPIRING | {"expiry_address": "late"})
    for name, address in (("DLQ.q", "DLQ.q"), ("EXP.q", "x")):
        refusal = world.refused(create_queue(name, address))
        assert refusal.code is Code.NOT_ALLOWED
        assert f"'{name}'" in refusal.text
    world.ok(create_queue("DLQ.q", "DLA", MULTICAST))
    world.settings()
    world.ok(create_queue("EXP.q", "EXP.q"))


def test_which_names_are_kept_is_decided_by_the_address_of_origin() -> None:
    settings = Settings(
        {
            "#": {"dead-letter-address": "DLA", "dead-letter-queue-prefix": "dead."},
            "orders.#": {"auto-create-dead-letter-resources": True},
            "orders.eu": {"dead-letter-queue-prefix": "", "dead-letter-queue-suffix": "!"},
        }
    )
    assert settings.kept_for("dead.orders.us") == "DLA"
    assert settings.kept_for("orders.eu!") == "DLA"
    for name in ("dead.other", "DLQ.orders.us", "dead.orders.eu", "dead.", "orders.us"):
        assert settings.kept_for(name) == ""


def test_they_go_like_all_that_is_created_by_being_used(world: World) -> None:
    world.settings(all=SEGREGATED)
    killed(world, "q")
    world.ok(DeleteUnused())
    assert set(world.state.queue_by_name) == {"DLQ.q"}
    world.ok(PurgeQueue("DLQ.q"))
    world.ok(DeleteUnused())
    assert not world.state.queue_by_name
    assert not world.state.address_by_name


def test_quotes_and_long_names_are_right_in_filter_and_name(world: World) -> None:
    quoted = "it's-'quoted'"
    world.settings(all=SEGREGATED)
    long = "'" * names.NAME_BYTES_MAX
    umlauts = "ä" * (names.NAME_BYTES_MAX // 2)
    for address in (quoted, long, umlauts):
        killed(world, address, address[:5].encode())
        (queue,) = (
            each
            for each in world.state.queue_by_name.values()
            if each.definition.filter == origin_filter(address)
        )
        assert world.bodies(queue.name) == [address[:5].encode()]
        assert names.wrong_with(queue.name) is None
        (entry,) = world.entries(queue.name)
        matches = compile_filter(queue.definition.filter, lambda _: None).matches
        assert matches(entry.message)
        killed(world, address, b"again")
        assert world.bodies(queue.name)[1] == b"again"
    world.restart()
    world.check()


def test_without_prefix_and_suffix_there_is_no_queue_for_each_address(world: World) -> None:
    world.settings(all=SEGREGATED | {"dead_letter_queue_prefix": ""})
    killed(world, "q")
    assert world.bodies("DLA") == [b"x"]


def test_names_that_may_be_cut_ones_are_kept(world: World) -> None:
    world.settings(all=SEGREGATED)
    name = queue_name(Resources(True, "DLQ.", ""), "x" * names.NAME_BYTES_MAX)
    assert "kept for messages" in world.refused(create_queue(name, "x")).text
    world.ok(create_queue("x" * names.NAME_BYTES_MAX, "x"))
    world.settings()
    world.ok(create_queue(name, "x"))


def test_names_that_are_cut_differ() -> None:
    resources = Resources(True, "p.", ".s")
    first = queue_name(resources, "x" * 4095 + "1")
    second = queue_name(resources, "x" * 4095 + "2")
    assert first != second
    assert names.length(first) == names.length(second) == names.NAME_BYTES_MAX
    assert first.startswith("p.xxx")
    assert first.endswith(".s")
    assert queue_name(resources, "x" * 4092) == "p." + "x" * 4092 + ".s"


# ---- messages that no queue takes


def test_what_no_queue_takes_is_a_dead_letter_where_settings_say_so(world: World) -> None:
    world.settings(all=UNROUTED)
    lsn = world.send("news", b"x", routing_type=MULTICAST, headers={"k": "1"}, duplicate_id="1")
    (routed,) = world.events_named("Routed")
    assert (routed.reason, routed.lsn <= lsn) == (reasons.NO_ROUTE, True)
    (entry,) = world.entries("DLA")
    assert other_headers(entry.message.headers) == {
        "k": "1", "_AMQ_ORIG_ADDRESS": "news", "_AMQ_ORIG_QUEUE": "",
        "_AMQ_ORIG_ROUTING_TYPE": "1",
    }  # fmt: skip
    world.send("news", b"x", routing_type=MULTICAST, duplicate_id="1")
    assert world.bodies("DLA") == [b"x"]
    world.restart()
    world.check()
    assert world.bodies("DLA") == [b"x"]


def test_what_no_filter_takes_goes_there_too_by_its_own_queue(world: World) -> None:
    world.ok(create_queue("picky", "q", filter="kind=big"))
    world.settings(all=UNROUTED | SEGREGATED)
    world.send("q", b"small")
    world.send("q", b"big", headers={"kind": "big"})
    assert (world.bodies("DLQ.q"), world.bodies("picky")) == ([b"small"], [b"big"])


def test_it_goes_there_once(world: World) -> None:
    world.ok(CreateAddress("DLA", (MULTICAST,)))
    world.ok(create_queue("picky", "DLA", MULTICAST, filter="kind=big"))
    world.settings(all=UNROUTED | {"auto_create_addresses": False})
    world.ok(CreateAddress("news", (MULTICAST,)))
    for address in ("news", "DLA"):
        world.send(address, b"x", routing_type=MULTICAST)
    assert [event.reason for event in world.events_named("Dropped")] == [
        reasons.NO_BINDING,
        reasons.NO_MATCHING_FILTER,
    ]
    assert not world.events_named("Routed")


def test_in_a_transaction_and_large_ones_too(world: World) -> None:
    world.settings(all=UNROUTED)
    connection = world.connect()
    world.begin(connection)
    world.send("news", b"t", connection, routing_type=MULTICAST, transaction="t")
    world.commit(connection)
    world.send_large("news", [b"a" * 10, b"b" * 10], connection, routing_type=MULTICAST)
    first, second = world.entries("DLA")
    assert first.message.body == b"t"
    assert world.large_body(second.message) == b"a" * 10 + b"b" * 10
    world.restart()
    world.check()


def test_a_full_dead_letter_address_drops_them(world: World) -> None:
    world.settings(all=UNROUTED, DLA={"max_size_messages": 1, "address_full_policy": "DROP"})
    for _ in range(3):
        world.send("news", b"x", routing_type=MULTICAST)
    assert world.bodies("DLA") == [b"x"]
    assert len(world.events_named("Dropped")) == 2
