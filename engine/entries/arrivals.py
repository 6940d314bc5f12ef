"""Messages on their way into very many queues: decided by one event, entered in slices (ADR 89).

Routed lists all queues, and every fold puts the message into all of them at once. The live broker
puts it into some of them in each turn, because everybody would wait for one step of ten thousand
queues. In between the live state differs from the fold, but only in queues that nobody has looked
at since: a command about other queues passes, one about a queue, or a scan that comes to it, lets
the message enter that queue first, and every other command waits until the messages are everywhere.

Must never know why a message goes to these queues.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from daybook.engine.commands import (
    AcceptAll,
    Attach,
    AttachAll,
    AttachSender,
    Begin,
    Chunk,
    Command,
    Commit,
    CreateTemporary,
    Credit,
    DeleteUnused,
    DeliverDue,
    Detach,
    DetachSender,
    EndOwner,
    ExpireDue,
    OpenConnection,
    RecordDenial,
    RefuseConnection,
    Room,
    Send,
    SendToAll,
    Settle,
    SettleSent,
)
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.queues.arrival import Arrival
from daybook.engine.queues.queue import Queue
from daybook.engine.state.apply import enter

if TYPE_CHECKING:
    from daybook.engine.core.core import Core

LOOK_SHIFT: Final = 6
"""Looking whether messages are on their way to a queue costs one unit for 2 to this power."""

DUE_UNITS: Final = 3
"""The cost of setting aside a message that enters a queue, with its timer."""

_PASS: Final = frozenset((
    AttachSender, Begin, Chunk, DetachSender, OpenConnection, RecordDenial, RefuseConnection, Room,
    DeleteUnused, DeliverDue, ExpireDue, SettleSent,
))  # fmt: skip
"""Commands that look into no queue; and scans, which let messages enter one first (`scanned`)."""
_WAIT: Final = frozenset((
    AcceptAll, Attach, AttachAll, Commit, CreateTemporary, Credit, Detach, EndOwner, Send,
    SendToAll, Settle,
))  # fmt: skip
"""Commands that a session gives again when they are answered UNFINISHED."""


def may_pass(core: "Core", command: Command) -> bool:
    """Whether a command may be carried out while messages are on their way: it does not notice, or
    they have arrived everywhere now. Otherwise it must be given again."""
    kind = type(command)
    if kind in _PASS or (isinstance(command, Send) and _goes_elsewhere(core, command)):
        return True
    if isinstance(command, Credit | Detach | Settle | AcceptAll):
        if command.consumer in core.direct.receivers:
            return True
        consumer = core.state.consumers.get(command.consumer)
        if consumer is not None and consumer.bundle is None:
            let_enter(core, (consumer.queue,))
            return True
    if kind in _WAIT:
        go_on(core)
    else:
        finish(core)
    return not core.state.arrivals


def _goes_elsewhere(core: "Core", command: Send) -> bool:
    """Whether a message cannot get into a queue that another one is on its way to."""
    if command.transaction is not None:
        return True
    if core.wildcards.count or core.diverts.count:
        return False
    address = core.state.address_by_name.get(command.address)
    return address is None or address.id not in core.state.arrivals


def let_enter(core: "Core", queues: Iterable[Queue], but: int = 0) -> None:
    """Let what is on its way into these queues enter them now, the oldest first; but not what was
    sent to the address with this id, which keeps the order of its own."""
    ways = [each for address, each in core.state.arrivals.items() if address != but]
    for queue in queues if ways else ():
        for arrivals in ways:
            core.budget.spent += len(arrivals) >> LOOK_SHIFT
            for arrival in arrivals:
                if arrival.left.pop(queue.id, None) is not None:
                    _enter(core, arrival, queue)


def scanned(core: "Core", number: int) -> Queue | None:
    """Return the queue with an id that a scan comes to, with what is on its way to it; None if it
    is gone."""
    queue = core.state.queues.get(number)
    if queue is not None and core.state.arrivals:
        let_enter(core, (queue,))
    return queue


def go_on(core: "Core") -> None:
    """Let messages enter more of their queues, the oldest first, until the budget is spent."""
    _arrive(core, core.budget.limit)


def finish(core: "Core") -> None:
    """Let all messages enter all of their queues, whatever that takes."""
    _arrive(core, NO_LIMIT)


def _arrive(core: "Core", limit: int) -> None:
    state, budget = core.state, core.budget
    for address, arrivals in list(state.arrivals.items()):
        while arrivals:
            left = arrivals[0].left
            while left and budget.spent < limit:
                _enter(core, arrivals[0], left.popitem()[1])
            if left:
                # Behind those of other addresses.
                state.arrivals[address] = state.arrivals.pop(address)
                return
            arrivals.popleft()
        del state.arrivals[address]


def _enter(core: "Core", arrival: Arrival, queue: Queue) -> None:
    arrival.note_entered(queue)
    enter(core.state, arrival.lsn, queue, arrival.message, arrival.due)
    core.touch(queue)
    core.budget.spent += DUE_UNITS if arrival.due else 1
