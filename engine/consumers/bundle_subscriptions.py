"""Deciding about subscriptions to several queues: all of their parts attach, or none (ADR 60).

A part names one queue or topic, or the queues that match a pattern. Queues of a pattern attach in
slices, those that exist and those that are created later; one that its subscriber may not consume
from, or that takes no further consumer, is left out. Must never know how deliveries use credit.
"""

from typing import Final, cast

import msgspec

from daybook.engine.commands import Attach, AttachAll, Credit, Detach
from daybook.engine.consumers.attach_plan import (
    check_attach,
    check_host,
    check_queue_of,
    name_of_queue,
    resolve,
    routing_type_of,
)
from daybook.engine.consumers.subscriptions import (
    begin_consuming,
    detach_consumer,
    queue_of,
    retire,
    with_address,
)
from daybook.engine.core import permission_checks, quotas
from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.names.names import plain, wrong_with_wildcards
from daybook.engine.queues.consumer import Bundle, Connection, consumers_of
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.topology import bundle_members
from daybook.engine.topology.topology import find_address

FOUND_MAX: Final = 10_000
"""How many consumers a connection may have when patterns find it another one: many subscriptions
with wildcards would else have a consumer each in every queue that all of them match."""
RETIRED_SHIFT: Final = 3
"""Stopping deliveries to members costs one unit of the budget for 2 to this power."""
OFFERED_MASK: Final = 3
"""Offering a queue to one bundle more than this costs one unit; attaching costs more."""


