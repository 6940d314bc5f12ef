"""Long work about filters: it is cut, and how it is cut shows in nothing that it leads to."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.core.core import Options
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.filters.costs import ANY_PIECES_MAX
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from tests.support.world import Delivery, World

SLICE = 250
"""The server's limit for a client."""
MUCH_MORE = 3 * SLICE
"""A slice ends with the step that used it up."""


def the_world() -> World:
    world = World()
    world.broker.configure(Options())
    return world


def long_filter(number: int) -> str:
    pieces = " OR ".join(f"kind LIKE '%{number}x{each}%'" for each in range(20))
    return f"n = {number} OR {pieces}"


def subscribe(world: World, connection: int, count: int, text: Callable[[int], str]) -> None:
    for number in range(count):
        world.attach(connection, "news", routing_type=MULTICAST, filter=text(number))


def finish(world: World, command: c.Command) -> tuple[int | Refusal, int, int]:
    """Give a command until it is done; return the answer, how many slices it took, and the longest
    one in units."""
    budget = world.broker.budget
    slices = longest = 0
    answer: int | Refusal = UNFINISHED
    while answer is UNFINISHED:
        begun = budget.spent
        budget.allow(SLICE)
        answer = world.handle(command)
        longest = max(longest, budget.spent - begun)
        slices += 1
    return answer, slices, longest


def taken(world: World) -> list[Delivery]:
    """Deliver without a limit."""
    world.broker.budget.allow(1 << 40)
    world.turn()
    return world.taken()


def message(world: World, number: int, **more: object) -> c.Send:
    headers = b"n:%d\nkind:%s\n" % (number, b"abc" * 500)
    return c.Send(0, "news", headers, b"", routing_type=MULTICAST, **more)  # type: ignore[arg-type]


def test_a_message_to_many_long_filters_is_cut() -> None:
    world = the_world()
    connection = world.connect()
    subscribe(world, connection, 200, long_filter)
    answer, slices, longest = finish(world, message(world, 7))
    assert isinstance(answer, int)
    assert slices > 10
    assert longest <= MUCH_MORE
    assert len(taken(world)) == 1
    world.check()


def test_a_filter_that_many_have_is_asked_once() -> None:
    world = the_world()
    connection = world.connect()
    subscribe(world, connection, 200, lambda number: long_filter(1))
    spent = world.broker.budget.spent
    world.handle(message(world, 1))
    assert world.broker.budget.spent - spent < MUCH_MORE
    assert len(taken(world)) == 200


def test_a_subscription_that_comes_between_two_slices_gets_the_message() -> None:
    world = the_world()
    connection = world.connect()
    subscribe(world, connection, 200, long_filter)
    command = message(world, 7)
    world.broker.budget.allow(SLICE)
    assert world.handle(command) is UNFINISHED
    world.broker.budget.allow(1 << 40)
    late = world.attach(connection, "news", routing_type=MULTICAST, filter="n = 7")
    finish(world, command)
    assert late in {each.consumer for each in taken(world)}


def test_a_commit_asks_filters_in_slices_and_is_one_group() -> None:
    world = the_world()
    connection = world.connect()
    subscribe(world, connection, 50, long_filter)
    world.handle(c.Begin(connection, "t"))
    for number in range(10):
        send = message(world, number, transaction="t")
        send.connection = connection
        world.handle(send)
    before = world.broker.lsn
    world.broker.budget.allow(SLICE)
    assert world.handle(c.Commit(connection, "t")) is UNFINISHED
    assert world.broker.lsn == before
    answer, slices, longest = finish(world, c.Commit(connection, "t"))
    assert isinstance(answer, int)
    assert slices > 10
    # Carrying it out is one step, which is as long as its entries are many.
    assert longest <= MUCH_MORE + 10 * 51
    assert len(taken(world)) == 10
    world.check()


def test_a_long_filter_is_parsed_in_slices() -> None:
    world = the_world()
    connection = world.connect()
    text = " OR ".join(f"a={number}" for number in range(400))
    command = c.Attach(connection, "news", routing_type=MULTICAST, filter=text)
    answer, slices, longest = finish(world, command)
    assert isinstance(answer, int)
    assert slices > 2
    # Making functions of it is one step.
    assert longest <= SLICE + len(text)
    _, slices, _ = finish(world, c.Attach(connection, "news", routing_type=MULTICAST, filter=text))
    assert slices == 1


