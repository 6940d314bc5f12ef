"""The table of administration: each request once.

The control socket and the acceptor for administration read and answer these requests
(`server.administration.control`), `admin_rights` asks them which permission they need, the commands
of `daybook` are made from them (`tools.administration.request_commands`), and the table in
docs/cli.md is drawn from them. A new request is a row here, with a command of the engine or a view
that carries it out. Must never know how a request is transported.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_origin, get_type_hints

import msgspec

from daybook.engine import commands
from daybook.engine.commands import NO_HISTORY, Command
from daybook.engine.core.queue_names import find_queue, meant
from daybook.engine.facts.definitions import (
    ANYCAST,
    DIVERT_ATTRIBUTES,
    LIVE_ATTRIBUTES,
    LOCAL,
    MULTICAST,
    QUEUE_ATTRIBUTES,
    DivertDefinition,
    QueueDefinition,
    is_as_requested,
    not_requestable,
)
from daybook.engine.names.names import plain
from daybook.engine.queues.queue import Queue, StoreError
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import (
    CREATE_ADDRESS,
    CREATE_DURABLE_QUEUE,
    CREATE_NON_DURABLE_QUEUE,
    DELETE_ADDRESS,
    DELETE_DURABLE_QUEUE,
    DELETE_NON_DURABLE_QUEUE,
    Actor,
)
from daybook.engine.settings.queue_defaults import with_defaults
from daybook.engine.state.state import State
from daybook.server.administration import connections, views
from daybook.server.administration.broker_requests import (
    Acceptors,
    Hosts,
    Listed,
    OfClients,
    OfSeen,
    RightsOf,
    Roles,
    Sessions,
    Sliced,
    Transactions,
    UserList,
    sorting,
)
from daybook.server.administration.message_requests import (
    DeathsOf,
    Graves,
    MessagePeek,
    MessagesAction,
    MessagesCount,
    RetriesList,
    RetryStop,
)
from daybook.server.administration.request_rows import (
    Answer,
    Argument,
    Attributes,
    Change,
    Fields,
    Force,
    IfMissing,
    Offset,
    OnAddress,
    OnQueue,
    Option,
    Outgoing,
    Reading,
    Request,
    Table,
    ViewSource,
    Way,
)
from daybook.server.administration.units import CREDIT, queues_of
from daybook.texts import moment

EXISTS: Final = {"exists": True}
"""The answer to a request to create what exists already, as requested."""
MODES: Final = (ANYCAST, MULTICAST)


class Status(Reading, frozen=True, tag="status"):
    """Show the state of the broker."""

    ways = (
        Way("status", written="it shows one object and not rows, and its exit code judges that"),
        Way("health", written="it shows what follows from the answer, and its exit code"),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return the figures of the broker."""
        return source.status((yield from views.counting(source.state)))


def _with_dots(row: Answer) -> Answer:
    """Show that an address has more queues than are listed, and how each is bound."""
    return row | {"queues": queues_of(row)}


def _with_time_in(column: str) -> Callable[[Answer], Answer]:
    """Show a column with milliseconds since 1970 as a moment."""

    def shaped(row: Answer) -> Answer:
        since = row.get(column)
        return row | {column: moment(since * 1000)[:19] if since is not None else None}

    return shaped


QUEUE_TABLE: Final = Table(
    "queues",
    (
        "queue", "address", "ready", "held", "scheduled", "in_flight", "consumers",
        "added", "acknowledged", "paused",
    ),
    ("routing_type", "dead_lettered", "expired", "bytes", "oldest_ready", "oldest_ready_since"),
    named_by="queue",
    shape=_with_time_in("oldest_ready_since"),
)  # fmt: skip


