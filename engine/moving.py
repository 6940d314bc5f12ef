"""Deciding what administrators do with messages of a queue: move, copy, retry, expire, remove.

A message that goes to another place leaves its queue, and a copy with an id of its own enters the
other one, as with dead letters. Messages in flight belong to their consumers and are left alone. A
walk over a queue is done in slices, and looks at every message at most once.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine import events, reasons
from daybook.engine.commands import ActOnMessages
from daybook.engine.content import codec_of
from daybook.engine.core import Core
from daybook.engine.definitions import ANYCAST
from daybook.engine.departing import copy_for, expire, expiry_address
from daybook.engine.last_values import still_there
from daybook.engine.message import (
    HELD_LEVEL,
    PRIORITIES,
    READY,
    SCHEDULED_LEVEL,
    Entry,
    Filter,
    Message,
)
from daybook.engine.names import beside
from daybook.engine.origins import ORIGIN_PROPERTIES, address_in, queue_in, routing_type_in
from daybook.engine.placing import route, select
from daybook.engine.queue_names import find_queue
from daybook.engine.queues import ContentError, Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.retroactive import refuse_use
from daybook.engine.scanning import behind
from daybook.engine.scheduling import is_later, schedule_new
from daybook.engine.state import NOTHING_PASSED
from daybook.engine.topology import check_queue, compile_filter, require_queue

LEVELS: Final = (*range(PRIORITIES - 1, -1, -1), HELD_LEVEL, SCHEDULED_LEVEL)
"""The levels of a queue in the order of the walk: as they are delivered, then what is aside."""
LOOK_SHIFT: Final = 3
"""Looking at messages costs one unit for 2 to this power."""
ACT_UNITS: Final = 3
"""What doing something with a message costs beyond that."""
MOVE: Final = "move"
COPY: Final = "copy"
RETRY: Final = "retry"
EXPIRE: Final = "expire"
REMOVE: Final = "remove"
PRIORITY: Final = "priority"

Act: TypeAlias = Callable[[Core, Queue, Entry, ActOnMessages], bool]
"""Does something with an entry; returns whether it did."""


def act(core: Core, command: ActOnMessages) -> int | Refusal:
    """Act on some messages; return the last LSN, 0 if nothing was decided."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    refusal = _check(core, queue, command)
    if refusal is not None:
        return refusal
    first = core.next_lsn
    try:
        if command.message:
            refusal = _act_on_one(core, queue, command)
        else:
            _act_on_some(core, queue, command)
    except ContentError as error:
        if core.next_lsn == first:
            return Refusal(Code.NOT_FOUND, f"a message of '{queue.name}' cannot be read: {error}")
    if refusal is not None:
        return refusal
    return core.next_lsn - 1 if core.next_lsn > first else 0


def _check(core: Core, queue: Queue, command: ActOnMessages) -> Refusal | None:
    """Return why nothing can be done, None if it can."""
    if command.action not in ACTIONS:
        return Refusal(
            Code.INVALID, f"'{command.action}' is not an action; they are {', '.join(ACTIONS)}"
        )
    if queue.definition.keeps and command.action in (RETRY, PRIORITY):
        return refuse_use(queue)
    if command.action in (MOVE, COPY):
        target = find_queue(core.state, command.target)
        if isinstance(target, Refusal):
            return target
        if target.definition.keeps:
            return refuse_use(target)
        if target is queue:
            return Refusal(Code.INVALID, f"queue '{queue.name}' is the target itself")
        if target.address.host != queue.address.host:
            return Refusal(
                Code.INVALID,
                f"queue '{target.name}' is on another virtual host than '{queue.name}'",
            )
    if command.action == PRIORITY and command.priority not in range(PRIORITIES):
        return Refusal(Code.INVALID, f"priority is {command.priority}; it must be from 0 to 9")
    if command.matcher is None and command.filter:
        matcher = compile_filter(core, command.filter)
        if isinstance(matcher, Refusal):
            return matcher
        command.matcher = matcher
    return None


def _act_on_one(core: Core, queue: Queue, command: ActOnMessages) -> Refusal | None:
    """Act on the message that is named."""
    entry = queue.find(command.message)
    if entry is None:
        return Refusal(
            Code.NOT_FOUND, f"queue '{queue.name}' does not have message {command.message}"
        )
    if entry.state != READY:
        return Refusal(
            Code.NOT_ALLOWED,
            f"message {command.message} of queue '{queue.name}' is in flight to a consumer",
        )
    _do(core, queue, entry, command)
    command.is_done = True
    return None


def _act_on_some(core: Core, queue: Queue, command: ActOnMessages) -> None:
    """Continue the walk; look at `limit` messages at most."""
    if command.level < 0:
        command.level = LEVELS[0]
        command.position = NOTHING_PASSED
        command.through = command.through or core.next_lsn - 1
    looked = 0
    while looked < command.limit:
        found = behind(queue, command.level, command.position)[: command.limit - looked]
        chosen = [entry for entry in found if entry.position <= command.through]
        if not chosen:
            following = LEVELS.index(command.level) + 1
            if following == len(LEVELS):
                command.is_done = True
                break
            command.level = LEVELS[following]
            command.position = NOTHING_PASSED
            continue
        for entry in chosen:
            command.position = entry.position
            looked += 1
            if _matches(core, command.matcher, entry.message):
                found_again = still_there(queue, entry)
                if found_again is not None:
                    _do(core, queue, found_again, command)
            if core.budget.is_spent:
                break
        if core.budget.is_spent:
            break
    core.budget.spent += (looked >> LOOK_SHIFT) + 1


