"""The rules of direct addresses: which names are, who gets a message, and that each delivery ends.

All of it is in events alone, so the rules ask what earlier events told (`DirectLedger`), and allow
what may be of before. Where a broker does not journal what it forwards, nothing is asked of that.
Must never know a queue.
"""

from collections.abc import Sequence
from typing import Final, cast

from daybook.engine.direct.forwarding import entry_for
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import (
    BALANCED,
    BY_GROUP,
    CLOSEST,
    MULTICAST,
    OWN_PROTOCOL,
    PHASE_MAX,
    Distribution,
)
from daybook.engine.facts.events import (
    BODY_OMITTED,
    CONNECTION,
    CONSUMER,
    FLAGS,
    LARGE,
    MESSAGE,
    PRIORITY,
    REASON,
    REDELIVERED,
    RELATED,
    Row,
)
from daybook.engine.facts.settlements import OUTCOMES
from daybook.engine.links.links import DirectAddress, ReceivingLink
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.names.names import plain
from daybook.engine.queues.consumer import consumer_of
from daybook.engine.settings.distributions import (
    UNAVAILABLE,
    DistributionError,
    Distributions,
)
from daybook.engine.settings.link_routes import LinkRoutes
from daybook.history.audit import rules
from daybook.history.audit.checks.ends import (
    OF_CONSUMERS,
    another,
    noted,
    wrong_attached,
    wrong_of_connection,
)
from daybook.history.audit.checks.related_events import wrong_chunks
from daybook.history.audit.context import AuditContext
from daybook.history.audit.direct_ledger import RECEIVER, ROLES, DirectLedger
from daybook.history.audit.feature_levels import STORED
from daybook.history.audit.registry import after, checks
from daybook.history.audit.rules import Wrong

DIRECT: Final = (BALANCED, CLOSEST, MULTICAST)
"""The distributions of direct addresses."""
BY_RECEIVER: Final = frozenset(OUTCOMES.values())
"""Why a delivery ends that its receiver settled."""
OF_WAITING: Final = frozenset((reasons.NO_RECEIVERS, reasons.LIMIT, reasons.EXPIRY))
"""Why one ends that its receiver did not get; a limit may also end the receiver."""


def _attached(context: AuditContext) -> details.LinkAttachedDetail:
    found = events.decode_detail(events.LINK_ATTACHED, context.detail)
    return cast(details.LinkAttachedDetail, found)


def _forwarded(context: AuditContext) -> details.ForwardedDetail:
    return cast(details.ForwardedDetail, events.decode_detail(events.FORWARDED, context.detail))


# ---- the table


