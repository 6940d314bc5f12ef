"""Subscriptions to several queues: one credit, one order, all parts or none."""

import pytest

from daybook.engine import commands as c
from daybook.engine.effects import Settled
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.settlements import BY_GRANT, FAILED, REJECTED, UNMETERED
from daybook.engine.names.names import qualified
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from tests.support.compiled import replaces_parts
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.hosts import HOSTS, OTHER

ABC = ("a", "b", "/c")


@pytest.fixture(params=[World, lambda: PagedWorld(window=1, lag=2)], ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    """A world, and one that keeps almost nothing in memory."""
    made: World = request.param()
    return made


def part(connection: int, address: str, **values: object) -> c.Attach:
    values.setdefault("routing_type", ANYCAST)
    return c.Attach(connection, address, **values)  # type: ignore[arg-type]


def fill(world: World, *names: str) -> list[int]:
    """Send a message to each, with its name and a number as its body."""
    return [
        world.send(name, b"%b%d" % (name.encode(), number)) for number, name in enumerate(names)
    ]


def test_one_subscription_takes_from_all(world: World) -> None:
    world.send("a", b"before")
    bundle = world.attach_all(world.connect(), *ABC)
    fill(world, "b", "c", "a")
    assert world.taken_bodies() == [b"before", b"b0", b"c1", b"a2"]
    attached = world.events_named("ConsumerAttached")
    assert [each.row[10] for each in attached] == [bundle] * 3
    opened = world.events_named("BundleOpened")[0].decoded
    assert opened.destinations == ("a", "b", "c")
    world.check()


def test_an_acknowledgement_names_the_subscription_and_the_message(world: World) -> None:
    bundle = world.attach_all(world.connect(), *ABC)
    sent = fill(world, "a", "b", "c")
    world.ack(bundle, sent[1])
    assert (world.bodies("a"), world.bodies("b")) == ([b"a0"], [])
    assert "is not in flight to subscription ''" in world.refused(c.Settle(bundle, sent[1])).text
    world.nack(bundle, sent[0])
    assert world.counts("a") == {b"a0": 2}
    assert world.taken_bodies()[-1] == b"a0"
    world.check()


def test_a_cumulative_acknowledgement_is_by_the_order_of_deliveries(world: World) -> None:
    bundle = world.attach_all(world.connect(), *ABC)
    sent = fill(world, "b", "c", "a", "b", "a")
    world.ack(bundle, sent[2], cumulative=True)
    assert (world.bodies("a"), world.bodies("b")) == ([b"a4"], [b"b3"])
    world.check()
    world.ack(bundle, sent[4], cumulative=True)
    assert world.bodies("a") == world.bodies("b") == []


def test_a_cumulative_acknowledgement_in_slices_ends_in_order(world: World) -> None:
    bundle = world.attach_all(world.connect(), "a", "b")
    sent = fill(world, *("a", "b") * 80)
    world.broker.budget.allow(0)
    first = world.handle(c.Settle(bundle, sent[-1], cumulative=True))
    assert first is UNFINISHED
    world.turn()
    left = len(world.bodies("a")), len(world.bodies("b"))
    assert left[0] == left[1] < 80
    while world.handle(c.Settle(bundle, sent[-1], cumulative=True)) is UNFINISHED:
        world.turn()
    assert world.bodies("a") == world.bodies("b") == []
    world.broker.budget.allow(1000)
    world.check()


def test_credit_is_shared(world: World) -> None:
    bundle = world.attach_all(world.connect(), "a", "b", credit_messages=2, credit_bytes=0)
    sent = fill(world, "a", "b", "a", "b", "b")
    assert world.taken_bodies() == [b"a0", b"b1"]
    world.ack(bundle, sent[0])
    world.ack(bundle, sent[1])
    assert world.taken_bodies() == [b"b3", b"a2"]
    world.check()


def test_a_queue_that_waits_has_its_turn(world: World) -> None:
    """A queue with a backlog does not keep the credit for itself."""
    bundle = world.attach_all(world.connect(), "a", "b", "d", credit_messages=1, credit_bytes=0)
    fill(world, *"a" * 9, "b", "d")
    taken = []
    for _ in range(5):
        (delivery,) = world.taken()
        taken.append(delivery.body)
        world.ack(bundle, delivery.message)
    assert taken == [b"a0", b"a1", b"b9", b"d10", b"a2"]
    world.check()


def test_a_window_of_bytes_is_shared(world: World) -> None:
    bundle = world.attach_all(world.connect(), "a", "b", credit_messages=0, credit_bytes=3)
    sent = fill(world, "a", "b", "a")
    assert world.taken_bodies() == [b"a0", b"b1"]
    world.ack(bundle, sent[0])
    assert world.taken_bodies() == [b"a2"]


def test_credit_by_grant_and_without_any(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(
        connection, "a", "b", acknowledges=False, credit_policy=BY_GRANT, credit_messages=1,
        credit_bytes=0,
    )  # fmt: skip
    fill(world, "a", "b", "b")
    assert world.taken_bodies() == [b"a0"]
    world.credit(bundle, 1)
    assert world.taken_bodies() == [b"b1"]
    world.detach(bundle)
    world.attach_all(connection, "a", "b", acknowledges=False, credit_policy=UNMETERED)
    assert world.taken_bodies() == [b"b2"]
    assert world.bodies("a") == world.bodies("b") == []
    world.check()


def test_a_message_that_came_by_two_ways_is_two_deliveries(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "/n.x", "/n.*", credit_messages=2, credit_bytes=0)
    sent = world.send("n.x", b"m", routing_type=MULTICAST)
    assert [each.message for each in world.taken()] == [sent, sent]
    world.ack(bundle, sent)
    world.check()
    world.ack(bundle, sent, cumulative=True)
    world.refused(c.Settle(bundle, sent))
    other = world.send("n.x", b"o", routing_type=MULTICAST)
    world.begin(connection)
    world.ack(bundle, other, transaction="t")
    world.ack(bundle, other, transaction="t")
    world.commit(connection)
    world.refused(c.Settle(bundle, other))
    world.check()


def test_in_a_transaction(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(
        connection, *ABC, credit_messages=3, credit_bytes=0, credits_early=True
    )
    sent = fill(world, "a", "b", "c", "a")
    world.begin(connection)
    world.ack(bundle, sent[1], cumulative=True, transaction="t")
    # It gives credit without consuming.
    assert [each.body for each in world.taken()] == [b"a0", b"b1", b"c2", b"a3"]
    assert "was settled in transaction 't'" in world.refused(c.Settle(bundle, sent[0])).text
    world.abort(connection)
    world.check()
    world.begin(connection)
    world.ack(bundle, sent[3], cumulative=True, transaction="t")
    world.restart()
    assert len(world.bodies("a")) == 2
    connection = world.connect()
    bundle = world.attach_all(connection, *ABC)
    sent = [each.message for each in world.taken()]
    world.begin(connection)
    world.ack(bundle, sent[-1], cumulative=True, transaction="t")
    before = len(world.journal)
    world.commit(connection)
    assert world.names_since(before) == ["Acknowledged"] * len(sent) + ["TransactionCommitted"]
    world.check()


def test_a_transaction_is_lost_with_a_part(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "a", "b")
    sent = fill(world, "a", "b")
    world.begin(connection)
    world.ack(bundle, sent[1], cumulative=True, transaction="t")
    world.detach(bundle)
    refusal = world.handle(c.Commit(connection, "t"))
    assert isinstance(refusal, Refusal)
    assert "ended before the commit" in refusal.text
    world.check()
    assert (world.bodies("a"), world.bodies("b")) == ([b"a0"], [b"b1"])


def test_after_a_rollback_a_delivery_of_a_deleted_queue_can_be_settled_again(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "p.*")
    fill(world, "p.a", "p.b")
    first, _ = (each.message for each in world.taken())
    world.ok(c.DeleteQueue("p.a", force=True))
    world.begin(connection)
    world.ack(bundle, first, transaction="t")
    world.abort(connection)
    # It means nothing, once.
    world.ack(bundle, first)
    assert world.refused(c.Settle(bundle, first)).code is Code.NOT_FOUND
    world.check()


def test_it_ends_as_a_whole(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, *ABC)
    fill(world, "a", "b")
    before = len(world.journal)
    world.detach(bundle)
    names = world.names_since(before)
    assert names.count("ConsumerDetached") == 3
    assert names.index("BundleClosed") > names.index("ConsumerDetached")
    assert (world.ready("a"), world.ready("b")) == ([b"a0"], [b"b1"])
    assert world.refused(c.Detach(bundle)).code is Code.NOT_FOUND
    assert not world.broker.bundles
    assert not world.state.connections[connection].bundles
    world.check()


def test_it_ends_in_slices_and_with_its_connection(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "a", "b")
    fill(world, *("a", "b") * 80)
    world.broker.budget.allow(0)
    assert world.handle(c.Detach(bundle)) is UNFINISHED
    world.turn()
    while world.handle(c.Detach(bundle)) is UNFINISHED:
        world.turn()
    world.broker.budget.allow(10_000)
    world.attach_all(connection, "a", "b.*", "b")
    world.close(connection, reasons.DISCONNECTED)
    assert not world.broker.bundles
    assert not world.broker.wildcard_subscriptions.count
    assert len(world.ready("a")) == 80
    world.check()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"address": "b*"}, "is not a name"),
        ({"address": "temp.default.999.x"}, "only that one can"),
        ({"address": "b", "from_sequence": 0}, "from-seq cannot be used"),
        ({"address": "b", "no_local": True}, "no-local is for subscriptions to topics"),
        ({"address": "x", "durable_name": "d", "routing_type": MULTICAST}, "several destinations"),
        ({"address": "a", "queue": "a"}, "are the queue 'a'"),
        ({"address": "other", "queue": "full"}, "is on address 'full'"),
        ({"address": "full"}, "max-consumers"),
        ({"address": "#.x{["}, "is not a pattern"),
        ({"address": "b.*", "no_local": True}, "no-local is for"),
    ],
)
def test_all_parts_or_none(world: World, wrong: dict[str, object], said: str) -> None:
    connection = world.connect()
    world.ok(create_queue("full", "full", ANYCAST, max_consumers=0))
    if wrong["address"] == "b*":
        wrong = {"address": "b*", "queue": "b*"}
    parts = [part(connection, "a"), part(connection, **wrong)]  # type: ignore[arg-type]
    refusal = world.refused(c.AttachAll(connection, parts))
    assert said in refusal.text
    assert "a" not in world.state.queue_by_name
    assert not world.state.consumers
    world.refused(c.AttachAll(99, parts))
    world.refused(c.AttachAll(connection, [part(connection, "a", filter="nonsense")]))


