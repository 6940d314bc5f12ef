"""Deciding about held messages: trying to move them again, or delivering them again (ADR 25).

Whether an address takes dead letters depends only on addresses, queues and settings. So every
change of one of those sets `core.work.held_changed`, and the next `retry` begins a walk over all
held messages. A walk is done in slices; a message that still has nowhere to go costs a look and no
event.
"""

from itertools import islice
from typing import Final

from daybook.engine.commands import ReleaseHeld, RetryHeld
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.core.unreadable import try_later
from daybook.engine.entries.last_values import still_there
from daybook.engine.entries.rings import note_returned
from daybook.engine.facts import events, reasons
from daybook.engine.queues.entry import HELD_LEVEL, NOTHING_PASSED, Entry
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.refusals import Refusal
from daybook.engine.routing.departures import dead_letter, expire, is_used_up
from daybook.engine.routing.expiry import is_expired

RETRY_AT_A_TIME: Final = 500
"""How many messages a slice of a walk looks at, unless the command says less."""


def retry(core: Core, command: RetryHeld) -> int:
    """Try some held messages again; `Broker.retry_due` says whether more are to be tried."""
    state = core.state
    if core.work.held_changed and not core.work.held_walk:
        core.work.held_changed = False
        core.work.held_walk = sorted(state.holding, reverse=True)
        core.work.held_place = NOTHING_PASSED
    left = min(command.limit, RETRY_AT_A_TIME)
    while core.work.held_walk and left > 0:
        queue = state.queues.get(core.work.held_walk[-1])
        found = []
        if queue is not None and queue.held_count and not queue.deleting:
            found = behind(queue, HELD_LEVEL, core.work.held_place)[:left]
        if queue is None or not found:
            _end_of_queue(core, queue)
            continue
        left -= len(found)
        core.budget.spent += 5 * len(found)
        for each in found:
            core.work.held_place = each.position
            entry = still_there(queue, each)
            if entry is None:
                continue
            try:
                _try_again(core, queue, entry)
            except ContentError as error:
                # Others of this queue would fail too, and reading damaged content is expensive.
                try_later(core, error)
                _end_of_queue(core, queue)
                break
    return 0


def _end_of_queue(core: Core, queue: Queue | None) -> None:
    """Continue with the next queue of the walk; forget this one if it holds nothing any more."""
    number = core.work.held_walk.pop()
    core.work.held_place = NOTHING_PASSED
    if queue is None or not queue.held_count:
        core.state.holding.pop(number, None)


def _try_again(core: Core, queue: Queue, entry: Entry) -> None:
    """Decide about a held message as if it had come back just now."""
    if is_used_up(core, queue, entry.delivery_count):
        dead_letter(core, queue, entry)
    elif is_expired(core, queue, entry):
        expire(core, queue, entry)
    else:
        _release(core, queue, entry, reasons.CONFIGURATION)


def release(core: Core, command: ReleaseHeld) -> int | Refusal:
    """Make held messages ready again, a part at a time; 0 says that none was left."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    through = command.through or core.next_lsn
    old = (entry for entry in queue.held() if entry.position <= through)
    chosen = list(islice(old, command.limit))
    for entry in chosen:
        _release(core, queue, entry, reasons.ADMINISTRATION)
    return core.next_lsn - 1 if chosen else 0


def _release(core: Core, queue: Queue, entry: Entry, reason: int) -> None:
    queue.make_resident(entry)
    core.emit_of_entry(queue, entry, events.RELEASED, reason)
    note_returned(core, queue, entry)
