"""Message groups that an administrator takes from their consumers."""

from typing import Any

import pytest

from daybook.engine.commands import Administer, ResetGroups
from daybook.engine.facts import reasons
from daybook.engine.queues.groups import SHARED
from daybook.server.administration.views import listing_groups
from daybook.server.process.slices import at_once
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World
from tests.unit.engine.queues.test_groups import ack_all, consumers, got, send

WORLDS = [World, lambda: PagedWorld(window=1, lag=2)]


@pytest.fixture(params=WORLDS, ids=["resident", "paged"])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param()
    return found


def listed(world: World, queue: str = "q", **more: Any) -> dict[str, int]:
    """The groups of a queue with their consumers."""
    page = at_once(listing_groups(world.state, queue, **more))
    assert isinstance(page, dict)
    return {row["group"] or str(row["bucket"]): row["consumer"] for row in page["groups"]}


def test_groups_are_listed_with_their_consumers(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1", "c1", "-x"):
        send(world, body)
    assert listed(world) == {"a": first, "b": second, "c": first}
    assert listed(world, offset=1) == {"b": second, "c": first}
    world.detach(first)
    assert listed(world) == {"b": second, "a": second, "c": second}


def test_one_group_is_reset(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1"):
        send(world, body)
    world.ok(Administer("joe", "{}", ResetGroups("q", "b")))
    for body in ("b2", "a2", "b3"):
        send(world, body)
    assert got(world, first, second) == ["a1 b2 a2 b3", "b1"]
    (event,) = world.events_named("GroupsReset")
    assert (event.reason, event.decoded.group) == (reasons.ADMINISTRATION, "b")
    (administered,) = world.events_named("Administered")
    assert administered.decoded.by == "joe"
    world.check()


def test_all_groups_are_reset(world: World) -> None:
    first, second = consumers(world, 2)
    for body in ("a1", "b1"):
        send(world, body)
    ack_all(world, first)
    ack_all(world, second)
    world.ok(ResetGroups("q"))
    assert listed(world) == {}
    assert world.state.groups.known == 0
    for body in ("b2", "a2"):
        send(world, body)
    assert got(world, first, second) == ["a1 b2", "b1 a2"]
    assert world.events_named("GroupsReset")[0].decoded.group == ""
    world.check()


def test_what_its_consumer_had_no_credit_for_goes_to_another(world: World) -> None:
    connection = world.connect()
    busy = world.attach(connection, "q", credit_messages=1, credit_bytes=0)
    for body in ("a1", "a2", "a3"):
        send(world, body)
    free = world.attach(connection, "q", credit_messages=9, credit_bytes=0)
    assert got(world, busy, free) == ["a1", ""]
    world.ok(ResetGroups("q", "a"))
    assert got(world, busy, free) == ["", "a2 a3"]


def test_a_reset_waits_for_what_is_in_flight_if_a_rebalance_does(world: World) -> None:
    world.ok(create_queue("q", "q", group_rebalance_pause_dispatch=True))
    first, second = consumers(world, 2)
    send(world, "a1")
    world.ok(ResetGroups("q", "a"))
    send(world, "a2")
    assert got(world, first, second) == ["a1", ""]
    ack_all(world, first)
    assert got(world, first, second) == ["", "a2"]


def test_nothing_to_reset(world: World) -> None:
    world.refused(ResetGroups("q", "a"))
    consumers(world, 1)
    assert world.ok(ResetGroups("q")) == 0
    assert "has group 'a'" in world.refused(ResetGroups("q", "a")).text
    assert at_once(listing_groups(world.state, "nowhere")).text  # type: ignore[union-attr]


def test_a_bucket_is_reset_by_the_name_of_a_group_in_it(world: World) -> None:
    world.ok(create_queue("q", "q", group_buckets=1))
    first, second = consumers(world, 2)
    for body in ("a1", "b1"):
        send(world, body)
    assert listed(world) == {"0": first}
    world.ok(ResetGroups("q", "anything"))
    send(world, "a2")
    assert got(world, first, second) == ["a1 b1", "a2"]


def test_what_a_filter_passed_over_is_reset_with_its_group(world: World) -> None:
    connection = world.connect()
    some = {"credit_messages": 9, "credit_bytes": 0}
    world.attach(connection, "q", filter="kind = 'big'", **some)
    world.attach(connection, "q", filter="kind = 'small'", **some)
    send(world, "a1", headers={"kind": "big"})
    send(world, "a2", headers={"kind": "small"})
    assert world.state.groups.known == 2
    world.ok(ResetGroups("q", "a"))
    assert world.state.groups.known == 0


def test_long_names_are_cut_and_places_are_shared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (consumer,) = consumers(world, 1)
    world.send("q", b"x", headers={"JMSXGroupID": "n" * 500}, format=128)
    assert listed(world) == {"n" * 64: consumer}
    found = world.queue("q").groups
    assert found is not None
    found.bind(7, world.state.consumers[consumer], is_short=True, name="late")
    page = at_once(listing_groups(world.state, "q"))
    assert isinstance(page, dict)
    assert page["groups"][1]["shared_place"] == 7 % SHARED
    world.ok(ResetGroups("q", "n" * 500))
    assert len(world.events_named("GroupsReset")[0].decoded.group) == 64
