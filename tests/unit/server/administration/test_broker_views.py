"""Lists of virtual hosts, users, roles, sessions and transactions: bounded slices, no secrets."""

from pathlib import Path
from typing import Any

from daybook.engine.broker import Broker
from daybook.engine.commands import Begin, OpenConnection, Send
from daybook.engine.settings.permissions import Permissions
from daybook.engine.state.state import State
from daybook.protocols.port import LinkCounts, SessionRow
from daybook.server.administration import broker_views, connections
from daybook.server.administration.broker_views import MEMBERS_NAMED_MAX, RULES_NAMED_MAX
from daybook.server.administration.views import LIST_PAGE_MAX
from daybook.server.configuration.host_config import VirtualHost
from daybook.server.process.ordered_lists import BY_NAME, Order
from daybook.server.process.slices import SLICE, Slices, at_once
from daybook.server.users.users import Users
from daybook.server.users.users_file import User
from tests.support.topology import create_queue
from tests.support.world import World

MANY = 20 * SLICE


def work(slices: Slices[dict[str, Any]]) -> tuple[list[int], dict[str, Any]]:
    """The objects that each slice looked at, and the result."""
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


class FakeUsers(Users):
    """Users that are in no file."""

    def __init__(self, users: dict[str, User]) -> None:
        super().__init__(Path("users.toml"))
        self._users = users


def test_virtual_hosts_are_those_of_the_configuration_and_those_that_have_something() -> None:
    world = World()
    world.ok(create_queue("orders", "orders"))
    world.ok(create_queue("eu::orders", "eu::orders"))
    world.ok(Send(0, "eu::orders", b"", b"body"))
    world.turn()
    plans = [
        VirtualHost("default", (), 0, 0, 0, 0), VirtualHost("us", ("us.example",), 7, 0, 5, 0),
    ]  # fmt: skip
    told = at_once(broker_views.listing_hosts(world.state, plans, 0, 10, BY_NAME))
    rows = {row["host"]: row for row in told["hosts"]}
    assert list(rows) == ["default", "eu", "us"]
    assert (rows["eu"]["messages"], rows["eu"]["queues"], rows["eu"]["addresses"]) == (1, 1, 1)
    assert rows["eu"]["bytes"] > 0
    assert not rows["eu"]["configured"]
    assert rows["default"]["configured"]
    assert (rows["us"]["max_connections"], rows["us"]["max_addresses"]) == (7, None)
    assert rows["us"]["host_names"] == ["us.example"]
    by = Order(sort="messages", descending=True)
    told = at_once(broker_views.listing_hosts(world.state, plans, 0, 1, by))
    assert [row["host"] for row in told["hosts"]] == ["eu"]
    assert (told["total"], told["next_offset"]) == (3, 1)
    told = at_once(broker_views.listing_hosts(State(), (), 0, 10, BY_NAME))
    assert [row["host"] for row in told["hosts"]] == ["default"], "without a broker"


def test_users_are_shown_without_secrets_in_slices() -> None:
    record = User(hash="HASH", token="TOKEN", scram="VERIFIER", roles=("b", "a"))
    users = FakeUsers({f"u{number * 7919 % MANY:06}": record for number in range(MANY)})
    looked, told = work(broker_views.listing_users(users, 5, LIST_PAGE_MAX, BY_NAME))
    assert max(looked) <= SLICE
    assert [row["user"] for row in told["users"]] == [
        f"u{number:06}" for number in range(5, 5 + LIST_PAGE_MAX)
    ]
    assert (told["total"], told["next_offset"]) == (MANY, 5 + LIST_PAGE_MAX)
    row = told["users"][0]
    assert (row["passcode"], row["scram"], row["token"]) == (True, True, True)
    assert row["roles"] == ["a", "b"]
    for secret in ("HASH", "TOKEN", "VERIFIER"):
        assert secret not in str(told)
    told = at_once(broker_views.listing_users(users, 0, 10, Order("U000012")))
    assert [row["user"] for row in told["users"]] == ["u000012"]
    assert at_once(broker_views.listing_users(None, 0, 10, BY_NAME))["users"] == []


