"""The queues of wildcard addresses on the row of an address that they match."""

from typing import Any

import pytest

from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.server.administration.admin_requests import ADDRESS_TABLE, AddressOf
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.request_rows import ViewSource
from daybook.server.administration.views import QUEUES_NAMED_MAX
from daybook.server.process.slices import at_once
from tests.support.topology import create_queue
from tests.support.world import World

ALL: dict[str, Any] = {
    "address": "orders.#", "queue": "all", "routing_type": "multicast", "filter": "",
}  # fmt: skip
EU: dict[str, Any] = {
    "address": "*.eu", "queue": "eu", "routing_type": "multicast", "filter": "region = 'eu'",
}  # fmt: skip


@pytest.fixture
def world() -> World:
    """A broker with an address that two wildcard addresses match, and one that none does."""
    made = World()
    made.ok(create_queue("orders.eu", "orders.eu"))
    made.ok(create_queue("all", "orders.#", "multicast"))
    made.ok(create_queue("eu", "*.eu", "multicast", filter="region = 'eu'"))
    made.ok(create_queue("us", "*.us", "multicast"))
    made.ok(create_queue("other", "other"))
    return made


def row_of(source: ViewSource, address: str) -> dict[str, Any]:
    found: Any = at_once(AddressOf(address).look(source))  # type: ignore[arg-type]
    [row] = found["addresses"]
    assert isinstance(row, dict)
    return row


def test_a_broker_and_its_journal_say_the_same(world: World) -> None:
    live = ViewSource(world.state, wildcards=world.broker.wildcards)
    for source in (live, ViewSource(world.state)):
        row = row_of(source, "orders.eu")
        assert [each["queue"] for each in row["bindings"]] == ["orders.eu"]
        assert (row["wildcard_bindings"], row["wildcard_queue_count"]) == ([ALL, EU], 2)
        for name in ("other", "orders.#"):
            row = row_of(source, name)
            assert (row["wildcard_bindings"], row["wildcard_queue_count"]) == ([], 0)


def test_a_table_shows_them_behind_its_own_queues(world: World) -> None:
    assert ADDRESS_TABLE.shape is not None
    shown = ADDRESS_TABLE.shape(row_of(ViewSource(world.state), "orders.eu"))
    assert shown["queues"] == [
        "orders.eu (anycast)", "all (multicast, at orders.#)",
        "eu (multicast, region = 'eu', at *.eu)",
    ]  # fmt: skip


def test_many_are_counted_and_some_are_shown(world: World) -> None:
    for number in range(QUEUES_NAMED_MAX):
        world.ok(create_queue(f"s{number:02}", "orders.#", "multicast"))
    row = row_of(ViewSource(world.state), "orders.eu")
    assert len(row["wildcard_bindings"]) == QUEUES_NAMED_MAX
    assert row["wildcard_queue_count"] == QUEUES_NAMED_MAX + 2
    assert ADDRESS_TABLE.shape is not None
    assert ADDRESS_TABLE.shape(row)["queues"][-1] == "..."


def test_a_user_sees_those_of_addresses_that_it_may_see(world: World) -> None:
    mine = dict.fromkeys(PERMISSIONS, ("user:dan",))
    permissions = Permissions({"orders.eu": mine, "*.eu": mine, "orders.#": {}})
    rights = AdminRights(world.state, permissions, "dan", "peer", lambda _: None)
    row = row_of(ViewSource(world.state, permissions, rights=rights), "orders.eu")
    assert (row["wildcard_bindings"], row["wildcard_queue_count"]) == ([EU], 1)
