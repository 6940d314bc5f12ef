"""Deciding about addresses and queues: creation on demand or by command, rebinding, deletion.

Refusals name the setting or the command that would help.
"""

from itertools import islice
from typing import Final

from engine import events, names
from engine.commands import ANYCAST, MULTICAST
from engine.core import Core
from engine.message import Entry, Filter
from engine.queues import Queue
from engine.refusals import Code, Refusal
from engine.state import HOST, Address

ROUTING_TYPES = (ANYCAST, MULTICAST)
NAME_SHOWN_MAX: Final = 100
REMOVE_AT_A_TIME: Final = 10_000


def find_address(core: Core, name: str) -> Address | None:
    """Return the address of this name."""
    return core.state.address_by_name.get((HOST, name))


def require_address(
    core: Core, name: str, routing_type: str, connection: int, reason: int = events.ON_DEMAND
) -> Address | Refusal:
    """Return an address with this routing type, created or updated on demand."""
    address = find_address(core, name)
    if address is not None and routing_type in address.routing_types:
        return address
    refusal = check_address(core, name, routing_type)
    if refusal is not None:
        return refusal
    if address is None:
        return create_address(core, name, (routing_type,), connection, reason)
    update_routing_types(
        core, address, tuple(sorted((*address.routing_types, routing_type))), connection, reason
    )
    return address


def check_address(core: Core, name: str, routing_type: str) -> Refusal | None:
    """Say why `require_address` would be refused, None if it would not."""
    address = find_address(core, name)
    if address is not None and routing_type in address.routing_types:
        return None
    wrong = check_name("address", name) if address is None else None
    if wrong is not None:
        return wrong
    if core.state.settings.resolve(name).auto_create_addresses:
        return None
    if address is None:
        return Refusal(
            Code.NOT_FOUND,
            f"there is no address '{name}', and auto-create-addresses is false for it",
        )
    return Refusal(
        Code.NOT_ALLOWED,
        f"address '{name}' is not {routing_type} (it is {' and '.join(address.routing_types)}), "
        "and auto-create-addresses is false for it",
    )


def check_name(what: str, name: str) -> Refusal | None:
    """Refuse names that no new address or queue may have."""
    wrong = names.wrong_with(name)
    if wrong is None:
        return None
    shown = repr(name if len(name) <= NAME_SHOWN_MAX else name[:NAME_SHOWN_MAX] + "...")
    return Refusal(Code.INVALID, f"{shown} is no name for the {what}: {wrong}")


def compile_filter(core: Core, text: str) -> Filter | Refusal | None:
    """Compile the text of a filter, None for the empty one, or say why it is refused."""
    if not text:
        return None
    if core.options.compile_filter is None:
        return Refusal(Code.UNSUPPORTED, "filters (selectors) are not supported in this version")
    try:
        return core.options.compile_filter(text)
    except ValueError as error:
        return Refusal(Code.INVALID, f"the filter is wrong: {error}")


def create_address(
    core: Core, name: str, routing_types: tuple[str, ...], connection: int, reason: int
) -> Address:
    """Create an address that does not exist."""
    number = core.state.next_address
    detail = events.AddressDetail(
        host=HOST, name=name, routing_types=routing_types, auto_created=reason == events.ON_DEMAND
    )
    core.emit(
        events.row(
            events.ADDRESS_CREATED,
            reason=reason,
            address=number,
            connection=connection,
            time=core.now,
        ),
        events.encode_detail(detail),
    )
    return core.state.addresses[number]