def test_roles_have_their_users_and_what_rules_give_them() -> None:
    users = FakeUsers(
        {"alice": User(roles=("sales", "staff")), "bob": User(roles=("sales",))}
        | {f"u{number:06}": User(roles=("crowd",)) for number in range(MANY)}
    )
    rules = {
        "#": {"send": ("*",), "manage": ("staff",)},
        "orders.#": {"send": ("sales", "user:bob"), "consume": ("sales",)},
    } | {f"a{number}": {"browse": ("crowd",)} for number in range(MANY)}
    permissions = Permissions(rules, of_hosts={"eu": {"#": {"send": ("guests",)}}})
    looked, told = work(broker_views.listing_roles(users, permissions, 0, 100, BY_NAME))
    assert max(looked) <= SLICE
    rows = {row["role"]: row for row in told["roles"]}
    assert list(rows) == ["*", "crowd", "guests", "sales", "staff", "user:bob"]
    assert rows["sales"]["users"] == ["alice", "bob"]
    assert rows["sales"]["rules"] == [{"match": "orders.#", "permissions": ["send", "consume"]}]
    assert rows["guests"]["rules"] == [{"match": "eu::#", "permissions": ["send"]}]
    assert (rows["crowd"]["user_count"], rows["crowd"]["rule_count"]) == (MANY, MANY)
    assert len(rows["crowd"]["users"]) == MEMBERS_NAMED_MAX
    assert len(rows["crowd"]["rules"]) == RULES_NAMED_MAX
    by = Order(sort="user_count", descending=True)
    told = at_once(broker_views.listing_roles(users, permissions, 0, 1, by))
    assert [row["role"] for row in told["roles"]] == ["crowd"]
    assert at_once(broker_views.listing_roles(None, None, 0, 10, BY_NAME))["roles"] == []


class WithSessions:
    """A protocol session with so many sessions of its peer."""

    def __init__(self, count: int) -> None:
        self.link_counts = LinkCounts(count, 0, 0)

    def session_rows(self, first: int, count: int) -> list[SessionRow]:
        every = [SessionRow(at, 2, 10, 20, 3, 4, 5) for at in range(self.link_counts.sessions)]
        return every[first : first + count]


def test_sessions_are_those_of_all_connections() -> None:
    broker = Broker(State())
    sessions: dict[int, Any] = {}
    for count in (2, 0, 1500):
        opened = broker.handle(OpenConnection("AMQP 1.0", "10.0.0.1:1", "joe", "c"), 1)
        assert isinstance(opened, int)
        sessions[opened] = WithSessions(count)
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        slices = connections.listing_sessions(broker.state, offset, sessions.get)
        looked, told = work(slices)
        assert max(looked) <= SLICE
        rows += told["sessions"]
        offset = told["next_offset"]
    assert len(rows) == 1502
    assert (rows[1]["session"], rows[1]["links"], rows[1]["unsettled_by_peer"]) == (1, 2, 4)
    one = connections.listing_sessions(broker.state, 0, sessions.get, next(iter(sessions)))
    assert len(at_once(one)["sessions"]) == 2
    largest, *_ = list(sessions)[::-1]
    by = Order("JOE", "links", descending=True)
    told = at_once(connections.listing_sessions(broker.state, 0, sessions.get, limit=3, order=by))
    assert [row["connection"] for row in told["sessions"]] == [largest] * 3
    assert (told["total"], told["next_offset"]) == (1502, 3)


def test_transactions_are_shown_with_their_age() -> None:
    world = World()
    world.ok(create_queue("q", "q"))
    one, two = world.connect(), world.connect()
    for connection, name in ((one, "first"), (two, "second")):
        world.ok(Begin(connection, name))
        world.now += 5_000_000
    for _ in range(3):
        world.ok(Send(two, "q", b"", b"body", transaction="second"))

    def rows(**order: Any) -> list[dict[str, Any]]:
        slices = connections.listing_transactions(world.state, world.now, 0, 10, Order(**order))
        found: list[dict[str, Any]] = at_once(slices)["transactions"]
        return found

    first, second = rows()
    assert (first["transaction"], first["age_seconds"], first["messages"]) == ("first", 10.0, 0)
    assert (second["messages"], second["settlements"], second["state"]) == (3, 0, "open")
    assert second["bytes"] > 3 * len(b"body")
    assert [row["transaction"] for row in rows(sort="age_seconds")] == ["second", "first"]
    assert [row["transaction"] for row in rows(search="SEC")] == ["second"]
