"""Retained messages: queues that are created later begin with the last one of their address."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.facts.settlements import FAILED
from daybook.engine.limits.host_limits import HostLimits
from daybook.engine.names.names import RETAINED_PLACE
from daybook.engine.state.digest import digest
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World, fold


@pytest.fixture(params=["whole", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    hosts = {"default": HostLimits(), "shop": HostLimits()}
    return World(hosts=hosts) if request.param == "whole" else PagedWorld(0, 3, hosts=hosts)


def put(world: World, body: bytes, address: str = "news", **values: Any) -> None:
    values.setdefault("routing_type", MULTICAST)
    values.setdefault("retain", c.RETAIN_SET)
    world.now += 1000
    world.send(address, body, **values)


def make(world: World, name: str = "q", address: str = "news", **values: Any) -> None:
    after = values.pop("after", 0)
    command = create_queue(name, address, values.pop("routing_type", MULTICAST), **values)
    command.after = after
    if address == "news" and address not in world.state.address_by_name:
        # Where there are virtual hosts, a queue of another name needs an address that exists.
        world.ok(c.CreateAddress(address, (MULTICAST,)))
    world.ok(command)


def why(world: World, name: str) -> list[str]:
    return [reasons.REASONS[each.reason][0] for each in world.events_named(name)]


def test_a_new_queue_begins_with_the_last_retained_message(world: World) -> None:
    put(world, b"1")
    put(world, b"2")
    put(world, b"live", retain=0)
    make(world)
    assert world.ready("q") == [b"2"]
    put(world, b"3")
    put(world, b"4", retain=0)
    assert world.ready("q") == [b"2", b"3", b"4"]
    assert world.ready(RETAINED_PLACE) == [b"3"]
    assert why(world, "Removed") == ["replaced", "replaced"]
    world.restart()
    make(world, "r")
    assert world.ready("r") == [b"3"]
    assert world.ready("q") == [b"2", b"3", b"4"]
    world.check()


def test_remove_forgets_and_is_delivered_as_usual(world: World) -> None:
    make(world)
    put(world, b"1")
    put(world, b"gone", retain=c.RETAIN_REMOVE)
    assert world.ready("q") == [b"1", b"gone"]
    make(world, "r")
    assert world.ready("r") == []
    assert why(world, "Removed") == ["forgotten"]
    put(world, b"2")
    make(world, "s")
    assert world.ready("s") == [b"2"]
    world.check()


def test_addresses_do_not_share_them_and_wildcards_get_all_that_fit(world: World) -> None:
    for address in ("a.b", "a.c", "b.c"):
        put(world, address.encode(), address)
    put(world, b"newer", "a.b")
    make(world, "all", "a.*")
    make(world, "other", "b.c")
    assert world.ready("all") == [b"a.c", b"newer"]
    assert world.ready("other") == [b"b.c"]
    make(world, "any", "a.b", routing_type=ANYCAST)
    assert world.ready("any") == []
    world.check()


def test_a_filter_decides_and_an_expired_one_is_forgotten(world: World) -> None:
    put(world, b"big", headers={"kind": "big"}, expires=world.now // 1000 + 50)
    make(world, "small", filter="not kind=big")
    make(world, "big", filter="kind=big")
    assert (world.ready("small"), world.ready("big")) == ([], [b"big"])
    world.now += 60_000
    make(world, "late")
    assert world.ready("late") == []
    world.ok(c.ExpireDue())
    assert world.ready(RETAINED_PLACE) == []
    world.check()


def test_history_and_retained_message_come_once_and_in_order(world: World) -> None:
    world.settings(news={"retroactive_message_count": 2})
    put(world, b"1")
    put(world, b"2", retain=0)
    put(world, b"3", retain=0)
    make(world)
    assert world.ready("q") == [b"1", b"2", b"3"]
    put(world, b"4")
    make(world, "r")
    assert world.ready("r") == [b"3", b"4"]
    make(world, "none", after=c.NO_HISTORY)
    assert world.ready("none") == []
    world.check()


def test_an_old_history_that_is_not_kept_any_more_is_not_given_with_it(world: World) -> None:
    world.settings(news={"retroactive_message_count": 5})
    put(world, b"1", retain=0)
    put(world, b"2")
    world.settings()
    make(world)
    assert world.ready("q") == [b"2"]
    world.check()


def test_what_is_not_persistent_is_lost_with_the_broker(world: World) -> None:
    put(world, b"1")
    put(world, b"2", persistent=False)
    make(world)
    assert world.ready("q") == [b"2"]
    world.restart()
    make(world, "r")
    assert world.ready("r") == []
    world.check()


def test_in_a_transaction_it_happens_at_the_commit(world: World) -> None:
    peer = world.connect()
    world.begin(peer)
    put(world, b"1", transaction="t", connection=peer)
    make(world)
    assert world.ready("q") == []
    world.commit(peer)
    make(world, "r")
    assert (world.ready("q"), world.ready("r")) == ([b"1"], [b"1"])
    world.check()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"routing_type": ANYCAST}, "only a topic"),
        ({"routing_type": None}, "only a topic"),
        ({"queue": "q"}, "only a topic"),
        ({"due": 1}, "delivery time"),
        ({"retain": 3}, "must be 0, 1 or 2"),
    ],
)
def test_what_cannot_be_retained_is_refused(
    world: World, values: dict[str, Any], text: str
) -> None:
    make(world)
    given = {"routing_type": MULTICAST, "retain": c.RETAIN_SET, **values}
    command = c.Send(0, "news", b"", b"x", **given)
    assert text in world.refused(command).text
    assert RETAINED_PLACE not in world.state.queue_by_name


def test_the_broker_keeps_its_own_addresses_to_itself(world: World) -> None:
    put(world, b"1")
    command = c.Send(0, RETAINED_PLACE, b"", b"x", MULTICAST, retain=c.RETAIN_SET)
    assert "belongs to the broker itself" in world.refused(command).text
    assert world.ready(RETAINED_PLACE) == [b"1"]


def test_a_large_one_and_a_copy_of_a_divert(world: World) -> None:
    world.settings(news={"send_to_dla_on_no_route": True, "dead_letter_address": "dead"})
    world.send_large("news", [b"ab", b"cd"], routing_type=MULTICAST, retain=c.RETAIN_SET)
    divert = DivertDefinition(name="d", address="news", forwarding_addresses=("copies",))
    world.ok(c.CreateDivert(divert))
    put(world, b"2")
    make(world)
    make(world, "copied", "copies")
    assert (world.ready("q"), world.ready("copied")) == ([b"2"], [])
    world.check()


def test_an_address_stays_as_long_as_it_retains_a_message(world: World) -> None:
    world.settings(all={"auto_delete_addresses_delay": 0})
    put(world, b"1")
    put(world, b"2", "other", retain=0)
    world.now += 1_000_000
    world.ok(c.DeleteUnused())
    assert "news" in world.state.address_by_name
    assert "other" not in world.state.address_by_name
    put(world, b"", retain=c.RETAIN_REMOVE)
    world.ok(c.DeleteUnused())
    assert "news" not in world.state.address_by_name
    world.check()


def test_it_ends_with_its_address(world: World) -> None:
    put(world, b"1")
    put(world, b"2", "other")
    world.ok(c.DeleteAddress("news"))
    assert world.ready(RETAINED_PLACE) == [b"2"]
    put(world, b"", retain=0)
    make(world)
    assert world.ready("q") == []
    world.check()


def test_administration_forgets_purges_and_does_not_delete(world: World) -> None:
    put(world, b"1")
    assert world.ok(c.ForgetRetained("news"))
    assert world.ok(c.ForgetRetained("news")) == 0
    assert "no address 'none'" in world.refused(c.ForgetRetained("none")).text
    put(world, b"2")
    assert "retained messages" in world.refused(c.DeleteQueue(RETAINED_PLACE, force=True)).text
    world.ok(c.PurgeQueue(RETAINED_PLACE, 10))
    make(world)
    assert world.ready("q") == []
    world.check()


@pytest.mark.parametrize("shows", [False, True], ids=["destructive", "shown"])
def test_deliveries_say_which_were_retained(world: World, shows: bool) -> None:
    """Whatever their headers say."""
    if shows:
        world.settings(news={"default-non-destructive": True})
    put(world, b"1")
    connection = world.connect()
    told = world.attach(connection, "news", routing_type=MULTICAST, tells_retained=True)
    other = world.attach(connection, "news", routing_type=MULTICAST)
    put(world, b"2", headers={"retain": "set"})
    taken = world.taken()
    for consumer, expected in ((told, True), (other, False)):
        found = [(each.body, each.retained) for each in taken if each.consumer == consumer]
        assert found == [(b"1", expected), (b"2", False)]


def test_only_the_message_that_is_retained_is_marked_among_those_of_a_history(world: World) -> None:
    """Both histories have it, and the one of the address is read first."""
    world.settings(news={"retroactive-message-count": 10})
    put(world, b"0", retain=0)
    put(world, b"1")
    put(world, b"2")
    make(world)
    assert world.ready("q") == [b"0", b"1", b"2"]
    marks = [event.decoded.retained for event in world.events_named("Recalled")]
    assert marks == [False, False, True]
    world.restart()
    assert [entry.retained for entry in world.entries("q")] == marks
    world.check()


def test_a_mark_stays_with_its_entry(world: World) -> None:
    """It survives restarts, returns, holds and pages, and is a part of the digest."""
    world.settings(all={"max-delivery-attempts": 1})
    put(world, b"1")
    make(world)
    world.restart()
    consumer = world.attach(world.connect(), "news", queue="q", tells_retained=True)
    (first,) = world.taken()
    world.ok(c.Settle(consumer, first.message, outcome=FAILED))
    assert world.queue("q").held_count == 1
    world.restart()
    world.ok(c.ReleaseHeld("q"))
    world.attach(world.connect(), "news", queue="q", tells_retained=True)
    assert [each.retained for each in world.taken()] == [first.retained] == [True]
    before = digest(world.state)
    world.queue("q").entries[first.message].retained = False
    assert digest(world.state) != before


def test_slices_of_a_wildcard_recall_and_a_restart_in_it(world: World) -> None:
    names = [f"t.{number}" for number in range(30)]
    for name in names:
        put(world, name.encode(), name)
    world.broker.budget.allow(3)
    make(world, "q", "t.*")
    assert world.queue("q").recall is not None
    put(world, b"newer", "t.29")
    put(world, b"live", "t.0", retain=0)
    world.restart()
    while world.broker.has_more:
        world.broker.budget.allow(5)
        world.broker.go_on(world.now)
        world.turn()
    assert world.ready("q") == [name.encode() for name in names[:29]] + [b"newer", b"live"]
    assert digest(fold(world.journal)) == digest(world.state)
    world.check()


def test_virtual_hosts_have_their_own(world: World) -> None:
    put(world, b"1")
    put(world, b"2", "shop::news")
    make(world, "all", "#")
    make(world, "shop::all", "shop::#")
    assert (world.ready("all"), world.ready("shop::all")) == ([b"1"], [b"2"])
    assert world.ready(f"shop::{RETAINED_PLACE}") == [b"2"]
    world.ok(c.ForgetRetained("news"))
    assert world.ready(f"shop::{RETAINED_PLACE}") == [b"2"]
    world.check()
