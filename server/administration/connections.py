"""Connections, sessions, links, consumers and transactions for administrators: lists in pages, and
closing connections.

Reads the state of the engine, and asks sessions for their links. Connections are chosen by id, user
or address. The hub closes one as if its client had left, and sends the client the reason. All of it
is done in slices (`server.process.slices`), since there may be very many. Must never know sockets,
nor its callers.
"""

import sys
from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from daybook.engine.core.open_transactions import Transaction
from daybook.engine.core.queue_names import find_queue
from daybook.engine.queues.consumer import (
    Bundle,
    Connection,
    Consumer,
    as_consumer,
    windows_of,
)
from daybook.engine.queues.queue import PAST_ALL
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.protocols.port import LinkCounts, LinkRow, MessagingSession, SessionRow
from daybook.server.process.ordered_lists import BY_NAME, Order, Page, in_order, next_offset
from daybook.server.process.slices import (
    PAGE_MAX,
    ROW,
    SLICE,
    Slices,
    at_once,
    page_of,
    rows_of,
)

CLOSED_AT_A_TIME: Final = 5
"""How many connections are closed in one slice: each may give back many messages."""

US_PER_S: Final = 1_000_000
US_PER_MS: Final = 1_000
LINKS_AT_ONCE: Final = SLICE // ROW
"""How many links a slice of their list has."""
LINK_WORDS: Final = 32
"""The memory of a link in a list that is in order."""
MEMBERS_MAX: Final = 100
"""Deliveries of a subscription to many queues are those of so many of its consumers."""

BY_ADMINISTRATOR: Final = "an administrator closed the connection"
ASK_FIRST: Final = "ask the administrator of the broker before connecting again"

Close: TypeAlias = Callable[[int, str, str], bool]
"""Closes a connection (id, what happened, what to do about it); returns whether it existed."""
Closing: TypeAlias = tuple[int, str, str]
"""The arguments of `Close`."""


SessionOf: TypeAlias = Callable[[int], MessagingSession | None]
"""Returns the session of a connection, None if there is none."""


def nobody(connection: int) -> None:
    """Return no session: those of a state without a broker are gone."""


def credit_of(consumer: Consumer) -> tuple[int, int]:
    """Return how many messages, and how many bytes of bodies, a consumer may still get.

    While one of the two windows is open the other counts on below 0: it is used up.
    """
    messages, size = windows_of(consumer)
    return max(0, messages), max(0, size)


CONNECTION_ORDERS: Final[dict[str, Callable[[Connection], int]]] = {
    "connection": attrgetter("id"), "consumers": lambda each: len(each.consumers),
    "transactions": lambda each: len(each.transactions),
}  # fmt: skip
"""The columns by which connections are sorted, and the number in each."""
CONSUMER_ORDERS: Final[dict[str, Callable[[Consumer], int]]] = {
    "consumer": attrgetter("id"), "connection": attrgetter("connection_id"),
    "in_flight": attrgetter("unsettled"), "credit_messages": lambda each: credit_of(each)[0],
    "credit_bytes": lambda each: credit_of(each)[1], "delivered": attrgetter("handed"),
    "oldest_in_flight": lambda each: _age_rank(each),
}  # fmt: skip
"""The columns by which consumers are sorted, and the number in each."""
_id_of: Final = attrgetter("id")
_T = TypeVar("_T")


def _page(
    there: dict[int, _T],
    offset: int,
    limit: int,
    order: Order,
    orders: dict[str, Callable[[_T], int]],
    text: Callable[[_T], str],
) -> Slices[Page[_T]]:
    """Return a page of objects, by default in the order in which they came."""
    if order.is_by_name:
        some = list(islice(there.values(), offset, offset + limit))
        return Page(some, len(there), next_offset(offset, len(some), len(there)))
    return (yield from in_order(there.values(), offset, limit, order, orders, text, _id_of))


def listing_connections(
    state: State,
    offset: int,
    session_of: SessionOf = nobody,
    limit: int = PAGE_MAX,
    order: Order = BY_NAME,
    *,
    is_live: bool = True,
) -> Slices[dict[str, Any]]:
    """A page of the connections; by default in the order of their logins.

    Those of a state that is not of a running broker (`is_live`) lack what no event says.
    """
    there = state.connections
    page = yield from _page(
        there, offset, limit, order, CONNECTION_ORDERS,
        _client,
    )  # fmt: skip
    rows = yield from rows_of(
        page.objects,
        lambda each: (
            _connection(each, session_of(each.id), is_live=is_live) if each.id in there else {}
        ),
        lambda each: len(each.consumers),
    )
    return page.answer("connections", rows)


