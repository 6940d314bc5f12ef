"""Deciding where a message goes: the queues of an address that get it.

Anycast: one queue (`engine.entries.anycast_choice`). Multicast: every queue that accepts it,
by reference, with one body and one event. Both on one address: one anycast queue and all multicast
queues, unless the sender said which (fact sheet of Artemis, section 1.1). Multicast queues are
those of the address and those of the wildcard addresses that it matches (ADR 40).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from daybook.engine.commands import RETAIN_REMOVE, RETAIN_SET, Send
from daybook.engine.core import capacity, quotas
from daybook.engine.core.core import Core
from daybook.engine.entries import retained_messages, retroactive
from daybook.engine.entries.arrivals import let_enter
from daybook.engine.entries.placement import is_one_of_several, route, select, serves
from daybook.engine.entries.schedules import is_later
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.limits.waiting_senders import sender_of
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.routing import divert_decisions, duplicates
from daybook.engine.routing.drops import (
    basis_of,
    drop,
    drop_known,
    drop_lost,
    emit_dropped,
    flags_of,
    why_no_queue,
    why_not_here,
)
from daybook.engine.routing.filter_questions import is_judged, known_of
from daybook.engine.routing.send_plan import (
    DIVERTED,
    LOST,
    TO_OWN_QUEUE,
    TO_TOPIC,
    Plan,
    check,
    check_values,
    known_at,
    matching,
    message_of,
    resolve,
    target_of,
    targets_of,
)
from daybook.engine.routing.unrouted import redirect
from daybook.engine.settings.expiry_rules import expires_of
from daybook.engine.state.diverts import Divert
from daybook.engine.topology.topology import (
    require_address,
    require_queue,
)

NOT_FULL: Final[Mapping[Address, int]] = {}


def send(core: Core, command: Send) -> int | Refusal:
    """Route a message that a client sent, unless it is a duplicate."""
    if command.duplicate_id:
        known = known_at(core, command)
        if known is not None:
            return drop_known(core, command, known)
        if command.chunks and not command.chunks[0]:
            return _not_known_any_more(command)
        if core.room.objects_full and command.transaction is None:
            refusal = quotas.check_id(core, *target_of(core, command))
            if refusal is not None:
                return refusal
    address = core.state.address_by_name.get(command.address)
    if address is None or command.queue is not None or command.retain:
        named = _usual_of(core, command, address) if address is not None else None
        if named is not None:
            return _send_to_one(core, command, named, PERSISTENT | command.format)
        return _send_on_demand(core, command) if is_judged(core, command, address) else UNFINISHED
    queue = address.open_queue
    if (
        queue is not None
        and command.persistent
        and command.routing_type != MULTICAST
        and (
            not core.wildcards.count
            or command.routing_type is not None
            or not core.wildcards.of(address)
        )
    ):
        # The usual send, decided without further checks.
        return _send_to_one(core, command, queue, PERSISTENT | command.format)
    if not is_judged(core, command, address):
        return UNFINISHED
    if address.is_wildcard or not serves(address, command.routing_type):
        return _send_on_demand(core, command)
    if address.guarded:
        if core.diverts.count and core.diverts.of(address.name):
            return _send_on_demand(core, command)
        _set_expiry(core, command, address)
    others = matching(core, command, address) if core.wildcards.count else ()
    is_free = _has_room(core, address)
    if is_free and others:
        is_free = all(_has_room(core, each) for each in others)
    if is_free:
        return _send_to(core, command, address, others)
    if command.transaction is None:
        refusal = capacity.check(core, sender_of(command), targets_of(core, command))
        if refusal is not None:
            return refusal
    return _send_or_drop(core, command, address, None)


def _usual_of(core: Core, command: Send, address: Address) -> Queue | None:
    """Return the queue that the sender of a message named, if it would get it without that, too:
    then it is sent like most. Otherwise None."""
    queue = address.open_queue
    if queue is None or queue.definition.name != command.queue:
        return None
    is_usual = command.persistent and not command.retain
    return queue if is_usual and not is_one_of_several(core, queue) else None


def _set_expiry(core: Core, command: Send, address: Address) -> None:
    """Apply the settings of an address to the expiry of a message; an address without a guard has
    none for it.

    A blocked send comes here again: then its delays count from the first time on.
    """
    settings = core.state.settings.resolve(address.name)
    command.expires = expires_of(settings, command.expires, core.now // 1000)


def _has_room(core: Core, address: Address) -> bool:
    """Whether a message may enter the queues of an address without further checks."""
    return not address.guarded or capacity.has_room(core, address)


def _not_known_any_more(command: Send) -> Refusal:
    """Refuse a large message whose first chunks were not stored because it was a duplicate then."""
    return Refusal(
        Code.NOT_FOUND,
        f"address '{command.address}' forgot the duplicate id of the message while that was on its "
        "way; send it again",
    )


def forward(core: Core, command: Send, takers: tuple[Divert, ...], original: int) -> None:
    """Route the copies of a message that diverts take; `original` is its id.

    A copy that its address does not take is dropped: the message itself is where it belongs.
    """
    for copy in divert_decisions.copies(command, takers, original):
        was_forwarding, core.rights.is_forwarding = core.rights.is_forwarding, True
        decided: int | Refusal | None = check_values(core, copy)
        if decided is None:
            decided = _send_as_planned(core, copy)
        core.rights.is_forwarding = was_forwarding
        if isinstance(decided, Refusal):
            address = core.state.address_by_name[command.address]
            flags = PERSISTENT | command.format if command.persistent else command.format
            emit_dropped(core, copy, address, flags, reasons.UNROUTABLE)


def _send_on_demand(core: Core, command: Send) -> int | Refusal:
    refusal = check_values(core, command)
    return refusal if refusal is not None else _send_as_planned(core, command, is_limited=True)


def _send_as_planned(core: Core, command: Send, *, is_limited: bool = False) -> int | Refusal:
    """Resolve a send, and carry out its plan unless something is against it.

    With `is_limited` also what is full is, where the sender has to wait for room.
    """
    plan = resolve(core, command)
    refusal = check(core, command, plan)
    if refusal is None and is_limited and command.transaction is None:
        targets = targets_of(core, command, plan.takers)
        refusal = capacity.check(core, sender_of(command), targets)
    if refusal is not None:
        return refusal
    if plan.way == LOST:
        return drop_lost(core, command)
    return _send_by_diverts(core, command, plan) if plan.takers else _send_here(core, command, plan)


def _send_here(core: Core, command: Send, plan: Plan) -> int | Refusal:
    """Route a message to its own address, whatever diverts there are."""
    if plan.queue is not None:
        queue = require_queue(
            core, plan.queue, command.address, plan.routing_type, command.connection
        )
        if isinstance(queue, Refusal):
            return queue
        if plan.way == TO_OWN_QUEUE:
            return _send_or_drop(core, command, queue.address, None)
        why = why_not_here(queue)
        if why:
            return _drop_unrouted(core, command, queue.address, why)
        return _send_or_drop(core, command, queue.address, queue)
    address = _require_address(core, command, plan)
    if isinstance(address, Refusal):
        return address
    return _send_or_drop(core, command, address, None)


def _require_address(core: Core, command: Send, plan: Plan) -> Address | Refusal:
    if plan.address is not None and plan.way != TO_TOPIC:
        return plan.address
    return require_address(core, command.address, plan.routing_type, command.connection)


# ---- diverts


def _send_by_diverts(core: Core, command: Send, plan: Plan) -> int | Refusal:
    """Route a message to its address, unless an exclusive divert takes it, and the copies."""
    first = core.next_lsn
    command.diverts = tuple(divert.name for divert in plan.takers)
    if plan.way == DIVERTED:
        address = _require_address(core, command, plan)
        if isinstance(address, Refusal):
            return address
        _set_expiry(core, command, address)
        decided: int | Refusal = _divert(core, command, address)
    else:
        decided = _send_here(core, command, plan)
    if isinstance(decided, Refusal):
        return decided
    forward(core, command, plan.takers, divert_decisions.original_of(core, first))
    return core.next_lsn - 1 if command.persistent else decided


def _divert(
    core: Core, command: Send, address: Address, full: Mapping[Address, int] = NOT_FULL
) -> int:
    """Record that only diverts take a message, perhaps because some addresses are `full`; return
    the LSN that its sender must wait for."""
    flags = flags_of(core, command, address, ())
    basis = basis_of(command)
    if full:
        names = sorted({reasons.REASONS[each][0] for each in full.values()})
        basis = msgspec.structs.replace(basis, text=", ".join(names))
    lsn = divert_decisions.emit_diverted(core, command, address, flags, basis)
    if command.duplicate_id:
        lsn = duplicates.remember(core, address, command.duplicate_id, lsn)
    return lsn if flags & PERSISTENT else 0


def _send_or_drop(core: Core, command: Send, address: Address, queue: Queue | None) -> int:
    """Route a message that was not refused, but not to queues of addresses without room for it."""
    _set_expiry(core, command, address)
    others = matching(core, command, address)
    full: dict[Address, int] = {}
    for each in (address, *others):
        reason = capacity.enter(core, each) if each.guarded else 0
        if reason:
            full[each] = reason
    if not full:
        return _send_to(core, command, address, others, queue)
    flags = flags_of(core, command, address, others)
    return _send_to_several(core, command, address, others, flags, full)


def _send_to(
    core: Core,
    command: Send,
    address: Address,
    others: tuple[Address, ...],
    queue: Queue | None = None,
) -> int:
    """Route to a queue, or to those that the address chooses."""
    flags = flags_of(core, command, address, others)
    is_named = queue is not None and is_one_of_several(core, queue)
    if queue is None and command.routing_type != MULTICAST and not others:
        queue = address.only_queue
        if queue is not None and address.guarded and retroactive.is_kept(core, address):
            queue = None
    if queue is None:
        return _send_to_several(core, command, address, others, flags, {})
    if is_named:
        lsn = _send_with_detail(core, command, queue, flags, is_named=True)
    else:
        lsn = _send_to_one(core, command, queue, flags)
    return lsn if flags & PERSISTENT else 0


def _send_to_one(core: Core, command: Send, queue: Queue, flags: int) -> int:
    """Route to one queue; return the LSN that a persistent message waits for."""
    is_plain = not (command.expires or command.chunks or command.due or command.copied_from)
    if command.came_from and command.transaction is not None:
        is_plain = False
    if queue.definition.keyed_by or not is_plain:
        return _send_with_detail(core, command, queue, flags)
    if core.state.arrivals:
        let_enter(core, (queue,))
    lsn = core.emit_routed(
        queue, command.priority, flags, command.connection, command.headers, command.body,
        command.transaction, command.came_from,
    )  # fmt: skip
    core.touched[queue.id] = queue
    if command.duplicate_id:
        lsn = duplicates.remember(core, queue.address, command.duplicate_id, lsn)
    return lsn


def _send_with_detail(
    core: Core, command: Send, queue: Queue, flags: int, *, is_named: bool = False
) -> int:
    """Route a message that is not plain to one queue."""
    message = message_of(core, command, queue.address, flags)
    lsn = route(
        core, message, [queue],
        reason=reasons.DIVERT if command.copied_from else reasons.SENT,
        connection=command.connection, transaction=command.transaction,
        related=command.copied_from,
        due=command.due if is_later(core, command.due) else 0,
        is_named=is_named,
        came_from=command.came_from,
    )  # fmt: skip
    if command.duplicate_id:
        lsn = duplicates.remember(core, queue.address, command.duplicate_id, lsn)
    return lsn


def _send_to_several(
    core: Core,
    command: Send,
    address: Address,
    others: tuple[Address, ...],
    flags: int,
    full: dict[Address, int],
) -> int:
    """Do what `_send_to_each` does, and let the address forget what it retained if the sender asks
    for it."""
    forgotten = 0
    if command.retain == RETAIN_REMOVE and command.queue is None:
        forgotten = retained_messages.forget(core, address, reasons.FORGOTTEN, command.connection)
    return max(_send_to_each(core, command, address, others, flags, full), forgotten)


def _send_to_each(
    core: Core,
    command: Send,
    address: Address,
    others: tuple[Address, ...],
    flags: int,
    full: dict[Address, int],
) -> int:
    """Route to queues of an address and of the wildcard addresses that it matches.

    `full` says why some of these addresses take nothing. Each drops the message for its own queues.
    """
    histories: list[Queue] = []
    if command.queue is None and address not in full:
        histories = retroactive.histories_for(core, address, command.routing_type)
        if command.retain == RETAIN_SET:
            histories = [*histories, retained_messages.require_queue(core, address)]
        if any(each.address.paging for each in histories):
            flags &= ~events.BODY_OMITTED
    message = message_of(core, command, address, flags)
    asked = known_of(command, message)
    queues = select(core, address, command.routing_type, message, full, command.connection, asked)
    reason = reasons.DIVERT if command.copied_from else reasons.SENT
    if histories and not (queues or full or command.diverts):
        reason = reasons.HISTORY_ONLY
    lsn = route(
        core, message, [*queues, *histories] if histories else queues,
        reason=reason,
        connection=command.connection, transaction=command.transaction,
        related=command.copied_from,
        due=command.due if is_later(core, command.due) else 0,
        in_slices=True,
        came_from=command.came_from,
    )  # fmt: skip
    if not queues and command.diverts and not histories:
        return _divert(core, command, address, full)
    if not queues and not full and not command.diverts:
        redirected = _send_to_dead_end(core, command, address, flags, is_counted=len(histories) > 0)
        lsn = redirected or lsn
        if not lsn:
            why = why_no_queue(
                core.state, address, others, command.routing_type, command.connection
            )
            return drop(core, command, address, flags, why)
    is_routed = lsn > 0
    for each, why in full.items():
        dropped = emit_dropped(core, command, each, flags, why)
        lsn = lsn or dropped
    if command.duplicate_id and (is_routed or command.transaction is not None):
        # A dropped message can be sent again, but a commit must not be repeated.
        lsn = duplicates.remember(core, address, command.duplicate_id, lsn)
    return lsn if flags & PERSISTENT else 0


def _send_to_dead_end(
    core: Core, command: Send, address: Address, flags: int, *, is_counted: bool = False
) -> int:
    """Route a message that no queue takes at the dead letter address, if its settings say so.

    Return the LSN of Routed, 0 if it was not routed. `is_counted` says that an event before says
    that it was unrouted.
    """
    unrouted_at = 0 if is_counted else address.id
    redirected = redirect(core, command, address, flags)
    if redirected is None:
        return 0
    target = redirected.address
    if target.guarded and capacity.enter(core, target):
        return 0
    histories = retroactive.histories_for(core, target, None)
    dead = msgspec.structs.replace(
        command, address=target.name, queue=None, headers=redirected.headers,
        expires=redirected.expires, routing_type=None, due=0, origin=redirected.origin,
    )  # fmt: skip
    flags = flags_of(core, dead, target, core.wildcards.of(target))
    message = message_of(core, dead, target, flags)
    # Not those of a copy: a copy of each of its copies would be too many.
    takers = () if command.copied_from else divert_decisions.taking(core, target.name, message)
    queues = []
    if not divert_decisions.is_taken(takers):
        queues = select(core, target, None, message, sender=command.connection)
    lsn = route(
        core, message, [*queues, *histories] if queues else queues,
        reason=reasons.NO_ROUTE, connection=command.connection, transaction=command.transaction,
        related=command.copied_from, unrouted_at=unrouted_at, came_from=command.came_from,
    )  # fmt: skip
    if takers:
        dead.diverts = tuple(divert.name for divert in takers)
        lsn = lsn or divert_decisions.emit_diverted(
            core, dead, target, flags, basis_of(dead), unrouted_at=unrouted_at
        )
        forward(core, dead, takers, lsn)
    return lsn


def _drop_unrouted(core: Core, command: Send, address: Address, reason: int) -> int:
    """Drop a message that its one queue does not take, or send it to the dead letter address."""
    flags = flags_of(core, command, address, ())
    lsn = _send_to_dead_end(core, command, address, flags)
    if not lsn:
        return drop(core, command, address, flags, reason)
    if command.duplicate_id:
        lsn = duplicates.remember(core, address, command.duplicate_id, lsn)
    return lsn if flags & PERSISTENT else 0
