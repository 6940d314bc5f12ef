"""Deciding about changes of queues and addresses that exist.

After a refusal everything is as before. Messages and consumers stay where they are; a change
affects only later commands.
"""

import msgspec

from daybook.engine.commands import (
    CreateQueue,
    PauseAddress,
    ResumeAddress,
    UpdateAddress,
    UpdateQueue,
)
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.entries.retroactive import refuse_use
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import (
    ANYCAST,
    LIVE_ATTRIBUTES,
    MULTICAST,
    QUEUE_ATTRIBUTES,
    ROUTING_TYPES,
    fits,
)
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.queue_defaults import with_defaults
from daybook.engine.topology.topology import emit_queue_updated, find_address, update_routing_types

TOUCHED_SHIFT = 3
"""Touching queues costs one unit for 2 to this power."""


def update_queue(core: Core, command: UpdateQueue) -> int | Refusal:
    """Change attributes of a queue."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    if queue.definition.temporary:
        return Refusal(
            Code.NOT_ALLOWED, f"queue '{queue.name}' is temporary and belongs to its connection"
        )
    if queue.definition.keeps:
        return refuse_use(queue)
    for field, value in command.changes.items():
        wrong = _check(core, queue, field, value)
        if wrong is not None:
            return wrong
    found = queue.definition
    changes = {
        field: value for field, value in command.changes.items() if getattr(found, field) != value
    }
    if not changes:
        return 0
    reason = reasons.CONFIGURATION if command.configured else reasons.ADMINISTRATION
    types = queue.address.definition.routing_types
    wanted = str(changes.get("routing_type", found.routing_type))
    if wanted not in types:
        update_routing_types(core, queue.address, tuple(sorted((*types, wanted))), 0, reason)
    emit_queue_updated(core, queue, changes, reason)
    return core.next_lsn - 1


def _check(core: Core, queue: Queue, field: str, value: object) -> Refusal | None:
    """Return why an attribute cannot get this value."""
    attribute = LIVE_ATTRIBUTES.get(field)
    key = field.replace("_", "-")
    if attribute is None:
        known = ", ".join(each.key for each in LIVE_ATTRIBUTES.values())
        return Refusal(
            Code.INVALID, f"{key} of a queue that exists cannot change; these can: {known}"
        )
    if not fits(attribute, value):
        return Refusal(Code.INVALID, f"{key} cannot be {value!r}")
    if field == "filter":
        of_topic = queue.definition.routing_type == MULTICAST
        matcher = core.filters.compile(str(value), core.now, of_topic=of_topic)
        return matcher if isinstance(matcher, Refusal) else None
    if field == "routing_type":
        return _check_types(queue.address, (str(value),))
    return None


def _check_types(address: Address, routing_types: tuple[str, ...]) -> Refusal | None:
    """Return why an address cannot have these routing types."""
    if not routing_types or not set(routing_types) <= set(ROUTING_TYPES):
        return Refusal(Code.INVALID, "an address needs a routing type: anycast, multicast or both")
    if address.is_wildcard and ANYCAST in routing_types:
        return Refusal(
            Code.INVALID, f"address '{address.name}' has wildcards: it must be multicast only"
        )
    return None


def conform(core: Core, queue: Queue, command: CreateQueue) -> int | Refusal:
    """Make a queue that exists what the configuration says, as far as that can change."""
    settings = core.state.settings.resolve(queue.address.name)
    wanted = with_defaults(command.definition, settings)
    differing = [
        each.key
        for each in QUEUE_ATTRIBUTES
        if not each.is_live and getattr(queue.definition, each.field) != getattr(wanted, each.field)
    ]
    if queue.address.name != command.address:
        differing.append("address")
    if differing:
        core.notices.append(
            f"queue '{queue.name}' differs from the configuration in {', '.join(differing)}, which "
            "cannot change: delete it, and reload the configuration"
        )
    if queue.definition.temporary or queue.address.name != command.address:
        return Refusal(Code.ALREADY_EXISTS, f"queue '{queue.name}' exists already")
    before = core.next_lsn
    listed: dict[str, bool] = {}
    if queue.definition.auto_created:
        listed["auto_created"] = False
    if not queue.definition.configuration_managed:
        listed["configuration_managed"] = True
    if listed:
        emit_queue_updated(core, queue, listed, reasons.CONFIGURATION)
    changes = {field: getattr(wanted, field) for field in LIVE_ATTRIBUTES}
    answer = update_queue(core, UpdateQueue(queue.name, changes, configured=True))
    if isinstance(answer, Refusal):
        return answer
    return core.next_lsn - 1 if core.next_lsn > before else 0


def update_address(core: Core, command: UpdateAddress) -> int | Refusal:
    """Give an address other routing types."""
    address = find_address(core, command.address)
    if address is None:
        return _no_address(command.address)
    wanted = tuple(sorted(set(command.routing_types)))
    wrong = _check_types(address, wanted)
    if wrong is not None:
        return wrong
    for queue in address.queues():
        if queue.definition.routing_type not in wanted:
            return Refusal(
                Code.NOT_ALLOWED,
                f"queue '{queue.name}' of address '{address.name}' is "
                f"{queue.definition.routing_type}; delete it first, or change it",
            )
    if wanted == tuple(sorted(address.definition.routing_types)):
        return 0
    update_routing_types(core, address, wanted, 0, reasons.ADMINISTRATION)
    return core.next_lsn - 1


def pause_address(core: Core, command: PauseAddress) -> int | Refusal:
    """Stop delivering from all queues of an address, also those that it gets later."""
    return _set_paused(core, command.address, paused=True)


def resume_address(core: Core, command: ResumeAddress) -> int | Refusal:
    """Resume delivering from the queues of an address, except those that are paused themselves."""
    return _set_paused(core, command.address, paused=False)


def _set_paused(core: Core, name: str, *, paused: bool) -> int | Refusal:
    address = find_address(core, name)
    if address is None:
        return _no_address(name)
    if address.definition.paused == paused:
        state = "paused" if paused else "not paused"
        return Refusal(Code.ALREADY_EXISTS, f"address '{name}' is {state} already")
    _emit_paused(core, address, paused=paused)
    queues = address.queues()
    core.budget.spent += len(queues) >> TOUCHED_SHIFT
    for queue in queues:
        core.touch(queue)
    return core.next_lsn - 1


def _emit_paused(core: Core, address: Address, *, paused: bool) -> None:
    wanted = msgspec.structs.replace(address.definition, paused=paused)
    detail = details.AddressDetail(**msgspec.structs.asdict(wanted), changed=("paused",))
    core.emit(
        events.row(
            events.ADDRESS_UPDATED,
            reason=reasons.ADMINISTRATION, address=address.id, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def _no_address(name: str) -> Refusal:
    return Refusal(Code.NOT_FOUND, f"there is no address '{name}'")