def test_a_part_that_makes_a_topic_is_seen_by_the_next(world: World) -> None:
    """Browsing a topic is refused, also where the same subscription would make it one."""
    connection = world.connect()
    parts = [
        part(connection, "news", queue="extra", routing_type=MULTICAST, browses=True),
        part(connection, "news", routing_type=None, browses=True),
    ]
    assert "is a topic" in world.refused(c.AttachAll(connection, parts)).text
    assert not world.state.queues
    world.check()


def test_the_limit_of_queues_counts_all_parts() -> None:
    world = World(max_queues_per_user=1)
    connection = world.connect()
    parts = [part(connection, "a"), part(connection, "b")]
    assert "max-queues-per-user" in world.refused(c.AttachAll(connection, parts)).text
    world.check()


def test_what_the_check_did_not_foresee_leaves_nothing_attached(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "daybook.engine.consumers.bundle_subscriptions._check", lambda core, command: None
    )
    connection = world.connect()
    world.ok(create_queue("full", "full", ANYCAST, max_consumers=0))
    parts = [part(connection, "a"), part(connection, "full")]
    assert isinstance(world.handle(c.AttachAll(connection, parts)), Refusal)
    assert not world.state.consumers
    assert not world.broker.bundles
    world.check()


def test_filters_and_priorities_are_those_of_all_parts(world: World) -> None:
    connection = world.connect()
    for name in ("a", "b", "c"):
        for kind in ("big", "small"):
            if name != "c":
                world.send(name, b"%b-%b" % (name.encode(), kind.encode()), headers={"kind": kind})
    world.attach_all(connection, *ABC, filter="kind=big", priority=3, exclusive=True)
    assert world.taken_bodies() == [b"a-big", b"b-big"]
    world.attach(connection, "a")
    assert world.taken_bodies() == []
    world.send("c", b"c", headers={"kind": "big"})
    world.send("c", b"no", headers={"kind": "small"})
    assert world.taken_bodies() == [b"c"]
    world.check()