def listing_consumers(
    state: State,
    offset: int,
    limit: int = PAGE_MAX,
    order: Order = BY_NAME,
    *,
    is_live: bool = True,
) -> Slices[dict[str, Any]]:
    """A page of the consumers; by default in the order in which they attached.

    Those of a state that is not of a running broker (`is_live`) lack what no event says.
    """
    there = state.consumers
    page = yield from _page(
        there, offset, limit, order, CONSUMER_ORDERS,
        lambda each: f"{_client(each.connection)}\n{each.queue.name}\n{each.subscription}",
    )  # fmt: skip
    rows = yield from rows_of(
        page.objects, lambda each: _consumer(each, is_live=is_live) if each.id in there else {}
    )
    return page.answer("consumers", rows)


def listing_consumers_of(
    state: State, name: str, offset: int, *, is_live: bool = True
) -> Slices[dict[str, Any] | Refusal]:
    """A page of the consumers of one queue, as `listing_consumers` describes them."""
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    there = state.consumers
    page, following = page_of(map(as_consumer, queue.consumers), offset)
    rows = yield from rows_of(
        page, lambda each: _consumer(each, is_live=is_live) if each.id in there else {}
    )
    return {"consumers": rows, "next_offset": following}


class LinkOf(NamedTuple):
    """A link of a connection, with what the engine knows of one that receives."""

    connection: Connection
    row: LinkRow
    queue: str | None


class SessionHere(NamedTuple):
    """A session of a connection."""

    connection: Connection
    row: SessionRow


LINK_ORDERS: Final[dict[str, Callable[[LinkOf], int]]] = {
    "connection": attrgetter("connection.id"), "credit": attrgetter("row.credit"),
    "in_flight": attrgetter("row.in_flight"), "messages": attrgetter("row.total"),
    "memory_bytes": attrgetter("row.memory_bytes"),
}  # fmt: skip
"""The columns by which links are sorted, and the number in each."""
SESSION_ORDERS: Final[dict[str, Callable[[SessionHere], int]]] = {
    "connection": attrgetter("connection.id"), "links": attrgetter("row.links"),
    "unsettled": attrgetter("row.unsettled"),
    "unsettled_by_peer": attrgetter("row.unsettled_by_peer"),
    "waiting_bytes": attrgetter("row.waiting_bytes"),
}  # fmt: skip
"""The columns by which sessions are sorted, and the number in each."""


def listing_links(
    state: State,
    offset: int,
    session_of: SessionOf,
    connection: int = 0,
    limit: int = PAGE_MAX,
    order: Order = BY_NAME,
) -> Slices[dict[str, Any]]:
    """A page of the links, those of a connection or of all (0); by default in the order of the
    logins."""

    def some(there: Connection, session: MessagingSession, first: int, count: int) -> list[LinkOf]:
        return [_link_of(state, there, link) for link in session.link_rows(first, count)]

    def count(counts: LinkCounts) -> int:
        return counts.senders + counts.receivers

    def text(each: LinkOf) -> str:
        return f"{_client(each.connection)}\n{each.row.name}\n{each.row.address}\n{each.queue}"

    walk = _Walk(state, session_of, connection, count, some)
    page = yield from _page_of(walk, offset, limit, order, LINK_ORDERS, text)
    return page.answer("links", (yield from rows_of(page.objects, _link)))


def listing_sessions(
    state: State,
    offset: int,
    session_of: SessionOf,
    connection: int = 0,
    limit: int = PAGE_MAX,
    order: Order = BY_NAME,
) -> Slices[dict[str, Any]]:
    """A page of the sessions, those of a connection or of all (0); by default in the order of the
    logins."""

    def some(
        there: Connection, session: MessagingSession, first: int, count: int
    ) -> list[SessionHere]:
        return [SessionHere(there, row) for row in session.session_rows(first, count)]

    def text(each: SessionHere) -> str:
        return _client(each.connection)

    walk = _Walk(state, session_of, connection, attrgetter("sessions"), some)
    page = yield from _page_of(walk, offset, limit, order, SESSION_ORDERS, text)
    return page.answer("sessions", (yield from rows_of(page.objects, _session)))


