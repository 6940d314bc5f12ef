"""Deciding what belongs to links, sessions and connections (ADR 102).

Temporary destinations belong to a link, a session or their connection; the queue of a subscription
that outlives its consumers belongs to the session or connection of the last one. Must never know
how owners end (`engine.consumers.owner_ends`).
"""

from daybook.engine.commands import NOTHING, Attach, CreateTemporary
from daybook.engine.core.core import Core
from daybook.engine.core.lifetime import is_over
from daybook.engine.core.owners import Owner
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST, BEYOND_CONSUMERS, SESSION_END
from daybook.engine.queues.consumer import Consumer
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.topology.temporary_names import TEMPORARIES_MAX, check_owner
from daybook.engine.topology.topology import (
    delete_queue,
    require_address,
    require_queue,
)


def create_temporary(core: Core, command: CreateTemporary) -> int | Refusal:
    """Create a temporary destination, and give it to its link or session."""
    name, connection = command.address, command.connection
    refusal = check_owner(core, name, connection)
    if refusal is not None:
        return refusal
    if name in core.state.address_by_name:
        return Refusal(
            Code.ALREADY_EXISTS,
            f"there is a temporary destination '{name}' already; give the new one another name",
        )
    if command.routing_type == ANYCAST:
        queue = require_queue(core, name, name, ANYCAST, connection)
        if isinstance(queue, Refusal):
            return queue
        address = queue.address
    else:
        found = require_address(core, name, command.routing_type, connection)
        if isinstance(found, Refusal):
            return found
        address = found
    if command.link or command.session:
        core.owners.own(Owner.of(connection, command.session, command.link), -address.id)
        if command.stays_with != NOTHING:
            core.owners.stays_with[address.id] = command.stays_with
    return core.next_lsn - 1


def consumer_left(core: Core, queue: Queue, consumer: Consumer) -> None:
    """Give the queue of a subscription with a policy to the session or connection that its last
    consumer was on; or delete it, if its time is over at once."""
    if queue.consumers or queue.deleting:
        return
    if queue.definition.temporary:
        _keep_left(core, queue, consumer)
    elif queue.definition.outlives_consumers:
        _own(core, queue, consumer)
    else:
        delete_if_over(core, queue, consumer.connection_id)


def _own(core: Core, queue: Queue, consumer: Consumer) -> None:
    is_session = queue.definition.expiry_policy == SESSION_END
    session = consumer.session if is_session else 0
    core.owners.own(Owner(consumer.connection_id, session), queue.id)


def _keep_left(core: Core, queue: Queue, consumer: Consumer) -> None:
    """Keep the queue of a topic's subscription until its owner ends, so that its client finds it
    again by the name of the subscription; instead of the one that it left before."""
    name = core.owners.name_of(queue.id)
    if name is not None:
        delete_left(core, *name)
        if core.owners.left_count(name[0]) >= TEMPORARIES_MAX:
            delete_queue(core, queue, reasons.UNUSED, consumer.connection_id)
            return
    _own(core, queue, consumer)
    if name is not None:
        core.owners.leave(queue.id)


def left_by(core: Core, command: Attach) -> Queue | None:
    """Return the queue that a subscription to a topic has left, if the command is for the same one
    again; None if there is none."""
    if command.expiry_policy not in BEYOND_CONSUMERS:
        return None
    number = core.owners.left_by(command.connection, command.subscription)
    queue = core.state.queues.get(number)
    if queue is None or queue.deleting or queue.address.name != command.address:
        return None
    found = queue.definition
    wanted = (command.expiry_policy, command.filter, command.no_local)
    return queue if wanted == (found.expiry_policy, found.filter, found.no_local) else None


def delete_left(core: Core, connection: int, subscription: str) -> None:
    """Delete the queue that a subscription to a topic has left, if there is one."""
    queue = core.state.queues.get(core.owners.left_by(connection, subscription))
    if queue is not None:
        delete_queue(core, queue, reasons.UNUSED, connection)


def delete_if_over(core: Core, queue: Queue, connection: int) -> None:
    """Delete the queue of a subscription if its time is over already."""
    settings = core.state.settings.resolve(queue.address.name)
    if is_over(queue, settings, core.now):
        delete_queue(core, queue, reasons.AUTO_DELETE, connection)
