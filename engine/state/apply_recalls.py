"""What events change when a new queue gets messages of before (`engine.entries.recalls`).

A part of `apply` (`engine.state.apply`), with the same rules: facts, which cannot fail, without a
clock.
"""

from typing import cast

from daybook.engine.facts import details, events
from daybook.engine.facts.events import (
    ADDRESS,
    FLAGS,
    MESSAGE,
    PERSISTENT,
    PRIORITY,
    QUEUE,
    TIME,
    Row,
)
from daybook.engine.facts.mismatch import MismatchError
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.message import Message, message_without_content
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.recall import Recall
from daybook.engine.state.state import State


def recall_started(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """A queue is to get messages of before."""
    decoded = cast(details.RecallStartedDetail, events.decode_detail(events.RECALL_STARTED, detail))
    queue = state.queues[row[QUEUE]]
    queue.recall = Recall(decoded.after, decoded.until, retained=decoded.retained)
    if decoded.retained:
        queue.retained_until = decoded.until
    state.recalling[queue.id] = queue


def recalled(state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes) -> None:
    """A message of before enters a queue, in its place by its id."""
    decoded = cast(details.RecalledDetail, events.decode_detail(events.RECALLED, detail))
    queue = state.queues[row[QUEUE]]
    if row[MESSAGE] in queue.entries:
        raise MismatchError(f"event {lsn}: message {row[MESSAGE]} is in queue {queue.name} already")
    if queue.recall is not None:
        # It is None only for those who fold the events of a single message.
        queue.recall.history, queue.recall.position = decoded.history, row[MESSAGE]
    message = _message(state, row, decoded)
    entry = Entry(message)
    entry.retained = decoded.retained
    # Until this event is indexed, the store does not have it, although its id is an old one.
    entry.changed = queue.recalled_lsn = lsn
    queue.added += 1
    queue.recalled += 1
    queue.newest = max(queue.newest, message.id)
    queue.entries[message.id] = entry
    queue.bytes += message.size
    queue.weight += message.weight
    queue.put_back(entry)
    if not message.flags & PERSISTENT:
        queue.transient_count += 1
    if message.expires:
        state.expires(message, queue)
    for value in decoded.last_values.values():
        queue.note_latest(key_of(value), message.id, lsn)


def _message(state: State, row: Row, detail: details.RecalledDetail) -> Message:
    """Return the message in the history, or one like it where that is not in memory."""
    history = state.queues.get(detail.history)
    entry = history.entries.get(row[MESSAGE]) if history is not None else None
    if entry is not None:
        return entry.message
    message = message_without_content(
        row[MESSAGE], row[ADDRESS], row[PRIORITY], row[FLAGS], detail.expires, detail.size
    )
    return annotated(message, detail.annotations)


def recall_ended(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """The recall of a queue is complete; delivery begins."""
    queue = state.queues[row[QUEUE]]
    if queue.recall is None:
        raise MismatchError(f"event {lsn}: queue {queue.name} has all of its history already")
    queue.recall = None
    state.recalling.pop(queue.id, None)


def time_marked(
    state: State, lsn: int, row: Row, detail: bytes, headers: bytes, body: bytes
) -> None:
    """The time of an event is remembered."""
    state.times.add(row[TIME], lsn)