def _matches(core: Core, matcher: Filter | None, message: Message) -> bool:
    if matcher is None:
        return True
    if not message.resident:
        core.fill(message)
    return matcher.matches(message)


def _do(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> None:
    core.budget.spent += ACT_UNITS
    if ACTIONS[command.action](core, queue, entry, command):
        command.acted += 1
    else:
        command.passed_over += 1


def _move(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    target = find_queue(core.state, command.target)
    assert isinstance(target, Queue)
    copy = _copied(core, queue, entry, target)
    due = _sent_for(entry)
    _leave(core, queue, entry, copy.id)
    _put(core, copy, target, due, related=entry.message.id)
    return True


def _copy(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    target = find_queue(core.state, command.target)
    assert isinstance(target, Queue)
    copy = _copied(core, queue, entry, target)
    # No event takes the original out.
    copy.id = core.next_lsn
    _put(core, copy, target, _sent_for(entry))
    return True


def _sent_for(entry: Entry) -> int:
    """Return the time before which its sender does not want an entry delivered, 0 if there is none.

    One that was delivered before waits for another reason.
    """
    return entry.due if not entry.delivery_count else 0


def _put(core: Core, copy: Message, target: Queue, due: int, related: int = 0) -> None:
    """Put a copy into a queue, where it also waits until it is due."""
    waits = is_later(core, due)
    route(
        core, copy, [target],
        reason=reasons.ADMINISTRATION, related=related, is_scheduled=waits,
    )  # fmt: skip
    if waits:
        schedule_new(core, copy.id, [target], due)


def _copied(core: Core, queue: Queue, entry: Entry, target: Queue) -> Message:
    """Return the copy of a message for another queue; it expires when the original would."""
    message = entry.message
    copy = copy_for(core, queue, message, target.address, {})
    copy.expires = message.expires
    return copy


def _leave(core: Core, queue: Queue, entry: Entry, copy: int) -> None:
    """Emit that an entry is moved; the Routed of its copy must be the next event."""
    queue.make_resident(entry)
    core.emit_of_entry(queue, entry, events.MOVED, reasons.ADMINISTRATION, related=copy)


def _remove(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    queue.make_resident(entry)
    core.emit_of_entry(queue, entry, events.REMOVED, reasons.ADMINISTRATION)
    return True


def _expire(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    """Expire a message, whenever it would; not in the queue where expired messages are."""
    if expiry_address(core, queue, entry) == queue.address.name:
        return False
    before = queue.expired
    expire(core, queue, entry)
    return queue.expired > before


def _change_priority(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    """Let a message enter its queue again, behind the others of its new priority; what is
    scheduled stays so."""
    message = entry.message
    if message.priority == command.priority:
        return False
    copy = _again(core, message)
    copy.priority = command.priority
    copy.address_id, copy.expires = message.address_id, message.expires
    due = entry.due
    _leave(core, queue, entry, copy.id)
    _put(core, copy, queue, due, related=message.id)
    return True


def _again(core: Core, message: Message, headers: bytes | None = None) -> Message:
    """Return a message that takes the place of another, with these headers or its own; it never
    expires."""
    if not message.resident:
        core.fill(message)
    again = Message(
        core.next_lsn + 1, message.address_id, message.priority, message.flags, 0,
        message.headers if headers is None else headers, message.body,
    )  # fmt: skip
    if message.chunks:
        again.enlarge(message.chunks, message.body_bytes)
    return again


def _retry(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    """Send a dead letter or an expired message back to where it came from, if that exists."""
    message = entry.message
    if not message.resident:
        core.fill(message)
    codec = codec_of(message.flags)
    address_name = address_in(codec, message.headers)
    queue_name = queue_in(codec, message.headers)
    routing_type = routing_type_in(codec, message.headers)
    if not address_name:
        return False
    address_name = beside(queue.name, address_name)
    queue_name = beside(queue.name, queue_name) if queue_name else ""
    origin = _origin(core, address_name, queue_name, routing_type or ANYCAST)
    headers = codec.copied(message.headers, ORIGIN_PROPERTIES, {})
    again = _again(core, message, headers)
    address = core.state.address_by_name.get(address_name)
    if address is None:
        return False
    again.address_id = address.id
    chosen = [origin] if origin is not None else []
    if not queue_name:
        # No queue took it; perhaps one does now.
        chosen = select(core, address, routing_type, again)
    if not chosen or queue in chosen:
        return False
    _leave(core, queue, entry, again.id)
    route(core, again, chosen, reason=reasons.ADMINISTRATION, related=message.id)
    return True


def _origin(core: Core, address: str, name: str, routing_type: str) -> Queue | None:
    """Return the queue that a message was in; one that had the name of its address is created
    again, of the routing type that it had."""
    queue = core.state.queue_by_name.get(name)
    if queue is not None:
        return queue
    if name == address and name and check_queue(core, name, name, routing_type) is None:
        found = require_queue(core, name, name, routing_type)
        return found if isinstance(found, Queue) else None
    return None


ACTIONS: Final[dict[str, Act]] = {
    MOVE: _move,
    COPY: _copy,
    RETRY: _retry,
    EXPIRE: _expire,
    REMOVE: _remove,
    PRIORITY: _change_priority,
}
"""What can be done with messages, by name."""
