"""Deciding about the history that an address keeps for queues to come (ADR 49).

A history is a queue of the broker itself, one for each routing type of the address, on an internal
address that has its limits and its memory. Messages enter it by the same Routed as other queues,
and are removed in the order in which they came when there are too many. Invariants: a history is
never why a message has a route or has no room; nobody consumes from it or sends to it; it ends with
its address, and when the settings no longer ask for it. Must never know how queues get messages
from it (`engine.entries.recalls`).
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import AddressDefinition, QueueDefinition
from daybook.engine.names.names import INTERNAL, beside, host_and_name, is_temporary, plain
from daybook.engine.names.syntax import UNROUTED
from daybook.engine.queues.entry import LEVELS, Entry
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.window import Window
from daybook.engine.refusals import Code, Refusal

ONE: Final = Window(1, 1 << 40, with_content=False)
"""A message that is only removed comes into memory alone, and without content."""
EVICT_LEAST: Final = 50
"""How many messages are removed at once, whatever budget is left."""
PENDING_MAX: Final = 10_000
"""So many messages more than it may have a history keeps for queues that are still to get them."""
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
PAST_ALL: Final = (1 << 63) - 1


def is_kept(core: Core, address: Address) -> bool:
    """Whether an address keeps its history."""
    settings = core.state.settings
    if not settings.keeps_history or address.is_wildcard:
        return False
    name = address.name
    is_usual = not (is_temporary(name) or plain(name).startswith(INTERNAL))
    return is_usual and settings.resolve(name).is_retroactive()


def histories_for(core: Core, address: Address, routing_type: str | None) -> list[Queue]:
    """Return the histories that a message to an address enters, created if necessary.

    To be called before anything is decided about the message: what this emits comes first. None are
    created while there is no memory for names.
    """
    if not address.guarded or not is_kept(core, address):
        return []
    types = address.definition.routing_types
    if routing_type is not None:
        types = (routing_type,) if routing_type in types else ()
    found = []
    for each in types:
        history = address.histories.get(each)
        if history is None and not core.room.objects_full:
            history = _create(core, address, each)
        if history is not None:
            found.append(history)
    if found and core.state.times.needs_mark(core.now):
        core.emit(events.row(events.TIME_MARKED, time=core.now))
    return found


def _create(core: Core, address: Address, routing_type: str) -> Queue:
    name = _internal(address, "address.retro")
    place = core.state.address_by_name.get(name)
    if place is None:
        place = create_place(core, name, routing_type, reasons.HISTORY)
    if routing_type not in place.definition.routing_types:
        wanted = (*place.definition.routing_types, routing_type)
        detail = details.AddressDetail(
            host=place.host, name=name, routing_types=tuple(sorted(wanted)),
            changed=("routing_types",),
        )  # fmt: skip
        emit_of_broker(core, events.ADDRESS_UPDATED, place.id, 0, detail, reasons.HISTORY)
    number = core.state.next_queue
    definition = QueueDefinition(
        name=_internal(address, f"queue.{routing_type}.retro"),
        routing_type=routing_type, max_consumers=0, keeps=address.name,
    )  # fmt: skip
    emit_of_broker(core, events.QUEUE_CREATED, place.id, number, definition, reasons.HISTORY)
    return core.state.queues[number]


def _internal(address: Address, rest: str) -> str:
    """Return the name of something of the broker itself about an address, on the same host."""
    return beside(address.name, f"{INTERNAL}{plain(address.name)}.{rest}")


def create_place(core: Core, name: str, routing_type: str, reason: int) -> Address:
    """Create an address of the broker itself."""
    number = core.state.next_address
    # Whatever the characters of patterns are, the name is none.
    definition = AddressDefinition(
        host=host_and_name(name)[0], name=name, routing_types=(routing_type,), syntax=UNROUTED
    )
    emit_of_broker(core, events.ADDRESS_CREATED, number, 0, definition, reason)
    return core.state.addresses[number]


def emit_of_broker(
    core: Core,
    kind: int,
    address: int,
    queue: int,
    detail: AddressDefinition | QueueDefinition,
    reason: int,
) -> None:
    """Record that an address or a queue of the broker itself is created or changed."""
    core.emit(
        events.row(kind, reason=reason, address=address, queue=queue, time=core.now),
        events.encode_detail(detail),
    )


def histories_of(core: Core, queue: Queue) -> list[int]:
    """Return the ids of the histories from which a queue may get messages; of a queue with
    wildcards, those of all addresses."""
    if queue.address.is_wildcard:
        host = queue.address.host
        return [
            number
            for number, each in core.state.histories.items()
            if not each.retains and each.address.host == host
        ]
    history = queue.address.histories.get(queue.definition.routing_type)
    return [history.id] if history is not None else []


def refuse_use(queue: Queue) -> Refusal:
    """Refuse what only the broker does with a history."""
    if queue.retains:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' has the retained messages of all topics; it can be listed, "
            "browsed and purged, and `daybook address forget` removes that of one address",
        )
    return Refusal(
        Code.NOT_ALLOWED,
        f"queue '{queue.name}' is the history of address '{queue.definition.keeps}'; it can be "
        "listed, browsed and purged, and the settings of that address say what it keeps",
    )


# ---- what leaves a history


def too_old(core: Core, keeps: str) -> int:
    """Return up to which message a history is too old to be given to a queue, 0 for none."""
    age = core.state.settings.resolve(keeps).retroactive_max_age
    return core.state.times.since(core.now - age * 1000) if age else 0


def trim(core: Core, history: Queue) -> None:
    """Remove what a history may not keep any more, the oldest first.

    If the budget is spent before that, it is then in `core.later`.
    """
    settings = core.state.settings.resolve(history.definition.keeps)
    if history.deleting or not settings.is_retroactive():
        return
    count, size = settings.retroactive_message_count, settings.retroactive_bytes
    old = too_old(core, history.definition.keeps)
    left = max(core.budget.left, EVICT_LEAST)
    window, history.window = history.window, ONE
    count_max = count + PENDING_MAX if count else PAST_ALL
    size_max = size + PENDING_BYTES_MAX if size else PAST_ALL
    floor = _floor(core, history) if core.state.recalling else PAST_ALL
    while history.message_count:
        reason = reasons.NO_REASON
        if 0 < count < history.message_count:
            reason = reasons.RING_EVICTED
        elif 0 < size < history.bytes:
            reason = reasons.RETROACTIVE_BYTES
        elif not old:
            break
        entry = oldest(history)
        if entry is None:
            break
        if entry.position <= old:
            reason = reasons.RETROACTIVE_MAX_AGE
        elif not reason or (
            entry.position > floor
            and (history.message_count <= count_max and history.bytes <= size_max)
        ):
            break
        if not left:
            core.later[history.id] = history
            break
        message = entry.message
        core.emit(
            (
                events.REMOVED, reason, entry.delivery_count, history.address.id, history.id,
                message.priority, message.flags, message.id, 0, 0, 0, core.now,
            )
        )  # fmt: skip
        core.budget.spent += 1
        left -= 1
    history.window = window


def oldest(history: Queue) -> Entry | None:
    """Return the message that was sent first, ready or scheduled."""
    oldest = None
    for number in range(LEVELS):
        entry = history.first_in(number)
        if entry is not None and (oldest is None or entry.position < oldest.position):
            oldest = entry
    return oldest


def _floor(core: Core, history: Queue) -> int:
    """Return up to which message no queue is still to get something of a history."""
    floor = PAST_ALL
    for queue in core.state.recalling.values():
        recall = queue.recall
        of_it = queue.address.is_wildcard or queue.address.name == history.definition.keeps
        if recall is not None and of_it:
            needed = recall.floor(history.id)
            floor = min(floor, needed) if needed < recall.until else floor
    return floor


def look_for_old(core: Core) -> None:
    """Make the next dispatch remove what is too old."""
    if core.state.histories and core.state.settings.keeps_history:
        for history in core.state.histories.values():
            if core.state.settings.resolve(history.definition.keeps).retroactive_max_age:
                core.touch(history)
