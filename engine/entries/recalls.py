"""Deciding what a new queue gets of the messages that were sent before it existed (ADR 49).

A *recall* copies references from the histories of the queue's address
(`engine.entries.retroactive`), in slices, in the order of ids. Messages sent since then enter the
queue directly. Until the recall has ended nothing is delivered from the queue, so that consumers
get everything in order. So there is neither a gap nor a duplicate at the seam, whatever happens to
the history meanwhile. Must never know when messages leave a history.
"""

from heapq import merge
from typing import Final

from daybook.engine.commands import NO_HISTORY
from daybook.engine.core.core import Core
from daybook.engine.entries import last_values, retained_messages
from daybook.engine.entries.retroactive import histories_of, is_kept, too_old, trim
from daybook.engine.entries.schedules import is_later, schedule
from daybook.engine.facts import details, events, reasons
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES, Message
from daybook.engine.queues.entry import HELD_LEVEL, LEVELS, NOTHING_PASSED, Entry
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.level import position_of
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.queues.recall import Recall, Start
from daybook.engine.queues.window import Window

AT_A_TIME: Final = 200
"""How many messages of a history are looked at in one step."""
BARE: Final = Window(AT_A_TIME, 1 << 40, with_content=False)
AHEAD_MAX: Final = 20_000
"""How many messages a recall may be ahead of the index if the address pages: only what the index
has can leave memory."""
LOOK_SHIFT: Final = 2
"""Looking at a message costs one unit of the budget for 2 to this power."""


def begin(core: Core, queue: Queue, start: Start) -> None:
    """Begin the recall of a queue that was just created, if there is history for it.

    A queue that keeps messages only while it has consumers gets none: it has none yet. Nor does a
    durable subscription that wants no messages of its own.
    """
    definition = queue.definition
    if not definition.enabled or definition.purge_on_no_consumers:
        return
    if definition.no_local and not definition.owner:
        return
    retained = retained_messages.number_for(core, queue) if start.after != NO_HISTORY else 0
    after = _from_history(core, queue, start)
    if after == NO_HISTORY and not retained:
        return
    until = core.next_lsn - 1
    if definition.no_local:
        # Nobody knows who sent them; but its own are not older than its connection.
        until = min(until, definition.owner)
    detail = details.RecallStartedDetail(after=after, until=until, retained=retained)
    _emit(core, queue, events.RECALL_STARTED, events.encode_detail(detail))
    go_on(core, queue)


def _from_history(core: Core, queue: Queue, start: Start) -> int:
    """Return after which message a new queue gets those of histories, NO_HISTORY if there are
    none."""
    after = start.after
    if start.since:
        after = max(after, core.state.times.before(start.since * 1000, core.now))
    if queue.address.is_wildcard:
        return after if histories_of(core, queue) else NO_HISTORY
    history = queue.address.histories.get(queue.definition.routing_type)
    if history is None or not is_kept(core, queue.address):
        return NO_HISTORY
    trim(core, history)
    core.touch(history)
    after = max(after, _surplus(core, history))
    if not _next(history, max(after, too_old(core, queue.address.name))):
        return NO_HISTORY
    return after


def _emit(core: Core, queue: Queue, kind: int, detail: bytes = b"") -> None:
    core.emit(
        events.row(
            kind,
            reason=reasons.HISTORY, address=queue.address.id, queue=queue.id, time=core.now,
        ),
        detail,
    )  # fmt: skip
    core.touch(queue)


def _surplus(core: Core, history: Queue) -> int:
    """Return up to which message a history has more than it may, for other queues that get it."""
    count = core.state.settings.resolve(history.definition.keeps).retroactive_message_count
    surplus = history.message_count - count if count else 0
    position = NOTHING_PASSED
    while surplus > 0:
        found = _next(history, position)[:surplus]
        if not found:
            break
        position = found[-1].position
        surplus -= len(found)
        core.budget.spent += len(found) >> LOOK_SHIFT
    return position


def can_go_on(core: Core) -> bool:
    """Whether some recall need not wait for the index."""
    return any(not _must_wait(core, queue) for queue in core.state.recalling.values())


def _must_wait(core: Core, queue: Queue) -> bool:
    recall, store = queue.recall, core.state.store
    if recall is None or store is None or recall.ahead < AHEAD_MAX:
        return False
    if not queue.address.paging:
        return False
    if store.indexed_lsn < queue.recalled_lsn:
        return True
    recall.ahead = 0
    return False


def go_on(core: Core, queue: Queue) -> None:
    """Continue a recall until it has ended, the budget is spent, or it must wait."""
    recall = queue.recall
    while recall is not None and queue.recall is recall and not _must_wait(core, queue):
        history = _history(core, queue, recall)
        if history is None:
            end(core, queue)
            return
        if not _go_on_in(core, queue, recall, history):
            assert recall.histories is not None
            recall.histories.pop()
            recall.seen = NOTHING_PASSED
            # It may now remove what it kept for this one.
            core.touch(history)
        if core.budget.is_spent:
            return


