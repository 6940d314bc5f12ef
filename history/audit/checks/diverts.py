"""The rules of diverts: which of them take a message, and that each copy is there, once.

Diverts are asked by what is sent to an address without a word about a queue. Filters that nobody
can read any more may let everything pass. Must never know which queues a message enters.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from daybook.engine.entries import retroactive
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.details import AddressDetail, Basis, DivertedDetail, DroppedDetail
from daybook.engine.facts.events import (
    ADDRESS,
    BODY_OMITTED,
    CONNECTION,
    FLAGS,
    FORMAT,
    GROUPED,
    KIND,
    LARGE,
    MESSAGE,
    PERSISTENT,
    PRIORITY,
    REASON,
    REDELIVERED,
    RELATED,
    Row,
)
from daybook.engine.facts.kinds import IN_TRANSACTIONS
from daybook.engine.messages.message import PRIORITIES, Message
from daybook.engine.names.names import plain
from daybook.engine.queues.queue import Address
from daybook.engine.settings.expiry_rules import has_rules
from daybook.engine.state.diverts import Divert
from daybook.engine.state.no_local import without_own
from daybook.history.audit import rules
from daybook.history.audit.checks.related_events import check_transaction
from daybook.history.audit.context import AuditContext, Folded
from daybook.history.audit.feature_levels import BASIS
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

OF_DIVERTS: Final = frozenset((reasons.DIVERT, reasons.HISTORY_ONLY, reasons.NO_ROUTE))
"""The reasons of copies that diverts made."""
OF_SENDERS: Final = frozenset((reasons.SENT, reasons.HISTORY_ONLY, reasons.DIVERT))
"""The reasons of messages that are what their sender sent, unless they are copies."""
_KEPT: Final = (rules.ROUTING, "its address keeps it for queues to come", ())


class Takers(NamedTuple):
    """The diverts that certainly take a message, and those that may; and whether some do."""

    must: tuple[Divert, ...]
    may: tuple[Divert, ...]
    is_some: bool

    @property
    def is_exclusive(self) -> bool:
        """Whether no queue of the address gets it."""
        return bool(self.must) and self.must[0].definition.exclusive


NOBODY: Final = Takers((), (), is_some=False)


def takers_of(context: AuditContext, address: Address, message: Message) -> Takers:
    """Return which diverts of an address take a message that was sent there."""
    core = context.core
    found = core.diverts.of(address.name) if core.diverts.count else ()
    if not found:
        return NOBODY
    # Filters were asked before the settings changed when it expires.
    can_read = not has_rules(context.state.settings.resolve(address.name))
    can_read = can_read and context.can_read(message)
    yes, perhaps = [], []
    for divert in found:
        takes = _takes(context, divert, message, can_read=can_read)
        if takes:
            yes.append(divert)
        elif takes is None:
            perhaps.append(divert)
    exclusive = tuple(each for each in yes if each.definition.exclusive)
    doubtful = tuple(each for each in perhaps if each.definition.exclusive)
    if exclusive:
        return Takers(exclusive, exclusive + doubtful, is_some=True)
    must = () if doubtful else tuple(yes)
    return Takers(must, (*yes, *perhaps), is_some=bool(yes))


def _takes(
    context: AuditContext, divert: Divert, message: Message, *, can_read: bool
) -> bool | None:
    text = divert.definition.filter
    if not text:
        return True
    if not can_read:
        return None
    if divert.matcher is None:
        core = context.core
        divert.matcher = core.options.compile_filter(text, core.address_name)
    return divert.matcher.matches(message)


# ---- copies


def wrong_copies(context: AuditContext, row: Row, address: Address, takers: Takers) -> Wrong | None:
    """Check that each divert that takes the message of this event made its copies, and no other."""
    arrived = list(_copies(context))
    for event in arrived:
        wrong = _wrong_facts(row, event)
        if wrong is not None:
            return wrong
    created = _created(context) if arrived else {}
    left = [_arrival(context, created, event) for event in arrived]
    for divert in takers.must:
        for target in divert.definition.forwarding_addresses:
            found = _find(context, left, target, plain(divert.name))
            if found is None:
                why = f"divert '{divert.name}' takes it, and '{target}' has no copy"
                return rules.DIVERTS, why, tuple(event[0] for event in arrived)
            left.remove(found)
    takers_named = {plain(divert.name) for divert in takers.may}
    for target, name in left:
        if name and name not in takers_named:
            why = f"divert '{name}' does not take it, and '{target}' has a copy"
            return rules.DIVERTS, why, tuple(event[0] for event in arrived)
    if left and not takers.may:
        return rules.DIVERTS, f"no divert takes it, and '{left[0][0]}' has a copy", ()
    return None


def _copies(context: AuditContext) -> Iterator[Folded]:
    """Return the copies that diverts made of the message of this event, in the same block."""
    before = context.events[context.at]
    for event in context.following:
        row = event[1]
        if row[KIND] in IN_TRANSACTIONS and row[RELATED] == context.lsn:
            # What left a queue meanwhile has other copies: the event before says so.
            is_dead = before[1][MESSAGE] == context.lsn and before[1][RELATED] == event[0]
            if not is_dead and (row[KIND] != events.ROUTED or row[REASON] in OF_DIVERTS):
                yield event
        before = event


def _find(
    context: AuditContext, left: list[tuple[str, str]], target: str, name: str
) -> tuple[str, str] | None:
    """Return the arrival for a divert: one that names the divert comes first.

    A copy that a full wildcard address does not take is dropped there.
    """
    for wanted in ((target, name), (target, "")):
        if wanted in left:
            return wanted
    address = context.state.address_by_name.get(target)
    others = context.core.wildcards.of(address) if address is not None else ()
    wild = {(each.name, "") for each in others}
    return next((each for each in left if each in wild), None)


def _created(context: AuditContext) -> dict[int, str]:
    """Return the names of the addresses that later events of the block create."""
    return {
        row[ADDRESS]: cast(AddressDetail, events.decode_detail(row[KIND], detail)).name
        for _, row, detail, _, _ in context.following
        if row[KIND] == events.ADDRESS_CREATED
    }


def _arrival(context: AuditContext, created: dict[int, str], event: Folded) -> tuple[str, str]:
    """Return to which address a copy was sent, and by which divert; empty if it does not say."""
    _, row, detail, _, _ = event

    def name_of(number: int) -> str:
        address = context.state.addresses.get(number)
        return address.name if address is not None else created.get(number, "")

    name = name_of(row[ADDRESS])
    if row[KIND] == events.DROPPED:
        dropped = cast(DroppedDetail, events.decode_detail(row[KIND], detail))
        basis = dropped.basis
        return dropped.destination or (basis.destination if basis is not None else "") or name, ""
    if row[KIND] == events.DIVERTED:
        return name, ""
    decoded = events.routed_detail(detail)
    if row[REASON] == reasons.NO_ROUTE:
        return name_of(decoded.unrouted_at) or name, ""
    origin = decoded.origin
    return name, origin.queue if origin is not None and row[REASON] == reasons.DIVERT else ""


def _wrong_facts(row: Row, event: Folded) -> Wrong | None:
    """Check that a copy has the facts of its original."""
    lsn, other, _, _, _ = event
    differs = other[PRIORITY] != row[PRIORITY] or other[CONNECTION] != row[CONNECTION]
    # Only Routed says all of a message, such as its chunks.
    flags = PERSISTENT
    if other[KIND] == events.ROUTED:
        flags |= FORMAT | (LARGE if row[KIND] == events.ROUTED else 0)
        # Copies of dead letters do not say that they have a group.
        flags |= GROUPED if row[REASON] in OF_SENDERS and not row[RELATED] else 0
    if not differs and not (other[FLAGS] ^ row[FLAGS]) & flags:
        return None
    return rules.COPY, f"event {lsn} is a copy of it, with other facts", (lsn,)


# ---- messages that only diverts took


@checks(events.DIVERTED)
def diverted(context: AuditContext, row: Row) -> Wrong | None:
    """Check a message that only diverts took."""
    decoded = cast(DivertedDetail, events.decode_detail(events.DIVERTED, context.detail))
    wrong = _wrong_columns(context, row)
    if wrong is not None:
        return wrong
    address = context.state.addresses.get(row[ADDRESS])
    if address is None:
        return rules.ROUTING, f"address {row[ADDRESS]} does not exist", ()
    if decoded.basis is None and context.has(BASIS):
        return rules.DIVERTS, "it does not say what it was decided from", ()
    if (row[REASON] == reasons.NO_ROUTE) != (decoded.unrouted_at > 0):
        return rules.DIVERTS, "only what found no queue says where that was", ()
    wrong = wrong_redirection(context, decoded.unrouted_at, address) or _wrong_original(
        context, row
    )
    wrong = wrong or check_transaction(context, row, decoded.transaction)
    if wrong is not None:
        return wrong
    message = _message_of(context, row, decoded.basis)
    takers = takers_of(context, address, message)
    wrong = _wrong_names(decoded.diverts, takers, address)
    if wrong is not None:
        return wrong
    named = tuple(each for each in takers.may if each.name in decoded.diverts)
    wrong = wrong_copies(context, row, address, Takers(named, takers.may, is_some=True))
    if wrong is None and not named[0].definition.exclusive and decoded.basis is not None:
        wrong = _wrong_queue(context, row, address, message, decoded.basis)
    return wrong


def wrong_beginning(context: AuditContext, row: Row) -> Wrong | None:
    """Check what every event has by which a message begins."""
    if row[MESSAGE] != context.lsn:
        why = f"the id of a message is its event, {context.lsn}, not {row[MESSAGE]}"
        return rules.NUMBERED, why, ()
    if row[PRIORITY] >= PRIORITIES:
        return rules.COLUMNS, f"its priority is {row[PRIORITY]}, and 9 is the highest", ()
    return None


def _wrong_columns(context: AuditContext, row: Row) -> Wrong | None:
    wrong = wrong_beginning(context, row)
    if wrong is not None:
        return wrong
    # A copy that is only diverted says still that its original was large.
    unknown = REDELIVERED | BODY_OMITTED | (0 if row[RELATED] else LARGE)
    if row[FLAGS] & unknown:
        return rules.COLUMNS, "it is new, and its copies have its content", ()
    if row[CONNECTION] and row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", ()
    return None


def _wrong_original(context: AuditContext, row: Row) -> Wrong | None:
    """Check that it is a copy of what was just sent, or of what just left a queue."""
    original = row[RELATED]
    if not original:
        return None
    before = context.earlier(original)
    if before is not None and before[1][KIND] in IN_TRANSACTIONS:
        return None
    previous = context.previous
    # A dead letter, or one that expired.
    left = previous[1] if previous is not None else None
    if left is not None and left[MESSAGE] == original and left[RELATED] == context.lsn:
        return None
    return rules.COPY, f"its original, message {original}, was not just sent", (original,)


def follows_history(context: AuditContext, row: Row, target: Address) -> bool:
    """Whether an event before says that only histories took a message, whose address sends what no
    queue takes to this one."""
    return any(
        each[1][REASON] == reasons.HISTORY_ONLY
        and each[1][RELATED] == row[RELATED]
        and wrong_redirection(context, each[1][ADDRESS], target) is None
        for each in context.events[: context.at]
    )


def wrong_redirection(context: AuditContext, unrouted_at: int, target: Address) -> Wrong | None:
    """Check that what no queue of an address took goes to this one, by the settings in force."""
    if not unrouted_at:
        return None
    address = context.state.addresses.get(unrouted_at)
    if address is None:
        return rules.ROUTING, f"address {unrouted_at} does not exist", ()
    settings = context.state.settings.resolve(address.name)
    if settings.send_to_dla_on_no_route and settings.dead_letter_address == target.name:
        return None
    why = f"what no queue of address '{address.name}' takes does not go to '{target.name}'"
    return rules.ROUTING, why, ()


def _message_of(context: AuditContext, row: Row, basis: Basis | None) -> Message:
    """Return what filters read of a message; nothing if its headers are not journaled."""
    flags = row[FLAGS]
    if basis is None or not (context.headers or flags & PERSISTENT):
        flags |= BODY_OMITTED
    expires = basis.expires if basis is not None else 0
    message = Message(
        context.lsn, row[ADDRESS], row[PRIORITY], flags, expires, context.headers, b""
    )
    message.enlarge((context.lsn,), basis.body_bytes if basis is not None else 0)
    return message


def _wrong_names(listed: tuple[str, ...], takers: Takers, address: Address) -> Wrong | None:
    """Check that the diverts listed are those that take it."""
    may = {each.name for each in takers.may}
    for name in listed:
        if name not in may:
            return rules.DIVERTS, f"divert '{name}' of '{address.name}' does not take it", ()
    for divert in takers.must:
        if divert.name not in listed:
            return rules.DIVERTS, f"divert '{divert.name}' takes it, and is not listed", ()
    if not listed or list(listed) != sorted(set(listed)):
        return rules.DIVERTS, "it lists no divert, or one twice", ()
    kinds = {each.definition.exclusive for each in takers.may if each.name in listed}
    if len(kinds) > 1:
        return rules.DIVERTS, "exclusive diverts take it, and the others nothing", ()
    return None


def _wrong_queue(
    context: AuditContext, row: Row, address: Address, message: Message, basis: Basis
) -> Wrong | None:
    """Check that no queue of the address, nor a history, had to get it as well."""
    if basis.text:
        # There was no room, for what the machine said or by limits.
        return None
    routing_type = basis.routing_type or None
    bindings = list(address.anycast) if routing_type != MULTICAST else []
    if routing_type != ANYCAST:
        for each in (address, *context.core.wildcards.of(address)):
            bindings += each.multicast
    for binding in bindings:
        if not context.accepts(binding, message):
            continue
        if without_own(context.state, [binding.queue], row[CONNECTION]):
            why = f"queue '{binding.queue.name}' takes it, and did not get it"
            return rules.ROUTING, why, ()
    types = address.definition.routing_types
    if retroactive.is_kept(context.core, address) and any(
        each in address.histories and routing_type in (None, each) for each in types
    ):
        # A dead letter address keeps only what a queue takes, too.
        is_redirected = row[REASON] == reasons.NO_ROUTE or follows_history(context, row, address)
        return None if is_redirected else _KEPT
    return None


def wrong_origin_of_copy(
    context: AuditContext, row: Row, origin: details.Origin | None
) -> Wrong | None:
    """Check that a divert of the address of the original forwards a copy to this address."""
    before = context.earlier(row[RELATED])
    if origin is None or before is None:
        return None
    address = context.state.addresses.get(before[1][ADDRESS])
    target = context.state.addresses.get(row[ADDRESS])
    if origin.message != row[RELATED]:
        why = f"it is a copy of message {origin.message}, and of message {row[RELATED]}"
        return rules.COPY, why, (row[RELATED],)
    there = context.core.diverts.of(address.name) if address is not None else ()
    for divert in there:
        targets = divert.definition.forwarding_addresses
        if plain(divert.name) == origin.queue and target is not None and target.name in targets:
            return None
    return rules.DIVERTS, f"no divert '{origin.queue}' made a copy for this address", ()
