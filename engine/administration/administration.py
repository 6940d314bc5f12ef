"""Deciding on the commands of administrators and of the configuration."""

from typing import Final

import msgspec

from daybook.engine.administration.updates import conform
from daybook.engine.commands import (
    CreateAddress,
    CreateQueue,
    DeleteAddress,
    DeleteQueue,
    PauseQueue,
    PurgeQueue,
    ResumeQueue,
)
from daybook.engine.consumers import bundle_subscriptions
from daybook.engine.core import hosts
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.direct.forwarding import check_new
from daybook.engine.entries.recalls import end as end_recall
from daybook.engine.entries.retroactive import refuse_use
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import (
    MULTICAST,
    NUMBER_MOST,
    QUEUE_ATTRIBUTES,
    ROUTING_TYPES,
    QueueDefinition,
    fits,
)
from daybook.engine.names.names import host_and_name
from daybook.engine.queues.consumer import consumers_of
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.queues.recall import Start
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.topology.reserved_names import check_reserved, check_spaces
from daybook.engine.topology.topology import (
    adopt,
    adopt_address,
    check_address_name,
    check_name,
    create_queue,
    find_address,
    is_unused,
    remove_entries,
    update_routing_types,
)
from daybook.engine.topology.topology import create_address as create_new_address
from daybook.engine.topology.topology import delete_address as delete_empty_address
from daybook.engine.topology.topology import delete_queue as delete_unused_queue

NAMED_MAX: Final = 10
"""How many queues of an address a refusal names."""


def create_address(core: Core, command: CreateAddress) -> int | Refusal:
    """Create an address, or add routing types to it."""
    wrong = (
        _check_types(command.routing_types)
        or hosts.check_known(core, command.address)
        or check_address_name(
            hosts.local(core, command.address), command.routing_types, core.state.settings.syntax
        )
    )
    if wrong is not None:
        return wrong
    address = find_address(core, command.address)
    if address is None:
        wrong = check_new(core, command.address) or check_spaces(core, command.address)
    if wrong is not None:
        return wrong
    if address is None:
        types = tuple(sorted(set(command.routing_types)))
        create_new_address(core, command.address, types, 0, _reason(command))
        return core.next_lsn - 1
    wanted = tuple(sorted({*address.definition.routing_types, *command.routing_types}))
    before = core.next_lsn
    if command.adopts:
        adopt_address(core, address, is_configured=command.configured)
    if wanted == tuple(sorted(address.definition.routing_types)):
        if core.next_lsn > before:
            return core.next_lsn - 1
        return Refusal(Code.ALREADY_EXISTS, f"address '{command.address}' exists already")
    update_routing_types(core, address, wanted, 0, _reason(command))
    return core.next_lsn - 1


def _reason(command: CreateAddress | CreateQueue) -> int:
    return reasons.CONFIGURATION if command.configured else reasons.ADMINISTRATION


def _check_types(routing_types: tuple[str, ...]) -> Refusal | None:
    for routing_type in routing_types:
        if routing_type not in ROUTING_TYPES:
            return Refusal(
                Code.INVALID,
                f"'{routing_type}' is not a routing type; it must be anycast or multicast",
            )
    if not routing_types:
        return Refusal(Code.INVALID, "an address needs a routing type: anycast, multicast or both")
    return None


def delete_address(core: Core, command: DeleteAddress) -> int | Refusal:
    """Delete an address, with its queues only if forced."""
    address = find_address(core, command.address)
    if address is None:
        return Refusal(Code.NOT_FOUND, f"there is no address '{command.address}'")
    queues = address.queues()
    if queues and not command.force:
        names = ", ".join(f"'{queue.name}'" for queue in queues[:NAMED_MAX])
        if len(queues) > NAMED_MAX:
            names += f" and {len(queues) - NAMED_MAX} others"
        return Refusal(
            Code.NOT_ALLOWED,
            f"address '{command.address}' has queues ({names}); delete them first, or force it",
        )
    refusal = None if command.force else _check_named(core, address)
    if refusal is not None:
        return refusal
    for queue in queues:
        refusal = _check_unused(queue, force=True)
        if refusal is not None:
            return refusal
    for queue in queues:
        if not bundle_subscriptions.leave(core, queue):
            return UNFINISHED
        delete_unused_queue(core, queue, reasons.ADMINISTRATION, 0)
        if core.budget.is_spent:
            return UNFINISHED
    if address.id not in core.state.addresses:
        # A wildcard address goes with its last queue.
        return core.next_lsn - 1
    if not is_unused(core, address):
        # The events of queues that are being deleted name the address.
        return UNFINISHED
    delete_empty_address(core, address, reasons.ADMINISTRATION, 0)
    return core.next_lsn - 1


def _check_named(core: Core, address: Address) -> Refusal | None:
    """Refuse to delete an address whose messages may be in queues of wildcard addresses."""
    for other in core.wildcards.of(address):
        for queue in other.queues():
            if queue.message_count:
                return Refusal(
                    Code.NOT_ALLOWED,
                    f"queue '{queue.name}' of address '{other.name}' holds messages, perhaps "
                    f"some that were sent to address '{address.name}'; delete it when they are "
                    "gone, or force it, and what happens to them no longer tells the address",
                )
    return None