def test_holders_in_a_connection_that_settles_by_messages(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "a", "b", settles_by_message=True)
    sent = fill(world, "b")
    assert world.broker.holders(connection, sent[0]) == [bundle]
    found = world.broker.consumer_of(bundle, sent[0])
    assert found is not None
    assert found.queue.name == "b"
    assert world.broker.consumer_of(found.id, sent[0]) is found
    world.ack(bundle, sent[0])
    assert world.broker.holders(connection, sent[0]) == []
    assert world.broker.consumer_of(bundle, sent[0]) is None


def test_rejected_and_dead_lettered_across_queues(world: World) -> None:
    world.settings(all={"dead-letter-address": "dead"})
    bundle = world.attach_all(world.connect(), "a", "b")
    sent = fill(world, "a", "b")
    world.ok(c.Settle(bundle, sent[1], True, None, REJECTED))
    assert world.bodies("dead") == [b"a0", b"b1"]
    sent = fill(world, "a", "b")
    world.ok(c.Settle(bundle, sent[1], True, None, FAILED))
    assert world.counts("a") == {b"a0": 2}
    world.check()


# ---- browsers


def test_a_browser_reads_all_and_is_told_once(world: World) -> None:
    fill(world, "a", "b", "a")
    connection = world.connect()
    bundle = world.attach_all(connection, "a", "b", browses=True, credit_messages=2, credit_bytes=0)
    read = [each for each in world.taken()]
    assert sorted(each.body for each in read) == [b"a0", b"a2"]
    for each in read:
        world.ack(bundle, each.message)
    (last, end) = world.taken()
    assert (last.body, end.message) == (b"b1", 0)
    world.ack(bundle, last.message)
    assert not world.state.consumers
    assert not world.broker.bundles
    assert world.events_named("BundleClosed")
    assert (world.bodies("a"), world.bodies("b")) == ([b"a0", b"a2"], [b"b1"])
    world.check()


