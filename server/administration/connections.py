"""Connections, links and consumers for administrators: lists in pages, and closing connections.

Reads the state of the engine, and asks sessions for their links. Connections are chosen by id, user
or address. The hub closes one as if its client had left, and sends the client the reason. All of it
is done in slices (`server.process.slices`), since there may be very many. Must never know sockets,
nor its callers.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, TypeAlias

from daybook.engine.core.queue_names import find_queue
from daybook.engine.queues.consumer import (
    Bundle,
    Connection,
    Consumer,
    as_consumer,
    windows_of,
)
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.protocols.port import LinkCounts, LinkRow, MessagingSession
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

LINKS_AT_ONCE: Final = SLICE // ROW
"""How many links a slice of their list has."""
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


def listing_connections(
    state: State, offset: int, session_of: SessionOf = nobody
) -> Slices[dict[str, Any]]:
    """A page of the connections, in the order of their logins."""
    there = state.connections
    page, following = page_of(there.values(), offset)
    rows = yield from rows_of(
        page,
        lambda each: _connection(each, session_of(each.id)) if each.id in there else {},
        lambda each: len(each.consumers),
    )
    return {"connections": rows, "next_offset": following}


def listing_consumers(state: State, offset: int) -> Slices[dict[str, Any]]:
    """A page of the consumers, in the order in which they attached."""
    there = state.consumers
    page, following = page_of(there.values(), offset)
    rows = yield from rows_of(page, lambda each: _consumer(each) if each.id in there else {})
    return {"consumers": rows, "next_offset": following}


def listing_consumers_of(state: State, name: str, offset: int) -> Slices[dict[str, Any] | Refusal]:
    """A page of the consumers of one queue."""
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    there = state.consumers
    page, following = page_of(map(as_consumer, queue.consumers), offset)
    rows = yield from rows_of(page, lambda each: _consumer(each) if each.id in there else {})
    return {"consumers": rows, "next_offset": following}


def listing_links(
    state: State, offset: int, session_of: SessionOf, connection: int = 0
) -> Slices[dict[str, Any]]:
    """A page of the links, those of a connection or of all (0), in the order of the logins."""
    rows: list[dict[str, Any]] = []
    before = looked = 0
    for number in [connection] if connection else list(state.connections):
        session, there = session_of(number), state.connections.get(number)
        if session is None or there is None:
            continue
        _, senders, receivers = session.link_counts
        first = min(max(0, offset - before), senders + receivers)
        before += senders + receivers
        while first < senders + receivers and len(rows) < PAGE_MAX:
            some = session.link_rows(first, min(LINKS_AT_ONCE, PAGE_MAX - len(rows)))
            rows += [_link(state, there, link) for link in some]
            first += LINKS_AT_ONCE
            yield ROW * len(some)
        looked += 1
        if looked == SLICE:
            yield looked
            looked = 0
    following = offset + PAGE_MAX
    return {"links": rows, "next_offset": following if following < before else None}


def connections(state: State, offset: int) -> dict[str, Any]:
    """A page of the connections, at once."""
    return at_once(listing_connections(state, offset))


def consumers(state: State, offset: int) -> dict[str, Any]:
    """A page of the consumers, at once."""
    return at_once(listing_consumers(state, offset))


def _connection(connection: Connection, session: MessagingSession | None) -> dict[str, Any]:
    counts = session.link_counts if session is not None else LinkCounts(0, 0, 0)
    return {
        "connection": connection.id,
        "user": connection.user,
        "peer": connection.peer,
        "client_id": connection.client_id,
        "host": connection.host,
        "protocol": connection.protocol,
        "sessions": counts.sessions,
        "links": counts.senders + counts.receivers,
        "consumers": len(connection.consumers),
        "transactions": len(connection.transactions),
        "in_flight": sum(consumer.unsettled for consumer in connection.consumers.values()),
    }


def _link(state: State, connection: Connection, link: LinkRow) -> dict[str, Any]:
    row = {
        "connection": connection.id,
        "user": connection.user,
        "host": connection.host,
        "client_id": connection.client_id,
        "session": link.session or None,
        "link": link.name,
        "role": link.role,
        "address": link.address,
        "queue": None,
        "consumer": link.consumer or None,
        "credit": link.credit,
        "in_flight": link.in_flight,
        "messages": link.total,
        "waits": link.waits,
        "memory_bytes": link.memory_bytes,
    }
    consumer = state.consumers.get(link.consumer)
    bundle = connection.bundles.get(link.consumer)
    if consumer is not None:
        row |= {"address": consumer.queue.address.name, "queue": consumer.queue.name}
        row |= _taken(consumer, windows_of(consumer)[0], (consumer,))
    elif bundle is not None:
        row |= _taken(bundle, bundle.credit_messages, islice(bundle.members.values(), MEMBERS_MAX))
    return row


def _taken(taker: Consumer | Bundle, credit: int, of: Iterable[Consumer]) -> dict[str, Any]:
    in_flight = sum(each.unsettled for each in of)
    return {"credit": credit, "in_flight": in_flight, "messages": taker.handed}


def _consumer(consumer: Consumer) -> dict[str, Any]:
    messages, size = windows_of(consumer)
    return {
        "consumer": consumer.id,
        "connection": consumer.connection_id,
        "user": consumer.connection.user,
        "queue": consumer.queue.name,
        "subscription": consumer.subscription,
        "ack_mode": consumer.ack_mode,
        "browses": consumer.browses,
        "filter": consumer.filter,
        "priority": consumer.priority,
        "exclusive": consumer.exclusive,
        "in_flight": consumer.unsettled,
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