class _Walk(NamedTuple, Generic[_T]):
    """How to find what connections have in their sessions: of one connection or of all (0)."""

    state: State
    session_of: SessionOf
    connection: int
    count_of: Callable[[LinkCounts], int]
    some_of: Callable[[Connection, MessagingSession, int, int], list[_T]]

    def found(self, offset: int, most: int) -> Slices[tuple[list[_T], int]]:
        """Return so many of them, from one on, and how many there are in all."""
        found: list[_T] = []
        before = looked = 0
        for number in [self.connection] if self.connection else list(self.state.connections):
            session, there = self.session_of(number), self.state.connections.get(number)
            if session is None or there is None:
                continue
            count = self.count_of(session.link_counts)
            first = min(max(0, offset - before), count)
            before += count
            while first < count and len(found) < most:
                some = self.some_of(there, session, first, min(LINKS_AT_ONCE, most - len(found)))
                found += some
                first += LINKS_AT_ONCE
                yield ROW * len(some)
            looked += 1
            if looked == SLICE:
                yield looked
                looked = 0
        return found, before


def _page_of(
    walk: _Walk[_T],
    offset: int,
    limit: int,
    order: Order,
    orders: dict[str, Callable[[_T], int]],
    text: Callable[[_T], str],
) -> Slices[Page[_T]]:
    """Return a page of what connections have in their sessions."""
    if order.is_by_name:
        some, total = yield from walk.found(offset, limit)
        return Page(some, total, next_offset(offset, limit, total))
    kept = order.objects()
    every = kept if kept is not None else (yield from walk.found(0, sys.maxsize))[0]
    order = replace(order, words=LINK_WORDS)
    return (yield from in_order(every, offset, limit, order, orders, text, orders["connection"]))


TRANSACTION_ORDERS: Final[dict[str, Callable[[Transaction], int]]] = {
    "age_seconds": lambda each: -each.since, "operations": lambda each: len(each.operations),
    "entries": attrgetter("entries"), "bytes": attrgetter("bytes"),
}  # fmt: skip
"""The columns by which transactions are sorted, and the number in each."""


def listing_transactions(
    state: State, now: int, offset: int, limit: int, order: Order
) -> Slices[dict[str, Any]]:
    """A page of the open transactions at a time in microseconds."""
    found: list[Transaction] = []
    every = list(state.connections.values())
    for start in range(0, len(every), SLICE):
        some = every[start : start + SLICE]
        found += [one for each in some for one in each.transactions.values()]
        yield len(some)
    page = yield from in_order(found, offset, limit, order, TRANSACTION_ORDERS)
    rows = yield from rows_of(page.objects, lambda each: _transaction(state, each, now))
    return page.answer("transactions", rows)


def _transaction(state: State, transaction: Transaction, now: int) -> dict[str, Any]:
    """Return a row, an empty one if its connection is gone."""
    there = state.connections.get(transaction.connection)
    if there is None or there.transactions.get(transaction.name) is not transaction:
        return {}
    acknowledging = len(transaction.settled)
    return {
        "transaction": transaction.name,
        "connection": there.id,
        "user": there.user,
        "host": there.host,
        "peer": there.peer,
        "state": "rolled back" if transaction.ended else "doomed" if transaction.doomed else "open",
        "age_seconds": round(max(0, now - transaction.since) / US_PER_S, 1),
        "operations": len(transaction.operations),
        "messages": len(transaction.operations) - acknowledging,
        "settlements": acknowledging,
        "entries": transaction.entries,
        "bytes": transaction.bytes,
        "memory_bytes": transaction.weight,
        "why": transaction.doomed or None,
    }


def connections(state: State) -> list[dict[str, Any]]:
    """All connections of a state that was folded from a journal, at once."""
    rows: list[dict[str, Any]] = at_once(
        listing_connections(state, 0, limit=len(state.connections), is_live=False)
    )["connections"]
    return rows


def consumers(state: State) -> list[dict[str, Any]]:
    """All consumers of a state that was folded from a journal, at once."""
    rows: list[dict[str, Any]] = at_once(
        listing_consumers(state, 0, len(state.consumers), is_live=False)
    )["consumers"]
    return rows


def _connection(
    connection: Connection, session: MessagingSession | None, *, is_live: bool
) -> dict[str, Any]:
    counts = session.link_counts if session is not None else LinkCounts(0, 0, 0)
    return {
        "connection": connection.id,
        "user": connection.user,
        "peer": connection.peer,
        "client_id": connection.client_id,
        "host": connection.host,
        "protocol": connection.protocol,
        "sessions": counts.sessions if is_live else None,
        "links": counts.senders + counts.receivers if is_live else None,
        "consumers": len(connection.consumers),
        "transactions": len(connection.transactions) if is_live else None,
        "in_flight": sum(consumer.unsettled for consumer in connection.consumers.values()),
    }