class Queues(OfSeen, frozen=True, tag="queues"):
    """List the queues that the user may browse, with their contents and counters."""

    sort: Annotated[str, sorting(views.QUEUE_ORDERS)] = ""
    ways = (Way("queue list", table=QUEUE_TABLE),)

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the queues."""
        return views.listing_queues(
            source.seen_queues(), offset=self.offset, limit=self.limit, order=self.order(source)
        )


ADDRESS_TABLE: Final = Table(
    "addresses",
    (
        "address", "routing_types", "queues", "messages", "bytes", "full_policy",
        "paging", "blocked_producers",
    ),
    (
        "routed", "unrouted", "remembered_ids", "retained", "max_size_bytes",
        "max_size_messages", "auto_created", "paused", "consumers",
    ),
    named_by="address",
    shape=_with_dots,
)  # fmt: skip


class Addresses(OfSeen, frozen=True, tag="addresses"):
    """List the addresses that the user may browse, with their queues."""

    sort: Annotated[str, sorting(views.ADDRESS_ORDERS)] = ""
    ways = (Way("address list", table=ADDRESS_TABLE),)

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the addresses."""
        return views.listing_addresses(
            source.state, source.seen_addresses(), source.seen_queues(), offset=self.offset,
            limit=self.limit, blocked=source.blocked, order=self.order(source),
        )  # fmt: skip


