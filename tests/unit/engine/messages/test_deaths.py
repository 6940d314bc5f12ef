"""Dead letters and expired messages say why, and count how often."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.commands import ExpireDue, Settle
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.details import Death
from daybook.engine.facts.own_headers import DEATH_HEADERS, DEATHS
from daybook.engine.facts.settlements import FAILED
from daybook.engine.facts.settlements import REJECTED as NEVER_AGAIN
from daybook.engine.messages.deaths import (
    DEATHS_MAX,
    DELIVERY_LIMIT,
    ERROR_LENGTH_MAX,
    EXPIRED,
    NO_ROUTE,
    REJECTED,
    counted,
    death,
    shown,
)
from daybook.engine.messages.headers import as_dict
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World
from tests.unit.engine.administration.test_message_moves import act, dead


@pytest.fixture(name="world", params=[World, lambda: PagedWorld(1, 0)], ids=["resident", "paged"])
def any_world(request: pytest.FixtureRequest) -> World:
    make: Callable[[], World] = request.param
    return make()


def said(world: World, queue: str) -> dict[str, str]:
    """The headers about the death of a queue's first message, without the prefix."""
    headers = as_dict(world.entries(queue)[0].message.headers)
    found = {name: value for name, value in headers.items() if name in DEATH_HEADERS}
    return {name.removeprefix("_DAYBOOK_DEATH").lstrip("_"): found[name] for name in found}


def test_a_dead_letter_says_why(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 2, "dead_letter_address": "DLQ"})
    connection = world.connect()
    consumer = world.attach(connection, "orders")
    world.send("orders", b"x", headers={"_DAYBOOK_DEATH_REASON": "none of yours"})
    for error in ("the first", "no such\ncustomer"):
        (delivery,) = world.taken(consumer)
        world.ok(Settle(consumer, delivery.message, outcome=FAILED, error=error))
    when = world.now // 1000
    assert said(world, "DLQ") == {
        "REASON": DELIVERY_LIMIT, "ADDRESS": "orders", "QUEUE": "orders", "COUNT": "1",
        "TIME": str(when), "ATTEMPTS": "2", "ENDED": "nack", "CONSUMER": str(consumer),
        "USER": "guest", "ERROR": "no such\ncustomer",
        "S": json.dumps(
            [{"reason": DELIVERY_LIMIT, "address": "orders", "queue": "orders", "count": 1,
              "time": when}],
            separators=(",", ":"),
        ),
    }  # fmt: skip
    world.restart()
    world.check()


