"""Deciding the fate of queues and addresses when their owner ends (ADR 102).

An owner is a link, a session or a connection. Temporary destinations end with it, also if they have
consumers, and then their addresses (ADR 57). The queues of subscriptions that outlive their
consumers belong to the session or connection of the last one; when that ends, their time begins.
After a restart no connection is left, so nothing has an owner.

A temporary destination may stay without its owner while it has links or messages (part 3, 3.5.11 to
3.5.13 of AMQP 1.0): it then lingers, and ends with the last of them, or with its connection. When a
link of it ends that is looked at; that the last message has left is found by the scan for names
that nobody uses, so that no message costs a look.
"""

from typing import Final

from daybook.engine.commands import NOTHING, EndOwner
from daybook.engine.consumers.queue_removal import remove
from daybook.engine.core.core import Core
from daybook.engine.core.owners import Owned, Owner
from daybook.engine.facts import events, reasons
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.topology.ownership import delete_if_over
from daybook.engine.topology.topology import delete_if_useless, delete_queue

END_UNITS: Final = 10
"""The cost of ending something owned, in units of the budget, besides its messages."""


def end_owner(core: Core, command: EndOwner) -> int | Refusal:
    """End what a link or session owned, as far as the budget allows."""
    if not (command.session or command.link):
        return Refusal(Code.INVALID, "neither a session nor a link has ended; name one of them")
    owner = Owner.of(command.connection, command.session, command.link)
    return core.next_lsn - 1 if _end(core, owner) else UNFINISHED


def end_all(core: Core, connection: int) -> bool:
    """End all that a connection owns, with its sessions and links; it is closing and has no
    consumers.

    Return whether nothing is left to decide; messages of a queue that is being deleted may be.
    """
    core.owners.forget_targets(connection)
    if not _end(core, Owner(connection)):
        return False
    for address in list(core.state.temporaries.get(connection, {}).values()):
        _end_address(core, address, connection)
        core.budget.spent += END_UNITS
        if core.budget.is_spent and core.state.temporaries.get(connection):
            return False
    return True


def _end(core: Core, owner: Owner) -> bool:
    """End what an owner has; return whether that is done."""
    while owned := core.owners.first_of(owner):
        if core.budget.is_spent:
            return False
        core.owners.disown(owned)
        _end_one(core, owned, owner.connection)
        core.budget.spent += END_UNITS
    return True


def _end_one(core: Core, owned: Owned, connection: int) -> None:
    if owned < 0:
        address = core.state.addresses[-owned]
        if connection not in core.work.closing and is_kept(core, address):
            core.owners.lingering[address.id] = None
        else:
            _end_node(core, address, connection)
        return
    queue = core.state.queues[owned]
    if queue.definition.temporary:
        delete_queue(core, queue, reasons.UNUSED, connection)
        return
    core.emit(
        events.row(
            events.OWNER_ENDED,
            address=queue.address.id, queue=queue.id, connection=connection, time=core.now,
        )
    )  # fmt: skip
    delete_if_over(core, queue, connection)


def is_kept(core: Core, address: Address) -> bool:
    """Whether a temporary destination has what keeps it when its owner has ended."""
    wanted = core.owners.stays_with.get(address.id, NOTHING)
    queues = address.queues()
    if wanted.links and (
        address.id in core.owners.targets or any(queue.consumers for queue in queues)
    ):
        return True
    return wanted.messages and any(queue.message_count for queue in queues)


def link_ended(core: Core, address: int) -> None:
    """Look at an address of which a link has ended."""
    if address in core.owners.lingering:
        found = core.state.addresses[address]
        if not is_kept(core, found):
            _end_node(core, found, found.owner)


def end_lingering(core: Core) -> None:
    """End the temporary destinations that nothing keeps any more, as far as the budget allows."""
    lingering = core.owners.lingering
    for address in list(lingering):
        if core.budget.is_spent:
            return
        core.budget.spent += 1
        # What stays is behind those that are still to be looked at.
        lingering[address] = lingering.pop(address)
        link_ended(core, address)


def _end_node(core: Core, address: Address, connection: int) -> None:
    core.owners.lingering.pop(address.id, None)
    core.owners.ended.add(address.id)
    _end_address(core, address, connection)


def _end_address(core: Core, address: Address, connection: int) -> None:
    """Delete a temporary destination, with its queues."""
    text = f"the temporary destination '{address.name}' ended with its owner"
    for queue in address.queues():
        remove(core, queue, reasons.UNUSED, connection, text)
    if address.id in core.state.addresses:
        delete_if_useless(core, address, connection)