class Connections(Listed, frozen=True, tag="connections"):
    """List logged-in clients and their addresses, in the order of their logins.

    Users, ids of clients and addresses are searched.
    """

    sort: Annotated[str, sorting(connections.CONNECTION_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "connection list",
            table=Table(
                "connections",
                ("connection", "user", "peer", "consumers", "transactions", "in_flight"),
                ("host", "client_id", "protocol", "sessions", "links"),
                named_by="host",
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the connections."""
        return connections.listing_connections(
            source.state, self.offset, source.session_of, self.limit, self.order(source),
            is_live=source.is_running,
        )  # fmt: skip


class Links(OfClients, frozen=True, tag="links"):
    """List the links by which clients send and receive. A subscription of STOMP is one, too.

    Credit, messages in flight and all messages are those of a link; it waits if its address is
    full, or if the client takes no more. Links, addresses, queues, users, and ids and addresses of
    clients are searched.
    """

    sort: Annotated[str, sorting(connections.LINK_ORDERS)] = ""
    ways = (
        Way(
            "link list",
            table=Table(
                "links",
                ("connection", "link", "role", "address", "credit", "in_flight", "messages"),
                ("user", "session", "queue", "consumer", "waits", "memory_bytes", "host"),
                named_by="host",
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the links."""
        return connections.listing_links(
            source.state, self.offset, source.session_of, self.connection, self.limit,
            self.order(source),
        )  # fmt: skip


def _with_times(row: Answer) -> Answer:
    """Show how long a connector is in its state, and when it tries again."""
    later = f"{row['next_try_seconds']:,.0f} s" if row["state"] == "waiting" else ""
    links = f"{row['active_links']} of {row['auto_links']}"
    return row | {
        "since": f"{row['since_seconds']:,.0f} s", "next_try": later, "links": links,
    }  # fmt: skip


class Connectors(Reading, frozen=True, tag="connectors"):
    """List the connections that the broker opens to others, and their states.

    A connector is connecting, open, or waiting for its next attempt, with the reason of its last
    failure. Its links are the auto-links that are attached, and all.
    """

    needs_broker = True
    is_about_clients = True
    ways = (
        Way(
            "connectors",
            table=Table(
                "connectors",
                ("connector", "url", "state", "since", "next_try", "links", "why"),
                ("container", "product", "attempts", "failures", "connection", "host"),
                named_by="host",
                shape=_with_times,
            ),
        ),
    )

    def look(self, source: ViewSource) -> Answer:
        """Return all connectors."""
        return {"connectors": source.outgoing.rows()}


class AutoLinks(Reading, frozen=True, tag="auto-links"):
    """List the links that the broker attaches by itself, on each of their connections.

    A link is inactive without a connection; attaching; active; or failed with the reason, and
    attached again soon.
    """

    needs_broker = True
    connector: Annotated[str, Option("--connector", "Those of a connector.", "CONNECTOR")] = ""
    is_about_clients = True
    ways = (
        Way(
            "auto-link list",
            table=Table(
                "auto_links",
                ("auto_link", "address", "direction", "external_address", "state", "messages"),
                ("connector", "container", "connection", "why", "phase", "fallback", "host"),
                named_by="host",
            ),
        ),
    )

    def look(self, source: ViewSource) -> Answer:
        """Return all auto-links."""
        return {"auto_links": source.outgoing.link_rows(self.connector)}


CONSUMER_TABLE: Final = Table(
    "consumers",
    ("consumer", "connection", "user", "queue", "in_flight", "ack_mode"),
    (
        "client_id", "peer", "oldest_in_flight", "oldest_in_flight_since", "delivered", "settled",
        "subscription", "bundle", "filter", "credit_messages", "credit_bytes",
    ),
    named_by="queue",
    shape=_with_time_in("oldest_in_flight_since"),
)  # fmt: skip


class Consumers(Listed, frozen=True, tag="consumers"):
    """List consumers and their queues, in the order in which they came.

    Users, client ids, peers, queues and subscriptions are searched.
    """

    sort: Annotated[str, sorting(connections.CONSUMER_ORDERS)] = ""
    is_about_clients = True
    ways = (
        Way(
            "consumer list", table=CONSUMER_TABLE,
            doc=f"List consumers and their queues, in the order in which they came. {CREDIT}\n\n"
            "Users, client ids, peers, queues and subscriptions are searched.",
        ),
    )  # fmt: skip

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the consumers."""
        return connections.listing_consumers(
            source.state, self.offset, self.limit, self.order(source), is_live=source.is_running
        )


class QueueOf(OnQueue, Reading, frozen=True, tag="queue"):
    """Show one queue with its contents and counters, its consumers, diverts and settings."""

    ways = (
        Way(
            "queue show", table=QUEUE_TABLE,
            written="it asks for the consumers, the diverts and the settings, too",
        ),
    )  # fmt: skip

    def look(self, source: ViewSource) -> Answer | Refusal:
        """Return the row of the queue."""
        return views.queue_named(source.state, self.queue)


class ConsumersOf(OnQueue, Reading, frozen=True, tag="consumers-of"):
    """List the consumers of one queue."""

    offset: Offset = 0
    is_about_clients = True
    ways = (Way("queue consumers", table=CONSUMER_TABLE),)

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the consumers of the queue."""
        return connections.listing_consumers_of(
            source.state, self.queue, self.offset, is_live=source.is_running
        )


class AddressOf(OnAddress, Reading, frozen=True, tag="address"):
    """Show one address with its queues and those of wildcard addresses that it matches, and the
    routing type and filter of each."""

    ways = (Way("address show", table=ADDRESS_TABLE),)

    def look(self, source: ViewSource) -> Sliced:
        """Return the row of the address."""
        return views.address_named(
            source.state, self.address, source.seen_queues(), source.blocked,
            lambda address: (
                each for each in source.wildcards_of(address) if source.may(AddressOf(each.name))
            ),
        )  # fmt: skip


class Diverts(Reading, frozen=True, tag="diverts"):
    """List all diverts."""

    ways = (
        Way(
            "divert list",
            table=Table(
                "diverts",
                (
                    "divert",
                    "address",
                    "forwarding_addresses",
                    "exclusive",
                    "routing_type",
                    "filter",
                ),
                ("add_properties", "remove_properties", "rename_properties"),
                named_by="divert",
            ),
        ),
    )  # fmt: skip

    def look(self, source: ViewSource) -> Sliced:
        """Return all diverts."""
        return views.listing_diverts(source.state)


def _named(row: Answer) -> Answer:
    """Describe a message group without a place of its own."""
    if row["bucket"] is not None:
        return row | {"group": f"bucket {row['bucket']}"}
    if row["shared_place"] is not None:
        return row | {"group": f"shared place {row['shared_place']}"}
    return row | {"group": str(row["group"]) or "(what a filter passed over)"}


class GroupsOf(OnQueue, Reading, frozen=True, tag="groups"):
    """List the message groups of a queue and the consumers that have them.

    With group-hashing, these are the groups that have messages in flight. Groups without a place of
    their own are shown as `shared place N`, and those of a queue with group-buckets as `bucket N`.
    """

    offset: Offset = 0
    is_about_clients = True
    ways = (
        Way(
            "queue groups",
            table=Table(
                "groups", ("group", "consumer", "connection", "user", "peer"), shape=_named
            ),
        ),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the groups of a queue."""
        return views.listing_groups(source.state, self.queue, self.offset)


class ShardsOf(OnAddress, Reading, frozen=True, tag="shards"):
    """List the shards of a sharded queue: on this broker, and on others.

    Waiting are the messages that a shard has and that nobody got; others say it every few seconds,
    if they are Daybooks. Sent and received are messages of the links to a shard since they began;
    those that are unconfirmed or in flight have no outcome yet.
    """

    is_about_clients = True
    ways = (
        Way(
            "queue shards",
            table=Table(
                "shards",
                ("shard", "state", "waiting", "sent", "unconfirmed", "received", "in_flight"),
                ("address", "why"),
            ),
        ),
    )

    def look(self, source: ViewSource) -> Answer | Refusal:
        """Return all shards of a queue."""
        rows = source.outgoing.shard_rows(self.address)
        if rows is None:
            return Refusal(
                Code.NOT_FOUND,
                f"'{plain(self.address)}' is not a sharded queue; write a [[sharded-queue]] with"
                " this name, or ask for `daybook queue list`",
            )
        queue = source.state.queue_by_name.get(self.address)
        return {"shards": [_with_queue(row, queue) for row in rows]}


class QueueDrain(OnQueue, Request, frozen=True, tag="drain-queue"):
    """Move the messages that wait in a shard on this broker to another shard.

    As many as are there now, in their order. Each leaves its queue when the other broker has
    confirmed it; one that it does not take comes back. New messages are still balanced over all
    shards. See `daybook queue shards` and `daybook auto-link list` for how far it is; it ends when
    nothing is left, or with the connection.
    """

    to: Annotated[str, Option("--to", "The shard, by its connector.", "SHARD")] = ""
    is_about_clients = True
    ways = (
        Way(
            "queue drain",
            "moving {messages} of queue '{queue}' to shard '{to}'",
            missing="name the shard with --to",
        ),
    )

    def begin(self, state: State, outgoing: Outgoing, by: str) -> Answer | Refusal:
        """Begin it; the consumer that it adds to the queue has the name of who asked."""
        queue = find_queue(state, self.queue)
        if isinstance(queue, Refusal):
            return queue
        count = queue.ready_count
        why_not = outgoing.drain(self.queue, self.to, count, by)
        if why_not:
            return Refusal(
                Code.INVALID, f"queue '{plain(self.queue)}' cannot be drained: {why_not}"
            )
        return {"messages": count}


def _with_queue(row: Answer, queue: Queue | None) -> Answer:
    """Add the counts of the shard that is a queue of this broker."""
    if row["shard"] != LOCAL or queue is None:
        return row
    return row | {
        "waiting": queue.ready_count, "sent": queue.added,
        "received": queue.acknowledged, "in_flight": queue.in_flight_count,
    }  # fmt: skip


class SettingsOf(OnAddress, Reading, frozen=True, tag="settings"):
    """Show the settings in force for an address, and where each comes from."""

    ways = (
        Way("settings show", written="its group takes an address, too, and values get their units"),
    )

    def look(self, source: ViewSource) -> Answer | Refusal:
        """Return the settings of an address."""
        unknown = source.check_host(self.address)
        return unknown or views.settings(source.state, self.address)


class Browse(OnQueue, Reading, frozen=True, tag="browse"):
    """Show the messages of a queue without consuming them: in flight first, then in delivery
    order."""

    offset: Annotated[int, Option("--offset", "Skip this many messages.")] = 0
    limit: Annotated[
        int,
        Option(
            "--limit", "Show this many messages; with --filter, look at 10,000 for them at most."
        ),
    ] = views.PAGE_DEFAULT
    filter: Annotated[
        str,
        Option(
            "--filter",
            "Show only messages for which this is true, as in SQL-92 (docs/filters.md).",
            "CONDITION",
        ),
    ] = ""
    look_at: Annotated[int, msgspec.Meta(ge=1, le=views.LOOKED_AT_MAX)] = views.LOOKED_AT_MAX
    ways = (
        Way("browse", written="people see the beginning of a body, and how to see the next page"),
    )

    def look(self, source: ViewSource) -> Sliced:
        """Return a page of the messages of a queue."""
        try:
            return (
                yield from views.browse(
                source.state, self.queue, offset=self.offset, limit=self.limit,
                chosen_by=self.filter, look_at=self.look_at, beginning=source.beginning,
                )
            )  # fmt: skip
        except StoreError as error:
            return Refusal(Code.NOT_FOUND, f"a message cannot be read back: {error}")


class Offers(Reading, frozen=True, tag="commands"):
    """List the commands that change something, and that the user behind the request may use.

    At a queue, at an address, or at any place if neither is named. Some depend on more than that,
    such as the target of a move: the broker judges these when they are used.
    """

    queue: Annotated[str, Option("--queue", "At this queue.", "NAME")] = ""
    address: Annotated[str, Option("--address", "At this address.", "NAME")] = ""
    is_about_clients = True
    ways = (Way("commands", table=Table("commands", ("command", "request"))),)

    def needed(self, state: State) -> list[str]:
        """Return nothing: everybody may ask that."""
        return []

    def look(self, source: ViewSource) -> Answer:
        """Return the commands, whether the user sees something, and at any place first matches."""
        rights, is_placed = source.rights, self.queue or self.address
        found = []
        for tag, row in REQUESTS.items():
            if issubclass(row, Reading):
                continue
            sample = self._sample(source.state, row)
            if rights is not None and not (
                rights.allows(sample) if is_placed else rights.allows_somewhere(sample)
            ):
                continue
            found += [{"command": way.command, "request": tag} for way in row.ways]
        seen = rights.seen() if rights is not None and not is_placed else []
        return {"commands": found, "seen": seen, "sees_some": source.may(Queues())}

    def _sample(self, state: State, row: type[Request]) -> Request:
        """Return a request about the place, with something for the other fields that it needs."""
        address = self.address or meant(state, self.queue)[0] or self.queue
        known = {"queue": self.queue or address, "address": address, "match": address}
        given: dict[str, Any] = {}
        for field in msgspec.structs.fields(row):
            if field.name in known:
                given[field.name] = known[field.name]
            elif field.required:
                kind = get_type_hints(row)[field.name]
                named = {"name": self.queue or address}
                given[field.name] = (
                    named
                    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
                    else (get_origin(kind) or kind)()
                )
        return msgspec.convert(given | {"do": row.__struct_config__.tag}, row, strict=False)


class ConnectionClosing(Request, frozen=True, tag="close-connections"):
    """Close connections: by their numbers, of a user, from an address.

    A connection must match everything given. Its transactions are rolled back and its
    deliveries return to their queues, or go to the dead letter address if they were the last
    attempt that is allowed; the client gets an ERROR frame.
    """

    ids: Annotated[tuple[int, ...], Argument("[CONNECTION]...")] = ()
    user: Annotated[str | None, Option("--user", "Those of a user.", "LOGIN")] = None
    peer: Annotated[
        str | None, Option("--peer", "Those from an address, or from ADDRESS:PORT.", "ADDRESS")
    ] = None
    is_about_clients = True
    ways = (
        Way(
            "connection close",
            "closed {closed}",
            one_of=("ids", "user", "peer"),
            missing="name connections, or give --user or --peer",
            nothing="no connection matches; `daybook connection list` shows all",
        ),
    )


class QueueCreation(Change, frozen=True, tag="create-queue"):
    """Create a queue, and its address if that does not exist.

    NAME may be ADDRESS::QUEUE, instead of --address. If the address is retroactive, the queue
    begins with the messages that the address keeps.
    """

    # `address` defaults to the name of the queue. `after` (an event, -1 for the last one) and
    # `since` (milliseconds since 1970) say from where on it gets the history of the address.
    definition: Annotated[
        QueueDefinition, Attributes(QUEUE_ATTRIBUTES, QueueDefinition, {"name": Argument()})
    ]
    address: Annotated[str, Option("--address", "Its address; the default is its name.")] = ""
    if_missing: IfMissing = False
    after: int = 0
    since: int = 0
    ways = (
        Way(
            "queue create",
            "created queue '{definition[name]}'",
            written="its name may hold the address, and three options make two fields",
        ),
    )

    def needed(self, state: State) -> list[str]:
        """Return `create-durable-queue` or `create-non-durable-queue`, with `create-address` if the
        address does not exist."""
        durable = self.definition.durable
        created = [CREATE_DURABLE_QUEUE if durable else CREATE_NON_DURABLE_QUEUE]
        if (self.address or self.definition.name) not in state.address_by_name:
            created.append(CREATE_ADDRESS)
        return created

    def place(self, state: State) -> tuple[str, str | None]:
        """Return the new queue, and its address."""
        name = self.definition.name
        return self.address or name, name

    def settled(self, state: State) -> Answer | Refusal | None:
        """Return that the queue exists with all requested attributes, if that is allowed."""
        wanted = self.definition
        queue = state.queue_by_name.get(wanted.name)
        if self.if_missing and queue is not None:
            is_there = queue.address.name == (self.address or wanted.name)
            full = with_defaults(wanted, state.settings.resolve(queue.address.name))
            if is_there and is_as_requested(queue.definition, full):
                return EXISTS
        wrong = ", ".join(not_requestable(wanted))
        text = f"these attributes cannot be requested: {wrong}"
        return Refusal(Code.INVALID, text) if wrong else None

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        name = self.address or self.definition.name
        after = self.after if self.after >= 0 else NO_HISTORY
        return commands.CreateQueue(
            name, self.definition, adopts=self.if_missing, after=after, since=self.since
        )


_NO_ATTRIBUTE: Final = "name at least one attribute, like --max-consumers 1"


class QueueUpdate(OnQueue, Change, frozen=True, tag="update-queue"):
    """Change attributes of a queue; its messages and consumers stay."""

    changes: Annotated[dict[str, bool | int | str], Attributes(tuple(LIVE_ATTRIBUTES.values()))]
    is_idempotent = True
    ways = (Way("queue update", "updated queue '{queue}'", missing=_NO_ATTRIBUTE),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.UpdateQueue(self.queue, self.changes)


class QueueDeletion(OnQueue, Change, frozen=True, tag="delete-queue"):
    """Delete a queue that has no consumers."""

    force: Force = False
    named = DELETE_DURABLE_QUEUE
    ways = (Way("queue delete", "deleted queue '{queue}'{removed}"),)

    def needed(self, state: State) -> list[str]:
        """Return `delete-durable-queue` or `delete-non-durable-queue`."""
        found = state.queue_by_name.get(meant(state, self.queue)[1])
        durable = found is None or found.definition.durable
        return [DELETE_DURABLE_QUEUE if durable else DELETE_NON_DURABLE_QUEUE]

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.DeleteQueue(self.queue, self.force)


class QueuePurge(OnQueue, Change, frozen=True, tag="purge-queue"):
    """Remove all messages from a queue that are not in flight."""

    ways = (Way("queue purge", "purged queue '{queue}'{removed}"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.PurgeQueue(self.queue, through=through)


class QueueRelease(OnQueue, Change, frozen=True, tag="release-queue"):
    """Deliver held messages again."""

    ways = (Way("queue release", "released queue '{queue}'{released}"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ReleaseHeld(self.queue, through=through)


class QueueDelivery(OnQueue, Change, frozen=True, tag="deliver-scheduled"):
    """Make the scheduled messages of a queue ready now, before their time."""

    ways = (Way("queue deliver-scheduled", "queue '{queue}'{made_ready}"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.DeliverScheduled(self.queue, through=through)


class QueuePause(OnQueue, Change, frozen=True, tag="pause-queue"):
    """Stop delivering from a queue."""

    ways = (Way("queue pause", "paused queue '{queue}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.PauseQueue(self.queue)


class QueueResumption(OnQueue, Change, frozen=True, tag="resume-queue"):
    """Resume delivering from a queue."""

    ways = (Way("queue resume", "resumed queue '{queue}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ResumeQueue(self.queue)


def _reset(asked: Fields) -> str:
    what = f"group '{asked['group']}'" if asked["group"] else "all message groups"
    return f"reset {what} of queue '{asked['queue']}'"


class GroupsReset(OnQueue, Change, frozen=True, tag="reset-groups"):
    """Make consumers give up message groups: the next message of each goes to the next consumer.

    Messages in flight stay with their consumers, so for a moment two consumers may have messages
    of one group, unless the queue has group-rebalance-pause-dispatch.
    """

    group: Annotated[str, Option("--group", "Only this group; without it all.", "GROUP")] = ""
    is_idempotent = True
    ways = (Way("queue reset-groups", _reset),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ResetGroups(self.queue, self.group)


class AddressCreation(OnAddress, Change, frozen=True, tag="create-address"):
    """Create an address, or add routing types to it."""

    routing_types: Annotated[
        tuple[str, ...],
        Option("--routing-type", "May be given twice; the default is anycast.", choices=MODES),
    ] = (ANYCAST,)
    if_missing: IfMissing = False
    ways = (Way("address create", "created address '{address}'"),)

    def needed(self, state: State) -> list[str]:
        """Return `create-address`."""
        return [CREATE_ADDRESS]

    def settled(self, state: State) -> Answer | None:
        """Return that the address exists with all requested types, if that is allowed."""
        address = state.address_by_name.get(self.address)
        if not self.if_missing or address is None or address.definition.auto_delete:
            return None
        return EXISTS if set(self.routing_types) <= set(address.definition.routing_types) else None

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.CreateAddress(self.address, self.routing_types, self.if_missing)


class AddressUpdate(OnAddress, Change, frozen=True, tag="update-address"):
    """Give an address exactly these routing types."""

    routing_types: Annotated[
        tuple[str, ...],
        Option(
            "--routing-type",
            "What it has from now on; may be given twice.",
            choices=MODES,
            is_required=True,
        ),
    ]
    is_idempotent = True
    ways = (Way("address update", "updated address '{address}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.UpdateAddress(self.address, self.routing_types)


class AddressPause(OnAddress, Change, frozen=True, tag="pause-address"):
    """Stop delivering from all queues of an address, also those that it gets later."""

    ways = (Way("address pause", "paused address '{address}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.PauseAddress(self.address)


class AddressResumption(OnAddress, Change, frozen=True, tag="resume-address"):
    """Resume delivering from the queues of an address, except those that are paused themselves."""

    ways = (Way("address resume", "resumed address '{address}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ResumeAddress(self.address)


class AddressDeletion(OnAddress, Change, frozen=True, tag="delete-address"):
    """Delete an address that has no queues, or with --force together with them."""

    force: Force = False
    ways = (Way("address delete", "deleted address '{address}'"),)

    def needed(self, state: State) -> list[str]:
        """Return `delete-address`; not for an address with its queues."""
        return super().needed(state) if self.force else [DELETE_ADDRESS]

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.DeleteAddress(self.address, self.force)


class IdCacheClearing(OnAddress, Change, frozen=True, tag="clear-id-cache"):
    """Clear the duplicate ids that an address remembers."""

    ways = (Way("address clear-id-cache", "address '{address}' has forgotten all duplicate ids"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ClearDuplicateIds(self.address)


class RetainedForgetting(OnAddress, Change, frozen=True, tag="forget-retained"):
    """Remove the message that an address retains for subscriptions to come."""

    is_idempotent = True
    ways = (
        Way("address forget", "address '{address}' has forgotten the message that it retained"),
    )

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.ForgetRetained(self.address)


_REPLACE: Final = "Replace the divert of this name, if there is one."
_FROM: Final = Option("--address", "Whose messages it takes; may have wildcards.", is_required=True)
_DIVERT: Final[dict[str, Argument | Option]] = {"name": Argument(), "address": _FROM}


class DivertCreation(Change, frozen=True, tag="create-divert"):
    """Create a divert; it takes the messages that come from then on."""

    definition: Annotated[
        DivertDefinition, Attributes(DIVERT_ATTRIBUTES, DivertDefinition, _DIVERT)
    ]
    if_missing: IfMissing = False
    replace: Annotated[bool, Option("--replace", _REPLACE)] = False
    ways = (Way("divert create", "created divert '{definition[name]}'"),)

    def settled(self, state: State) -> Answer | None:
        """Return that the divert exists as requested, if that is allowed."""
        found = state.diverts.get(self.definition.name)
        if not self.if_missing or found is None:
            return None
        found = msgspec.structs.replace(found, syntax="", configuration_managed=False)
        return EXISTS if found == self.definition else None

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.CreateDivert(self.definition, self.replace)


class DivertDeletion(Change, frozen=True, tag="delete-divert"):
    """Delete a divert; its earlier copies stay."""

    divert: Annotated[str, Argument()]
    ways = (Way("divert delete", "deleted divert '{divert}'"),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.DeleteDivert(self.divert)


def _set(asked: Fields) -> str:
    return f"set {', '.join(asked['values'])} of match '{asked['match']}'"


class SettingsChange(Change, frozen=True, tag="set-settings"):
    """Set keys of a match at run time, such as: settings set 'orders.#' redelivery-delay=5s

    They stay, over restarts and reloads, until they are removed, and override those that the
    configuration has for the same match.
    """

    match: Annotated[str, Argument("MATCH")]
    values: Annotated[dict[str, str], Argument("KEY=VALUE...")]
    is_idempotent = True
    ways = (Way("settings set", _set),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request; the engine refuses wrong values."""
        # Slow to import; a broker has it already, and the command line does not need it.
        from daybook.server.config_keys.setting_values import from_text  # noqa: PLC0415

        values: dict[str, Any] = {key: from_text(key, text) for key, text in self.values.items()}
        return commands.SetSettings(self.match, values)


def _removed(asked: Fields) -> str:
    what = f"{', '.join(asked['keys'])} of match" if asked["keys"] else "match"
    return f"removed {what} '{asked['match']}'"


class SettingsRemoval(Change, frozen=True, tag="remove-settings"):
    """Remove keys of a match that were set at run time; without keys all of them."""

    match: Annotated[str, Argument("MATCH")]
    keys: Annotated[tuple[str, ...], Argument("[KEY]...")] = ()
    ways = (Way("settings remove", _removed),)

    def command(self, through: int, actor: Actor | None) -> Command:
        """Return the command for this request."""
        return commands.RemoveSettings(self.match, self.keys)


REQUESTS: Final[Mapping[str, type[Request]]] = {
    str(row.__struct_config__.tag): row
    for row in (
        Status, Queues, Addresses, Connections, Links, Consumers, Diverts, GroupsOf, SettingsOf,
        Browse, RightsOf, ConnectionClosing, QueueCreation, QueueUpdate, QueueDeletion, QueuePurge,
        QueueRelease, QueueDelivery, QueuePause, QueueResumption, GroupsReset, MessagesAction,
        AddressCreation, AddressUpdate, AddressPause, AddressResumption, AddressDeletion,
        IdCacheClearing, RetainedForgetting, DivertCreation, DivertDeletion, SettingsChange,
        SettingsRemoval, Connectors, AutoLinks, ShardsOf, QueueDrain, QueueOf, ConsumersOf,
        AddressOf, MessagesCount, RetriesList, RetryStop, Hosts, Acceptors, Sessions, Transactions,
        UserList, Roles, MessagePeek, Offers, DeathsOf, Graves,
    )
}  # fmt: skip
"""All requests, by their names in JSON (`do`)."""