def update_routing_types(
    core: Core, address: Address, routing_types: tuple[str, ...], connection: int, reason: int
) -> None:
    """Change the routing types of an address."""
    detail = events.AddressDetail(host=HOST, name=address.name, routing_types=routing_types)
    core.emit(
        events.row(
            events.ADDRESS_UPDATED,
            reason=reason, address=address.id, connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def require_queue(
    core: Core, name: str, address_name: str, routing_type: str, connection: int
) -> Queue | Refusal:
    """Return the queue of this name on this address, created on demand."""
    refusal = check_queue(core, name, address_name, routing_type)
    if refusal is not None:
        return refusal
    queue = core.state.queue_by_name.get(name)
    if queue is not None:
        return queue
    address = require_address(core, address_name, routing_type, connection)
    if isinstance(address, Refusal):
        return address
    detail = events.QueueDetail(name=name, routing_type=routing_type, auto_created=True)
    return create_queue(core, address, detail, connection, events.ON_DEMAND)


def check_queue(core: Core, name: str, address_name: str, routing_type: str) -> Refusal | None:
    """Say why `require_queue` would be refused, None if it would not."""
    queue = core.state.queue_by_name.get(name)
    if queue is not None:
        if address_name and queue.address.name != address_name:
            return Refusal(
                Code.ALREADY_EXISTS,
                f"queue '{name}' is on address '{queue.address.name}', not on '{address_name}'; "
                "a queue's name is unique in the broker",
            )
        return None
    wrong = check_name("queue", name)
    if wrong is not None:
        return wrong
    if not address_name:
        return Refusal(Code.NOT_FOUND, f"there is no queue '{name}'")
    if not core.state.settings.resolve(address_name).auto_create_queues:
        return Refusal(
            Code.NOT_FOUND,
            f"there is no queue '{name}', and auto-create-queues is false for '{address_name}'",
        )
    return check_address(core, address_name, routing_type)


def create_queue(
    core: Core, address: Address, detail: events.QueueDetail, connection: int, reason: int
) -> Queue:
    """Create a queue that does not exist."""
    number = core.state.next_queue
    core.emit(
        events.row(
            events.QUEUE_CREATED,
            reason=reason, address=address.id, queue=number, connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    return core.state.queues[number]


def rebind_queue(
    core: Core, queue: Queue, address: Address, filter_text: str, connection: int
) -> None:
    """Bind a durable subscription's queue to another address or filter; its messages stay."""
    before = queue.address
    detail = events.QueueDetail(
        name=queue.name, routing_type=queue.routing_type, filter=filter_text
    )
    core.emit(
        events.row(
            events.QUEUE_UPDATED,
            reason=events.SUBSCRIPTION, address=address.id, queue=queue.id,
            connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.touch(queue)
    core.resize(before)


def remove_entries(
    core: Core, queue: Queue, reason: int, connection: int, through: int, limit: int
) -> int:
    """Remove up to `limit` ready messages that came up to `through` (LSN); return how many."""
    old = (entry for entry in queue.ready() if queue.place_of(entry)[0] <= through)
    chosen = list(islice(old, limit))
    for entry in chosen:
        queue.make_resident(entry)
        _remove(core, queue, entry, reason, connection)
    core.touch(queue)
    return len(chosen)


def _remove(core: Core, queue: Queue, entry: Entry, reason: int, connection: int) -> None:
    message = entry.message
    core.emit(
        events.row(
            events.REMOVED,
            reason=reason, delivery_count=entry.delivery_count, address=queue.address.id,
            queue=queue.id, priority=message.priority, flags=message.flags, message=message.id,
            connection=connection, time=core.now,
        )
    )  # fmt: skip


def delete_queue(core: Core, queue: Queue, reason: int, connection: int) -> None:
    """Delete a queue without consumers, with its messages."""
    for entry in [entry for entry in queue.entries.values() if entry.consumer is not None]:
        _remove(core, queue, entry, events.QUEUE_REMOVED, connection)
    while remove_entries(
        core, queue, events.QUEUE_REMOVED, connection, core.next_lsn, REMOVE_AT_A_TIME
    ):
        pass
    core.touched.pop(queue.id, None)
    core.later.pop(queue.id, None)
    core.emit(
        events.row(
            events.QUEUE_DELETED,
            reason=reason, address=queue.address.id, queue=queue.id,
            connection=connection, time=core.now,
        )
    )  # fmt: skip
    core.sizes.forget(queue)
    core.resize(queue.address)


def delete_address(core: Core, address: Address, reason: int, connection: int) -> None:
    """Delete an address without queues."""
    core.emit(
        events.row(
            events.ADDRESS_DELETED,
            reason=reason, address=address.id, connection=connection, time=core.now,
        )
    )  # fmt: skip
    core.resized.pop(address.id, None)
    core.opened.pop(address.id, None)
