"""Deciding a message for several destinations: it goes to all of them, or to none.

That is a transaction of one command, with the checks and the events of any other. A destination
that had the message before, by its duplicate id, drops it; the others get it. Must never know how
a transaction is carried out.
"""

from daybook.engine.commands import Send, SendToAll
from daybook.engine.consumers.transactions import COMPOSITE, are_judged, carry_out, check_all
from daybook.engine.core.core import Core
from daybook.engine.core.open_transactions import Transaction
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.engine.queues.queue import Address
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.routing.drops import drop_known
from daybook.engine.routing.send_plan import known_at


def send_to_all(core: Core, command: SendToAll) -> int | Refusal:
    """Send to all destinations; a refusal has changed nothing."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    known: list[tuple[Send, Address]] = []
    fresh: list[Send] = []
    for send in command.sends:
        address = known_at(core, send) if send.duplicate_id else None
        if address is None:
            fresh.append(send)
        else:
            known.append((send, address))
    transaction = Transaction(f"{COMPOSITE}{core.next_lsn}", connection.id, core.now)
    transaction.operations.extend(fresh)
    if not are_judged(core, transaction):
        return UNFINISHED
    refusal = _check_size(core, fresh) or check_all(core, transaction)
    if refusal is not None:
        return refusal
    lsn = 0
    for send, address in known:
        lsn = drop_known(core, send, address)
    if not fresh:
        return lsn
    for send in fresh:
        send.transaction = transaction.name
    return carry_out(core, transaction)


def _check_size(core: Core, sends: list[Send]) -> Refusal | None:
    """Return why a message is too big for so many destinations, None if it is not."""
    limit = core.options.max_transaction_bytes
    size = sum(MESSAGE_OVERHEAD_BYTES + len(each.headers) + len(each.body) for each in sends)
    if size <= limit:
        return None
    return Refusal(
        Code.LIMIT,
        f"the message would take {size} bytes at its {len(sends)} destinations, and {limit} are the"
        " most (max-transaction-bytes); send it to fewer at a time, or raise the limit",
    )
