"""The rules of messages that entered no queue: each reason is decided again, on the state then.

The event itself records the facts that are not in the state (the request of the sender, the limit
that was reached) in its `Basis`. Without one, the rules ask the state alone. Must never know how
messages enter queues.
"""

from collections.abc import Callable, Iterator
from typing import Final, cast

from daybook.engine.core import capacity
from daybook.engine.entries import retroactive
from daybook.engine.entries.placement import serves
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.details import Basis, DroppedDetail
from daybook.engine.facts.events import (
    ADDRESS,
    BODY_OMITTED,
    CONNECTION,
    FLAGS,
    PERSISTENT,
    PRIORITY,
    REASON,
    REDELIVERED,
    RELATED,
    Row,
)
from daybook.engine.messages.message import PRIORITIES, Message
from daybook.engine.names.names import beside, plain
from daybook.engine.queues.id_cache import key_of
from daybook.engine.queues.queue import Address, Binding
from daybook.engine.routing.dead_letter_addresses import for_dead_letters, queue_name
from daybook.engine.routing.drops import UNROUTED, why_no_queue, why_not_here
from daybook.engine.settings.setting_keys import DROP
from daybook.engine.state.no_local import without_own
from daybook.engine.state.sizes import size_of
from daybook.engine.topology.temporary_names import is_lost
from daybook.history.audit import rules
from daybook.history.audit.checks.diverts import takers_of
from daybook.history.audit.checks.related_events import check_transaction
from daybook.history.audit.context import AuditContext
from daybook.history.audit.feature_levels import BASIS
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

OF_FULL: Final = frozenset(capacity.KEYS_OF) | {reasons.DISK_FULL}
"""The reasons that say that there was no room."""
OF_MACHINE: Final = frozenset((reasons.DISK_FULL, reasons.GLOBAL_MAX_SIZE))
"""Those that the machine may have told the broker."""
WITHOUT_BASIS: Final = Basis()


@checks(events.DROPPED)
def dropped(context: AuditContext, row: Row) -> Wrong | None:
    """Check a message that was dropped."""
    decoded = cast(DroppedDetail, events.decode_detail(events.DROPPED, context.detail))
    if row[CONNECTION] and row[CONNECTION] not in context.state.connections:
        known = (row[CONNECTION],) if row[CONNECTION] < context.lsn else ()
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", known
    if row[PRIORITY] >= PRIORITIES:
        return rules.COLUMNS, f"its priority is {row[PRIORITY]}, and 9 is the highest", ()
    is_whole = row[FLAGS] & PERSISTENT or context.headers
    if row[FLAGS] & REDELIVERED or (row[FLAGS] & BODY_OMITTED and is_whole):
        return rules.COLUMNS, "no message that was never routed has these flags", ()
    address = context.state.addresses.get(row[ADDRESS])
    if row[ADDRESS] and address is None:
        return rules.ROUTING, f"address {row[ADDRESS]} does not exist", ()
    wrong = check_transaction(context, row, decoded.transaction) or _wrong_original(context, row)
    if wrong is not None:
        return wrong
    if decoded.basis is None and context.has(BASIS):
        return rules.DROPPING, "it does not say what it was decided from", ()
    why = _why_not(context, row, decoded, address)
    return (rules.DROPPING, why, ()) if why else None