@checks(events.DISTRIBUTIONS_CHANGED)
def distributions_changed(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a table is one that a configuration can have, and another one than before."""
    try:
        table, routes = _tables(context)
    except DistributionError as error:
        return rules.DIRECT, f"no configuration can say this: {error}", ()
    known = context.core.direct.distributions
    said = table.entries, table.default, table.waypoints, routes.routes
    passed = context.core.routed.table.routes
    is_known = said == (known.entries, known.default, known.waypoints, passed)
    if is_known and context.direct.knows_table:
        return rules.CHANGED, "these distributions were in force", ()
    return None


def _tables(context: AuditContext) -> tuple[Distributions, LinkRoutes]:
    found = events.decode_detail(events.DISTRIBUTIONS_CHANGED, context.detail)
    decoded = cast(details.DistributionsDetail, found)
    table = Distributions(decoded.entries, decoded.default, decoded.waypoints)
    return table, LinkRoutes(decoded.link_routes)


@after(events.DISTRIBUTIONS_CHANGED)
def _table_changed(context: AuditContext, row: Row) -> None:
    context.distribute(*_tables(context))


def _entry(context: AuditContext, name: str) -> Distribution | None:
    """Return what the table says of a direct address, None if it is none. One that is in use keeps
    what the table said when it came into use."""
    used = context.direct.links.addresses.get(name)
    entry = used.entry if used is not None else entry_for(context.core, name)
    return entry if entry is not None and entry.distribution != UNAVAILABLE else None


def _not_direct(name: str) -> Wrong:
    return rules.DIRECT, f"the distributions in force make '{name}' no direct address", ()


# ---- links


@checks(events.LINK_ATTACHED)
def link_attached(context: AuditContext, row: Row) -> Wrong | None:
    """Check a link that begins: its connection, and that its address is a direct one."""
    if row[CONSUMER] != context.lsn:
        return rules.NUMBERED, f"the id of a link is its event, not {row[CONSUMER]}", ()
    if row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", (row[CONNECTION],)
    wrong = wrong_attached(context, row) if context.ending else None
    decoded = _attached(context)
    if decoded.through:
        return wrong or _wrong_route(context, row, decoded)
    return wrong or _wrong_address(context, row, decoded)


def _wrong_route(
    context: AuditContext, row: Row, decoded: details.LinkAttachedDetail
) -> Wrong | None:
    """Check a link that is passed on: a route leads there, and to a connection that is open."""
    through = decoded.through
    if through not in context.state.connections or through == row[CONNECTION]:
        return rules.DIRECT, f"no container is on connection {through}", (through,)
    if decoded.role not in ROLES or decoded.distribution:
        return rules.DIRECT, "a link that is passed on sends or receives, and distributes none", ()
    is_in = decoded.role != RECEIVER
    routes = context.core.routed.table.find(plain(decoded.address), is_in=is_in)
    if not routes and context.direct.knows_table:
        return rules.DIRECT, f"no route leads a {decoded.role} of '{decoded.address}' anywhere", ()
    return None


def _wrong_address(
    context: AuditContext, row: Row, decoded: details.LinkAttachedDetail
) -> Wrong | None:
    name, ledger = decoded.address, context.direct
    if decoded.role not in ROLES:
        return rules.DIRECT, f"a link is no {decoded.role!r}", ()
    if not name:
        if decoded.role == RECEIVER or decoded.distribution:
            return rules.DIRECT, "only a sender can do without an address, and distributes none", ()
        is_any = context.core.direct.distributions.is_used or ledger.links.addresses
        if ledger.knows_table and not is_any:
            return rules.DIRECT, "the distributions in force make no name a direct address", ()
        return None
    entry = _entry(context, name)
    if entry is None and ledger.knows_table:
        return _not_direct(name)
    used = ledger.links.addresses.get(name)
    expected: tuple[str, ...] = DIRECT
    if used is not None:
        expected = (used.distribution,)
    elif entry is not None and not ledger.since:
        expected = (entry.distribution,)
        if not entry.stores_here and name in context.state.address_by_name:
            return rules.DIRECT, f"an address '{name}' stores messages", ()
    if decoded.role == RECEIVER and decoded.is_fallback:
        expected = (BALANCED,)
    if decoded.distribution not in expected:
        why = f"'{name}' is {decoded.distribution or 'nothing'}, and has to be "
        return rules.DIRECT, why + " or ".join(expected), ()
    return _wrong_phase(context, row, decoded, None if ledger.since else entry)


def _wrong_phase(
    context: AuditContext,
    row: Row,
    decoded: details.LinkAttachedDetail,
    entry: Distribution | None,
) -> Wrong | None:
    """Check the phase of a link; `entry` is None where that of its address is not known."""
    phase = decoded.phase
    if decoded.auto_link:
        if not 0 <= phase <= PHASE_MAX:
            return rules.DIRECT, f"an address has no phase {phase}", ()
        if decoded.is_fallback and entry is not None and not entry.enable_fallback:
            return rules.DIRECT, f"'{decoded.address}' has no fallback", ()
        return None
    if decoded.is_fallback or decoded.cost or decoded.shard:
        return rules.DIRECT, "only auto-links have fallback, a cost or a shard", ()
    if decoded.role == RECEIVER:
        if entry is not None and phase != entry.receiving_phase:
            return rules.DIRECT, f"peers receive at phase {entry.receiving_phase}, not {phase}", ()
        return None
    is_own = context.state.connections[row[CONNECTION]].protocol == OWN_PROTOCOL
    if phase and not is_own:
        return rules.DIRECT, f"peers send at phase 0, not {phase}", ()
    return None


@after(events.LINK_ATTACHED)
def _link_came(context: AuditContext, row: Row) -> None:
    connection = context.state.connections.get(row[CONNECTION])
    if connection is not None:
        decoded = _attached(context)
        if decoded.through:
            context.direct.pass_on(context.lsn, connection, decoded.through)
            return
        entry = _entry(context, decoded.address)
        context.direct.attach(context.lsn, connection, decoded, entry)


@checks(events.LINK_DETACHED)
def link_detached(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a link ends that was there, and after what was in flight to it."""
    ledger, number, reason = context.direct, row[CONSUMER], row[REASON]
    link = ledger.link(number)
    if link is None and not ledger.may_be_older(number):
        return _not_attached(context, number)
    ends = () if link is None else (link.connection_id, ledger.through.get(number))
    if link is not None and row[CONNECTION] not in ends:
        why = f"connection {link.connection_id} attached it"
        return rules.TAKER, why, (link.id,)
    if isinstance(link, ReceivingLink) and link.outstanding:
        message = next(iter(link.outstanding))
        return rules.FITS, f"message {message} is in flight to it", (link.id, message)
    known = ledger.leaving.get(number)
    if known is not None and known[0] not in (reason, reasons.NO_RECEIVERS):
        return another(known)
    return noted(context, row) if reason not in OF_CONSUMERS else None


def _not_attached(context: AuditContext, number: int) -> Wrong:
    proof = (number,) if number < context.lsn else ()
    return rules.TAKER, f"link {number} is not attached", proof


@after(events.LINK_DETACHED)
def _link_went(context: AuditContext, row: Row) -> None:
    for known in (context.automatic, context.manual):
        known.discard(row[CONSUMER])
    link = context.direct.link(row[CONSUMER])
    if link is not None:
        context.direct.detach(link)


# ---- messages


@checks(events.FORWARDED)
def forwarded(context: AuditContext, row: Row) -> Wrong | None:
    """Check a message to a direct address: its facts, its link, and who got it."""
    decoded = _forwarded(context)
    wrong = _wrong_message(context, row, decoded) or _wrong_sender(context, row, decoded)
    if wrong is not None:
        return wrong
    entry = _entry(context, decoded.address)
    if entry is None and context.direct.knows_table:
        return _not_direct(decoded.address)
    if row[REASON] == reasons.NO_RECEIVERS:
        return _wrong_release(context, row, decoded, entry)
    return _wrong_receivers(context, row, decoded)


def _wrong_message(
    context: AuditContext, row: Row, decoded: details.ForwardedDetail
) -> Wrong | None:
    flags = row[FLAGS]
    if row[MESSAGE] != context.lsn:
        return rules.NUMBERED, f"the id of a message is its event, not {row[MESSAGE]}", ()
    if row[PRIORITY] >= PRIORITIES:
        return rules.COLUMNS, f"there is no priority {row[PRIORITY]}", ()
    if flags & REDELIVERED:
        return rules.COLUMNS, "it is new, and is said to be redelivered", ()
    if flags & BODY_OMITTED and (context.headers or context.body):
        return rules.COLUMNS, "its content is there, and was not journaled", ()
    if bool(flags & BODY_OMITTED) != bool(decoded.omitted_bytes) and context.has(STORED):
        return rules.FORWARDED, "it is without content of no length, or with content of one", ()
    if len({flags & LARGE > 0, len(decoded.chunks) > 0, decoded.body_bytes > 0}) > 1:
        return rules.CHUNKS, "a large message has chunks, and no other one", ()
    # Those of a message from a queue are what that has (`_wrong_stored`).
    return wrong_chunks(context, decoded) if not decoded.link else None


def _wrong_sender(
    context: AuditContext, row: Row, decoded: details.ForwardedDetail
) -> Wrong | None:
    number, connection, ledger = decoded.link or row[RELATED], row[CONNECTION], context.direct
    sender = context.state.connections.get(connection)
    if sender is None:
        return rules.SENDER, f"connection {connection} is not open", ()
    if sender.protocol == OWN_PROTOCOL:
        wrong = _wrong_stored(context, row, decoded) if context.has(STORED) else None
        if wrong is not None:
            return wrong
    elif decoded.link:
        return rules.FORWARDED, "only the broker itself takes messages from a queue", ()
    if not number:
        is_heard = not decoded.settled or row[REASON] == reasons.NO_RECEIVERS
        return (rules.FORWARDED, "no link can hear of its end", ()) if is_heard else None
    link = ledger.links.senders.get(number)
    if link is None:
        is_older = ledger.may_be_older(number) and number not in ledger.links.receivers
        return None if is_older else _not_attached(context, number)
    if link.connection_id != connection:
        return rules.TAKER, f"connection {link.connection_id} attached link {number}", (number,)
    if link.address is not None and link.address.name != decoded.address:
        return rules.FORWARDED, f"link {number} sends to '{link.address.name}'", (number,)
    return None


def _wrong_stored(
    context: AuditContext, row: Row, decoded: details.ForwardedDetail
) -> Wrong | None:
    """Check that the broker itself has a message from the queue of the address."""
    queue = context.state.queue_by_name.get(decoded.address)
    entry = queue.entries.get(row[RELATED]) if queue is not None else None
    taker = consumer_of(entry) if entry is not None else None
    if not decoded.link or taker is None or taker.connection_id != row[CONNECTION]:
        where = f"the queue '{decoded.address}'"
        return rules.FORWARDED, f"the broker has not taken message {row[RELATED]} from {where}", ()
    # Retention may have written its chunks again since the broker took it.
    if entry is not None and bool(decoded.chunks) != bool(entry.message.chunks):
        return rules.CHUNKS, f"message {row[RELATED]} has other chunks", (row[RELATED],)
    return None


def _receivers(row: Row, decoded: details.ForwardedDetail) -> Sequence[int]:
    return decoded.receivers or ((row[CONSUMER],) if row[CONSUMER] else ())


def _place(
    context: AuditContext, row: Row, decoded: details.ForwardedDetail
) -> tuple[DirectAddress | None, bool]:
    """Return where the receivers of a message are, None if that has no links that are known; and
    whether it may be elsewhere, because its sender began before what is known."""
    links = context.direct.links
    sender = links.senders.get(decoded.link or row[RELATED])
    place = sender.address if sender is not None else None
    if place is None:
        place = links.addresses.get(decoded.address)
    falls_back = sender is None or not sender.is_fallback
    if place is not None and not place.receivers and falls_back:
        place = place.fallback or place
    return place, sender is None and (decoded.link or row[RELATED]) > 0


def _wrong_release(
    context: AuditContext,
    row: Row,
    decoded: details.ForwardedDetail,
    entry: Distribution | None,
) -> Wrong | None:
    """Check that nobody could get a message that nobody got."""
    if _receivers(row, decoded):
        return rules.FORWARDED, "nobody got it, and it names a receiver", ()
    place, may_be_elsewhere = _place(context, row, decoded)
    if may_be_elsewhere:
        return None
    for link in place.receivers.values() if place is not None else ():
        if not decoded.shard or link.shard == decoded.shard:
            return rules.FORWARDED, f"link {link.id} receives there", (link.id,)
    if decoded.shard:
        return _wrong_shard(context, decoded, entry)
    sender = context.direct.links.senders.get(decoded.link or row[RELATED])
    is_later = place is not None and place.phase > 0
    if sender is None or sender.is_fallback or is_later or entry is None or not entry.stores_here:
        return None
    return rules.FORWARDED, f"'{decoded.address}' has a queue to fall back to", ()


def _wrong_shard(
    context: AuditContext, decoded: details.ForwardedDetail, entry: Distribution | None
) -> Wrong | None:
    """Check the name of the shard of a message, as far as the table is known."""
    if entry is None or context.direct.since:
        return None
    through = entry.through
    is_one = through is not None and through.shard_by == BY_GROUP
    if through is None or not is_one or decoded.shard not in through.shards:
        why = f"no group of '{decoded.address}' is for another broker as shard '{decoded.shard}'"
        return rules.FORWARDED, why, ()
    return None


def _wrong_receivers(
    context: AuditContext, row: Row, decoded: details.ForwardedDetail
) -> Wrong | None:
    """Check that a message went to those that the distribution of its address chooses."""
    chosen, ledger = _receivers(row, decoded), context.direct
    if not chosen:
        return rules.FORWARDED, "it names no receiver", ()
    if decoded.receivers and (row[CONSUMER] or len(set(chosen)) != len(chosen) or len(chosen) < 2):
        return rules.FORWARDED, "it names a receiver in two ways", ()
    address, may_be_elsewhere = _place(context, row, decoded)
    for each in chosen:
        if each in ledger.leaving:
            return rules.ENDED, f"link {each} was leaving", (ledger.leaving[each][1],)
        link = ledger.links.receivers.get(each)
        if link is None:
            is_known = ledger.may_be_older(each) and ledger.link(each) is None
        else:
            is_near = may_be_elsewhere and link.address.name == decoded.address
            is_known = is_near or link.address is address
            address = link.address if is_near else address
        if not is_known:
            proof = (each,) if each < context.lsn else ()
            return rules.FORWARDED, f"link {each} does not receive there", proof
    if address is None:
        return None
    if address.entry.priority is not None and row[PRIORITY] != address.entry.priority:
        return (
            rules.COLUMNS,
            f"messages to '{address.name}' have priority {address.entry.priority}",
            (),
        )
    return _wrong_choice(address, chosen, decoded.shard)


def _wrong_choice(address: DirectAddress, chosen: Sequence[int], shard: str) -> Wrong | None:
    if address.distribution == MULTICAST:
        left_out = next((each for each in address.receivers if each not in chosen), 0)
        if left_out:
            return rules.FORWARDED, f"link {left_out} receives there, and got nothing", (left_out,)
        return None
    if len(chosen) != 1:
        return rules.FORWARDED, f"one receiver gets a message to '{address.name}'", ()
    link = address.receivers.get(chosen[0])
    if link is None:
        return None
    if shard:
        is_other = link.shard != shard
        why = f"link {link.id} leads to shard '{link.shard}'"
        return (rules.FORWARDED, why, (link.id,)) if is_other else None
    if address.distribution == CLOSEST and link.cost > address.least_cost:
        why = f"link {link.id} has cost {link.cost}, and another one {address.least_cost}"
        return rules.FORWARDED, why, (link.id,)
    if address.distribution != BALANCED:
        return None
    least = address.least_loaded()
    if link.load > least.load:
        why = f"link {link.id} had {link.load} deliveries open, and link {least.id} {least.load}"
        return rules.FORWARDED, why, (link.id, least.id)
    return None


@after(events.FORWARDED)
def _message_went(context: AuditContext, row: Row) -> None:
    for each in _receivers(row, _forwarded(context)):
        context.direct.give(each, row[MESSAGE])


@checks(events.FORWARD_SETTLED)
def forward_settled(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a delivery ends that was open, in a way of its receiver."""
    ledger, number, message = context.direct, row[CONSUMER], row[MESSAGE]
    link = ledger.links.receivers.get(number)
    if link is None:
        is_older = ledger.may_be_older(number) and number not in ledger.links.senders
        return None if is_older else _not_attached(context, number)
    if link.connection_id != row[CONNECTION]:
        why = f"connection {link.connection_id} attached link {number}"
        return rules.TAKER, why, (number,)
    if message not in link.outstanding:
        proof = (number, message) if message < context.lsn else (number,)
        return rules.TAKER, f"message {message} is not in flight to link {number}", proof
    found = events.decode_detail(events.FORWARD_SETTLED, context.detail)
    decoded = cast(details.ForwardSettledDetail, found)
    if row[REASON] not in BY_RECEIVER and decoded != details.ForwardSettledDetail():
        return rules.FITS, "its receiver did not settle it, and is said to have given a reason", ()
    wrong = _wrong_manner(context, number, row[REASON])
    return wrong or _wrong_end(context, ledger, link, row[REASON])


def _wrong_manner(context: AuditContext, number: int, reason: int) -> Wrong | None:
    """Check that a receiver settles always itself, or never."""
    if reason in OF_WAITING:
        return None
    is_automatic = reason == reasons.AUTOMATIC
    own, other = context.automatic, context.manual
    if not is_automatic:
        own, other = other, own
    if number in other:
        manner = "itself" if is_automatic else "nothing"
        return rules.AUTOMATIC, f"link {number} settles {manner}", (number,)
    own.add(number)
    return None


def _wrong_end(
    context: AuditContext, ledger: DirectLedger, link: ReceivingLink, reason: int
) -> Wrong | None:
    """Check that a delivery ends by its receiver's word, or because that ends."""
    known = ledger.leaving.get(link.id)
    if reason in BY_RECEIVER or reason == reasons.AUTOMATIC:
        return another(known) if known is not None else None
    if reason in (reasons.LIMIT, reasons.EXPIRY):
        return None
    if reason == reasons.NO_RECEIVERS:
        # What waited for it ends after what it got.
        ledger.leaving.setdefault(link.id, (reason, context.lsn))
        return None
    if known is not None and known[0] != reason:
        return another(known)
    ledger.leaving[link.id] = reason, context.lsn
    if reason in OF_CONSUMERS:
        return None
    return wrong_of_connection(context, link.connection_id, reason)


@after(events.FORWARD_SETTLED)
def _delivery_ended(context: AuditContext, row: Row) -> None:
    link = context.direct.links.receivers.get(row[CONSUMER])
    if link is not None:
        context.direct.settle(link, row[MESSAGE])
