"""Deciding about consumers: attach, detach, durable and temporary subscriptions."""

from itertools import islice
from typing import Final

import msgspec

from daybook.engine.commands import Attach, Credit, Detach
from daybook.engine.consumers import sequences
from daybook.engine.consumers.attach_plan import (
    TO_AVAILABLE,
    TO_SUBSCRIPTION,
    TO_TOPIC,
    Plan,
    check_asking,
    check_own_queue,
    check_place,
    check_queue_of,
    resolve,
    routing_type_of,
)
from daybook.engine.core import permission_checks
from daybook.engine.core.core import Core
from daybook.engine.core.credit import grant
from daybook.engine.core.open_transactions import doom_transactions
from daybook.engine.core.residency import set_window, share_windows
from daybook.engine.effects import Detached, Settled
from daybook.engine.entries import dispatch_start
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.definitions import BEYOND_CONSUMERS, MULTICAST, QueueDefinition
from daybook.engine.facts.settlements import ack_mode_of
from daybook.engine.messages.message import PRIORITIES, Filter
from daybook.engine.queues.consumer import (
    BrowseState,
    Bundle,
    Consumer,
    InFlightIndex,
    consumers_of,
)
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.queues.recall import Start
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.settings.permissions import BROWSE, CONSUME
from daybook.engine.settling import drains
from daybook.engine.settling.delivery import wake
from daybook.engine.settling.settlement import give_all_back
from daybook.engine.state import group_rules
from daybook.engine.topology import bundle_members, durable_subscriptions, ownership, purges
from daybook.engine.topology.bundle_members import TEXT_SHIFT
from daybook.engine.topology.shown import forget_shown
from daybook.engine.topology.topology import (
    begin_deletion,
    create_queue,
    delete_queue,
    require_address,
    require_queue,
)

NEVER: Final = -(1 << 62)
"""The credit of a consumer that gets nothing more, whatever is returned to it."""

ATTACH_UNITS: Final = 15
"""What attaching a consumer costs, in units of the budget."""
DETACH_UNITS: Final = 20
"""What detaching a consumer costs, with the end of its queue."""
DETACH_LEAST: Final = 50
"""The least number of deliveries that return at each step of detaching a consumer."""
ENLISTED_SHIFT: Final = 5
"""Looking at 2 to this power enlisted deliveries costs one unit."""


