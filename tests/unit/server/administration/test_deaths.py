"""Groups of dead letters by the period of their death, and the queues where they are."""

from typing import Any

import pytest

from daybook.engine.commands import ChangeSettings
from daybook.engine.refusals import Refusal
from daybook.engine.settings.permissions import Denial, Permissions
from daybook.engine.state.state import State
from daybook.server.administration import deaths, views
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.deaths import (
    CRITERIA,
    DEAD_LETTERS,
    EXPIRED,
    FIELDS,
    Sums,
    begin_of,
    chosen_by,
    days_of,
    death_in,
    grouped,
    grouping,
)
from daybook.server.administration.message_requests import Graves
from daybook.server.administration.request_rows import ViewSource
from daybook.server.administration.views import browse
from daybook.server.process.ordered_lists import KeptOrders
from daybook.server.process.slices import SLICE, at_once, into
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

HOUR = 3_600_000


def died(*times: int) -> list[dict[str, Any]]:
    return [{"reason": "expired", "time": time} for time in times]


def test_periods_are_in_order_and_messages_that_did_not_die_are_last() -> None:
    rows = [None, *died(25 * HOUR + 5, HOUR - 1, HOUR, 25 * HOUR)]
    assert [(each["hour"], each["messages"]) for each in grouped(rows, "hour")] == [
        ("1970-01-01 00:00", 1), ("1970-01-01 01:00", 1), ("1970-01-02 01:00", 2), (None, 1),
    ]  # fmt: skip
    days = grouped(rows, "day")
    assert days_of(grouped(rows, "hour")) == days
    assert [(each["day"], each["messages"]) for each in days] == [
        ("1970-01-01", 2), ("1970-01-02", 2), (None, 1),
    ]  # fmt: skip
    assert (days[0]["first_time"], days[0]["last_time"]) == (HOUR - 1, HOUR)


def test_a_period_has_a_filter() -> None:
    assert begin_of("1970-01-02 01:00") == 25 * HOUR
    assert chosen_by("hour", "1970-01-02 01:00") == (
        f"_DAYBOOK_DEATH_TIME >= {25 * HOUR} AND _DAYBOOK_DEATH_TIME < {26 * HOUR}"
    )
    assert chosen_by("day", "1970-01-02").endswith(f"< {48 * HOUR}")


def graveyard(world: World) -> World:
    """A queue with messages that died of different things at different times, and some others."""
    for number in range(230):
        death = {name: f"{field} {number % 3}" for field, name in FIELDS.items()}
        death["_DAYBOOK_DEATH_TIME"] = str(number * HOUR // 7)
        world.send("dead", b"x", headers=death if number % 5 else {"kind": "alive"})
    return world


@pytest.mark.parametrize("field", CRITERIA)
@pytest.mark.parametrize("paged", [False, True])
def test_groups_are_those_of_what_is_shown(field: str, paged: bool) -> None:
    world = graveyard(PagedWorld(2, 1) if paged else World())
    shown: list[Any] = at_once(browse(world.state, "dead", limit=1000))["messages"]  # type: ignore[index]
    deaths = [death_in(each["headers"]) for each in shown]
    slices = grouping(world.state, "dead", field, "", 1000)
    assert next(slices) <= SLICE
    answer = at_once(grouping(world.state, "dead", field, "", 1000))
    assert isinstance(answer, dict)
    assert answer["groups"] == grouped(deaths, field)
    assert answer["hours"] == grouped(deaths, "hour")
    assert (answer["looked_at"], answer["in_queue"], answer["left"]) == (230, 230, 0)


@pytest.mark.parametrize("field", CRITERIA)
@pytest.mark.parametrize("part", [7, 100, 230])
def test_parts_of_a_queue_are_added_up(field: str, part: int) -> None:
    world = graveyard(World())
    at_a_time: Any = at_once(grouping(world.state, "dead", field, "", 1000))
    sums = Sums(field)
    following: int | None = 0
    while following is not None:
        answer: Any = at_once(grouping(world.state, "dead", field, "", part, following))
        following = sums.add(answer)
    assert sums.answer() == at_a_time | {"in_other_groups": 0}


def test_groups_beyond_a_number_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "GROUPS_MAX", 2)
    rest = {"hours": [], "looked_at": 10, "next_offset": None}
    sums = Sums("reason")
    for reasons in (("a", "b"), ("c", "b"), ("c", "a")):
        rows = [
            {"reason": each, "messages": 5, "first_time": 1, "last_time": 2} for each in reasons
        ]
        sums.add(rest | {"groups": rows})
    told = sums.answer()
    assert [(each["reason"], each["messages"]) for each in told["groups"]] == [("a", 10), ("b", 10)]
    assert (told["in_other_groups"], told["looked_at"]) == (10, 30)


@pytest.mark.parametrize("field", CRITERIA)
def test_the_filter_of_a_group_chooses_its_messages(field: str) -> None:
    world = graveyard(World())
    header = FIELDS.get(field, "")
    died = {"_DAYBOOK_DEATH_REASON": "rejected", "_DAYBOOK_DEATH_TIME": "0"}
    without = {name: text for name, text in died.items() if name != header or field == "reason"}
    for more in ({}, {header: ""}, {header: "it's"}) if header else ({},):
        world.send("dead", b"x", headers=without | more)
    answer = at_once(grouping(world.state, "dead", field, "", 1000))
    assert isinstance(answer, dict)
    groups = [each for each in answer["groups"] if each[field] is not None]
    assert "" in [each[field] for each in groups] or not header
    for each in groups:
        chosen = chosen_by(field, each[field])
        found: Any = at_once(grouping(world.state, "dead", field, chosen, 1000))
        assert found["groups"] == [each]


