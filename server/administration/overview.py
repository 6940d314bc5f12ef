"""All objects of a broker at a moment, except messages: all pages of its views.

Must never know how the state was found.
"""

from typing import Any

from daybook.engine.state.state import State
from daybook.server.administration import connections, views
from daybook.server.process.slices import at_once


def overview(state: State, lsn: int, time: int | None) -> dict[str, Any]:
    """Return everything that exists at a moment, except messages."""
    return {
        "lsn": lsn,
        "time": time,
        **views.counts(state),
        "list_of_queues": views.every_queue(state),
        # At once: a page costs a look at all of them.
        "list_of_addresses": views.addresses(state, limit=len(state.addresses))["addresses"],
        "list_of_diverts": at_once(views.listing_diverts(state))["diverts"],
        "list_of_connections": connections.connections(state),
        "list_of_consumers": connections.consumers(state),
        "settings": state.settings.to_dict(),
        "settings_at_run_time": state.settings.live_to_dict(),
    }