def test_a_browser_of_a_pattern(world: World) -> None:
    connection = world.connect()
    world.attach_all(connection, "p.*", browses=True)
    (end,) = world.taken()
    assert end.message == 0
    assert not world.broker.bundles
    fill(world, "p.a", "p.b")
    world.attach_all(connection, "p.*", browses=True, acknowledges=False)
    assert [each.body for each in world.taken()] == [b"p.a0", b"p.b1", b""]
    assert not world.state.consumers
    world.attach_all(connection, "p.*", browses=True, listens=True, acknowledges=False)
    fill(world, "p.a", "p.c")
    assert [each.body for each in world.taken()] == [b"p.a0", b"p.b1", b"p.a0", b"p.c1"]
    world.ok(c.DeleteQueue("p.b", force=True))
    assert world.taken() == []
    world.check()


def test_a_listening_browser_is_told_when_its_queues_are_gone(world: World) -> None:
    fill(world, "a", "b")
    connection = world.connect()
    world.attach_all(connection, "a", "b", browses=True, listens=True, acknowledges=False)
    world.taken()
    world.ok(c.DeleteQueue("a", force=True))
    assert world.taken() == []
    world.ok(c.DeleteQueue("b", force=True))
    (end,) = world.taken()
    assert end.message == 0
    assert not world.broker.bundles
    world.check()


# ---- patterns of queues


def test_a_pattern_finds_queues_now_and_later(world: World) -> None:
    fill(world, "p.a", "q.a")
    bundle = world.attach_all(world.connect(), "p.#")
    assert world.taken_bodies() == [b"p.a0"]
    fill(world, "p.b", "q.b", "p.b", "p")
    assert world.taken_bodies() == [b"p.b0", b"p.b2", b"p3"]
    world.ok(create_queue("other", "p.c", ANYCAST))
    fill(world, "p.c")
    taken = world.taken()
    assert [each.body for each in taken] == [b"p.c0"]
    world.ack(bundle, taken[0].message, cumulative=True)
    assert world.bodies("p.a") == world.bodies("p.b") == world.bodies("other") == []
    assert world.ready("q.a") == [b"q.a1"]
    world.check()


