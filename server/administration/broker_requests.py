"""The rows of the table of administration about a broker as a whole: its virtual hosts, acceptors,
sessions, transactions, users, roles and rights.

Part of the table (`server.administration.admin_requests`). Must never know how a request is
transported.
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from daybook.engine.names.names import host_and_name
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import MANAGE, PERMISSIONS
from daybook.engine.state.state import State
from daybook.server.administration import broker_views, connections, views
from daybook.server.administration.request_rows import (
    Answer,
    Argument,
    Filtered,
    Offset,
    Option,
    Reading,
    Table,
    ViewSource,
    Way,
)
from daybook.server.process.ordered_lists import Order
from daybook.server.process.slices import Slices
from daybook.texts import moment

Sliced: TypeAlias = Slices[Answer | Refusal]
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=views.LIST_PAGE_MAX)]
"""How many rows a page has at most."""
Search: TypeAlias = Annotated[str, Option("--search", "Only names that contain this.", "TEXT")]
Descending: TypeAlias = Annotated[bool, Option("--descending", "The largest first.")]


def sorting(orders: dict[str, Any]) -> Option:
    """Return the option by which a list is ordered."""
    return Option("--sort", "Order by a column, not by name.", choices=tuple(orders))


class Listed(Reading, frozen=True):
    """A list in pages that is searched and sorted; each kind has its own columns in `sort`. The
    page behind another one is asked for with its cursor, if it has one."""

    offset: Offset = 0
    limit: Limit = views.LIST_PAGE_MAX
    search: Search = ""
    sort: str = ""
    descending: Descending = False
    cursor: Offset = 0

    def order(self, source: ViewSource) -> Order:
        """Return which rows are wanted, and in which order."""
        key = replace(self, offset=0, limit=1, cursor=0), source.sight()
        return Order(
            self.search, self.sort, self.descending, self.cursor, key, source.kept_orders
        )  # fmt: skip


class OfSeen(Listed, Filtered, frozen=True):
    """A list of what the user may browse or administer, be it at some addresses only."""


class Hosts(Listed, frozen=True, tag="hosts"):
    """List the virtual hosts with what is on them and their limits.

    A host that the configuration does not list any more is there as long as it has something.
    """

    sort: Annotated[str, sorting(broker_views.HOST_ORDERS)] = ""
    ways = (
        Way(
            "host list",
            table=Table(
                "hosts",
                ("host", "connections", "addresses", "queues", "messages", "bytes", "configured"),
                ("host_names", "max_connections", "max_addresses", "max_queues", "max_size"),
                named_by="host",
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the virtual hosts."""
        return broker_views.listing_hosts(
            source.state, source.premises.hosts, self.offset, self.limit, self.order(source)
        )


def _with_dates(row: Answer) -> Answer:
    """Show the dates of a certificate."""
    return row | {
        key: moment(row[key] * 1000)[:19] if row[key] is not None else None
        for key in ("begins", "expires")
    }


class Acceptors(Reading, frozen=True, tag="acceptors"):
    """List the acceptors, where the broker listens, with their certificates.

    The certificate of the console that the broker starts is the row [console].
    `daybook health` warns of a certificate that expires within two weeks.
    """

    needs_broker = True
    is_about_clients = True
    ways = (
        Way(
            "acceptor list",
            table=Table(
                "acceptors",
                ("acceptor", "url", "connections", "tls", "subject", "expires", "days_left"),
                ("max_connections", "issuer", "names", "begins", "client_certificates",
                 "certificate"),
                shape=_with_dates,
            ),
        ),
    )  # fmt: skip

    def look(self, source: ViewSource) -> Answer:
        """Return all acceptors."""
        return {"acceptors": source.premises.acceptors()}


class OfClients(Listed, frozen=True):
    """A list of what clients have on their connections."""

    connection: Annotated[
        int, msgspec.Meta(ge=0), Option("--connection", "Those of a connection.", "CONNECTION")
    ] = 0
    is_about_clients = True
    needs_broker = True