def attach(core: Core, command: Attach) -> int | Refusal:
    """Attach a consumer to the queue that the command means."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    is_named = command.queue is not None or not command.filter
    of_topic = not is_named and routing_type_of(core, command) == MULTICAST
    matcher = core.filters.compile(command.filter, core.now, of_topic=of_topic)
    if isinstance(matcher, Refusal):
        return matcher
    named = with_address(core, command)
    if isinstance(named, Refusal):
        return named
    command = named
    plan = resolve(core, command)
    refusal = check_asking(core, command, connection, plan)
    if refusal is not None:
        return refusal
    queue = queue_of(core, command, plan)
    if isinstance(queue, Refusal):
        return queue
    refusal = check_queue_of(queue, command)
    stolen = _to_steal(queue) if command.steals else []
    refusal = refusal or _check_theft(core, command, stolen)
    if refusal is not None:
        return refusal
    for consumer in stolen:
        core.work.stolen[consumer.id] = (
            f"another link took over subscription '{command.durable_name}'"
        )
        retire(core, consumer)
    consumer_id = begin_consuming(core, command, queue, matcher).id
    if stolen:
        detach_stolen(core)
    return consumer_id


def _to_steal(queue: Queue) -> list[Consumer]:
    """Return the consumers whose place a new one takes."""
    return [each for each in consumers_of(queue) if not each.detaching]


def _check_theft(core: Core, command: Attach, stolen: list[Consumer]) -> Refusal | None:
    """Return why a client may not take a subscription over: it belongs to another user."""
    user = core.state.connections[command.connection].user
    if all(each.user == user for each in stolen):
        return None
    return Refusal(
        Code.NOT_ALLOWED,
        f"subscription '{command.durable_name}' is in use by a client of another user; take another"
        " name or client id",
    )


def detach_stolen(core: Core) -> bool:
    """Detach consumers whose subscription was taken over; return whether all are."""
    for consumer_id in list(core.work.stolen):
        consumer = core.state.consumers.get(consumer_id)
        if consumer is not None and not detach_consumer(core, consumer, reasons.STOLEN):
            return False
        core.work.stolen.pop(consumer_id, None)
    return True


def with_address(core: Core, command: Attach) -> Attach | Refusal:
    """Return a command with the address of its queue, if it names a queue alone."""
    if command.queue is None or command.address:
        return command
    permission = BROWSE if command.browses else CONSUME
    queue = permission_checks.named_alone(core, command.connection, permission, command.queue)
    if queue is None:
        return permission_checks.unknown(core, command.connection, permission, command.queue)
    return msgspec.structs.replace(command, address=queue.address.name, queue=queue.name)


def begin_consuming(
    core: Core,
    command: Attach,
    queue: Queue,
    matcher: Filter | None,
    bundle: Bundle | None = None,
) -> Consumer:
    """Attach a consumer to a queue, perhaps as a member of a bundle; everything was checked."""
    connection = core.state.connections[command.connection]
    # On multicast the queue itself has the filter: messages that it refuses are not routed there.
    own_filter = command.filter if queue.definition.filter != command.filter else ""
    consumer = _attach(core, command, queue, own_filter, bundle.id if bundle is not None else 0)
    consumer.matcher = sequences.filter_of(consumer, matcher if own_filter else None)
    if consumer.first:
        # Messages before it are passed unseen.
        consumer.passed = dict.fromkeys(range(PRIORITIES), consumer.first - 1)
        queue.has_passed = True
    consumer.receiver = command.receiver
    if command.settles_by_message:
        if connection.holders is None:
            connection.holders = {}
        consumer.index = InFlightIndex(connection.holders)
    if bundle is not None:
        bundle.join(consumer)
    share_windows(core.state)
    set_window(core.state, queue)
    core.touch(queue)
    if command.browses:
        consumer.browse = BrowseState(
            ends=not command.listens, in_sequence=command.from_sequence is not None
        )
        return consumer
    # Perhaps by a policy that this subscriber has just changed.
    core.owners.disown(queue.id)
    if queue.waits_since:
        dispatch_start.decide(core, queue)
    core.budget.spent += group_rules.units_of(queue)
    group_rules.joined(queue, consumer)
    if queue.definition.purge_on_no_consumers and len(queue.consumers) == 1:
        # It takes messages from here on.
        core.work.held_changed = True
    return consumer


def _attach(core: Core, command: Attach, queue: Queue, own_filter: str, bundle: int) -> Consumer:
    """Record the new consumer, maybe of a bundle, and give it its credit."""
    detail = details.ConsumerAttachedDetail(
        subscription=command.subscription,
        ack_mode=ack_mode_of(
            acknowledges=command.acknowledges, cumulative=command.cumulative
        ),
        filter=own_filter, priority=command.priority, exclusive=command.exclusive,
        browses=command.browses, first=sequences.first_of(core, command.from_sequence),
        traced=command.traced,
    )  # fmt: skip
    consumer_id = core.next_lsn
    core.budget.spent += len(own_filter) >> TEXT_SHIFT
    core.emit(
        events.row(
            events.CONSUMER_ATTACHED,
            address=queue.address.id, queue=queue.id, consumer=consumer_id,
            connection=command.connection, related=bundle, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip
    core.budget.spent += ATTACH_UNITS
    consumer = core.state.consumers[consumer_id]
    consumer.acknowledges = command.acknowledges
    consumer.credits_early = command.credits_early
    consumer.tells_retained = command.tells_retained
    consumer.session = command.session
    consumer.credit_policy = command.credit_policy
    consumer.credit_messages = command.credit_messages
    consumer.credit_bytes = command.credit_bytes
    return consumer


def queue_of(core: Core, command: Attach, plan: Plan) -> Queue | Refusal:
    """Return the queue to consume from, created on demand if the settings allow it."""
    refusal = check_place(core, command)
    if refusal is not None:
        return refusal
    if plan.way == TO_AVAILABLE and plan.queue is not None:
        return plan.queue
    if command.durable_name is not None and plan.way == TO_SUBSCRIPTION:
        return durable_subscriptions.require(core, command, command.durable_name, plan.queue)
    if plan.way == TO_TOPIC:
        return plan.queue if plan.queue is not None else _own_queue(core, command)
    start = Start(command.after, command.since)
    return require_queue(
        core, plan.name, command.address, plan.routing_type, command.connection, start
    )


def _own_queue(core: Core, command: Attach) -> Queue | Refusal:
    """Create the queue of a subscription that ends with its consumer."""
    refusal = check_own_queue(core, command)
    if refusal is not None:
        return refusal
    address = require_address(core, command.address, MULTICAST, command.connection)
    if isinstance(address, Refusal):
        return address
    if command.expiry_policy:
        # Another subscription takes the place of the one that had its name.
        ownership.delete_left(core, command.connection, command.subscription)
    name = f"{command.address}.sub-{core.next_lsn}"
    while name in core.state.queue_by_name:
        # A client gave a queue of its own a name of this form.
        name += "-"
    definition = QueueDefinition(
        name=name,
        routing_type=MULTICAST,
        filter=command.filter,
        durable=False,
        temporary=True,
        auto_created=True,
        owner=command.connection,
        no_local=command.no_local,
        expiry_policy=command.expiry_policy if command.expiry_policy in BEYOND_CONSUMERS else "",
    )
    start = Start(command.after, command.since)
    queue = create_queue(core, address, definition, command.connection, reasons.SUBSCRIPTION, start)
    if definition.outlives_consumers and command.subscription:
        core.owners.name(queue.id, command.connection, command.subscription)
    return queue


def detach(core: Core, command: Detach) -> int | Refusal:
    """Detach a consumer cleanly, and delete its durable subscription if asked to."""
    consumer = core.state.consumers.get(command.consumer)
    if consumer is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    queue = consumer.queue
    if command.delete_durable and not durable_subscriptions.is_one(queue):
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' is not a durable subscription; end it without deleting it",
        )
    if command.delete_durable and len(queue.consumers) > (not consumer.browses):
        return Refusal(
            Code.NOT_ALLOWED,
            f"the subscription's queue '{queue.name}' has other consumers; end them first",
        )
    refusal = (
        permission_checks.check_deletion(core, consumer.connection_id, queue)
        if command.delete_durable
        else None
    )
    if refusal is not None:
        return refusal
    if not detach_consumer(core, consumer, command.reason, closes=command.closes):
        return UNFINISHED
    if command.delete_durable and queue.id in core.state.queues and not queue.deleting:
        delete_queue(core, queue, reasons.SUBSCRIPTION, consumer.connection_id)
    return core.next_lsn - 1


FORCED: Final = frozenset((reasons.LEFT_OUT, reasons.QUEUE_REMOVED, reasons.STOLEN))
"""Reasons to detach a consumer that its client has no part in."""


def retire(core: Core, consumer: Consumer) -> None:
    """Stop delivering to a consumer that is being detached."""
    if not consumer.detaching:
        consumer.detaching = True
        drains.call_off(core, consumer)
        consumer.credit_messages = consumer.credit_bytes = NEVER
        core.budget.spent += len(consumer.enlisted) >> ENLISTED_SHIFT
        doom_transactions(consumer)


def detach_consumer(
    core: Core, consumer: Consumer, reason: int, text: str = "", *, closes: bool = False
) -> bool:
    """Return what a consumer has in flight, detach it, and delete a queue that existed for it.

    Return whether that is done; if not, a part of it is, and the function must be called again. For
    a reason that its client has no part in, `text` tells that why. One that was replaced ends for
    that reason, whatever comes before that is done. With `closes` no policy keeps that queue.
    """
    if consumer.id in core.work.stolen:
        reason, text = reasons.STOLEN, core.work.stolen[consumer.id]
    retire(core, consumer)
    queue = consumer.queue
    if consumer.bundle is not None and reason in FORCED:
        consumer.bundle.lose(consumer)
    is_last = len(queue.consumers) == 1 and not consumer.browses
    last_of_temporary = is_last and ends_with_consumer(core, consumer, closes=closes)
    is_removed = last_of_temporary or queue.deleting
    if last_of_temporary and len(consumer.unacked) > core.budget.left:
        begin_deletion(core, queue, reasons.UNUSED, consumer.connection_id)
    while consumer.shown:
        if not forget_shown(core, consumer, DETACH_LEAST) and core.budget.is_spent:
            return False
    while consumer.unacked:
        # The oldest first: others may take what is back while the rest is still to return.
        most = max(core.budget.left, DETACH_LEAST)
        chosen = list(islice(consumer.unacked.values(), most))
        core.budget.spent += len(chosen)
        if is_removed:
            for entry in chosen:
                _remove_in_flight(core, queue, entry)
        else:
            give_all_back(core, chosen, reason)
        if consumer.is_found and reason in FORCED:
            ended = tuple(entry.message.id for entry in chosen)
            core.effects.append(Settled(consumer, ended, reason, core.next_lsn - 1))
        if consumer.unacked and core.budget.is_spent:
            return False
    core.budget.spent += DETACH_UNITS
    core.budget.spent += group_rules.units_of(queue)
    core.emit(
        events.row(
            events.CONSUMER_DETACHED,
            reason=reason, address=queue.address.id, queue=queue.id, consumer=consumer.id,
            connection=consumer.connection_id, time=core.now,
        )
    )  # fmt: skip
    if reason in FORCED and not consumer.is_found:
        core.effects.append(Detached(consumer, reason, text, core.next_lsn - 1))
    # Another consumer may have the queue to itself now.
    core.touch(queue)
    if consumer.bundle is not None:
        bundle_members.left(core, consumer)
    _offer_place(core, queue)
    if consumer.connection.sated:
        wake(core, consumer.connection)
    share_windows(core.state)
    if last_of_temporary:
        delete_queue(core, queue, reasons.UNUSED, consumer.connection_id)
        return True
    purges.left(core, queue)
    if queue.definition.expiry_policy and not consumer.browses:
        ownership.consumer_left(core, queue, consumer)
    return True


def _offer_place(core: Core, queue: Queue) -> None:
    """Let a subscription with wildcards take the place of a consumer that left."""
    subscriptions = core.wildcard_subscriptions
    if subscriptions.count and queue.definition.max_consumers >= 0 and not queue.deleting:
        subscriptions.note(queue)


def ends_with_consumer(core: Core, consumer: Consumer, *, closes: bool) -> bool:
    """Whether a queue is deleted when its last consumer leaves: that of a subscription to a topic,
    unless its policy keeps it, and the consumer does not close it.

    The queue of a temporary destination stays until its owner ends.
    """
    definition = consumer.queue.definition
    if not definition.temporary:
        return closes and bool(definition.expiry_policy) and not definition.durable
    if definition.routing_type != MULTICAST or not definition.outlives_consumers:
        return definition.routing_type == MULTICAST
    return closes or consumer.connection_id in core.work.closing


def _remove_in_flight(core: Core, queue: Queue, entry: Entry) -> None:
    """Remove a delivery whose queue is about to be deleted, instead of returning it."""
    message = entry.message
    core.emit(
        events.row(
            events.REMOVED,
            reason=reasons.QUEUE_REMOVED, delivery_count=entry.delivery_count,
            address=queue.address.id, queue=queue.id, priority=message.priority,
            flags=message.flags, message=message.id, time=core.now,
        )
    )  # fmt: skip


def credit(core: Core, command: Credit) -> int | Refusal:
    """Give a consumer more credit, or drain it."""
    consumer = core.state.consumers.get(command.consumer)
    if consumer is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    if consumer.detaching:
        return 0
    refusal = grant(consumer, command)
    if refusal is not None:
        return refusal
    if command.drains:
        drains.begin(core, consumer)
    elif core.draining:
        drains.call_off(core, consumer)
    core.touch(consumer.queue)
    return 0