def test_the_end_of_the_last_delivery_is_named(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    connection = world.connect()
    world.attach(connection, "q")
    world.send("q", b"x")
    world.close(connection, reasons.DISCONNECTED)
    found = said(world, "DLQ")
    assert (found["ENDED"], found["REASON"]) == ("disconnected", DELIVERY_LIMIT)
    assert "ERROR" not in found


def test_other_deaths(world: World) -> None:
    world.settings(
        all={
            "dead_letter_address": "DLQ", "expiry_address": "late", "send_to_dla_on_no_route": True,
        }
    )  # fmt: skip
    consumer = world.attach(world.connect(), "q")
    world.send("q", b"x")
    (delivery,) = world.taken(consumer)
    world.ok(Settle(consumer, delivery.message, outcome=NEVER_AGAIN, error="bad"))
    found = said(world, "DLQ")
    assert (found["REASON"], found["ENDED"], found["ERROR"]) == (REJECTED, "refused", "bad")
    act(world, "DLQ", "remove")
    world.send("news", b"n", routing_type=MULTICAST)
    found = said(world, "DLQ")
    assert (found["REASON"], found["ADDRESS"], found["QUEUE"]) == (NO_ROUTE, "news", "")
    world.send("soon", b"e", expires=world.now // 1000 + 1000)
    world.sleep(2)
    world.ok(ExpireDue())
    found = said(world, "late")
    assert (found["REASON"], found["QUEUE"], found["ATTEMPTS"]) == (EXPIRED, "soon", "0")


def test_deaths_are_counted_over_retries_by_reason_and_queue(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 1, "dead_letter_address": "DLQ"})
    dead(world, "q", b"x")
    for count in (2, 3):
        assert act(world, "DLQ", "retry").acted == 1
        world.broker.budget.allow(1_000_000)
        (entry,) = world.entries("q")
        # Its earlier deaths are listed, and no others.
        assert as_dict(entry.message.headers).keys() == {DEATHS}
        connection = world.connect()
        consumer = world.attach(connection, "q")
        (delivery,) = world.taken(consumer)
        world.nack(consumer, delivery.message)
        world.close(connection)
        assert said(world, "DLQ")["COUNT"] == str(count)
        world.restart()
    world.ok(create_queue("other", "other"))
    act(world, "DLQ", "move", target="other")
    found = said(world, "other")
    assert (found["COUNT"], found["QUEUE"]) == ("3", "q")
    world.check()


def test_a_wait_queue_counts_as_other_brokers_count(world: World) -> None:
    """Work fails, waits in a queue until it expires, and comes back to work."""
    world.settings(
        work={"max_delivery_attempts": 1, "dead_letter_address": "wait"},
        wait={"expiry_address": "work", "expiry_delay": 1000},
    )
    world.ok(create_queue("wait", "wait"))
    world.ok(create_queue("work", "work"))
    world.send("work", b"x")
    for _ in range(3):
        connection = world.connect()
        consumer = world.attach(connection, "work")
        (delivery,) = world.taken(consumer)
        world.nack(consumer, delivery.message)
        world.close(connection)
        world.sleep(2)
        world.ok(ExpireDue())
    listed = json.loads(said(world, "work")["S"])
    assert [(each["reason"], each["queue"], each["count"]) for each in listed] == [
        (EXPIRED, "wait", 3), (DELIVERY_LIMIT, "work", 3),
    ]  # fmt: skip


PLACES = st.tuples(st.sampled_from((DELIVERY_LIMIT, EXPIRED)), st.sampled_from("abcdefgh"))


@given(st.lists(PLACES, max_size=40))
def test_each_pair_is_counted(pairs: list[tuple[str, str]]) -> None:
    deaths: tuple[Death, ...] = ()
    for number, (reason, queue) in enumerate(pairs):
        deaths = counted(deaths, death(reason, queue, queue, number * 1000))
        assert (deaths[0].reason, deaths[0].queue, deaths[0].time) == (reason, queue, number)
        assert len(deaths) <= DEATHS_MAX
        if len(set(pairs)) <= DEATHS_MAX:
            assert sum(each.count for each in deaths) == number + 1
    assert len({(each.reason, each.queue) for each in deaths}) == len(deaths)
    assert bool(shown(deaths)) == bool(pairs)


def test_a_long_error_is_cut() -> None:
    found = death(REJECTED, "a", "q", 0, error="e" * (ERROR_LENGTH_MAX + 1))
    assert len(found.error) == ERROR_LENGTH_MAX


# ---- failures of dead letters themselves


def fail(world: World, queue: str, times: int) -> None:
    """Fail the one message of a queue again and again."""
    consumer = world.attach(world.connect(), queue)
    for _ in range(times):
        deliveries = world.taken(consumer)
        if not deliveries:
            break
        world.nack(consumer, deliveries[0].message)


def test_a_dead_letter_does_not_use_the_limit_of_others(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 3}, orders={"dead_letter_address": "DLQ"})
    world.ok(create_queue("DLQ", "DLQ"))
    fail_once_dead(world)
    fail(world, "DLQ", 5)
    assert world.held("DLQ") == []
    # Once: not for each message, and not for each further failure.
    (notice,) = [each for each in world.broker.notices if "failed 3 times" in each]
    assert "the match 'DLQ'" in notice
    world.check()


def fail_once_dead(world: World) -> None:
    world.send("orders", b"x")
    fail(world, "orders", 3)
    assert world.bodies("DLQ") == [b"x"]


def test_a_limit_of_its_own_holds_it(world: World) -> None:
    world.settings(
        all={"max_delivery_attempts": 3}, orders={"dead_letter_address": "DLQ"},
        DLQ={"max_delivery_attempts": 2},
    )  # fmt: skip
    world.ok(create_queue("DLQ", "DLQ"))
    fail_once_dead(world)
    fail(world, "DLQ", 5)
    assert world.held("DLQ") == [b"x"]


def test_it_goes_on_where_it_has_somewhere_to_go(world: World) -> None:
    world.settings(
        all={"max_delivery_attempts": 3, "dead_letter_address": "all"},
        orders={"dead_letter_address": "DLQ"},
    )
    world.ok(create_queue("DLQ", "DLQ"))
    fail_once_dead(world)
    fail(world, "DLQ", 3)
    found = said(world, "all")
    assert [each["queue"] for each in json.loads(found["S"])] == ["DLQ", "orders"]


def test_an_address_that_is_not_for_dead_letters_keeps_its_limit(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 3}, orders={"dead_letter_address": "DLQ"})
    world.send("q", b"x")
    fail(world, "q", 5)
    assert world.held("q") == [b"x"]


def test_it_is_said_too_where_dead_letters_would_go_to_themselves(world: World) -> None:
    world.settings(all={"max_delivery_attempts": 3, "dead_letter_address": "DLQ"})
    world.send("orders", b"x")
    fail(world, "orders", 3)
    fail(world, "DLQ", 5)
    assert world.held("DLQ") == []
    assert len([each for each in world.broker.notices if "failed 3 times" in each]) == 1
