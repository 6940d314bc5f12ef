"""Deciding what administrators do with messages of a queue: move, copy, retry, expire, remove.

A message that goes to another place leaves its queue, and a copy with an id of its own enters the
other one, as with dead letters. Messages in flight belong to their consumers and are left alone. A
walk over a queue is done in slices, and looks at every message at most once.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from daybook.engine.administration import move_targets
from daybook.engine.commands import ActOnMessages
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.entries.last_values import still_there
from daybook.engine.entries.placement import route, select
from daybook.engine.entries.retroactive import refuse_use
from daybook.engine.entries.schedules import is_later
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.facts.details import Origin
from daybook.engine.messages import deaths
from daybook.engine.messages.annotations import annotated
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import PRIORITIES, Filter, Message
from daybook.engine.messages.origins import ORIGIN_PROPERTIES, says_origin
from daybook.engine.names.names import beside
from daybook.engine.queues.entry import HELD_LEVEL, NOTHING_PASSED, READY, SCHEDULED_LEVEL, Entry
from daybook.engine.queues.level_scan import behind
from daybook.engine.queues.queue import ContentError, Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.routing.departures import copy_for, expire, expiry_address
from daybook.engine.settings.permissions import Actor
from daybook.engine.topology.topology import check_queue, require_queue

LEVELS: Final = (*range(PRIORITIES - 1, -1, -1), HELD_LEVEL, SCHEDULED_LEVEL)
"""The levels of a queue in the order of the walk: as they are delivered, then what is aside."""
LOOK_SHIFT: Final = 3
"""Looking at messages costs one unit for 2 to this power."""
ACT_UNITS: Final = 3
"""What doing something with a message costs beyond that."""
WHYS_MAX: Final = 20
"""How many different reasons for which messages stay are counted."""
NO_ORIGIN: Final = "no dead letter, and no expired or moved message"
UNPROVEN: Final = (
    "only its headers say where it came from, which its sender may have written: an earlier version"
    " took it, and the journal does not say it; move it with `daybook queue move`"
)
NOT_THERE: Final = "not in the queue any more"
IN_FLIGHT: Final = "in flight to a consumer"
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
    command.checked.clear()
    refusal = _check(core, queue, command)
    if refusal is not None:
        return refusal
    first = core.next_lsn
    try:
        if command.message:
            refusal = _act_on_one(core, queue, command)
        elif command.chosen:
            _act_on_chosen(core, queue, command)
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
        target = move_targets.named(core, queue, command.target, command.actor)
        if isinstance(target, Refusal):
            return target
    if command.action == PRIORITY and command.priority not in range(PRIORITIES):
        return Refusal(Code.INVALID, f"priority is {command.priority}; it must be from 0 to 9")
    if command.matcher is None and command.filter:
        matcher = core.filters.compile(command.filter, core.now)
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


def _act_on_chosen(core: Core, queue: Queue, command: ActOnMessages) -> None:
    """Continue with the messages that are named, in their order; `position` counts them."""
    part = command.chosen[command.position :][: command.limit]
    for message in part:
        command.position += 1
        entry = queue.find(message)
        if entry is not None and entry.state == READY:
            _do(core, queue, entry, command)
        else:
            _stays(command, NOT_THERE if entry is None else IN_FLIGHT)
            command.passed_over += 1
        if core.budget.is_spent:
            break
    command.is_done = command.position == len(command.chosen)
    core.budget.spent += (len(part) >> LOOK_SHIFT) + 1


def _act_on_some(core: Core, queue: Queue, command: ActOnMessages) -> None:
    """Continue the walk; look at `limit` messages at most."""
    if command.level < 0:
        command.level = LEVELS[0]
        command.position = NOTHING_PASSED
        command.through = command.through or core.next_lsn - 1
    looked, before = 0, command.acted
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
            if _is_enough(core, command, before):
                break
        if _is_enough(core, command, before):
            break
    command.is_done = command.is_done or _is_all(command)
    core.budget.spent += (looked >> LOOK_SHIFT) + 1


def _is_enough(core: Core, command: ActOnMessages, before: int) -> bool:
    """Whether a part is over that began when so many messages had been acted on."""
    is_part = core.budget.is_spent or 0 < command.most <= command.acted - before
    return is_part or _is_all(command)


def _is_all(command: ActOnMessages) -> bool:
    """Whether as many messages were acted on as the limit of all parts allows."""
    return 0 < command.total <= command.acted


def _matches(core: Core, matcher: Filter | None, message: Message) -> bool:
    if matcher is None:
        return True
    if not message.resident:
        core.fill(message)
    return core.passes(matcher, message)


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
    waits_until = due if is_later(core, due) else 0
    route(core, copy, [target], reason=reasons.ADMINISTRATION, related=related, due=waits_until)


def _copied(core: Core, queue: Queue, entry: Entry, target: Queue) -> Message:
    """Return the copy of a message for another queue; it expires when the original would."""
    message = entry.message
    copy = copy_for(core, queue, message, target.address, reasons.ADMINISTRATION)
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
    """Let a message enter its queue again, behind the others of its new priority; a scheduled one
    stays scheduled."""
    message = entry.message
    if message.priority == command.priority:
        return False
    copy = _again(core, message)
    copy.priority = command.priority
    copy.address_id, copy.expires = message.address_id, message.expires
    copy.origin = core.origin_of(message)
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
    return annotated(again, message.annotations)


def _retry(core: Core, queue: Queue, entry: Entry, command: ActOnMessages) -> bool:
    """Send a dead letter or an expired message back to where it came from, if that exists."""
    message = entry.message
    if not message.resident:
        core.fill(message)
    codec = codec_of(message.flags)
    past = core.origin_of(message)
    if past is None or not past.address or past.reason == reasons.DIVERT:
        # What its headers say of it may be from anybody.
        said = past is None and says_origin(codec, message.headers)
        return _stays(command, UNPROVEN if said else NO_ORIGIN)
    headers = codec.copied(message.headers, ORIGIN_PROPERTIES, deaths.listed(past.deaths))
    again = _again(core, message, headers)
    if past.deaths:
        again.origin = Origin(deaths=past.deaths)
    chosen = _places(core, queue, past, again, command)
    if isinstance(chosen, str):
        return _stays(command, chosen)
    # Queues and addresses that the move creates come before.
    again.id = core.next_lsn + 1
    _leave(core, queue, entry, again.id)
    route(core, again, chosen, reason=reasons.ADMINISTRATION, related=message.id)
    return True


def _stays(command: ActOnMessages, why: str) -> bool:
    """Note why a message stays; only so many different reasons are counted."""
    if why in command.whys or len(command.whys) < WHYS_MAX:
        command.whys[why] = command.whys.get(why, 0) + 1
    return False


def _places(
    core: Core, queue: Queue, past: Origin, again: Message, command: ActOnMessages
) -> list[Queue] | str:
    """Return the queues that a message goes back to, or why it stays."""
    address_name = beside(queue.name, past.address)
    target = beside(queue.name, past.queue) if past.queue else ""
    key = (address_name, target)
    if key not in command.checked:
        # Once for each target, while nothing else has a turn.
        command.checked[key] = _check_return(core, queue, past, key, command.actor)
    refused = command.checked[key]
    if refused:
        return refused
    if target and target not in core.state.queue_by_name:
        routing_type = past.routing_type or ANYCAST
        created = require_queue(core, target, target, routing_type)
        if isinstance(created, Refusal):
            return created.text
    address = core.state.address_by_name[address_name]
    again.address_id = address.id
    if target:
        return [core.state.queue_by_name[target]]
    # No queue took it; perhaps one does now.
    chosen = select(core, address, past.routing_type or None, again)
    if not chosen:
        return f"no queue of address '{address_name}' takes it"
    return "it would come back to this queue" if queue in chosen else chosen


def _check_return(
    core: Core, queue: Queue, past: Origin, key: tuple[str, str], actor: Actor | None
) -> str:
    """Return why messages of a queue may not go back to where they were, empty if they may.

    A queue that does not exist any more is created again if it had the name of its address.
    """
    address, name = key
    found = core.state.queue_by_name.get(name)
    if found is not None:
        refusal = move_targets.check(core, queue, found, actor)
        if refusal is None and address not in core.state.address_by_name:
            return f"there is no address '{address}' any more"
        return refusal.text if refusal is not None else ""
    refusal = move_targets.check_new(core, queue, address, name or None, actor)
    if refusal is None and name:
        if name != address:
            return f"there is no queue '{name}' any more"
        refusal = check_queue(core, name, name, past.routing_type or ANYCAST)
    elif refusal is None and address not in core.state.address_by_name:
        return f"there is no address '{address}' any more"
    return refusal.text if refusal is not None else ""


ACTIONS: Final[dict[str, Act]] = {
    MOVE: _move,
    COPY: _copy,
    RETRY: _retry,
    EXPIRE: _expire,
    REMOVE: _remove,
    PRIORITY: _change_priority,
}
"""The actions on messages, by name."""
