"""Deciding that a newer message replaces an older one with the same last value key (ADR 45).

The key is the value of a property of the message, which the queue names. A queue keeps the newest
message with each key: when that one comes, the one before it leaves. A message in flight cannot
leave; if it is acknowledged, that is its end, and if it returns it leaves then. A message that its
sender scheduled is not a value before its time. Messages without the property are never replaced.

The journal records the key with the event by which the message becomes a value, so that a fold
needs no content. Must never know where entries are.
"""

from daybook.engine.core.core import Core
from daybook.engine.facts import details, events
from daybook.engine.facts.reasons import REPLACED
from daybook.engine.messages.content import view_of
from daybook.engine.messages.conversions import text_of
from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.id_cache import key_of, keys_by_text
from daybook.engine.queues.queue import ContentError, Queue

FIND_UNITS = 2
"""What looking for the older message costs, in units of the budget."""


def keys_of(message: Message, queues: list[Queue]) -> dict[int, str]:
    """Return the last value keys of a message with content, by the ids of the queues that compare
    them."""
    found = {}
    by_name: dict[str, str | None] = {"": None}
    for queue in queues:
        if queue.retains:
            found[queue.id] = key_of_address(message.address_id)
            continue
        name = queue.definition.keyed_by
        if name not in by_name:
            value = view_of(message).get(name)
            by_name[name] = text_of(value) if value is not None else None
        text = by_name[name]
        if text is not None:
            found[queue.id] = text
    return found


def key_of_address(address: int) -> str:
    """Return the key of the message that an address, named by its id, retains."""
    return str(address)


def older_ones(core: Core, keys: dict[int, str]) -> list[tuple[Queue, int]]:
    """Return the messages that a new one with these keys will replace, each with its queue."""
    found = []
    hashed = keys_by_text(keys.values())
    for queue_id, text in keys.items():
        queue = core.state.queues[queue_id]
        queue.prune_latest()
        message_id = queue.latest_with(hashed[text])
        if message_id:
            found.append((queue, message_id))
    core.budget.spent += FIND_UNITS * len(keys)
    return found


def replace(core: Core, older: list[tuple[Queue, int]], lsn: int) -> None:
    """Remove messages that were replaced by an event, unless they left or are in flight."""
    for queue, message_id in older:
        entry = queue.find(message_id)
        if entry is not None and entry.state == READY:
            core.emit_of_entry(queue, entry, events.REMOVED, REPLACED, related=lsn)


def still_there(queue: Queue, entry: Entry) -> Entry | None:
    """Return an entry of a list made before others were acted on, None if it left since.

    What was done with the others may have put a message into this queue that replaced the entry:
    one that became a value, or a copy that a divert of the target address brought back.
    """
    if not queue.definition.keyed_by:
        return entry
    found = queue.find(entry.message.id)
    return found if found is not None and found.state == READY else None


def _key(core: Core, queue: Queue, entry: Entry) -> str | None:
    """Return the last value key of an entry, None if it has none. Raises ContentError."""
    message = entry.message
    if not message.resident:
        core.fill(message)
    return keys_of(message, [queue]).get(queue.id)


def remove_if_replaced(core: Core, queue: Queue, entry: Entry) -> int:
    """Remove an entry that just returned if a newer one replaced it meanwhile.

    Return the LSN of that, 0 if it stays, also because it cannot be read.
    """
    if not queue.definition.keyed_by:
        return 0
    try:
        text = _key(core, queue, entry)
    except ContentError:
        return 0
    newest = queue.latest_with(key_of(text)) if text is not None else 0
    if newest in (0, entry.message.id):
        return 0
    return core.emit_of_entry(queue, entry, events.REMOVED, REPLACED, related=newest)


def become_value(core: Core, queue: Queue, entry: Entry, reason: int) -> int:
    """Make a scheduled entry ready; if it is a value only now, it replaces the one before it.

    Return the LSN. Raises ContentError before anything is decided.
    """
    text = _key(core, queue, entry) if queue.definition.keyed_by else None
    older = older_ones(core, {queue.id: text}) if text is not None else []
    if text is None or older == [(queue, entry.message.id)]:
        return core.emit_of_entry(queue, entry, events.DUE, reason)
    detail = events.encode_detail(details.DueDetail(last_value=text))
    lsn = core.emit_of_entry(queue, entry, events.DUE, reason, detail=detail)
    replace(core, older, lsn)
    return lsn


def remove_replaced(core: Core, returned: dict[int, list[int]]) -> None:
    """Remove, of what a restart returned, by queue, what was replaced while it was in flight."""
    for queue_id, ids in returned.items():
        queue = core.state.queues.get(queue_id)
        if queue is None or not queue.definition.keyed_by:
            continue
        for message_id in ids:
            entry = queue.find(message_id)
            if entry is not None:
                remove_if_replaced(core, queue, entry)