def _wrong_original(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a copy that was dropped is one of a message that was just decided."""
    original = row[RELATED]
    if not original:
        return None
    before = context.earlier(original)
    if before is None:
        # An entry that just left may have its copies behind those of others.
        return rules.COPY, f"its original, message {original}, was not just sent", ()
    other = before[1]
    differs = (other[FLAGS] ^ row[FLAGS]) & PERSISTENT or other[PRIORITY] != row[PRIORITY]
    if differs:
        return rules.COPY, f"its original, message {original}, has other facts", (original,)
    return None


def _why_not(
    context: AuditContext, row: Row, decoded: DroppedDetail, address: Address | None
) -> str:
    """Return why the reason of a Dropped was none, empty if it was one."""
    reason, basis = row[REASON], decoded.basis
    if (reason == reasons.GONE) != (address is None) or bool(decoded.destination) != (not address):
        return "what was sent to an address that exists is not gone, and only that is"
    if basis is not None:
        why = _wrong_basis(reason, basis)
        if why:
            return why
    if address is None:
        return _not_gone(context, row, decoded)
    if reason != reasons.DUPLICATE and _is_known(address, decoded.duplicate_id):
        return "its address had a message with its duplicate id before"
    check = _REASONS.get(reason, _not_unrouted if reason in UNROUTED else _not_full)
    return check(context, row, decoded, address)


def _wrong_basis(reason: int, basis: Basis) -> str:
    """Return what is said that no event of this reason says."""
    is_told = reason == reasons.DISK_FULL or (
        reason == reasons.GLOBAL_MAX_SIZE and not (basis.held or basis.limit)
    )
    if bool(basis.text) != is_told:
        return "what the machine said does not fit the reason"
    if (basis.held or basis.limit) and reason not in capacity.KEYS_OF:
        return "it says how full something was, and nothing was full"
    if basis.volatile and reason != reasons.DUPLICATE:
        return "only a duplicate is known in memory"
    if bool(basis.destination) != (reason == reasons.UNROUTABLE):
        return "only a copy that was refused has another destination"
    return ""


def _is_known(address: Address, duplicate_id: str) -> bool:
    if not duplicate_id or address.ids is None:
        return False
    return address.ids.has(key_of(duplicate_id))


# ---- one reason after the other


def _not_gone(context: AuditContext, row: Row, decoded: DroppedDetail) -> str:
    """Check that a temporary destination had ended."""
    name, basis = decoded.destination, decoded.basis
    if not is_lost(name, row[CONNECTION]):
        return f"'{name}' is not a temporary destination of another connection"
    if basis is None:
        return ""
    if basis.queue:
        is_there = basis.queue in context.state.queue_by_name
    else:
        address = context.state.address_by_name.get(name)
        is_there = address is not None and serves(address, basis.routing_type or None)
    return f"'{name}' was there" if is_there else ""


def _not_known(context: AuditContext, row: Row, decoded: DroppedDetail, address: Address) -> str:
    """Check that an address had a message with this id before."""
    if not decoded.duplicate_id:
        return "it has no duplicate id"
    is_known = _is_known(address, decoded.duplicate_id)
    # Ids that are in memory only are in no event.
    if decoded.basis is None or decoded.basis.volatile != is_known:
        return ""
    if is_known:
        return "its duplicate id was remembered, and not in memory only"
    return f"address '{address.name}' had no message with its duplicate id"


def _not_refused(context: AuditContext, row: Row, decoded: DroppedDetail, address: Address) -> str:
    """Check that a copy of a divert had no place: its address needed something that it could not
    have."""
    if not row[RELATED]:
        return "it is not a copy of a divert"
    basis = decoded.basis
    if basis is None:
        return ""
    reached = {
        target
        for divert in context.core.diverts.of(address.name)
        for target in divert.definition.forwarding_addresses
    }
    if basis.destination not in reached:
        return f"no divert of address '{address.name}' forwards to '{basis.destination}'"
    target = context.state.address_by_name.get(basis.destination)
    if target is not None and serves(target, basis.routing_type or None):
        return f"address '{target.name}' takes it"
    return ""


def _not_full(context: AuditContext, row: Row, decoded: DroppedDetail, address: Address) -> str:
    """Check that there was no room, by the limits in force and by what was there."""
    reason = row[REASON]
    basis = decoded.basis if decoded.basis is not None else WITHOUT_BASIS
    if reason == reasons.DISK_FULL:
        return ""
    settings = context.state.settings.resolve(address.name)
    if reason in capacity.OF_BROKER:
        if settings.address_full_policy != DROP:
            return f"address '{address.name}' does not drop what it has no room for"
        if decoded.basis is not None and not basis.text and not 0 < basis.limit <= basis.held:
            return f"the broker held {basis.held}, and the limit was {basis.limit}"
        return ""
    size, messages = size_of(address)
    if any(queue.transient_count for queue in address.queues()):
        # The content of messages that are not persistent is perhaps not journaled.
        size = basis.held if reason in capacity.OF_BYTES else 0
        if decoded.basis is None:
            return ""
    full = capacity.full_by_itself(settings, address, size, messages)
    if full != capacity.Full(reason, DROP):
        return f"address '{address.name}' is not full by that limit, or does not drop"
    if decoded.basis is not None:
        measured = capacity.measure(context.core, address.name, address, reason)
        wanted = (size, measured[1]) if reason in capacity.OF_BYTES else measured
        if (basis.held, basis.limit) != wanted:
            return f"it held {wanted[0]}, and the limit was {wanted[1]}"
    return ""


def _not_unrouted(context: AuditContext, row: Row, decoded: DroppedDetail, address: Address) -> str:
    """Check that no queue took it, and nothing else did: no divert, no history, and no dead letter
    address."""
    basis = decoded.basis
    if basis is None:
        # The request of the sender is unknown: it may have named another queue than one that
        # takes all.
        return ""
    if basis.queue:
        queue = context.state.queue_by_name.get(basis.queue)
        if queue is None or queue.address is not address:
            return f"queue '{basis.queue}' is not on address '{address.name}'"
        if why_not_here(queue) != row[REASON]:
            return f"queue '{queue.name}' takes messages"
        return _not_redirected(context, row, basis, address, None)
    routing_type = basis.routing_type or None
    others = context.core.wildcards.of(address) if routing_type != ANYCAST else ()
    found = why_no_queue(context.state, address, others, routing_type, row[CONNECTION])
    if found != row[REASON]:
        return f"no queue takes it for another reason, {reasons.REASONS[found][0]}"
    message = message_of(context, row, basis)
    if found == reasons.NO_MATCHING_FILTER:
        for binding in _bindings(address, others, routing_type):
            if takes(context, binding, message, row[CONNECTION]):
                return f"queue '{binding.queue.name}' takes it"
    takers = takers_of(context, address, message)
    if takers.is_some:
        return f"divert '{takers.may[0].name}' takes it"
    types = address.definition.routing_types
    if retroactive.is_kept(context.core, address) and any(
        each in address.histories and routing_type in (None, each) for each in types
    ):
        return "its address keeps it for queues to come"
    return _not_redirected(context, row, basis, address, message)


def _not_redirected(
    context: AuditContext, row: Row, basis: Basis, address: Address, message: Message | None
) -> str:
    """Check that the dead letter address did not have to get it."""
    settings = context.state.settings.resolve(address.name)
    name = settings.dead_letter_address
    target = context.state.address_by_name.get(name)
    if not settings.send_to_dla_on_no_route or target is None or target is address:
        return ""
    theirs = context.state.settings.resolve(name)
    if DROP in (theirs.address_full_policy, theirs.page_full_policy):
        return ""
    resources = for_dead_letters(settings)
    if resources.wanted and (resources.prefix or resources.suffix):
        own = queue_name(resources, plain(address.name))
        queue = context.state.queue_by_name.get(beside(address.name, own))
        if queue is None or queue.address is not target:
            # Perhaps it could not be created.
            return ""
    elif all(queue.definition.temporary for queue in target.queues()):
        return ""
    for binding in (*target.anycast, *target.multicast):
        # Others read headers that only the copy has.
        if not binding.filter and takes(context, binding, NOTHING, row[CONNECTION]):
            return f"the dead letter address, '{name}', takes what no queue takes"
    return ""


_REASONS: Final[dict[int, Callable[[AuditContext, Row, DroppedDetail, Address], str]]] = {
    reasons.DUPLICATE: _not_known,
    reasons.UNROUTABLE: _not_refused,
}


# ---- the queues that would have taken it


NOTHING: Final = Message(0, 0, 0, BODY_OMITTED, 0, b"", b"")
"""A message of which nothing is known."""


def message_of(context: AuditContext, row: Row, basis: Basis) -> Message:
    """Return what filters read of a message without a body, whose event has its headers."""
    message = Message(
        context.lsn, row[ADDRESS], row[PRIORITY], row[FLAGS], basis.expires, context.headers, b""
    )
    message.enlarge((context.lsn,), basis.body_bytes)
    return message


def _bindings(
    address: Address, others: tuple[Address, ...], routing_type: str | None
) -> Iterator[Binding]:
    if routing_type != MULTICAST:
        yield from address.anycast
    if routing_type != ANYCAST:
        for each in (address, *others):
            yield from each.multicast


def takes(context: AuditContext, binding: Binding, message: Message, sender: int) -> bool:
    """Whether a queue certainly takes a message of a connection."""
    if not context.accepts(binding, message):
        return False
    return bool(without_own(context.state, [binding.queue], sender))