def test_a_pattern_does_not_find_what_is_no_queue_for_all(world: World) -> None:
    world.settings(all={"retroactive-message-count": 2})
    connection = world.connect()
    world.attach_all(connection, "#")
    other = world.connect()
    world.attach(other, f"temp.default.{other}.x", routing_type=ANYCAST)
    world.attach(other, "news", routing_type=MULTICAST)
    world.send(f"temp.default.{other}.x", b"t")
    world.send("news", b"n")
    taken = world.taken()
    own = {number for number, each in world.state.consumers.items() if each.connection_id == other}
    assert {each.consumer for each in taken} == own
    world.send("orders", b"o")
    (delivery,) = world.taken()
    assert world.state.consumers[delivery.consumer].connection_id == connection
    world.check()


def test_a_queue_that_is_deleted_leaves(world: World) -> None:
    connection = world.connect()
    bundle = world.attach_all(connection, "p.*", "fixed")
    fill(world, "p.a", "fixed")
    assert "has 1 consumers" in world.refused(c.DeleteQueue("fixed", force=True)).text
    assert "is not empty (messages: 1)" in world.refused(c.DeleteQueue("p.a")).text
    world.ok(c.DeleteQueue("p.a", force=True))
    assert len(world.broker.bundles[bundle].members) == 1
    world.ok(c.DeleteAddress("p.a", force=True))
    fill(world, "p.a")
    assert world.taken_bodies()[-1] == b"p.a0"
    world.ok(c.DeleteAddress("p.a", force=True))
    world.check()


def test_at_most_so_many_queues(world: World) -> None:
    bundle = world.attach_all(world.connect(), "p.*", queues_max=2)
    fill(world, "p.a", "p.b", "p.c", "p.d")
    assert world.taken_bodies() == [b"p.a0", b"p.b1"]
    assert len([each for each in world.broker.notices if "max-wildcard-queues" in each]) == 1
    world.ok(c.DeleteQueue("p.a", force=True))
    assert world.taken_bodies() == [b"p.c2"]
    assert len(world.broker.bundles[bundle].members) == 2
    world.check()


def test_what_its_user_may_not_consume_is_left_out(world: World) -> None:
    rules = {name: ("*",) for name in PERMISSIONS}
    barred = {name: who for name, who in rules.items() if name != "consume"}
    world.broker.permit(Permissions({"#": rules, "p.b": barred}))
    world.broker.let_wildcards_follow()
    world.attach_all(world.connect(), "p.*", credit_messages=1, credit_bytes=0)
    fill(world, "p.a", "p.b")
    assert world.taken_bodies() == [b"p.a0"]
    world.broker.permit(Permissions({"#": rules, "p.a": barred}))
    world.broker.let_wildcards_follow()
    world.turn()
    assert world.taken_bodies() == [b"p.b1"]
    assert world.ready("p.a") == [b"p.a0"]
    (event,) = world.events_named("ConsumerDetached")
    assert event.reason == reasons.LEFT_OUT
    (told,) = world.effects
    assert isinstance(told, Settled)
    (returned,) = world.events_named("Returned")
    assert told.messages == (returned.row[events.MESSAGE],)
    assert (told.reason, told.gate) == (reasons.LEFT_OUT, returned.lsn)
    world.check()


def test_a_queue_that_takes_no_more_consumers_is_left_out(world: World) -> None:
    world.ok(create_queue("p.a", "p.a", ANYCAST, max_consumers=1))
    world.attach(world.connect(), "p.a")
    world.attach_all(world.connect(), "p.*")
    assert len(world.state.consumers) == 1
    world.check()


def test_while_memory_is_short_nothing_attaches(world: World) -> None:
    connection = world.connect()
    world.attach_all(connection, "p.*")
    world.broker.report_objects("full", "over")
    world.ok(create_queue("p.a", "p.a", ANYCAST))
    assert not world.state.consumers
    assert "memory is short" in world.broker.notices[-1]
    world.broker.report_objects("", "")
    world.turn()
    assert len(world.state.consumers) == 1
    world.check()


