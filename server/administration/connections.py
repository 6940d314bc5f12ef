"""Connections and consumers for administrators: listed in pages, and closed by id, user or address.

Reads the state of the engine. The hub closes a connection as if its client had left, and sends the
client the reason. All of it is done in slices (`server.process.slices`), since there may be very
many. Must never know sockets, nor its callers.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, TypeAlias

from daybook.engine.queues.consumer import Connection, Consumer, windows_of
from daybook.engine.state.state import State
from daybook.server.process.slices import Slices, at_once, page_of, rows_of

CLOSED_AT_A_TIME: Final = 5
"""How many connections are closed in one slice: each may give back many messages."""

BY_ADMINISTRATOR: Final = "an administrator closed the connection"
ASK_FIRST: Final = "ask the administrator of the broker before connecting again"

Close: TypeAlias = Callable[[int, str, str], bool]
"""Closes a connection (id, what happened, what to do about it); returns whether it existed."""
Closing: TypeAlias = tuple[int, str, str]
"""The arguments of `Close`."""


def listing_connections(state: State, offset: int) -> Slices[dict[str, Any]]:
    """A page of the connections, in the order of their logins."""
    there = state.connections
    page, following = page_of(there.values(), offset)
    rows = yield from rows_of(
        page,
        lambda each: _connection(each) if each.id in there else {},
        lambda each: len(each.consumers),
    )
    return {"connections": rows, "next_offset": following}


def listing_consumers(state: State, offset: int) -> Slices[dict[str, Any]]:
    """A page of the consumers, in the order in which they attached."""
    there = state.consumers
    page, following = page_of(there.values(), offset)
    rows = yield from rows_of(page, lambda each: _consumer(each) if each.id in there else {})
    return {"consumers": rows, "next_offset": following}


def connections(state: State, offset: int) -> dict[str, Any]:
    """A page of the connections, at once."""
    return at_once(listing_connections(state, offset))


def consumers(state: State, offset: int) -> dict[str, Any]:
    """A page of the consumers, at once."""
    return at_once(listing_consumers(state, offset))


def _connection(connection: Connection) -> dict[str, Any]:
    return {
        "connection": connection.id,
        "user": connection.user,
        "peer": connection.peer,
        "client_id": connection.client_id,
        "host": connection.host,
        "protocol": connection.protocol,
        "consumers": len(connection.consumers),
        "transactions": len(connection.transactions),
        "in_flight": sum(consumer.unsettled for consumer in connection.consumers.values()),
    }


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
