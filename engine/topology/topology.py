"""Deciding about addresses and queues: creation on demand or by command, rebinding, deletion.

Refusals name the setting or the command that helps.
"""

from collections.abc import Collection
from itertools import islice
from typing import Any, Final

import msgspec

from daybook.engine.core import hosts, permission_checks, quotas
from daybook.engine.core.core import Core
from daybook.engine.core.lifetime import with_lifetime
from daybook.engine.core.open_transactions import doom_transactions
from daybook.engine.core.parts import Emptying
from daybook.engine.direct.forwarding import check_new
from daybook.engine.effects import Detached
from daybook.engine.entries import recalls, retained_messages
from daybook.engine.entries.retroactive import refuse_use
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, AddressDefinition, QueueDefinition
from daybook.engine.names import names
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.queues.consumer import browsers_of
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.recall import ALL_OF_IT, Start
from daybook.engine.queues.window import Window
from daybook.engine.refusals import Code, Refusal, bad_name, no_queue
from daybook.engine.settings.queue_defaults import with_defaults
from daybook.engine.state import group_rules
from daybook.engine.state.state import count_down
from daybook.engine.topology.bundle_members import left, tell_end
from daybook.engine.topology.reserved_names import check_reserved, check_spaces
from daybook.engine.topology.shown import forget_shown
from daybook.engine.topology.temporary_names import check_creation, definition_of

ALL: Final = (1 << 63) - 1
DELETED_AT_ONCE: Final = 50
"""A queue with at most this many messages is deleted with them at once, whatever budget is left."""
CREATE_UNITS: Final = 5
"""The cost of a new address, and of a new queue, in units of the budget."""
BY_ORDER: Final = (reasons.ADMINISTRATION, reasons.CONFIGURATION)
"""Reasons of queues whose attributes were given, and are not those that settings have."""
BARE: Final = Window(1000, 1 << 40, with_content=False)
"""Messages that are only removed come into memory without content."""


def find_address(core: Core, name: str) -> Address | None:
    """Return the address of this name."""
    return core.state.address_by_name.get(name)


def default_address_type(core: Core, name: str) -> str:
    """Return the routing type of an address that is created without a request for one."""
    return core.state.settings.resolve(name).default_address_routing_type.lower()


def default_queue_type(core: Core, address_name: str) -> str:
    """Return the routing type of a queue that is created without a request for one."""
    return core.state.settings.resolve(address_name).default_queue_routing_type.lower()


def require_address(
    core: Core, name: str, routing_type: str, connection: int, reason: int = reasons.ON_DEMAND
) -> Address | Refusal:
    """Return an address with this routing type, created or updated on demand."""
    address = find_address(core, name)
    if address is not None and routing_type in address.definition.routing_types:
        return address
    refusal = check_address(core, name, routing_type, connection)
    if refusal is not None:
        return refusal
    if address is None:
        return create_address(core, name, (routing_type,), connection, reason)
    update_routing_types(
        core,
        address,
        tuple(sorted((*address.definition.routing_types, routing_type))),
        connection,
        reason,
    )
    return address


def check_address(core: Core, name: str, routing_type: str, connection: int = 0) -> Refusal | None:
    """Return why `require_address` would be refused, None if it would not."""
    address = find_address(core, name)
    if address is not None and routing_type in address.definition.routing_types:
        return None
    if names.is_temporary(name):
        return check_creation(core, name, name, connection) or permission_checks.check_new_address(
            core, connection, name
        )
    wrong = check_new(core, name) if address is None else None
    if wrong is None and (address is None or address.is_wildcard):
        wrong = check_address_name(
            hosts.local(core, name), (routing_type,), core.state.settings.syntax
        )
    wrong = wrong or (check_spaces(core, name) if address is None else None)
    wrong = wrong or permission_checks.check_new_address(core, connection, name)
    if wrong is not None:
        return wrong
    if core.state.settings.resolve(name).auto_create_addresses:
        return quotas.check_address(core, connection, name) if address is None else None
    if address is None:
        return Refusal(
            Code.NOT_FOUND,
            f"there is no address '{name}', and auto-create-addresses is false for it; an"
            " administrator can create it",
        )
    types = " and ".join(address.definition.routing_types)
    return Refusal(
        Code.NOT_ALLOWED,
        f"address '{name}' is not {routing_type} (it is {types}), "
        "and auto-create-addresses is false for it; use its routing type, or let an administrator"
        " change it",
    )