def _client(connection: Connection) -> str:
    """Return what is searched of a client."""
    return f"{connection.user}\n{connection.client_id}\n{connection.peer}"


def _named(connection: Connection) -> dict[str, Any]:
    """Return whose a link or a session is."""
    return {
        "connection": connection.id,
        "user": connection.user,
        "host": connection.host,
        "client_id": connection.client_id,
    }


def _session(each: SessionHere) -> dict[str, Any]:
    session = each.row
    return _named(each.connection) | {
        "session": session.number,
        "links": session.links,
        "incoming_window": session.incoming_window,
        "outgoing_window": session.outgoing_window,
        "unsettled": session.unsettled,
        "unsettled_by_peer": session.unsettled_by_peer,
        "waiting_bytes": session.waiting_bytes,
    }


def _link_of(state: State, connection: Connection, link: LinkRow) -> LinkOf:
    """Return a link with what the engine knows of it now."""
    consumer = state.consumers.get(link.consumer)
    bundle = connection.bundles.get(link.consumer)
    if consumer is not None:
        queue = consumer.queue
        link = _taken(link, consumer, windows_of(consumer)[0], (consumer,))
        return LinkOf(connection, link._replace(address=queue.address.name), queue.name)
    if bundle is not None:
        some = islice(bundle.members.values(), MEMBERS_MAX)
        link = _taken(link, bundle, bundle.credit_messages, some)
    return LinkOf(connection, link, None)


def _link(each: LinkOf) -> dict[str, Any]:
    link = each.row
    return _named(each.connection) | {
        "session": link.session or None,
        "link": link.name,
        "role": link.role,
        "address": link.address,
        "queue": each.queue,
        "consumer": link.consumer or None,
        "credit": link.credit,
        "in_flight": link.in_flight,
        "messages": link.total,
        "waits": link.waits,
        "memory_bytes": link.memory_bytes,
    }


def _taken(link: LinkRow, taker: Consumer | Bundle, credit: int, of: Iterable[Consumer]) -> LinkRow:
    in_flight = sum(each.unsettled for each in of)
    return link._replace(credit=credit, in_flight=in_flight, total=taker.handed)


def _age_rank(consumer: Consumer) -> int:
    """Return a number that is the larger the longer a consumer has held its oldest message."""
    oldest = consumer.oldest_unsettled
    return PAST_ALL - oldest.delivered_at if oldest is not None and oldest.delivered_at else 0


def _consumer(consumer: Consumer, *, is_live: bool) -> dict[str, Any]:
    messages, size = credit_of(consumer) if is_live else (None, None)
    oldest = consumer.oldest_unsettled
    # 0 if an older release wrote the index that this was read from.
    since = oldest.delivered_at if oldest is not None else 0
    return {
        "consumer": consumer.id,
        "connection": consumer.connection_id,
        "user": consumer.connection.user,
        "client_id": consumer.connection.client_id,
        "peer": consumer.connection.peer,
        "queue": consumer.queue.name,
        "subscription": consumer.subscription,
        "ack_mode": consumer.ack_mode,
        "browses": consumer.browses,
        "filter": consumer.filter,
        "priority": consumer.priority,
        "exclusive": consumer.exclusive,
        "in_flight": consumer.unsettled,
        "oldest_in_flight": oldest.message.id if oldest is not None else None,
        "oldest_in_flight_since": since // US_PER_MS if since else None,
        "delivered": consumer.handed if is_live else None,
        "settled": consumer.handed - consumer.unsettled if is_live else None,
        "credit_messages": messages,
        "credit_bytes": size,
        "bundle": consumer.bundle.id if consumer.bundle is not None else None,
    }


def matching(
    state: State, *, ids: tuple[int, ...], user: str | None, peer: str | None
) -> list[Closing]:
    """Return the work that closes the connections that match all given conditions."""
    wanted = frozenset(ids)
    return [
        (each.id, BY_ADMINISTRATOR, ASK_FIRST)
        for each in state.connections.values()
        if (not wanted or each.id in wanted)
        and (user is None or each.user == user)
        and (peer is None or peer in (each.peer, each.peer.rpartition(":")[0]))
    ]


def closing(close: Close, some: Iterable[Closing]) -> Slices[int]:
    """Close connections; yield how many were closed in each slice, and return how many in all."""
    left = iter(some)
    closed = 0
    while part := list(islice(left, CLOSED_AT_A_TIME)):
        lately = sum(close(*each) for each in part)
        closed += lately
        yield lately
    return closed
