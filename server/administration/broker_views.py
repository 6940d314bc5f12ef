"""Views of a broker as a whole: virtual hosts, users and roles, in pages and in slices.

Reads a `State`, and what a running broker has beside it (`server.administration.premises`). Hashes,
verifiers and tokens of users are in no row. Must never know its callers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from daybook.engine.names.names import HOST
from daybook.engine.settings.permissions import Permissions
from daybook.engine.state.state import State
from daybook.server.process.ordered_lists import Order, in_order
from daybook.server.process.slices import SLICE, Slices, rows_of

if TYPE_CHECKING:
    from daybook.server.configuration.host_config import VirtualHost
    from daybook.server.users.users import Users
    from daybook.server.users.users_file import User

_T = TypeVar("_T")
MEMBERS_NAMED_MAX: Final = 20
"""How many users are named with their role."""
RULES_NAMED_MAX: Final = 50
"""How many rules are listed with a role that they name."""


class HostCounts:
    """A virtual host with what is on it."""

    __slots__ = ("bytes", "connections", "messages", "name", "plan", "queues")

    def __init__(self, name: str, plan: "VirtualHost | None", state: State) -> None:
        self.name: Final = name
        self.plan: Final = plan
        self.connections: Final = state.connections_on.get(name, 0)
        self.queues: Final = state.queues_on.get(name, 0)
        self.messages = 0
        self.bytes = 0


HOST_ORDERS: Final[dict[str, Callable[[HostCounts], int]]] = {
    "connections": attrgetter("connections"), "queues": attrgetter("queues"),
    "messages": attrgetter("messages"), "bytes": attrgetter("bytes"),
}  # fmt: skip
"""The columns by which virtual hosts are sorted, and the number in each."""


def listing_hosts(
    state: State, plans: "Sequence[VirtualHost]", offset: int, limit: int, order: Order
) -> Slices[dict[str, Any]]:
    """A page of the virtual hosts: those of the configuration, and others that still have
    something."""
    by_name = {plan.name: plan for plan in plans}
    names = {HOST, *by_name, *state.addresses_on, *state.queues_on, *state.connections_on}
    found = {name: HostCounts(name, by_name.get(name), state) for name in names}
    queues = list(state.queues.values())
    for start in range(0, len(queues), SLICE):
        some = queues[start : start + SLICE]
        for queue in some:
            counts = found.get(queue.address.host)
            if counts is not None:
                counts.messages += queue.message_count
                counts.bytes += queue.bytes
        yield len(some)
    page = yield from in_order(found.values(), offset, limit, order, HOST_ORDERS)
    rows = yield from rows_of(page.objects, lambda each: _host(state, each))
    return page.answer("hosts", rows)


def _host(state: State, counts: HostCounts) -> dict[str, Any]:
    plan = counts.plan
    return {
        "host": counts.name,
        "configured": plan is not None or counts.name == HOST,
        "host_names": list(plan.host_names) if plan is not None else [],
        "connections": counts.connections,
        "addresses": state.addresses_on.get(counts.name, 0),
        "queues": counts.queues,
        "messages": counts.messages,
        "bytes": counts.bytes,
        # 0 in the configuration stands for none.
        "max_connections": (plan.max_connections or None) if plan is not None else None,
        "max_addresses": (plan.max_addresses or None) if plan is not None else None,
        "max_queues": (plan.max_queues or None) if plan is not None else None,
        "max_size": (plan.max_size or None) if plan is not None else None,
    }


class KnownUser(NamedTuple):
    """A user with its login."""

    name: str
    record: "User"


USER_ORDERS: Final[dict[str, Callable[[KnownUser], int]]] = {
    "roles": lambda each: len(each.record.roles), "disabled": lambda each: each.record.disabled,
}  # fmt: skip
"""The columns by which users are sorted, and the number in each."""


def listing_users(
    users: "Users | None", offset: int, limit: int, order: Order
) -> Slices[dict[str, Any]]:
    """A page of the users, without secrets."""
    found = [KnownUser(*each) for each in users.records()] if users is not None else []
    page = yield from in_order(found, offset, limit, order, USER_ORDERS)
    rows = yield from rows_of(page.objects, lambda each: user_row(*each))
    file = str(users.path) if users is not None else ""
    return page.answer("users", rows) | {"users_file": file}


def user_row(login: str, record: "User") -> dict[str, Any]:
    """Return the description of a user, without secrets."""
    return {
        "user": login,
        "roles": sorted(record.roles),
        "hosts": sorted(record.hosts),
        "passcode": bool(record.hash),
        "scram": bool(record.scram),
        "token": bool(record.token),
        "disabled": record.disabled,
    }


class Role:
    """A role, with its users and with the permissions that rules give it, by match."""

    __slots__ = ("name", "rules", "user_count", "users")

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.users: Final[list[str]] = []
        self.user_count = 0
        self.rules: Final[dict[str, list[str]]] = {}


ROLE_ORDERS: Final[dict[str, Callable[[Role], int]]] = {
    "user_count": attrgetter("user_count"), "rule_count": lambda each: len(each.rules),
}  # fmt: skip
"""The columns by which roles are sorted, and the number in each."""


def listing_roles(
    users: "Users | None",
    permissions: Permissions | None,
    offset: int,
    limit: int,
    order: Order,
) -> Slices[dict[str, Any]]:
    """A page of the roles: those of users, and all that rules name: also `user:LOGIN` and `*`."""
    roles: dict[str, Role] = {}
    for some in _sliced(list(users.records()) if users is not None else []):
        for login, record in some:
            for name in record.roles:
                role = roles.setdefault(name, Role(name))
                role.user_count += 1
                if len(role.users) < MEMBERS_NAMED_MAX:
                    role.users.append(login)
        yield len(some)
    rules = list(permissions.every_rule()) if permissions is not None else []
    for each in _sliced(rules):
        for match, granted in each:
            _note_rule(roles, match, granted)
        yield len(each)
    page = yield from in_order(roles.values(), offset, limit, order, ROLE_ORDERS)
    rows = yield from rows_of(page.objects, _role)
    return page.answer("roles", rows)


def _sliced(found: list[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(found), SLICE):
        yield found[start : start + SLICE]


def _note_rule(roles: dict[str, Role], match: str, granted: Mapping[str, tuple[str, ...]]) -> None:
    for permission, names in granted.items():
        for name in names:
            role = roles.setdefault(name, Role(name))
            role.rules.setdefault(match, []).append(permission)


def _role(role: Role) -> dict[str, Any]:
    return {
        "role": role.name,
        "user_count": role.user_count,
        "users": role.users,
        "rule_count": len(role.rules),
        "rules": [
            {"match": match, "permissions": names}
            for match, names in islice(role.rules.items(), RULES_NAMED_MAX)
        ],
    }