def check_name(what: str, name: str, syntax: Syntax = DEFAULT) -> Refusal | None:
    """Refuse a name that no new address or queue may have."""
    return bad_name(f"the {what}", name, names.wrong_with(name, syntax))


def check_address_name(
    name: str, routing_types: Collection[str], syntax: Syntax = DEFAULT
) -> Refusal | None:
    """Refuse a name that no new address with these routing types may have.

    A wildcard address is multicast only: a message goes to one anycast queue, and must find it
    without a choice among patterns.
    """
    if syntax.is_pattern(name) and ANYCAST in routing_types:
        return bad_name("the address", name, "with wildcards it must be multicast only")
    return bad_name("the address", name, names.wrong_with_wildcards(name, syntax))


def create_address(
    core: Core, name: str, routing_types: tuple[str, ...], connection: int, reason: int
) -> Address:
    """Create an address that does not exist."""
    number = core.state.next_address
    on_demand = reason == reasons.ON_DEMAND
    peer = core.state.connections.get(connection) if on_demand else None
    definition = AddressDefinition(
        host=names.host_and_name(name)[0],
        name=name,
        routing_types=routing_types,
        auto_created=on_demand,
        syntax=core.state.settings.syntax.of_names,
        configuration_managed=reason == reasons.CONFIGURATION,
        # A wildcard address goes with its last queue, a temporary one with its connection.
        auto_delete=on_demand
        and not names.is_temporary(name)
        and not core.state.settings.syntax.is_pattern(name)
        and core.state.settings.resolve(name).auto_delete_addresses,
        user=peer.user if peer is not None else "",
    )
    core.emit(
        events.row(
            events.ADDRESS_CREATED,
            reason=reason,
            address=number,
            connection=connection,
            time=core.now,
        ),
        events.encode_detail(definition),
    )
    core.budget.spent += CREATE_UNITS
    core.work.held_changed = True
    address = core.state.addresses[number]
    core.wildcards.add(address, connection)
    return address