def test_the_parts_of_a_queue_have_all_of_its_messages() -> None:
    for world in (graveyard(World()), graveyard(PagedWorld(2, 1))):
        counts: dict[Any, int] = {}
        offset, looked = 0, []
        while offset is not None:
            part: Any = at_once(grouping(world.state, "dead", "queue", "", 100, offset))
            for each in part["groups"]:
                counts[each["queue"]] = counts.get(each["queue"], 0) + each["messages"]
            looked.append((part["looked_at"], part["left"]))
            offset = part["next_offset"]
        assert looked == [(100, 130), (100, 30), (30, 0)]
        whole: Any = at_once(grouping(world.state, "dead", "queue", "", 1000))
        assert counts == {each["queue"]: each["messages"] for each in whole["groups"]}


def test_so_many_are_looked_at_and_a_filter_chooses() -> None:
    world = graveyard(World())
    answer = at_once(grouping(world.state, "dead", "reason", "kind = 'alive'", 101))
    assert isinstance(answer, dict)
    assert answer["groups"] == [
        {"reason": None, "messages": 21, "first_time": None, "last_time": None}
    ]
    assert (answer["looked_at"], answer["left"]) == (101, 129)
    assert isinstance(at_once(grouping(world.state, "dead", "reason", "=", 1)), Refusal)
    assert isinstance(at_once(grouping(world.state, "none", "reason", "", 1)), Refusal)


def cemetery(count: int) -> World:
    """Queues of dead letters and expired messages on two virtual hosts, and so many more."""
    world = World()
    graves: dict[str, dict[str, Any]] = {
        "#": {"dead-letter-address": "DLQ", "expiry-address": "old"},
        "orders.#": {"dead-letter-address": "DLQ.orders", "expiry-address": "DLQ"},
        "none": {"dead-letter-address": ""},
    }
    world.ok(ChangeSettings(graves))
    for name in ("DLQ", "DLQ.orders", "old", "alive", "eu::DLQ.orders"):
        world.ok(create_queue(name, name))
    for number in range(count):
        world.ok(create_queue(f"DLQ.{number:05}", "DLQ", "multicast"))
    world.send("alive", b"x")
    for name in ("DLQ.orders", "DLQ.orders", "old", "eu::DLQ.orders"):
        world.send(name, b"x")
    return world


def listed(request: Graves, source: ViewSource) -> dict[str, Any]:
    answer = at_once(request.look(source))
    assert isinstance(answer, dict)
    return answer


def test_the_queues_of_dead_letters_are_those_of_all_settings() -> None:
    world = cemetery(0)
    told = listed(Graves(sort="messages", descending=True), ViewSource(world.state))
    rows = {row["queue"]: (row["messages"], row["sent_here"]) for row in told["queues"]}
    assert rows == {
        "DLQ.orders": (2, [DEAD_LETTERS]), "old": (1, [EXPIRED]),
        "eu::DLQ.orders": (1, [DEAD_LETTERS]), "DLQ": (0, [DEAD_LETTERS, EXPIRED]),
    }  # fmt: skip
    assert told["queues"][0]["queue"] == "DLQ.orders"
    assert (told["total"], told["next_offset"]) == (4, None)
    waiting = sum(count for count, kinds in rows.values() if DEAD_LETTERS in kinds)
    assert views.counts(world.state)["dead_letters_waiting"] == waiting == 3
    assert not listed(Graves(), ViewSource(State()))["queues"]


def test_many_queues_of_dead_letters_are_listed_in_slices() -> None:
    world = cemetery(3 * SLICE)
    source = ViewSource(world.state)
    told: list[Any] = []
    looked = list(into(told, Graves(limit=10).look(source)))
    assert max(looked) <= SLICE
    assert (told[0]["total"], told[0]["next_offset"]) == (3 * SLICE + 4, 10)


def test_the_queues_of_dead_letters_are_those_that_the_user_may_browse() -> None:
    world = cemetery(SLICE + 20)
    kept = KeptOrders()

    def source_of(user: str) -> ViewSource:
        rules = {"#": {"browse": ("user:ada",)}, "old": {"browse": ("user:sam",)}}
        permissions = Permissions(rules | {"DLQ.orders": {"browse": ("user:sam", "user:ada")}})
        denials: list[Denial] = []
        rights = AdminRights(world.state, permissions, user, "peer", denials.append)
        assert rights.may(Graves()) is None
        assert not denials
        return ViewSource(world.state, rights=rights, kept_orders=kept)

    told = listed(Graves(), source_of("sam"))
    assert [row["queue"] for row in told["queues"]] == ["DLQ.orders", "eu::DLQ.orders", "old"]
    assert not listed(Graves(), source_of("nil"))["queues"]
    every = listed(Graves(), ViewSource(world.state, kept_orders=kept))
    assert every["cursor"]
    further = Graves(offset=1000, cursor=every["cursor"])
    assert not listed(further, source_of("sam"))["queues"], "that order is of another user"
    assert len(listed(further, ViewSource(world.state, kept_orders=kept))["queues"]) == 24
    assert len(listed(Graves(limit=5), source_of("ada"))["queues"]) == 5
