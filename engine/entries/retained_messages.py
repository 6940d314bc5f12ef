"""Deciding about retained messages: one of each address, for queues to come (ADR 59).

They are in one queue of the broker itself, for all addresses of a virtual host: a history
(`engine.entries.retroactive`) that is a last value queue, too (`engine.entries.last_values`). The
value that it compares is the address that a message was sent to. So a newer retained message
replaces the one before, and an address knows its own by the key. Queues that are created get them
by a recall (`engine.entries.recalls`). Invariant: the queue has one message of an address at most,
and none of an address that does not exist. Must never know why a client asks for it.
"""

from daybook.engine.commands import RETAIN_REMOVE, RETAIN_SET, ForgetRetained, Send
from daybook.engine.core.core import Core
from daybook.engine.entries.last_values import FIND_UNITS, key_of_address
from daybook.engine.entries.retroactive import create_place, emit_of_broker
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST, QueueDefinition
from daybook.engine.messages.message import Message
from daybook.engine.names.names import INTERNAL, RETAINED_PLACE, beside, plain
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.level_scan import is_there
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.recall import Recall
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.state import State

OF_ADDRESS = "$address"
"""Stands where other last value queues name the property that they compare."""


def check(command: Send) -> Refusal | None:
    """Return why nothing can be retained or forgotten because of a message, None if it can."""
    if command.retain not in (RETAIN_SET, RETAIN_REMOVE):
        return Refusal(Code.INVALID, f"retain is {command.retain}; it must be 0, 1 or 2")
    if command.queue is not None or command.routing_type != MULTICAST:
        return Refusal(
            Code.INVALID,
            "only a topic retains a message; send it to an address with the routing type multicast",
        )
    if plain(command.address).startswith(INTERNAL):
        return Refusal(
            Code.NOT_ALLOWED,
            f"address '{command.address}' belongs to the broker itself; use another one",
        )
    if command.due:
        return Refusal(
            Code.INVALID, "a message with a delivery time cannot be retained; send it at that time"
        )
    return None


def _queue_of(state: State, address: Address) -> Queue | None:
    """Return the queue with the retained messages of the host of an address, if it has some."""
    found = state.queue_by_name.get(beside(address.name, RETAINED_PLACE))
    return found if found is not None and found.message_count else None


def require_queue(core: Core, address: Address) -> Queue:
    """Return the queue with the retained messages of the host of an address, created if necessary.

    To be called before anything is decided about a message: what this emits comes first.
    """
    name = beside(address.name, RETAINED_PLACE)
    found = core.state.queue_by_name.get(name)
    if found is not None:
        return found
    place = core.state.address_by_name.get(name)
    if place is None:
        place = create_place(core, name, MULTICAST, reasons.RETAINED)
    number = core.state.next_queue
    definition = QueueDefinition(
        name=name, routing_type=MULTICAST, max_consumers=0, last_value_key=OF_ADDRESS, keeps=name
    )
    emit_of_broker(core, events.QUEUE_CREATED, place.id, number, definition, reasons.RETAINED)
    return core.state.queues[number]


def retained_at(state: State, address: Address) -> int:
    """Return the id of the message that an address retains, 0 for none. Only reads."""
    retained = _queue_of(state, address)
    if retained is None:
        return 0
    newest = retained.latest_with(key_of(key_of_address(address.id)))
    return newest if newest and is_there(retained, newest) else 0


def _entry_of(core: Core, retained: Queue, address: Address) -> Entry | None:
    core.budget.spent += FIND_UNITS
    newest = retained.latest_with(key_of(key_of_address(address.id)))
    return retained.find(newest) if newest else None


def forget(core: Core, address: Address, reason: int, connection: int) -> int:
    """Remove the message that an address retains; return the LSN of the event, 0 for none."""
    retained = _queue_of(core.state, address)
    entry = _entry_of(core, retained, address) if retained is not None else None
    if entry is None or retained is None:
        return 0
    message = entry.message
    lsn = core.emit(
        (
            events.REMOVED, reason, entry.delivery_count, retained.address.id, retained.id,
            message.priority, message.flags, message.id, 0, connection, 0, core.now,
        )
    )  # fmt: skip
    core.touch(retained)
    return lsn


def forget_by_command(core: Core, command: ForgetRetained) -> int | Refusal:
    """Make an address forget its message because an administrator asked for it; the answer is 0 if
    there is none."""
    address = core.state.address_by_name.get(command.address)
    if address is None:
        return Refusal(Code.NOT_FOUND, f"there is no address '{command.address}'")
    return forget(core, address, reasons.ADMINISTRATION, 0)


# ---- for queues to come


def number_for(core: Core, queue: Queue) -> int:
    """Return the id of the queue with the retained messages if a new queue is to get some of them,
    0 if there are none for it. With wildcards there may be none after all."""
    retained = _queue_of(core.state, queue.address)
    if retained is None or queue.definition.routing_type != MULTICAST:
        return 0
    is_some = queue.address.is_wildcard or retained_at(core.state, queue.address)
    return retained.id if is_some else 0


def after(core: Core, retained: Queue, address: Address, position: int) -> list[Entry]:
    """Return the retained message of an address if it comes after a position."""
    entry = _entry_of(core, retained, address)
    return [entry] if entry is not None and entry.position > position else []


def is_recalled(core: Core, recall: Recall, history: Queue, message: Message) -> bool:
    """Whether a recall finds a message, in whatever history, while its address retains it."""
    if history.retains or not recall.retained:
        return history.retains
    core.budget.spent += FIND_UNITS
    address = core.state.addresses.get(message.address_id)
    return address is not None and retained_at(core.state, address) == message.id


def is_for(core: Core, message: Message, queue: Queue) -> bool:
    """Whether a retained message was sent to the address of a queue, or to one that it matches."""
    if message.address_id == queue.address.id:
        return True
    if not queue.address.is_wildcard:
        return False
    address = core.state.addresses.get(message.address_id)
    return address is not None and queue.address in core.wildcards.of(address)
