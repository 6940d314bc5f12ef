"""The menu of a broker: its pages in groups, those that who looks may see, and that have something
to show.

A list of what only a running broker knows (`Reading.needs_broker`) is not offered at a past moment,
nor without a broker. Must never know what a page shows.
"""

from collections.abc import Iterator, Set
from typing import Final, NamedTuple

from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.request_rows import Reading

EVERYBODY: Final = "everybody"
SEES: Final = "sees all lists"
LISTS: Final = "sees some queues and addresses"
MANAGES: Final = "manages"
READS: Final = "sees the history"
CLUSTER: Final = "sees the cluster"


class Item(NamedTuple):
    """A page in the menu: its path, its name, the right that it needs, and whether it can be about
    the moment that was chosen."""

    path: str
    text: str
    right: str = SEES
    is_of_moment: bool = True


GROUPS: Final[tuple[tuple[str, tuple[Item, ...]], ...]] = (
    ("", (Item("", "Overview", EVERYBODY),)),
    (
        "Messaging",
        (
            Item("list/queues", "Queues", LISTS),
            Item("list/addresses", "Addresses", LISTS),
            Item("list/diverts", "Diverts"),
            Item("dead-letters", "Dead letters", EVERYBODY),
            Item("list/retries", "Retries", LISTS),
        ),
    ),
    (
        "Clients",
        (
            Item("list/connections", "Connections"),
            Item("list/links", "Links"),
            Item("list/consumers", "Consumers"),
            Item("list/sessions", "Sessions"),
            Item("list/transactions", "Transactions"),
        ),
    ),
    (
        "Users",
        (
            Item("list/users", "Users", MANAGES),
            Item("list/roles", "Roles", MANAGES),
            Item("rights", "Rights", MANAGES),
        ),
    ),
    (
        "Broker",
        (
            Item("list/hosts", "Virtual hosts"),
            Item("list/acceptors", "Acceptors"),
            Item("cluster", "Cluster", CLUSTER, is_of_moment=False),
        ),
    ),
    (
        "Other brokers",
        (Item("list/connectors", "Connectors"), Item("list/auto-links", "Auto-links")),
    ),
    (
        "History",
        (
            Item("past", "Time machine", READS),
            Item("story", "Story of a message", READS),
            Item("events", "Events", READS),
            Item("integrity", "Integrity", READS),
            Item("sql", "SQL", READS, is_of_moment=False),
        ),
    ),
)

WITHHELD: Final = {
    SEES: "Other lists and the history need the permission 'browse' for all addresses.",
    MANAGES: "Users, roles and rights need the permission 'manage' for all addresses.",
}
"""The sentences of the menu for users without a right."""


def groups_of(rights: Set[str], *, is_live: bool) -> Iterator[tuple[str, list[Item]]]:
    """Yield the groups with their pages, without those that would be empty. `is_live` if a running
    broker is shown, as it is now."""
    for title, items in GROUPS:
        offered = [
            each for each in items if each.right in rights and is_there(each.path, is_live=is_live)
        ]
        if offered:
            yield title, offered


def withheld(rights: Set[str]) -> Iterator[str]:
    """Yield a sentence for each permission without which the menu has fewer pages, so that nobody
    looks for them elsewhere."""
    return (text for right, text in WITHHELD.items() if right not in rights)


def is_there(path: str, *, is_live: bool) -> bool:
    """Whether the broker or its history can answer what a page asks for."""
    request = REQUESTS.get(path.removeprefix("list/"))
    needs_broker = request is not None and issubclass(request, Reading) and request.needs_broker
    return is_live or not needs_broker
