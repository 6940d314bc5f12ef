"""Deciding what becomes of names that the configuration listed once and lists no more (ADR 51).

A start and each reload look at them. Only names that came from the configuration are concerned, and
only where the settings of their address say FORCE; others stay. The work is done in slices. Must
never know where a configuration comes from.
"""

from typing import Final

from daybook.engine.commands import DropUnlisted
from daybook.engine.consumers.queue_removal import remove
from daybook.engine.core.core import Core
from daybook.engine.facts import reasons
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.refusals import UNFINISHED, Refusal
from daybook.engine.routing.divert_decisions import remove_divert
from daybook.engine.settings.lifetime_keys import FORCE
from daybook.engine.topology.topology import delete_address, is_unused

LOOK_SHIFT: Final = 3
"""Looking at names costs one unit of the budget for 2 to this power."""
DELETE_UNITS: Final = 2
NAMED_MAX: Final = 10
"""How many names a line of the log has."""


class Progress:
    """The names that are still to be looked at, the next one last, and what was decided so far."""

    def __init__(self, core: Core) -> None:
        self.first: Final = core.next_lsn
        self.addresses: Final = list(core.state.addresses)
        self.queues: Final = list(core.state.queues)
        self.diverts: Final = list(core.state.diverts)
        self.deleted: Final[list[str]] = []
        self.kept: Final[list[str]] = []


def drop_unlisted(core: Core, command: DropUnlisted) -> int | Refusal:
    """Delete diverts, queues and addresses, as many as the budget allows; the answer is
    UNFINISHED as long as some are left."""
    progress = command.progress
    if not isinstance(progress, Progress):
        progress = command.progress = Progress(core)
    is_done = (
        _drop_diverts(core, command, progress)
        and _drop_queues(core, command, progress)
        and _drop_addresses(core, command, progress)
    )
    if not is_done:
        return UNFINISHED
    _tell(core, "deleted, because the configuration lists them no more", progress.deleted)
    _tell(core, "the configuration lists these no more; they stay", progress.kept)
    return core.next_lsn - 1 if core.next_lsn > progress.first else 0


def _tell(core: Core, what: str, names: list[str]) -> None:
    if names:
        more = len(names) - NAMED_MAX
        others = f" and {more:,} others" if more > 0 else ""
        core.notices.append(f"{what}: {', '.join(names[:NAMED_MAX])}{others}")


def _drop_diverts(core: Core, command: DropUnlisted, progress: Progress) -> bool:
    """Delete diverts; return whether all of them were looked at."""
    names = progress.diverts
    while names and not core.budget.is_spent:
        core.budget.spent += 1
        name = names.pop()
        found = core.state.diverts.get(name)
        if found is None or not found.configuration_managed or name in command.diverts:
            continue
        shown = f"divert '{name}'"
        if core.state.settings.resolve(found.address).config_delete_diverts != FORCE:
            progress.kept.append(f"{shown} (config-delete-diverts)")
            continue
        remove_divert(core, name, reasons.CONFIGURATION)
        progress.deleted.append(shown)
    return not names


def _drop_queues(core: Core, command: DropUnlisted, progress: Progress) -> bool:
    """Delete queues; return whether all of them were looked at and are gone."""
    numbers = progress.queues
    looked = 0
    while numbers and not core.budget.is_spent:
        looked += 1
        if not looked & ((1 << LOOK_SHIFT) - 1):
            core.budget.spent += 1
        queue = core.state.queues.get(numbers[-1])
        if queue is not None and _is_unlisted(queue, command):
            shown = f"queue '{queue.name}'"
            address = queue.address.name
            settings = core.state.settings.resolve(address)
            if settings.config_delete_queues == FORCE or _goes(core, queue.address, command):
                _delete_queue(core, queue)
                progress.deleted.append(shown)
            elif not queue.deleting:
                progress.kept.append(f"{shown} (config-delete-queues)")
        numbers.pop()
    return not numbers


def _is_unlisted(queue: Queue, command: DropUnlisted) -> bool:
    return queue.definition.configuration_managed and queue.name not in command.queues


def _goes(core: Core, address: Address, command: DropUnlisted) -> bool:
    """Whether an address is deleted."""
    return (
        address.definition.configuration_managed
        and address.name not in command.addresses
        and core.state.settings.resolve(address.name).config_delete_addresses == FORCE
    )


def _drop_addresses(core: Core, command: DropUnlisted, progress: Progress) -> bool:
    """Delete addresses with their queues; return whether all were looked at and are gone."""
    numbers = progress.addresses
    looked = 0
    while numbers and not core.budget.is_spent:
        looked += 1
        if not looked & ((1 << LOOK_SHIFT) - 1):
            core.budget.spent += 1
        address = core.state.addresses.get(numbers[-1])
        if address is not None and _goes(core, address, command):
            for queue in address.queues():
                _delete_queue(core, queue)
            if address.id in core.state.addresses:
                if not is_unused(core, address):
                    # The events of queues that are being deleted name the address.
                    return False
                delete_address(core, address, reasons.CONFIGURATION, 0)
            core.budget.spent += DELETE_UNITS
            progress.deleted.append(f"address '{address.name}'")
        elif address is not None and _is_kept(address, command):
            progress.kept.append(f"address '{address.name}' (config-delete-addresses)")
        numbers.pop()
    return not numbers


def _is_kept(address: Address, command: DropUnlisted) -> bool:
    return address.definition.configuration_managed and address.name not in command.addresses


def _delete_queue(core: Core, queue: Queue) -> None:
    text = f"queue '{queue.name}' was deleted: the configuration lists it no more"
    remove(core, queue, reasons.CONFIGURATION, 0, text)
    core.budget.spent += DELETE_UNITS
