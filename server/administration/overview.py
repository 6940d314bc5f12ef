"""All objects of a broker at a moment, except messages: all pages of its views.

Must never know how the state was found.
"""

from collections.abc import Callable
from typing import Any

from daybook.engine.state.state import State
from daybook.server.administration import connections, views


def overview(state: State, lsn: int, time: int | None) -> dict[str, Any]:
    """Return everything that exists at a moment, except messages."""
    return {
        "lsn": lsn,
        "time": time,
        **views.counts(state),
        "list_of_queues": _all(lambda offset: views.queues(state, offset=offset), "queues"),
        "list_of_addresses": _all(
            lambda offset: views.addresses(state, offset=offset), "addresses"
        ),
        "list_of_connections": _all(
            lambda offset: connections.connections(state, offset), "connections"
        ),
        "list_of_consumers": _all(lambda offset: connections.consumers(state, offset), "consumers"),
        "settings": state.settings.to_dict(),
        "settings_at_run_time": state.settings.live_to_dict(),
    }


def _all(page: Callable[[int], dict[str, Any]], what: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        answer = page(offset)
        rows += answer[what]
        offset = answer["next_offset"]
    return rows
