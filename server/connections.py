"""Connections for administrators: listed in pages, and closed by id, user or address.

Reads the state of the engine. The hub closes a connection as if its client had left, and sends the
client the reason. It must never know sockets, nor its callers.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from daybook.engine.bundles import windows_of
from daybook.engine.state import Connection, Consumer, State

PAGE_MAX: Final = 1000

BY_ADMINISTRATOR: Final = "an administrator closed the connection"

Close = Callable[[int, str, str], bool]
"""Closes a connection (id, what happened, what to do about it); returns whether it existed."""


def connections(state: State, offset: int) -> dict[str, Any]:
    """Return a page of the connections, in the order of their logins."""
    some = islice(state.connections.values(), offset, offset + PAGE_MAX + 1)
    rows = [_connection(each) for each in some]
    return _page("connections", rows, offset)


def consumers(state: State, offset: int) -> dict[str, Any]:
    """Return a page of the consumers, in the order in which they attached."""
    some = islice(state.consumers.values(), offset, offset + PAGE_MAX + 1)
    rows = [_consumer(each) for each in some]
    return _page("consumers", rows, offset)


def _page(what: str, rows: list[dict[str, Any]], offset: int) -> dict[str, Any]:
    more = len(rows) > PAGE_MAX
    return {what: rows[:PAGE_MAX], "next_offset": offset + PAGE_MAX if more else None}


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


def close_matching(
    state: State, close: Close, *, ids: tuple[int, ...], user: str | None, peer: str | None
) -> int:
    """Close the connections that match all given conditions; return how many."""
    found = [
        each.id
        for each in state.connections.values()
        if (not ids or each.id in ids)
        and (user is None or each.user == user)
        and (peer is None or peer in (each.peer, each.peer.rpartition(":")[0]))
    ]
    advice = "ask the administrator of the broker before connecting again"
    return sum(close(number, BY_ADMINISTRATOR, advice) for number in found)


def close_where(state: State, close: Close, reason: Callable[[Connection], str]) -> int:
    """Close the connections for which `reason` returns a text; return how many."""
    found = [(each.id, why) for each in state.connections.values() if (why := reason(each))]
    return sum(close(number, why, "log in again as a user of the broker") for number, why in found)