def attach_all(core: Core, command: AttachAll) -> int | Refusal:
    """Begin a subscription to several queues; a refusal has changed nothing."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    parts = []
    for each in command.parts:
        named = with_address(core, each)
        if isinstance(named, Refusal):
            return named
        parts.append(named)
    command = msgspec.structs.replace(command, parts=parts)
    refusal = _check(core, command)
    if refusal is not None:
        return refusal
    template = command.parts[0]
    of_topic = any(routing_type_of(core, each) == MULTICAST for each in command.parts)
    matcher = core.filters.compile(template.filter, core.now, of_topic=of_topic)
    if isinstance(matcher, Refusal):
        return matcher
    fixed = [each for each in command.parts if not is_pattern(core, each)]
    patterns = tuple(each.address for each in command.parts if is_pattern(core, each))
    bundle = bundle_members.begin(core, connection, command.parts, patterns)
    bundle.queues_max = command.queues_max
    bundle.matcher = matcher
    for part in fixed:
        queue = queue_of(core, part, resolve(core, part))
        refusal = queue if isinstance(queue, Refusal) else check_queue_of(queue, part)
        if refusal is not None or isinstance(queue, Refusal):
            # Whatever the check did not foresee: what attached so far leaves again.
            _undo(core, bundle)
            return refusal or Refusal(
                Code.INVALID, "one of the destinations was refused; subscribe to each by itself"
            )
        begin_consuming(core, part, queue, matcher, bundle)
    if patterns:
        core.wildcard_subscriptions.add(bundle, core.state.settings.syntax)
    return bundle.id


def is_pattern(core: Core, part: Attach) -> bool:
    """Whether a part means the queues that match a pattern, and not one queue or topic."""
    is_named = part.queue is not None or part.durable_name is not None
    return (
        not is_named
        and part.routing_type == ANYCAST
        and core.state.settings.syntax.is_pattern(part.address)
    )


def _check(core: Core, command: AttachAll) -> Refusal | None:
    """Return why one of the parts would be refused, None if none would."""
    names: set[str] = set()
    types: dict[str, str] = {}
    planned = 0
    for each in command.parts:
        part = each
        if part.routing_type is None and part.address in types:
            # A part before makes the address, and so says whether it is a topic.
            part = msgspec.structs.replace(part, routing_type=types[part.address])
        refusal = _check_part(core, part)
        if refusal is not None:
            return refusal
        if is_pattern(core, part):
            continue
        if find_address(core, part.address) is None:
            types.setdefault(part.address, routing_type_of(core, part))
        name, is_new = name_of_queue(core, part, names)
        if name in names:
            return Refusal(
                Code.INVALID,
                f"two destinations of one subscription are the queue '{name}'; name it once",
            )
        if name:
            names.add(name)
        if is_new:
            refusal = quotas.check_queue(core, command.connection, planned)
            planned += 1
        if refusal is not None:
            return refusal
    return None


def _check_part(core: Core, part: Attach) -> Refusal | None:
    if part.durable_name is not None:
        return Refusal(
            Code.INVALID,
            f"the durable subscription '{part.durable_name}' has several destinations; make one for"
            " each topic, and subscribe to their queues together",
        )
    if part.from_sequence is not None:
        return Refusal(
            Code.INVALID,
            "sequence numbers are those of one destination: from-seq cannot be used with several,"
            " or with wildcards; subscribe to each queue by itself",
        )
    if not is_pattern(core, part):
        return check_attach(core, part)
    refusal = check_host(part, core.state.connections[part.connection])
    if refusal is not None:
        return refusal
    wrong = wrong_with_wildcards(plain(part.address), core.state.settings.syntax)
    if wrong is not None:
        return Refusal(Code.INVALID, f"{part.address!r} is not a pattern of queues: {wrong}")
    if part.no_local:
        return Refusal(
            Code.INVALID,
            "no-local is for subscriptions to topics; each message of a queue is for one consumer,"
            " and nobody else might take it",
        )
    return quotas.check_pattern(core, part.connection, part.address) or quotas.check_consumer(
        core, part.connection
    )


def _undo(core: Core, bundle: Bundle) -> None:
    for consumer in list(bundle.members.values()):
        detach_consumer(core, consumer, reasons.CLOSED)
    bundle_members.end(core, bundle)


def detach_all(core: Core, command: Detach, bundle: Bundle) -> int | Refusal:
    """End a subscription to several queues, as far as the budget allows."""
    if command.delete_durable:
        return Refusal(
            Code.NOT_ALLOWED,
            f"subscription '{bundle.subscription}' has several destinations, and is not durable;"
            " give the id of the durable subscription",
        )
    core.wildcard_subscriptions.remove(bundle)
    bundle.is_told = True
    if not all(each.detaching for each in bundle.members.values()):
        core.budget.spent += len(bundle.members) >> RETIRED_SHIFT
        for consumer in bundle.members.values():
            retire(core, consumer)
    for consumer in list(bundle.members.values()):
        if not detach_consumer(core, consumer, command.reason):
            return UNFINISHED
        if core.budget.is_spent and bundle.members:
            return UNFINISHED
    if bundle.is_open:
        bundle_members.end(core, bundle)
    return core.next_lsn - 1


def forget_all(core: Core, connection: Connection) -> None:
    """Let the subscriptions of a connection that closes find nothing more."""
    for bundle in connection.bundles.values():
        bundle_members.drop(core, bundle)


def credit(core: Core, command: Credit) -> int | Refusal:
    """Give a subscription to several queues more credit."""
    bundle = core.bundles.get(command.consumer)
    if bundle is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    if command.in_all >= 0 or command.drains:
        return Refusal(
            Code.INVALID,
            f"subscription '{bundle.subscription}' has several destinations, whose credit can be"
            " neither set nor drained; subscribe to each by itself",
        )
    bundle.grant(command.messages, command.bytes)
    for consumer in bundle.waiting.values():
        core.touch(consumer.queue)
        break
    return 0


# ---- queues that patterns find


def seek(core: Core) -> None:
    """Offer queues to the bundles whose patterns they match, until the budget is spent."""
    while core.wildcard_subscriptions.has_work:
        if core.budget.is_spent:
            return
        if not core.wildcard_subscriptions.offers:
            queue, bundles = core.wildcard_subscriptions.next(core.state, core.budget)
            if queue is None:
                for bundle in bundles:
                    _end_search(core, bundle)
                continue
            core.wildcard_subscriptions.offered = queue.id
            core.wildcard_subscriptions.offers = bundles
        _offer_all(core)


def _end_search(core: Core, bundle: Bundle) -> None:
    bundle.is_sought = False
    bundle_members.end_if_read(core, bundle)
    if bundle.is_told and not bundle.members and bundle.is_open:
        bundle_members.end(core, bundle)


def _offer_all(core: Core) -> None:
    """Offer a queue to one bundle after the other."""
    offers = core.wildcard_subscriptions.offers
    queue = core.state.queues.get(core.wildcard_subscriptions.offered)
    if queue is None or queue.deleting:
        offers.clear()
        return
    looked = 0
    while offers and not core.budget.is_spent:
        looked += 1
        if not looked & OFFERED_MASK:
            core.budget.spent += 1
        bundle = offers.pop()
        if not _offer(core, bundle, queue):
            offers.append(bundle)


def _offer(core: Core, bundle: Bundle, queue: Queue) -> bool:
    """Attach a bundle to a queue that it matches, unless there is a reason not to.

    Return whether that is done: it may have to leave the queue instead, which may take several
    turns.
    """
    if not bundle.is_open or bundle.is_told:
        return True
    user = bundle.connection.user
    template = cast("Attach", bundle.template)
    may = permission_checks.may_consume(core, user, queue, browses=template.browses)
    member = bundle.queues.get(queue.id)
    if member is not None:
        return may or not member.is_found or detach_consumer(core, member, reasons.LEFT_OUT)
    if not may:
        return True
    why = _why_short(core, bundle)
    if why:
        if not bundle.is_short:
            bundle.is_short = True
            core.notices.append(_short(bundle, why))
        return True
    part = msgspec.structs.replace(
        template, address=queue.address.name, queue=queue.name, routing_type=ANYCAST
    )
    if check_queue_of(queue, part) is None:
        consumer = begin_consuming(core, part, queue, bundle.matcher, bundle)
        bundle.found.add(consumer.id)
    return True


def _why_short(core: Core, bundle: Bundle) -> str:
    """Return why a bundle may not take from a further queue, "" if it may."""
    if len(bundle.found) >= bundle.queues_max:
        return f"it takes from {bundle.queues_max:,} queues at a time (max-wildcard-queues)"
    if len(bundle.connection.consumers) >= FOUND_MAX:
        return f"its connection has {FOUND_MAX:,} consumers, the most that wildcards may find"
    return "memory is short" if quotas.check_consumer(core, bundle.connection.id) else ""


def _short(bundle: Bundle, why: str) -> str:
    connection = bundle.connection
    return (
        f"subscription '{bundle.subscription}' of connection {connection.id} ({connection.peer},"
        f" user '{connection.user}') matches further queues, which wait: {why}"
    )


def leave(core: Core, queue: Queue) -> bool:
    """Detach the members that patterns found from a queue that is to be deleted; return whether
    that is done."""
    for consumer in [each for each in consumers_of(queue) if each.is_found]:
        if not detach_consumer(core, consumer, reasons.QUEUE_REMOVED):
            return False
    return True