def test_what_is_wrong_with_a_long_filter_is_said_all_the_same() -> None:
    world = the_world()
    connection = world.connect()
    text = " OR ".join(f"a={number}" for number in range(400)) + " b"
    answer, slices, _ = finish(world, c.Attach(connection, "news", filter=text))
    assert isinstance(answer, Refusal)
    assert answer.code is Code.INVALID
    assert f"column {len(text)}: found 'b'" in answer.text
    assert slices > 2


@pytest.mark.parametrize(
    ("text", "routing_type", "word"),
    [
        (" OR ".join("a LIKE '%_b%'" for _ in range(ANY_PIECES_MAX + 1)), None, "'_' between '%'"),
        (
            "JMSMessageID = 'ID:5' OR " + " OR ".join("a = 1" for _ in range(30)),
            MULTICAST,
            "the id",
        ),
    ],
)
def test_filters_that_cost_too_much(text: str, routing_type: str | None, word: str) -> None:
    world = the_world()
    answer = world.handle(c.Attach(world.connect(), "news", routing_type=routing_type, filter=text))
    assert isinstance(answer, Refusal)
    assert word in answer.text


def test_a_search_among_long_filters_is_cut_within_an_entry() -> None:
    world = the_world()
    connection = world.connect()
    for number in range(100):
        world.attach(connection, "orders", filter=long_filter(number), credit_messages=10)
    for number in (200, 99, 300, 5):
        world.handle(c.Send(0, "orders", message(world, number).headers, b"%d" % number))
    budget = world.broker.budget
    dispatches = 0
    while world.broker.is_touched:
        begun = budget.spent
        budget.allow(SLICE)
        world.broker.dispatch(world.now)
        assert budget.spent - begun <= MUCH_MORE
        dispatches += 1
    assert dispatches > 20
    world.turn()
    assert sorted(world.taken_bodies()) == [b"5", b"99"]
    world.check()


def test_a_queue_with_little_to_do_does_not_wait_for_long_ones() -> None:
    world = the_world()
    connection = world.connect()
    for name in range(20):
        for number in range(20):
            world.attach(connection, f"long.{name}", filter=long_filter(number))
    world.attach(world.connect(), "short")
    for name in range(20):
        for _ in range(10):
            world.handle(c.Send(0, f"long.{name}", message(world, 99).headers, b""))
    budget = world.broker.budget
    for _ in range(30):
        budget.allow(SLICE)
        world.broker.dispatch(world.now)
    assert len(world.broker.backlog) > 10
    world.handle(c.Send(0, "short", b"", b"mine"))
    budget.allow(SLICE)
    world.broker.dispatch(world.now)
    assert world.broker.effects[-1][1].body == b"mine"


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12),
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.integers(1, 60),
)
def test_how_it_is_cut_shows_in_nothing(
    consumers: list[tuple[int, int]], sent: list[int], slice_: int
) -> None:
    """Sliced equals unsliced: consumers of one queue and of a topic get the same in the same
    order, and the journal folds to the same state."""
    outcomes = []
    for units in (slice_, 1 << 40):
        world = the_world()
        connection = world.connect()
        for wanted, priority in consumers:
            text = long_filter(wanted)
            world.attach(connection, "orders", filter=text, priority=priority, credit_messages=3)
            world.attach(connection, "news", routing_type=MULTICAST, filter=text)
        budget = world.broker.budget
        for number in sent:
            for command in (
                c.Send(0, "orders", message(world, number).headers, b"%d" % number),
                message(world, number),
            ):
                budget.allow(units)
                while world.handle(command) is UNFINISHED:
                    budget.allow(units)
        while world.broker.is_touched:
            budget.allow(units)
            world.broker.dispatch(world.now)
        budget.allow(1 << 40)
        world.turn()
        got: dict[int, list[bytes]] = {}
        for each in world.deliveries:
            got.setdefault(each.consumer, []).append(each.body)
        world.check()
        outcomes.append(got)
    assert outcomes[0] == outcomes[1]
