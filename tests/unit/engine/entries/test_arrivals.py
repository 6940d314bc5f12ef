"""A message to very many queues enters them in slices, and nobody can tell."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.core.capacity import Full, full_by_itself
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.reasons import PAGE_LIMIT_MESSAGES
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.refusals import UNFINISHED
from daybook.engine.settings.setting_keys import DROP, PAGE
from daybook.engine.state.sizes import size_of
from tests.support.topology import create_queue
from tests.support.world import World

SLICE = 50
SUBSCRIBERS = 600


def publication(address: str = "news", body: bytes = b"n", **more: Any) -> c.Send:
    return c.Send(0, address, b"", body, routing_type=MULTICAST, **more)


def crowd(count: int = SUBSCRIBERS, **options: Any) -> tuple[World, list[int]]:
    """A world whose broker has a slice of time a command, and many subscribers."""
    world = World(**options)
    peer = world.connect()
    consumers = [world.attach(peer, "news", routing_type=MULTICAST) for _ in range(count)]
    return world, consumers


def begin(world: World, command: c.Command) -> int:
    """Give a command and a slice of time; return how many units it took."""
    budget = world.broker.budget
    begun = budget.spent
    budget.allow(SLICE)
    answer = world.handle(command)
    assert isinstance(answer, int), answer
    return budget.spent - begun


@pytest.fixture
def on_its_way() -> tuple[World, list[int]]:
    world, consumers = crowd()
    begin(world, publication())
    return world, consumers


def left(world: World) -> int:
    return sum(len(each.left) for way in world.state.arrivals.values() for each in way)


def test_no_slice_is_long() -> None:
    world, consumers = crowd()
    assert begin(world, publication()) <= 5 * SLICE
    assert left(world) == SUBSCRIBERS
    slices = 0
    budget = world.broker.budget
    while world.broker.has_more:
        begun = budget.spent
        budget.allow(SLICE)
        world.broker.go_on(world.now)
        assert budget.spent - begun <= SLICE + 1
        slices += 1
    assert slices >= SUBSCRIBERS / SLICE
    budget.limit = NO_LIMIT
    world.check()
    assert [each.consumer for each in world.taken()] == consumers


def test_it_is_one_event_which_a_crash_does_not_divide(
    on_its_way: tuple[World, list[int]],
) -> None:
    world, _ = on_its_way
    world.dispatch()
    world._start()
    assert sum(len(queue.entries) for queue in world.state.queues.values()) == 0
    again = World(world.journal)
    again.check()


def test_an_address_that_pages_meanwhile_counts_what_is_on_its_way() -> None:
    world, _ = crowd(global_max_messages=SUBSCRIBERS // 2)
    world.settings(news={"address_full_policy": PAGE})
    begin(world, publication())
    address = world.state.address_by_name["news"]
    assert size_of(address)[1] == left(world) == SUBSCRIBERS
    for _ in range(SUBSCRIBERS // SLICE):
        world.broker.budget.allow(SLICE)
        world.broker.go_on(world.now)
        world.dispatch()
        if address.paging:
            break
    assert 0 < left(world) < SUBSCRIBERS
    assert size_of(address)[1] == SUBSCRIBERS
    (started,) = world.events_named("PagingStarted")
    assert started.decoded.messages == SUBSCRIBERS
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert size_of(address)[1] == SUBSCRIBERS


def test_the_longest_queue_counts_what_is_on_its_way() -> None:
    world, _ = crowd()
    values = {"max_size_messages": 1, "page_limit_messages": 1, "page_full_policy": DROP}
    world.settings(news={"address_full_policy": PAGE, **values})
    begin(world, publication())
    assert left(world) == SUBSCRIBERS
    address = world.state.address_by_name["news"]
    found = full_by_itself(world.state.settings.resolve("news"), address, *size_of(address))
    assert found == Full(PAGE_LIMIT_MESSAGES, DROP)


def test_few_queues_are_entered_at_once() -> None:
    world, _ = crowd(4)
    begin(world, publication())
    assert not world.state.arrivals


def test_sends_to_other_addresses_pass(on_its_way: tuple[World, list[int]]) -> None:
    world, _ = on_its_way
    begin(world, c.Send(0, "q", b"", b"", routing_type=ANYCAST))
    begin(world, publication("other"))
    assert left(world) == SUBSCRIBERS
    assert world.queue("q").ready_count == 1


def test_two_are_on_their_way_at_once(on_its_way: tuple[World, list[int]]) -> None:
    world, _ = on_its_way
    peer = world.connect()
    for _ in range(300):
        world.attach(peer, "other", routing_type=MULTICAST)
    begin(world, publication())
    begin(world, publication("other"))
    assert len(world.state.arrivals) == 2
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert len(world.taken()) == SUBSCRIBERS * 2 + 300


def test_messages_of_a_transaction_and_of_several_destinations_are_on_their_way() -> None:
    world, consumers = crowd()
    peer = world.connect()
    sends = [c.Send(peer, "news", b"", b"%d" % n, routing_type=MULTICAST) for n in range(3)]
    world.ok(c.Begin(peer, "t"))
    for each in sends[:2]:
        each.transaction = "t"
        world.ok(each)
    assert begin(world, c.Commit(peer, "t")) <= 15 * SLICE
    assert left(world) == 2 * SUBSCRIBERS
    world.dispatch()
    to_all = c.SendToAll(peer, [sends[2], c.Send(peer, "q", b"", b"q", routing_type=ANYCAST)])
    while world.handle(to_all) is UNFINISHED:
        world.broker.budget.allow(SLICE)
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert world.taken_bodies(consumers[7]) == [b"0", b"1", b"2"]


def test_a_message_to_a_queue_itself_comes_behind_what_is_on_its_way_there() -> None:
    world, consumers = crowd()
    peer = world.connect()
    name = world.state.consumers[consumers[-1]].queue.name
    world.ok(c.Begin(peer, "t"))
    world.ok(c.Send(peer, "news", b"", b"1", routing_type=MULTICAST, transaction="t"))
    world.ok(c.Send(peer, "news", b"", b"2", queue=name, transaction="t"))
    begin(world, c.Commit(peer, "t"))
    assert left(world) == SUBSCRIBERS - 1
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert world.taken_bodies(consumers[-1]) == [b"1", b"2"]


def test_a_second_message_to_the_same_queues_waits(on_its_way: tuple[World, list[int]]) -> None:
    world, consumers = on_its_way
    second = publication(body=b"second")
    world.broker.budget.allow(SLICE)
    assert world.handle(second) is UNFINISHED
    assert 0 < left(world) < SUBSCRIBERS
    while world.handle(second) is UNFINISHED:
        world.broker.budget.allow(SLICE)
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert world.taken_bodies(consumers[-1]) == [b"n", b"second"]


@pytest.mark.parametrize(
    ("command", "more"), [(c.Credit, (1, 0)), (c.Settle, (7,)), (c.Detach, ())]
)
def test_a_command_of_a_consumer_meets_the_message(
    on_its_way: tuple[World, list[int]], command: Any, more: tuple[int, ...]
) -> None:
    """So what it decides, and what a queue loses with its consumer, is as in the fold."""
    world, consumers = on_its_way
    last = world.state.consumers[consumers[-1]].queue
    world.handle(command(consumers[-1], *more))
    assert left(world) == SUBSCRIBERS - 1
    assert last.added == 1
    world.broker.budget.limit = NO_LIMIT
    world.check()


@pytest.mark.parametrize(
    "command",
    [
        c.PauseQueue("news"),
        c.PurgeQueue("news"),
        c.DeleteAddress("news", True),
        c.CreateAddress("a"),
    ],
)
def test_what_administrators_do_waits_for_nothing(
    on_its_way: tuple[World, list[int]], command: c.Command
) -> None:
    world, _ = on_its_way
    assert world.handle(command) is not UNFINISHED
    assert not world.state.arrivals


@pytest.mark.parametrize(
    ("command", "more"),
    [(c.DeliverDue(9), {"due": 1000}), (c.ExpireDue(9), {"expires": 1}), (c.DeleteUnused(), {})],
)
def test_a_scan_meets_what_is_on_its_way_to_the_queues_that_it_looks_at(
    command: c.Command, more: dict[str, int]
) -> None:
    world, _ = crowd()
    world.ok(create_queue("keep", "news", MULTICAST))
    timed = {name: world.now // 1000 + time for name, time in more.items()}
    world.send("news", queue="keep", **timed)
    world.sleep(2)
    begin(world, publication())
    before = left(world)
    world.broker.budget.limit = NO_LIMIT
    assert world.handle(command) is not UNFINISHED
    looked = SUBSCRIBERS + 1 if isinstance(command, c.DeleteUnused) else 1
    assert left(world) == before - looked
    world.check()


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_message_and_the_copies_that_diverts_make_are_on_their_way(exclusive: bool) -> None:
    world, consumers = crowd()
    peer = world.connect()
    world.attach(peer, "#", routing_type=MULTICAST)
    for number in range(2):
        definition = DivertDefinition(
            name=f"d{number}", address="news", forwarding_addresses=("copies",),
            exclusive=exclusive,
        )  # fmt: skip
        world.ok(c.CreateDivert(definition))
    copied = [world.attach(peer, "copies", routing_type=MULTICAST) for _ in range(300)]
    assert begin(world, publication()) <= 10 * SLICE
    assert left(world) >= 2 * 300
    world.broker.budget.limit = NO_LIMIT
    world.check()
    taken = Counter(each.consumer for each in world.taken())
    assert [taken[each] for each in copied] == [2] * 300
    assert [taken[each] for each in consumers] == [0 if exclusive else 1] * SUBSCRIBERS


def test_what_is_large_is_not_divided() -> None:
    world, _ = crowd()
    begin(world, publication(chunks=(1,), body_bytes=1))
    assert not world.state.arrivals


def test_what_is_due_later_is_set_aside_slice_by_slice() -> None:
    world, consumers = crowd()
    before = len(world.journal)
    assert begin(world, publication(due=world.now // 1000 + 1000)) <= 5 * SLICE
    assert left(world) == SUBSCRIBERS
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert [each.name for each in world.journal[before:]] == ["Routed"]
    assert world.taken() == []
    world.sleep(2)
    world.ok(c.DeliverDue(SUBSCRIBERS + 1))
    world.check()
    assert [each.consumer for each in world.taken()] == consumers


def test_what_is_due_before_it_has_arrived_is_delivered(
    on_its_way: tuple[World, list[int]],
) -> None:
    world, consumers = on_its_way
    world.broker.budget.limit = NO_LIMIT
    world.broker.go_on(world.now)
    begin(world, publication(due=world.now // 1000 + 1000))
    world.sleep(2)
    world.broker.budget.allow(SLICE)
    world.broker.go_on(world.now)
    assert 0 < left(world) < SUBSCRIBERS
    world.broker.budget.limit = NO_LIMIT
    for _ in range(2):
        # What arrives later wakes the broker again.
        assert world.broker.wakes(world.now)
        world.ok(c.DeliverDue(SUBSCRIBERS + 1))
        world.broker.go_on(world.now)
    assert not world.broker.wakes(world.now)
    world.check()
    assert len(world.taken()) == 2 * len(consumers)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["publish", "later", "divert"]), st.sampled_from(["news", "other"])
        ),
        st.tuples(st.just("send"), st.sampled_from(["q", "news"])),
        st.tuples(st.sampled_from(["attach", "filtered"]), st.sampled_from(["news", "other", "#"])),
        st.tuples(st.sampled_from(["detach", "ack", "nack", "credit"]), st.integers(0, 7)),
        st.tuples(st.sampled_from(["close", "commit"]), st.integers(0, 2)),
        st.tuples(
            st.sampled_from(["purge", "expire", "dispatch", "go on", "due", "unused"]), st.just(0)
        ),
    ),
    max_size=40,
)


@given(steps=STEPS, slices=st.integers(0, 3))
def test_whatever_comes_between(steps: list[tuple[str, Any]], slices: int) -> None:
    """The fold has every message in all of its queues at once, and is what the broker becomes."""
    world = World(entered_at_once=1)
    world.settings(all={"default_address_routing_type": "MULTICAST"})
    peers = [world.connect() for _ in range(3)]
    for address in ("news", "news", "other", "news", "other", "copies", "copies", "#"):
        world.attach(peers[2], address, routing_type=MULTICAST)
    for step, what in steps:
        world.broker.budget.allow(slices)
        _carry_out(world, peers, step, what)
    world.broker.budget.limit = NO_LIMIT
    world.check()
    assert not world.state.arrivals


def _carry_out(world: World, peers: list[int], step: str, what: Any) -> None:
    consumers = list(world.state.consumers.values())
    chosen = consumers[what % len(consumers)] if consumers and isinstance(what, int) else None
    if step == "publish":
        _until_done(world, publication(what, b"%d" % len(world.journal), expires=1 << 50))
    elif step == "later":
        due = world.now // 1000 + len(world.journal) % 5
        _until_done(world, publication(what, b"later", due=due))
    elif step == "divert":
        definition = DivertDefinition(
            name=what, address=what, forwarding_addresses=("copies", "q"), exclusive=what == "news"
        )
        world.handle(c.CreateDivert(definition))
    elif step == "unused":
        world.handle(c.DeleteUnused())
    elif step == "due":
        world.sleep(0.003)
        world.handle(c.DeliverDue(2))
    elif step == "send":
        _until_done(world, c.Send(peers[0], what, b"", b"s"))
    elif step in ("attach", "filtered"):
        text = "TRUE" if step == "filtered" else ""
        _until_done(world, c.Attach(peers[1], what, routing_type=MULTICAST, filter=text))
    elif step == "close":
        world.handle(c.CloseConnection(peers[what], 1))
        peers[what] = world.connect()
    elif step == "commit":
        world.handle(c.Begin(peers[what], "t"))
        world.handle(c.Send(peers[what], "news", b"", b"c", transaction="t"))
        _until_done(world, c.Commit(peers[what], "t"))
    elif step == "purge":
        for name in list(world.state.queue_by_name):
            world.handle(c.PurgeQueue(name))
    elif step == "expire":
        world.handle(c.ExpireDue(2))
    elif step == "dispatch":
        world.dispatch()
    elif step == "go on":
        world.broker.go_on(world.now)
    elif chosen is not None and step == "detach":
        _until_done(world, c.Detach(chosen.id))
    elif chosen is not None and step == "credit":
        _until_done(world, c.Credit(chosen.id, 1, 0))
    elif chosen is not None and chosen.unacked:
        outcome = {"outcome": 1} if step == "nack" else {}
        _until_done(world, c.Settle(chosen.id, next(iter(chosen.unacked)), **outcome))


def _until_done(world: World, command: c.Command) -> None:
    while world.handle(command) is UNFINISHED:
        world.broker.budget.allow(2)


def test_a_browser_that_is_not_done_reads_what_is_on_its_way() -> None:
    world, _ = crowd(2, entered_at_once=1)
    world.ok(create_queue("read", "news", MULTICAST))
    for _ in range(200):
        world.handle(publication())
        world.turn()
    peer = world.connect()
    world.broker.budget.allow(0)
    browser = world.handle(
        c.Attach(peer, "news", queue="read", browses=True, acknowledges=False, credit_policy=0)
    )
    world.dispatch()
    assert isinstance(browser, int)
    assert 0 < len(world.taken(browser)) < 200
    world.broker.budget.allow(SLICE)
    assert world.handle(publication(body=b"late")) is not UNFINISHED
    assert left(world)
    world.broker.budget.limit = NO_LIMIT
    world.dispatch()
    # The last is the end.
    assert world.taken_bodies(browser)[-2:] == [b"late", b""]