def create_queue_by_command(core: Core, command: CreateQueue) -> int | Refusal:
    """Create a queue and, if it does not exist, its address."""
    wanted = command.definition
    syntax = core.state.settings.syntax
    is_divided = wanted.name != command.address and not command.configured
    wrong = (
        hosts.check_known(core, wanted.name)
        or hosts.check_known(core, command.address)
        or check_name("queue", hosts.local(core, wanted.name), syntax)
        or _check_types((wanted.routing_type,))
        or check_address_name(hosts.local(core, command.address), (wanted.routing_type,), syntax)
        or check_reserved(core, wanted.name, command.address)
        or _check_spaces(core, command)
        or _check_numbers(wanted)
        or _check_host(wanted.name, command.address)
        or (hosts.check_new_address(core, command.address) if is_divided else None)
    )
    if wrong is None and find_address(core, command.address) is None:
        wrong = check_new(core, command.address)
    if wrong is not None:
        return wrong
    found = core.state.queue_by_name.get(wanted.name)
    if found is not None and command.configured:
        return conform(core, found, command)
    if found is not None:
        if command.adopts and found.address.name == command.address and adopt(core, found, wanted):
            return core.next_lsn - 1
        return Refusal(Code.ALREADY_EXISTS, f"queue '{wanted.name}' exists already")
    of_topic = wanted.routing_type == MULTICAST
    matcher = core.filters.compile(wanted.filter, core.now, of_topic=of_topic)
    if isinstance(matcher, Refusal):
        return matcher
    address = find_address(core, command.address)
    if address is None:
        only = (wanted.routing_type,)
        address = create_new_address(core, command.address, only, 0, _reason(command))
    elif wanted.routing_type not in address.definition.routing_types:
        types = tuple(sorted((*address.definition.routing_types, wanted.routing_type)))
        update_routing_types(core, address, types, 0, _reason(command))
    if command.configured:
        wanted = msgspec.structs.replace(wanted, configuration_managed=True)
    create_queue(core, address, wanted, 0, _reason(command), Start(command.after, command.since))
    return core.next_lsn - 1


def _check_numbers(wanted: QueueDefinition) -> Refusal | None:
    """Return why an attribute of a queue cannot be a number."""
    for each in QUEUE_ATTRIBUTES:
        value = getattr(wanted, each.field)
        if each.kind is int and value != each.default and not fits(each, value):
            return Refusal(
                Code.INVALID,
                f"{each.key} must be {each.least} to {NUMBER_MOST:,}, and is {str(value)[:40]}",
            )
    return None


def _check_spaces(core: Core, command: CreateQueue) -> Refusal | None:
    """Return why a queue, or its address, has no name for a new one, for its spaces."""
    refusal = None
    if command.definition.name not in core.state.queue_by_name:
        refusal = check_spaces(core, command.definition.name)
    if command.address not in core.state.address_by_name:
        refusal = refusal or check_spaces(core, command.address)
    return refusal


def _check_host(queue: str, address: str) -> Refusal | None:
    if host_and_name(queue)[0] == host_and_name(address)[0]:
        return None
    return Refusal(
        Code.INVALID, f"queue '{queue}' and address '{address}' are not on one virtual host"
    )


def _check_unused(queue: Queue, force: bool) -> Refusal | None:
    count = sum(not each.is_found for each in consumers_of(queue))
    if count:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' has {count} consumers; it can be deleted when they are gone",
        )
    if queue.message_count and not force:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' is not empty (messages: {queue.message_count}); purge it, or"
            " force the deletion",
        )
    return None


def delete_queue(core: Core, command: DeleteQueue) -> int | Refusal:
    """Delete a queue without consumers, with its messages only if forced."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    refusal = refuse_use(queue) if queue.definition.keeps else _check_unused(queue, command.force)
    if refusal is not None:
        return refusal
    if not bundle_subscriptions.leave(core, queue):
        return UNFINISHED
    delete_unused_queue(core, queue, reasons.ADMINISTRATION, 0)
    return core.next_lsn - 1


def pause_queue(core: Core, command: PauseQueue) -> int | Refusal:
    """Stop delivering from a queue."""
    return _set_paused(core, command.queue, paused=True)


def resume_queue(core: Core, command: ResumeQueue) -> int | Refusal:
    """Resume delivering from a queue."""
    return _set_paused(core, command.queue, paused=False)


def _set_paused(core: Core, name: str, *, paused: bool) -> int | Refusal:
    queue = find_queue(core.state, name)
    if isinstance(queue, Refusal):
        return queue
    if queue.paused == paused:
        return Refusal(
            Code.ALREADY_EXISTS, f"queue '{name}' is {'paused' if paused else 'not paused'} already"
        )
    core.emit(
        events.row(
            events.QUEUE_PAUSED if paused else events.QUEUE_RESUMED,
            reason=reasons.ADMINISTRATION, address=queue.address.id, queue=queue.id, time=core.now,
        )
    )  # fmt: skip
    core.touch(queue)
    return core.next_lsn - 1


def purge_queue(core: Core, command: PurgeQueue) -> int | Refusal:
    """Remove ready and held messages of a queue, a part at a time; 0 says that nothing was left."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    if queue.recall is not None:
        end_recall(core, queue)
    through = command.through or core.next_lsn
    removed = remove_entries(core, queue, reasons.ADMINISTRATION, 0, through, command.limit)
    return core.next_lsn - 1 if removed else 0