def test_offers_come_in_slices(world: World) -> None:
    connection = world.connect()
    for number in range(30):
        world.ok(create_queue(f"p.{number}", f"p.{number}", ANYCAST))
    for _ in range(5):
        parts = [part(connection, "p.*")]
        world.handle(c.AttachAll(connection, parts))
    world.handle(create_queue("p.new", "p.new", ANYCAST))
    turns = 0
    while world.broker.has_more:
        world.broker.budget.allow(25)
        world.broker.go_on(world.now)
        turns += 1
    assert turns > 30
    assert len(world.state.consumers) == 5 * 31
    world.broker.budget.allow(10_000)
    world.check()


def test_many_subscriptions_that_wait_share_a_walk() -> None:
    world = World()
    connection = world.connect()
    for number in range(400):
        world.handle(create_queue(f"q.{number}", f"q.{number}", ANYCAST))
    before = world.broker.budget.spent
    for number in range(400):
        world.handle(c.AttachAll(connection, [part(connection, f"p.{number}.*")]))
    world.turn()
    # Each address is looked at once for all of them, not once for each.
    assert world.broker.budget.spent - before < 2_000
    world.check()


def test_all_parts_are_on_the_host_of_the_connection() -> None:
    world = World(hosts=HOSTS)
    there = world.connect(host=OTHER)
    own = part(there, qualified(OTHER, "a"))
    for wrong in (part(there, "b"), part(there, "p.*")):
        refusal = world.refused(c.AttachAll(there, [own, wrong]))
        assert f"is not on virtual host '{OTHER}'" in refusal.text
    world.ok(c.AttachAll(there, [own, part(there, qualified(OTHER, "p.*"))]))
    world.send("p.x", b"not there")
    world.send(qualified(OTHER, "p.x"), b"there", there)
    assert world.taken_bodies() == [b"there"]
    world.check()


@replaces_parts
def test_patterns_find_a_connection_no_more_consumers_than_it_may_have(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybook.engine.consumers.bundle_subscriptions.FOUND_MAX", 5)
    for number in range(4):
        world.ok(create_queue(f"p.{number}", f"p.{number}", ANYCAST))
    peer = world.connect()
    for _ in range(3):
        world.attach_all(peer, "p.*")
    world.turn()
    assert len(world.state.connections[peer].consumers) == 5
    assert any("5 consumers, the most that wildcards may find" in n for n in world.broker.notices)
    other = world.connect()
    world.attach_all(other, "p.*")
    world.turn()
    assert len(world.state.connections[other].consumers) == 4


def test_a_place_that_is_free_again_is_taken(world: World) -> None:
    world.ok(create_queue("p.a", "p.a", ANYCAST, max_consumers=1))
    first, second = world.connect(), world.connect()
    consumer = world.ok(c.Attach(first, "p.a"))
    world.attach_all(second, "p.*")
    world.turn()
    assert not world.state.connections[second].consumers
    world.ok(c.Detach(consumer))
    world.turn()
    assert len(world.state.connections[second].consumers) == 1


@pytest.mark.parametrize("browses", [False, True])
def test_a_settlement_of_what_an_administrator_took_means_nothing(
    world: World, browses: bool
) -> None:
    peer = world.connect()
    for name in ("p.a", "p.b"):
        world.ok(create_queue(name, name, ANYCAST))
    bundle = world.attach_all(peer, "p.*", browses=browses, listens=browses)
    taken, kept = world.send("p.a", routing_type=ANYCAST), world.send("p.b", routing_type=ANYCAST)
    others = [world.send("p.a", routing_type=ANYCAST) for _ in range(2)]
    world.turn()
    world.ok(c.DeleteQueue("p.a", force=True))
    world.turn()
    lsn = world.broker.lsn
    # Nothing but the deletion itself, without which they would come again.
    assert world.ok(c.Settle(bundle, taken)) == lsn
    assert world.ok(c.Settle(bundle, others[0], outcome=FAILED)) == lsn
    world.ok(c.Begin(peer, "t"))
    assert world.ok(c.Settle(bundle, others[1], transaction="t")) == lsn
    assert world.broker.lsn == lsn
    # Once: after that it is unknown like any other, and the rest is as it was.
    assert "never delivered to it" in world.refused(c.Settle(bundle, taken)).text
    assert world.ok(c.Settle(bundle, kept)) > lsn