class Sessions(OfClients, frozen=True, tag="sessions"):
    """List the sessions of clients, in protocols that have them, as AMQP 1.0.

    Windows are the transfers that may still come and leave. Unsettled are deliveries to the client,
    and from it. Users, ids of clients and addresses of clients are searched.
    """

    sort: Annotated[str, sorting(connections.SESSION_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "session list",
            table=Table(
                "sessions",
                ("connection", "session", "user", "links", "unsettled", "unsettled_by_peer"),
                ("incoming_window", "outgoing_window", "waiting_bytes", "client_id", "host"),
                named_by="host",
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the sessions."""
        return connections.listing_sessions(
            source.state, self.offset, source.session_of, self.connection, self.limit,
            self.order(source),
        )  # fmt: skip


class Transactions(Listed, frozen=True, tag="transactions"):
    """List the open transactions of clients, with their age and what they hold.

    One that is doomed cannot be committed; one that the broker rolled back holds nothing, and its
    client hears why when it uses it again.
    """

    sort: Annotated[str, sorting(connections.TRANSACTION_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "transaction list",
            table=Table(
                "transactions",
                ("transaction", "connection", "user", "state", "age_seconds", "messages",
                 "settlements", "bytes"),
                ("operations", "entries", "memory_bytes", "peer", "host", "why"),
                named_by="host",
            ),
        ),
    )  # fmt: skip

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the transactions."""
        return connections.listing_transactions(
            source.state, source.now, self.offset, self.limit, self.order(source)
        )


def _on_all(row: Answer) -> Answer:
    """Show that a user may use all virtual hosts."""
    return row | {"hosts": row["hosts"] or ["all"]}


USER_TABLE: Final = Table(
    "users", ("user", "roles", "hosts", "passcode", "scram", "token", "disabled"), shape=_on_all
)


def users_file(answer: Answer) -> tuple[str, ...]:
    """Return the option that names the users file of an answer."""
    return ("--users-file", answer["users_file"])


class AboutUsers(Listed, frozen=True):
    """A request about users: who may do what is not for each reader."""

    needs_broker = True

    def needed(self, state: State) -> list[str]:
        """Return `manage`: who may do what is not for each reader."""
        return [MANAGE]


class UserList(AboutUsers, frozen=True, tag="users"):
    """List all users with their roles."""

    sort: Annotated[str, sorting(broker_views.USER_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "user list",
            table=USER_TABLE,
            words=users_file,
            written="it reads the users file, which a running broker takes over on SIGHUP",
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the users."""
        return broker_views.listing_users(
            source.premises.users, self.offset, self.limit, self.order(source)
        )


class RightsOf(Reading, frozen=True, tag="rights"):
    """Show what a user may do at an address, or at one of its queues."""

    needs_broker = True
    user: Annotated[str, Argument("LOGIN")]
    address: Annotated[str, Option("--address", "Show its permissions at this address.")]
    queue: Annotated[str | None, Option("--queue", "The same for one queue of the address.")] = None
    permission: Annotated[
        str, Option("--permission", "Show this permission alone.", choices=tuple(PERMISSIONS))
    ] = ""
    ways = (
        Way(
            "user show",
            words=users_file,
            written="it joins the users file, and may ask a file instead of a broker",
        ),
    )

    def needed(self, state: State) -> list[str]:
        """Return `manage`: who may do what is not for each reader."""
        return [MANAGE]

    def look(self, source: ViewSource) -> Answer | Refusal:
        """Return each permission, and where it comes from."""
        users = source.premises.users
        if users is not None and users.why_not_let_in(self.user):
            return Refusal(Code.NOT_FOUND, users.why_not_let_in(self.user))
        told = views.rights(
            source.permissions, self.user, self.address, self.queue, self.permission
        )
        if users is None:
            return told
        may_use = users.may_use(self.user, host_and_name(self.address)[0])
        return told | {"may_use_host": may_use, "users_file": str(users.path)}


def _in_words(row: Answer) -> Answer:
    """Show rules as MATCH (PERMISSIONS), and that there are more."""
    rules = [f"{each['match']} ({', '.join(each['permissions'])})" for each in row["rules"]]
    rules += ["..."] if row["rule_count"] > len(rules) else []
    users = row["users"] + (["..."] if row["user_count"] > len(row["users"]) else [])
    return row | {"rules": rules, "users": users}


class Roles(AboutUsers, frozen=True, tag="roles"):
    """List the roles with their users, and with the rules that give them permissions.

    Rules may also name a user (`user:LOGIN`), or every user (`*`).
    """

    sort: Annotated[str, sorting(broker_views.ROLE_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "role list",
            table=Table(
                "roles", ("role", "user_count", "users", "rule_count", "rules"), shape=_in_words
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the roles."""
        return broker_views.listing_roles(
            source.premises.users, source.permissions, self.offset, self.limit, self.order(source)
        )