def end(core: Core, queue: Queue) -> None:
    """End a recall; the queue delivers from here on."""
    for number in queue.recall.histories or () if queue.recall is not None else ():
        history = core.state.histories.get(number)
        if history is not None:
            core.touch(history)
    _emit(core, queue, events.RECALL_ENDED)


def _history(core: Core, queue: Queue, recall: Recall) -> Queue | None:
    """Return the history to read next, None if all were read."""
    if recall.histories is None:
        # In the order of ids, beginning with the one where a broker before ended.
        chosen = histories_of(core, queue) if recall.after != NO_HISTORY else []
        if recall.retained:
            chosen.append(recall.retained)
        recall.histories = sorted((n for n in chosen if n >= recall.history), reverse=True)
        is_known = bool(recall.histories) and recall.histories[-1] == recall.history
        recall.seen = recall.position if is_known else NOTHING_PASSED
    while recall.histories:
        history = core.state.histories.get(recall.histories[-1])
        if history is not None and _is_for(core, history, queue):
            return history
        recall.histories.pop()
        recall.seen = NOTHING_PASSED
        core.budget.spent += 1
    return None


def _is_for(core: Core, history: Queue, queue: Queue) -> bool:
    """Whether messages of a history would have entered a queue; of retained ones, perhaps some."""
    if history.retains:
        return True
    kept_for = core.state.address_by_name.get(history.definition.keeps)
    if kept_for is None or history.definition.routing_type != queue.definition.routing_type:
        return False
    return kept_for is queue.address or queue.address in core.wildcards.of(kept_for)


def _next(history: Queue, position: int) -> list[Entry]:
    """Return messages of a history after a position, in order, if there are any."""
    window, history.window = history.window, BARE
    found = []
    for number in range(LEVELS):
        if number != HELD_LEVEL and history.levels[number] is not None:
            entries = behind(history, number, position, AT_A_TIME)
            if entries:
                found.append(entries)
    history.window = window
    if len(found) < 2:
        return found[0] if found else []
    # Behind this position, some level may have others.
    bound = min(entries[-1].position for entries in found)
    merged = merge(*found, key=position_of)
    return [entry for entry in merged if entry.position <= bound]


def _go_on_in(core: Core, queue: Queue, recall: Recall, history: Queue) -> bool:
    """Recall some messages of a history; return whether it has more."""
    is_retained = history.retains
    if is_retained and not queue.address.is_wildcard:
        entries = retained_messages.after(core, history, queue.address, recall.seen)
    elif is_retained:
        entries = _next(history, recall.seen)
    else:
        position = max(recall.after, recall.seen, too_old(core, history.definition.keeps))
        entries = _next(history, position)
    for number, entry in enumerate(entries):
        if entry.position > recall.until:
            return False
        if not number & ((1 << LOOK_SHIFT) - 1):
            core.budget.spent += 1
        recall.seen = entry.position
        if is_retained and not retained_messages.is_for(core, entry.message, queue):
            continue
        try:
            _recall_one(core, queue, history, entry)
        except ContentError as error:
            core.notices.append(
                f"queue '{queue.name}' does not get message {entry.message.id} of the history of "
                f"address '{history.definition.keeps}', because it cannot be read: {error}"
            )
        if core.budget.is_spent:
            return True
    return bool(entries)


def journaled_size(message: Message) -> int:
    """Return what a message has of content in the journal, with overhead and no annotations."""
    if message.flags & events.BODY_OMITTED:
        return MESSAGE_OVERHEAD_BYTES
    return message.size - len(message.annotations)


def _recall_one(core: Core, queue: Queue, history: Queue, entry: Entry) -> None:
    """Put a message of a history into a queue, unless it does not belong there."""
    message = entry.message
    if message.is_expired(core.now) or queue.find(message.id) is not None:
        # It may be in a history, and be retained.
        return
    binding = queue.binding
    assert binding is not None and queue.recall is not None
    if not message.resident and (binding.filter or queue.definition.keyed_by):
        core.fill(message)
    if not core.accepts(binding, message):
        return
    is_scheduled = is_later(core, entry.due)
    keys = {}
    if queue.definition.keyed_by and not is_scheduled:
        keys = last_values.keys_of(message, [queue])
        if any(queue.latest_with(key_of(each)) > message.id for each in keys.values()):
            # A newer one came while the queue waited for this.
            return
    older = last_values.older_ones(core, keys)
    detail = details.RecalledDetail(
        history=history.id, expires=message.expires, size=journaled_size(message),
        last_values=keys, annotations=message.annotations,
        retained=retained_messages.is_recalled(core, queue.recall, history, message),
    )  # fmt: skip
    lsn = core.emit(
        (
            events.RECALLED, reasons.HISTORY, 0, message.address_id, queue.id, message.priority,
            message.flags, message.id, 0, 0, 0, core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.budget.spent += 1
    queue.recall.ahead += 1
    core.touch(queue)
    last_values.replace(core, older, lsn)
    if is_scheduled:
        schedule(core, queue, queue.entries[message.id], entry.due, reasons.DELIVERY_TIME)