def update_routing_types(
    core: Core, address: Address, routing_types: tuple[str, ...], connection: int, reason: int
) -> None:
    """Change the routing types of an address."""
    core.work.held_changed = True
    wanted = msgspec.structs.replace(address.definition, routing_types=routing_types)
    detail = details.AddressDetail(**msgspec.structs.asdict(wanted), changed=("routing_types",))
    core.emit(
        events.row(
            events.ADDRESS_UPDATED,
            reason=reason, address=address.id, connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def require_queue(
    core: Core,
    name: str,
    address_name: str,
    routing_type: str,
    connection: int = 0,
    start: Start = ALL_OF_IT,
) -> Queue | Refusal:
    """Return the queue of this name on this address, created on demand; see `create_queue`."""
    refusal = check_queue(core, name, address_name, routing_type, connection)
    if refusal is not None:
        return refusal
    queue = core.state.queue_by_name.get(name)
    if queue is not None:
        return queue
    address = require_address(core, address_name, routing_type, connection)
    if isinstance(address, Refusal):
        return address
    definition = QueueDefinition(name=name, routing_type=routing_type, auto_created=True)
    if names.is_temporary(name):
        definition = definition_of(name, routing_type, connection)
    return create_queue(core, address, definition, connection, reasons.ON_DEMAND, start)


def check_queue(
    core: Core, name: str, address_name: str, routing_type: str, connection: int = 0
) -> Refusal | None:
    """Return why `require_queue` would be refused, None if it would not."""
    queue = core.state.queue_by_name.get(name)
    if queue is not None and address_name in ("", queue.address.name):
        return refuse_use(queue) if queue.definition.keeps else None
    refusal = _check_new_queue(core, name, address_name, routing_type, connection)
    if refusal is not None or queue is None:
        return refusal
    return permission_checks.taken(core, connection, queue, address_name)


def _check_new_queue(
    core: Core, name: str, address_name: str, routing_type: str, connection: int
) -> Refusal | None:
    """Return why a queue would not be created on demand, None if it would be."""
    if names.is_temporary(name) or names.is_temporary(address_name):
        return (
            check_creation(core, name, address_name, connection)
            or permission_checks.check_new_queue(
                core, connection, address_name, name, durable=False
            )
            or check_address(core, address_name, routing_type, connection)
        )
    wrong = check_name("queue", hosts.local(core, name), core.state.settings.syntax)
    wrong = wrong or check_spaces(core, name) or check_reserved(core, name, address_name)
    if wrong is not None:
        return wrong
    if not address_name:
        return no_queue(name)
    wrong = permission_checks.check_new_queue(core, connection, address_name, name)
    if wrong is not None:
        return wrong
    if not core.state.settings.resolve(address_name).auto_create_queues:
        return Refusal(
            Code.NOT_FOUND,
            f"there is no queue '{name}', and auto-create-queues is false for '{address_name}'; an"
            " administrator can create it",
        )
    return quotas.check_queue(core, connection) or check_address(
        core, address_name, routing_type, connection
    )


def create_queue(
    core: Core,
    address: Address,
    definition: QueueDefinition,
    connection: int,
    reason: int,
    start: Start = ALL_OF_IT,
) -> Queue:
    """Create a queue that does not exist, and give it the history of its address from a start on.

    A queue that stays is counted to the user of the client that created it, permanently.
    """
    peer = core.state.connections.get(connection)
    if peer is not None and not definition.temporary:
        definition = msgspec.structs.replace(definition, user=peer.user)
    settings = core.state.settings.resolve(address.name)
    definition = with_defaults(definition, settings)
    if reason not in BY_ORDER:
        definition = msgspec.structs.replace(
            definition,
            max_consumers=settings.default_max_consumers,
            exclusive=settings.default_exclusive_queue,
        )
    if reason != reasons.CONFIGURATION and not definition.temporary:
        definition = with_lifetime(settings, definition)
    number = core.state.next_queue
    core.emit(
        events.row(
            events.QUEUE_CREATED,
            reason=reason, address=address.id, queue=number, connection=connection, time=core.now,
        ),
        events.encode_detail(definition),
    )  # fmt: skip
    core.budget.spent += CREATE_UNITS
    core.work.held_changed = True
    queue = core.state.queues[number]
    if core.wildcard_subscriptions.count:
        core.wildcard_subscriptions.note(queue)
    if core.state.histories:
        recalls.begin(core, queue, start)
    return queue


def adopt(core: Core, queue: Queue, wanted: QueueDefinition) -> bool:
    """Make a queue that was created by being used one that was asked for, with the lifetime that
    the definition has; return whether that changed anything."""
    names = ("auto_created", "auto_delete", "auto_delete_delay", "auto_delete_message_count")
    found = queue.definition
    changed = tuple(each for each in names if getattr(found, each) != getattr(wanted, each))
    if not found.auto_created or not changed:
        return False
    values = {each: getattr(wanted, each) for each in changed}
    emit_queue_updated(core, queue, values, reasons.ADMINISTRATION)
    return True


def emit_queue_updated(core: Core, queue: Queue, values: dict[str, Any], reason: int) -> None:
    """Emit that attributes of a queue have these values from here on."""
    wanted = msgspec.structs.replace(queue.definition, **values)
    detail = details.QueueDetail(**msgspec.structs.asdict(wanted), changed=tuple(values))
    core.emit(
        events.row(
            events.QUEUE_UPDATED,
            reason=reason, address=queue.address.id, queue=queue.id, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.work.held_changed = True
    if core.wildcard_subscriptions.count and "routing_type" in values:
        core.wildcard_subscriptions.note(queue)
    group_rules.updated(queue, core.state.groups, values)
    core.touch(queue)


def adopt_address(core: Core, address: Address, *, is_configured: bool = False) -> None:
    """Make an address that was created by being used one that was asked for, or that the
    configuration lists."""
    values: dict[str, bool] = {}
    if address.definition.auto_delete:
        values |= {"auto_created": False, "auto_delete": False}
    if is_configured and not address.definition.configuration_managed:
        values["configuration_managed"] = True
    if not values:
        return
    wanted = msgspec.structs.replace(address.definition, **values)
    changed = tuple(values)
    detail = details.AddressDetail(**msgspec.structs.asdict(wanted), changed=changed)
    core.emit(
        events.row(
            events.ADDRESS_UPDATED,
            reason=reasons.ADMINISTRATION, address=address.id, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def rebind_queue(
    core: Core, queue: Queue, address: Address, wanted: QueueDefinition, connection: int
) -> None:
    """Bind a durable subscription's queue to another address, or with other attributes; its
    messages stay."""
    before, found = queue.address, queue.definition
    others = (
        "no_local", "client_id",
        "expiry_policy", "auto_delete", "auto_delete_delay", "auto_delete_message_count",
    )  # fmt: skip
    changed = tuple(each for each in others if getattr(found, each) != getattr(wanted, each))
    fields = ("routing_type", "filter", *changed)
    detail = details.QueueDetail(**msgspec.structs.asdict(wanted), changed=fields)
    core.emit(
        events.row(
            events.QUEUE_UPDATED,
            reason=reasons.SUBSCRIPTION, address=address.id, queue=queue.id,
            connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.work.held_changed = True
    core.touch(queue)
    core.resize(before)
    delete_if_useless(core, before, connection)


def remove_entries(
    core: Core, queue: Queue, reason: int, connection: int, through: int, limit: int
) -> int:
    """Remove up to `limit` messages that are not in flight and came up to `through` (LSN).

    Return how many: fewer, but at least one, if the budget is spent.
    """
    most = min(limit, max(core.budget.left, 1))
    window, queue.window = queue.window, BARE
    removed = 0
    while removed < most:
        entry = queue.head()
        if entry is None or entry.position > through:
            break
        _remove(core, queue, entry, reason, connection)
        removed += 1
    if removed < most and (queue.ready_count or queue.aside_count):
        # Later messages of a higher priority may come before some of these.
        old = (entry for entry in queue.standing() if entry.position <= through)
        for entry in list(islice(old, most - removed)):
            queue.make_resident(entry)
            _remove(core, queue, entry, reason, connection)
            removed += 1
    queue.window = window
    core.budget.spent += removed
    core.touch(queue)
    return removed


def _remove(core: Core, queue: Queue, entry: Entry, reason: int, connection: int) -> None:
    message = entry.message
    core.emit(
        (
            events.REMOVED, reason, entry.delivery_count, queue.address.id, queue.id,
            message.priority, message.flags, message.id, 0, connection, 0, core.now,
        )
    )  # fmt: skip


def delete_queue(core: Core, queue: Queue, reason: int, connection: int) -> None:
    """Delete a queue without consumers, with its messages.

    A queue with more messages than may be removed in this turn cannot be found by name or address
    any more at once; its messages are removed in later turns (`engine.consumers.slices`).
    """
    core.touched.pop(queue.id, None)
    core.later.pop(queue.id, None)
    core.owners.disown(queue.id)
    if queue.message_count > max(core.budget.left, DELETED_AT_ONCE):
        begin_deletion(core, queue, reason, connection)
        core.work.emptying[queue.id] = Emptying(queue, reason, connection)
        return
    while not empty(core, queue, reason, connection):
        pass


def begin_deletion(core: Core, queue: Queue, reason: int, connection: int) -> None:
    """Remove the name and binding of a queue that is being deleted, if it still has them."""
    if queue.deleting:
        return
    address = queue.address
    detail = details.QueueDetail(**msgspec.structs.asdict(queue.definition), deleting=True)
    core.emit(
        events.row(
            events.QUEUE_UPDATED,
            reason=reason, address=address.id, queue=queue.id, connection=connection, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.work.ending[address.id] += 1
    core.resize(address)


def empty(core: Core, queue: Queue, reason: int, connection: int) -> bool:
    """Remove the messages of a deleted queue, as many as the budget allows, and then the queue.

    Return whether the queue is gone.
    """
    if not _end_browsers(core, queue):
        return False
    if len(queue.entries) + queue.paged_count > queue.ready_count:
        flying = (entry for entry in queue.entries.values() if entry.consumer is not None)
        for entry in list(islice(flying, max(core.budget.left, 1))):
            _remove(core, queue, entry, reasons.QUEUE_REMOVED, connection)
            core.budget.spent += 1
    while queue.message_count:
        if not remove_entries(core, queue, reasons.QUEUE_REMOVED, connection, core.next_lsn, ALL):
            return False
        if core.budget.is_spent and queue.message_count:
            return False
    core.touched.pop(queue.id, None)
    core.later.pop(queue.id, None)
    core.owners.forget(queue.id)
    address = queue.address
    if queue.deleting:
        count_down(core.work.ending, address.id)
    core.emit(
        events.row(
            events.QUEUE_DELETED,
            reason=reason, address=address.id, queue=queue.id,
            connection=connection, time=core.now,
        )
    )  # fmt: skip
    core.work.held_changed = True
    core.room.sizes.forget(queue)
    core.resize(address)
    if queue.definition.keeps and is_unused(core, address):
        # The place of a history has nothing else.
        delete_address(core, address, reasons.NOT_RETROACTIVE, connection)
        return True
    delete_if_useless(core, address, connection)
    return True


def _end_browsers(core: Core, queue: Queue) -> bool:
    """End the browsers of a deleted queue, and tell them; return whether that is done."""
    core.draining.pop(queue.id, None)
    while queue.browsers:
        consumer = browsers_of(queue)[0]
        if not consumer.detaching:
            consumer.detaching = True
            doom_transactions(consumer)
            if consumer.bundle is not None:
                tell_end(core, consumer)
            if consumer.bundle is not None:
                consumer.bundle.lose(consumer)
        if not forget_shown(core, consumer, DELETED_AT_ONCE):
            return False
        core.emit(
            events.row(
                events.CONSUMER_DETACHED,
                reason=reasons.QUEUE_REMOVED, address=queue.address.id, queue=queue.id,
                consumer=consumer.id, connection=consumer.connection_id, time=core.now,
            )
        )  # fmt: skip
        if consumer.bundle is not None:
            left(core, consumer)
        else:
            text = f"queue '{queue.name}' was deleted"
            gate = core.next_lsn - 1
            core.effects.append(Detached(consumer, reasons.QUEUE_REMOVED, text, gate))
        core.budget.spent += 1
    return True


def delete_useless(core: Core) -> None:
    """Delete the wildcard addresses whose subscriptions did not survive a restart, and the
    temporary destinations."""
    for address in core.wildcards.all():
        delete_if_useless(core, address, 0)
    for owned in list(core.state.temporaries.values()):
        for address in list(owned.values()):
            delete_if_useless(core, address, 0)


def delete_if_useless(core: Core, address: Address, connection: int) -> None:
    """Delete an address that was created on demand, has no queues any more, and is a wildcard
    address or a temporary destination whose owner ends.

    Nothing is sent to a wildcard address, so it would match names forever, and in vain.
    """
    owner = address.owner
    is_over = owner and (
        owner in core.work.closing
        or owner not in core.state.connections
        or address.id in core.owners.ended
    )
    if not (address.is_wildcard or is_over):
        return
    if address.definition.auto_created and is_unused(core, address):
        delete_address(core, address, reasons.UNUSED, connection)


def is_unused(core: Core, address: Address) -> bool:
    """Whether an address has no queues, and no events about queues of it are to come."""
    return not (address.anycast or address.multicast or core.work.ending[address.id])


def delete_address(core: Core, address: Address, reason: int, connection: int) -> None:
    """Delete an address without queues, with its history and the message that it retains."""
    retained_messages.forget(core, address, reasons.QUEUE_REMOVED, connection)
    for history in list(address.histories.values()):
        delete_queue(core, history, reasons.NOT_RETROACTIVE, connection)
    core.emit(
        events.row(
            events.ADDRESS_DELETED,
            reason=reason, address=address.id, connection=connection, time=core.now,
        )
    )  # fmt: skip
    core.wildcards.remove(address)
    core.owners.forget_address(address.id)
    core.room.resized.pop(address.id, None)
    core.room.opened.pop(address.id, None)
