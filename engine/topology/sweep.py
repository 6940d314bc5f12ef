"""Deleting queues and addresses that nobody uses any more, by a scan in slices (ADR 46).

`engine.core.lifetime` says which of them go. A scan looks at the names that exist when it begins,
first the queues, then the addresses, which may have lost their last queue by then. Names that it
did not reach before the broker ended are left to the first scan after the next start.
"""

from typing import Final

from daybook.engine.commands import DeleteUnused
from daybook.engine.core.core import Core
from daybook.engine.core.lifetime import is_address_over, is_over, may_go
from daybook.engine.entries import retained_messages
from daybook.engine.entries.arrivals import let_enter, scanned
from daybook.engine.facts import reasons
from daybook.engine.topology.topology import delete_address, delete_queue, is_unused

LOOK_SHIFT: Final = 4
"""Looking at names costs one unit for 2 to this power."""
DELETE_UNITS: Final = 3
"""The cost of a deletion besides the removal of messages, in units of the budget."""


def delete_unused(core: Core, command: DeleteUnused) -> int:
    """Do a slice of the scan under way, or of a new one; `Broker.scans_names` says whether more is
    to do."""
    if not core.work.names_to_scan:
        # The last is looked at first: queues before addresses.
        core.work.names_to_scan = [-number for number in core.state.addresses]
        core.work.names_to_scan += core.state.queues
    names = core.work.names_to_scan
    looked = 0
    while names and not core.budget.is_spent:
        number = names.pop()
        looked += 1
        if not looked & ((1 << LOOK_SHIFT) - 1):
            core.budget.spent += 1
        if number > 0:
            _look_at_queue(core, number)
        else:
            _look_at_address(core, -number)
    return 0


def _look_at_queue(core: Core, number: int) -> None:
    queue = scanned(core, number)
    # Finding the settings of a name is most of the work.
    if queue is None or not may_go(queue):
        return
    settings = core.state.settings.resolve(queue.address.name)
    if is_over(queue, settings, core.now):
        core.budget.spent += DELETE_UNITS
        delete_queue(core, queue, reasons.AUTO_DELETE, 0)


def _look_at_address(core: Core, number: int) -> None:
    address = core.state.addresses.get(number)
    if address is None or not is_unused(core, address):
        return
    if core.state.arrivals:
        if number in core.state.arrivals:
            # It is used, and what it keeps for queues to come may be on its way.
            return
        let_enter(core, address.histories.values())
    settings = core.state.settings.resolve(address.name)
    if not is_address_over(address, settings, core.now):
        return
    # Looked up last, because that may cost a look into the index.
    if not retained_messages.retained_at(core.state, address):
        core.budget.spent += DELETE_UNITS
        delete_address(core, address, reasons.AUTO_DELETE, 0)
