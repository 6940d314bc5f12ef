"""How many messages of a queue an action would concern, counted as the action walks.

Reads the state without changing it: content that was not in memory does not stay there. Must never
know the asker.
"""

from typing import Any, Final

from daybook.engine.administration.message_moves import LEVELS
from daybook.engine.core.queue_names import find_queue
from daybook.engine.messages.message import Filter, Message
from daybook.engine.queues.entry import NOTHING_PASSED
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.server.administration.views import matcher_of
from daybook.server.process.slices import Slices

LOOKED_AT_MAX: Final = 50_000
"""How many messages a filter is asked about for one answer."""
ASKED_AT_ONCE: Final = 100
"""How many of them in one turn of the broker."""


def counting(state: State, name: str, chosen_by: str) -> Slices[dict[str, Any] | Refusal]:
    """Count the messages that are not in flight and that a filter chooses. Raises StoreError."""
    queue = find_queue(state, name)
    if isinstance(queue, Refusal):
        return queue
    matcher = matcher_of(state, chosen_by)
    if isinstance(matcher, Refusal):
        return matcher
    matching = looked_at = queue.ready_count + queue.aside_count
    if matcher is not None:
        matching, looked_at = yield from _asked(state, queue, matcher)
    row = {
        "queue": queue.name,
        "matching": matching,
        "in_flight": queue.in_flight_count,
        "looked_at": looked_at,
        "in_queue": queue.message_count,
    }
    return {"counts": [row]}


def _asked(state: State, queue: Queue, matcher: Filter) -> Slices[tuple[int, int]]:
    """Ask a filter about messages in the order of actions; return how many pass, and how many were
    asked about."""
    matching = looked_at = 0
    for level in LEVELS:
        position = NOTHING_PASSED
        while looked_at < LOOKED_AT_MAX:
            most = min(ASKED_AT_ONCE, LOOKED_AT_MAX - looked_at)
            found = behind(queue, level, position, most)[:most]
            if not found:
                break
            matching += sum(_passes(state, matcher, entry.message) for entry in found)
            looked_at += len(found)
            position = found[-1].position
            yield len(found)
            if state.queues.get(queue.id) is not queue:
                # It was deleted meanwhile.
                return 0, looked_at
    return matching, looked_at


def _passes(state: State, matcher: Filter, message: Message) -> bool:
    """Whether a message passes; its content is in memory only for that."""
    if message.resident:
        return matcher.matches(message)
    assert state.store is not None
    state.store.fill([message])
    try:
        return matcher.matches(message)
    finally:
        message.headers = message.body = b""
        message.resident = False
