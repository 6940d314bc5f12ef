"""Deciding transactions: buffered until commit, then one indivisible group of events.

Nothing of an open transaction is in the journal or in the logical state. The deliveries that it
settles are *enlisted* in it: they stay in flight, and cannot be settled again meanwhile. Commit
checks everything before the first event.

The weight of all open transactions is bounded (`max-transactions-memory`), and so is the time that
each stays open (`transaction-timeout`). A transaction that the broker rolls back for that is kept,
empty, so that its client's next command gets the reason.
"""

from typing import Final, TypeAlias

from daybook.engine.commands import Begin, Commit, ExpireTransactions, Rollback, Send, Settle
from daybook.engine.core import capacity, quotas
from daybook.engine.core.core import Core
from daybook.engine.core.open_transactions import (
    SEND_WEIGHT,
    SETTLEMENT_WEIGHT,
    TRANSACTION_WEIGHT,
    Operation,
    Transaction,
)
from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.settlements import ACCEPTED, OUTCOMES
from daybook.engine.limits.pools import MEMORY_CONNECTION_PART, MEMORY_USER_PART
from daybook.engine.limits.waiting_senders import sender_of
from daybook.engine.messages.annotations import packed
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.engine.queues.consumer import Connection, as_consumer
from daybook.engine.queues.id_cache import key_of
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.routing import duplicates
from daybook.engine.routing.filter_questions import is_judged
from daybook.engine.routing.routing import send
from daybook.engine.routing.send_plan import (
    Plan,
    check,
    check_send,
    check_values,
    copied_to,
    matching,
    queue_needed,
    resolve,
    target_of,
    targets_of,
)
from daybook.engine.settling.settlement import (
    acknowledge_entry,
    check_annotations,
    delist,
    enlist,
    give_all_back,
    restore_credit,
    said_by,
    select,
    unless_lost,
)
from daybook.engine.topology.temporary_names import is_lost

ROLLED_BACK_PART: Final = 8
"""This part of the limit is freed beyond what is needed."""
RECIPIENTS_SHIFT: Final = 4
"""Two to this power of subscriptions to a topic take as long in a commit as an entry of a queue."""
JUDGED_SHIFT: Final = 4
"""Finding that no filter must be asked about messages costs one unit for 2 to this power."""
COMPOSITE: Final = "composite-"
"""How the names of transactions begin that are one message for several destinations."""
CHUNK_OVERHEAD_BYTES: Final = 64
"""The weight of a chunk of a large message in a transaction."""


def begin(core: Core, command: Begin) -> int | Refusal:
    """Open a transaction."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    if command.transaction in connection.transactions:
        return Refusal(
            Code.ALREADY_EXISTS,
            f"transaction '{command.transaction}' is open already; give the new one another id",
        )
    limit = core.options.max_open_transactions
    if len(connection.transactions) >= limit:
        return Refusal(
            Code.LIMIT,
            f"this connection has {limit} open transactions (max-open-transactions); commit or "
            "abort some",
        )
    transaction = Transaction(command.transaction, connection.id, core.now, connection.user)
    weight = TRANSACTION_WEIGHT + len(command.transaction)
    refusal = _find_memory(core, transaction, weight)
    if refusal is not None:
        return refusal
    core.transactions.add(transaction)
    connection.transactions[command.transaction] = transaction
    return 0


def find(core: Core, connection_id: int, name: str) -> Transaction | Refusal:
    """Return an open transaction of a connection."""
    connection = core.state.connections.get(connection_id)
    transaction = connection.transactions.get(name) if connection is not None else None
    if not isinstance(transaction, Transaction):
        return Refusal(
            Code.NOT_FOUND,
            f"there is no open transaction '{name}' on this connection; begin it first",
        )
    return transaction


def add_send(core: Core, command: Send) -> int | Refusal:
    """Add a message to a transaction."""
    transaction = find(core, command.connection, command.transaction or "")
    if isinstance(transaction, Refusal):
        return transaction
    refusal = check_open(transaction) or check_send(core, command)
    if refusal is not None:
        return refusal
    limit = core.options.max_transaction_bytes
    # The overhead counts too, or endless empty messages would weigh nothing. For a large body only
    # the list of its chunks counts: the body is in the journal already.
    weight = transaction.bytes + len(command.headers) + len(command.body) + MESSAGE_OVERHEAD_BYTES
    weight += CHUNK_OVERHEAD_BYTES * len(command.chunks)
    if weight > limit:
        return Refusal(
            Code.LIMIT,
            f"transaction '{transaction.name}' holds more than {limit} bytes "
            "(max-transaction-bytes); commit more often, or raise the limit",
        )
    growth = weight - transaction.bytes + SEND_WEIGHT - MESSAGE_OVERHEAD_BYTES
    entries = transaction.entries + _entries_of(core, command)
    if entries > core.options.max_transaction_entries and transaction.entries:
        return _too_many(core, transaction)
    refusal = _find_memory(core, transaction, growth)
    if refusal is not None:
        return refusal
    transaction.bytes = weight
    transaction.entries = entries
    core.transactions.grow(transaction, growth)
    transaction.operations.append(command)
    return 0


def _entries_of(core: Core, command: Send) -> int:
    """Return as how many entries of queues a message counts: where it enters the queues of a topic
    in slices (`engine.entries.arrivals`), one for each few of them."""
    if command.queue is not None:
        return 1
    address = core.state.address_by_name.get(command.address)
    several = len(address.multicast) if address is not None else 0
    several += sum(len(each.multicast) for each in matching(core, command, address))
    messages = 1
    for name in core.diverts.reached(core.diverts.of(command.address)):
        messages += 1
        target = core.state.address_by_name.get(name)
        several += len(target.multicast) if target is not None else 0
    is_divided = not (command.chunks or core.state.keyed)
    return messages + (several >> RECIPIENTS_SHIFT if is_divided else several)


def _too_many(core: Core, transaction: Transaction) -> Refusal:
    is_composite = transaction.name.startswith(COMPOSITE)
    subject = "the message" if is_composite else f"transaction '{transaction.name}'"
    remedy = "send it to fewer destinations" if is_composite else "commit more often"
    return Refusal(
        Code.LIMIT,
        f"{subject} would settle or send more than {core.options.max_transaction_entries} messages"
        f" at once, where one to a topic counts again for each {1 << RECIPIENTS_SHIFT}"
        f" subscriptions (max-transaction-entries); {remedy}, or raise the limit",
    )


def add_settlement(core: Core, command: Settle) -> int | Refusal:
    """Add a settlement to a transaction, which holds its deliveries from here on."""
    consumer = core.state.consumers.get(command.consumer)
    owner = consumer if consumer is not None else core.bundles.get(command.consumer)
    if owner is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    transaction = find(core, owner.connection.id, command.transaction or "")
    if isinstance(transaction, Refusal):
        return transaction
    room = core.options.max_transaction_entries - transaction.entries
    chosen = select(core, consumer, command, room)
    if isinstance(chosen, Refusal):
        return unless_lost(core, command, chosen)
    if len(chosen) > room or chosen[-1].message.id != command.message:
        return _too_many(core, transaction)
    refusal = check_annotations(command, chosen)
    if refusal is not None:
        return refusal
    growth = SETTLEMENT_WEIGHT * (1 + len(chosen)) + len(command.error) + len(command.condition)
    growth += len(packed(command.annotations))
    refusal = check_open(transaction) or _find_memory(core, transaction, growth)
    if refusal is not None:
        return refusal
    transaction.entries += len(chosen)
    core.transactions.grow(transaction, growth)
    owners = [as_consumer(entry.consumer) for entry in chosen if entry.consumer is not None]
    for consumer, entry in zip(owners, chosen, strict=True):
        enlist(consumer, entry, transaction.name)
        consumer.attempted.add(entry.message.id)
        is_early = consumer.credits_early and command.outcome == ACCEPTED
        if is_early and entry.message.id not in consumer.credited:
            if consumer.bundle is not None:
                consumer.bundle.restore(entry.message.body_bytes)
            restore_credit(consumer, entry)
            consumer.credited.add(entry.message.id)
        core.touch(consumer.queue)
    position = len(transaction.operations)
    transaction.settled[position] = (owners[-1], chosen)
    if owners[-1].bundle is not None:
        transaction.owners[position] = owners
    transaction.operations.append(command)
    return 0


def commit(core: Core, command: Commit) -> int | Refusal:
    """Carry out a whole transaction; if it is refused, it is rolled back, unless it is only
    blocked."""
    transaction = find(core, command.connection, command.transaction)
    if isinstance(transaction, Refusal):
        return transaction
    connection = core.state.connections[command.connection]
    if transaction.ended:
        del connection.transactions[transaction.name]
        return _refuse_doomed(transaction)
    if not are_judged(core, transaction):
        return UNFINISHED
    core.budget.spent += transaction.entries
    transaction.sender = sender_of(command)
    refusal = check_all(core, transaction)
    if refusal is not None:
        if refusal.code is not Code.BLOCKED:
            end(core, connection, transaction, reasons.COMMIT_REFUSED, refusal.text)
        return refusal
    del connection.transactions[transaction.name]
    core.transactions.remove(transaction)
    return carry_out(core, transaction)


def are_judged(core: Core, transaction: Transaction) -> bool:
    """Ask filters about the messages of a transaction, as far as the budget allows; return whether
    all have answered, so that it can be carried out in one step."""
    sends = 0
    for each in transaction.operations:
        if isinstance(each, Send):
            sends += 1
            if not is_judged(core, each, core.state.address_by_name.get(each.address)):
                return False
    core.budget.spent += sends >> JUDGED_SHIFT
    return True


def check_all(core: Core, transaction: Transaction) -> Refusal | None:
    """Return why a transaction cannot be carried out, None if it can."""
    refusal = _check(core, transaction)
    if refusal is not None:
        return refusal
    targets: capacity.Targets = {}
    for each in _to_check(core, transaction):
        targets |= targets_of(core, each)
    return capacity.check(core, transaction.sender, targets, in_turn=False)


def carry_out(core: Core, transaction: Transaction) -> int:
    """Carry out a transaction that `check_all` allowed, as one group of events."""
    for consumer, entry in transaction.settlements():
        consumer.enlisted.pop(entry.message.id, None)
    first = core.next_lsn
    # The broker's own queues, such as those of histories, come on top of what a limit allows.
    core.is_checked = True
    try:
        for position, operation in enumerate(transaction.operations):
            _carry_out(core, transaction, position, operation)
    finally:
        core.is_checked = False
    detail = details.TransactionDetail(
        transaction=transaction.name, first=first, events=core.next_lsn - first
    )
    return core.emit(
        events.row(events.TRANSACTION_COMMITTED, connection=transaction.connection, time=core.now),
        events.encode_detail(detail),
    )


def _check(core: Core, transaction: Transaction) -> Refusal | None:
    if transaction.doomed:
        return _refuse_doomed(transaction)
    settled = sum(len(entries) for _, entries in transaction.settled.values())
    made = sum(count * _entries_of(core, send) for send, count in _kinds(transaction).values())
    is_more = len(transaction.operations) > 1
    if settled + made > core.options.max_transaction_entries and is_more:
        return _too_many(core, transaction)
    # Addresses, by name, of queues that earlier operations would create: `check` looks at the
    # state before the commit and cannot know them.
    planned: dict[str, str] = {}
    created: set[str] = set()
    ids: set[tuple[str, bytes]] = set()
    seen: set[_Kind] = set()
    for operation in transaction.operations:
        if isinstance(operation, Send):
            refusal: Refusal | None = None
            kind = _kind(operation)
            if kind not in seen:
                seen.add(kind)
                plan = resolve(core, operation)
                refusal = (
                    check_values(core, operation)
                    or check(core, operation, plan)
                    or _check_planned(core, planned, operation, plan)
                    or _check_created(core, created, operation)
                )
            if refusal is None and operation.duplicate_id:
                refusal = _check_id(core, transaction.name, ids, operation)
            if refusal is not None:
                return refusal
    return None


_Kind: TypeAlias = tuple[str, str | None, str | None]
"""What decides whether a send can be routed, except priority and expiry: these were checked when
the send was added, and do not change."""


def _kind(send: Send) -> _Kind:
    return send.address, send.queue, send.routing_type


def _kinds(transaction: Transaction) -> dict[_Kind, tuple[Send, int]]:
    """Return the first send of each kind in a transaction, and how many there are of it."""
    found: dict[_Kind, tuple[Send, int]] = {}
    for operation in transaction.operations:
        if isinstance(operation, Send):
            kind = _kind(operation)
            first, count = found.get(kind, (operation, 0))
            found[kind] = first, count + 1
    return found


def _to_check(core: Core, transaction: Transaction) -> list[Send]:
    """Return sends whose targets are those of all; diverts choose by the headers of each."""
    if not core.diverts.count:
        return [send_of_kind for send_of_kind, _ in _kinds(transaction).values()]
    return [each for each in transaction.operations if isinstance(each, Send)]


def _check_planned(
    core: Core, planned: dict[str, str], command: Send, plan: Plan
) -> Refusal | None:
    """Refuse a send that needs a queue which an operation before it creates on another address."""
    needed = queue_needed(command, plan)
    if core.diverts.count:
        # A copy may create the queue of its address, and does without one that it cannot create.
        for target in copied_to(core, command):
            if target not in core.state.queue_by_name:
                planned.setdefault(target, target)
    if needed is None:
        return None
    name, address = needed
    other = planned.setdefault(name, address)
    if other == address:
        return quotas.check_queue(core, command.connection, len(planned) - 1)
    return Refusal(
        Code.ALREADY_EXISTS,
        f"queue '{name}' would be created on address '{other}' and on '{address}' in one "
        "transaction; a queue's name is unique in the broker",
    )


def _check_created(core: Core, created: set[str], command: Send) -> Refusal | None:
    """Refuse a send whose address is one too many, with those that operations before it create."""
    name, address = target_of(core, command)
    if address is not None or name in created or is_lost(name, command.connection):
        return None
    refusal = quotas.check_address(core, command.connection, planned=len(created))
    created.add(name)
    return refusal


def _check_id(
    core: Core, transaction: str, ids: set[tuple[str, bytes]], command: Send
) -> Refusal | None:
    """Refuse a send whose id its address had before, or has from an earlier send of the
    transaction."""
    name, address = target_of(core, command)
    key = key_of(command.duplicate_id)
    if not core.state.settings.resolve(name).id_cache_size:
        return None
    refusal = quotas.check_id(core, name, address)
    if refusal is not None:
        return refusal
    if address is not None and duplicates.is_known(address, key):
        return duplicates.refuse(name, command.duplicate_id, transaction)
    if (name, key) in ids:
        return duplicates.refuse_twice(name, command.duplicate_id, transaction)
    ids.add((name, key))
    return None


def _carry_out(core: Core, transaction: Transaction, position: int, operation: Operation) -> None:
    if isinstance(operation, Send):
        answer = send(core, operation)
        if isinstance(answer, Refusal):
            raise AssertionError(f"refused after it was checked: {answer.text}")
        return
    _, entries = transaction.settled[position]
    if operation.outcome != ACCEPTED:
        give_all_back(core, entries, OUTCOMES[operation.outcome], said_by(operation))
        return
    for entry in entries:
        acknowledge_entry(core, entry)


def first_chunk(core: Core) -> int:
    """Return the LSN of the oldest chunk that an open transaction refers to, 0 for none."""
    firsts = [
        operation.chunks[0]
        for connection in core.state.connections.values()
        for transaction in connection.transactions.values()
        for operation in transaction.operations
        if isinstance(operation, Send) and operation.chunks
    ]
    return min(firsts, default=0)


def _release(transaction: Transaction) -> None:
    """Make the deliveries that a transaction settles settleable again."""
    for consumer, entry in transaction.settlements():
        delist(consumer, entry)


def rollback(core: Core, command: Rollback) -> int | Refusal:
    """Discard a transaction at the request of its client."""
    transaction = find(core, command.connection, command.transaction)
    if isinstance(transaction, Refusal):
        return transaction
    connection = core.state.connections[command.connection]
    if transaction.ended:
        del connection.transactions[transaction.name]
        # The receipt says that nothing is left, which another event says on the disk.
        return transaction.ended
    return end(core, connection, transaction, reasons.ROLLBACK, "")


def end(
    core: Core, connection: Connection, transaction: Transaction, reason: int, text: str
) -> int:
    """Roll back: the messages stay as they are, and its deliveries can be settled again."""
    core.room.waiting.leave(transaction.sender)
    del connection.transactions[transaction.name]
    return 0 if transaction.ended else _roll_back(core, transaction, reason, text)


def _roll_back(core: Core, transaction: Transaction, reason: int, text: str) -> int:
    core.budget.spent += transaction.entries >> 2
    _release(transaction)
    core.transactions.remove(transaction)
    detail = details.TransactionDetail(transaction=transaction.name, text=text)
    return core.emit(
        events.row(
            events.TRANSACTION_ROLLED_BACK,
            reason=reason,
            connection=transaction.connection,
            time=core.now,
        ),
        events.encode_detail(detail),
    )


# ---- rolled back by the broker


def give_up(core: Core, transaction: Transaction, why: str) -> None:
    """Roll back a transaction without a command; its client learns of it at its next command."""
    transaction.ended = _roll_back(core, transaction, reasons.LIMIT, why)
    transaction.doomed = why
    transaction.operations = []
    transaction.settled = {}
    transaction.owners = {}
    transaction.bytes = 0
    core.room.waiting.leave(transaction.sender)
    connection = core.state.connections[transaction.connection]
    core.notices.append(
        f"transaction '{transaction.name}' of connection {connection.id} ({connection.peer}, user "
        f"'{connection.user}') is rolled back: {why}"
    )


def expire(core: Core, command: ExpireTransactions) -> int:
    """Roll back the transactions that have been open for too long."""
    for transaction in core.transactions.begun_before(core.now - command.timeout_us):
        seconds = command.timeout_us / 1_000_000
        give_up(
            core,
            transaction,
            f"it was open for more than {seconds:g} seconds (transaction-timeout)",
        )
    return 0


def _refuse_doomed(transaction: Transaction) -> Refusal:
    return Refusal(
        Code.INVALID,
        f"transaction '{transaction.name}' cannot be committed: {transaction.doomed};"
        " repeat it in a new one",
    )


def check_open(transaction: Transaction) -> Refusal | None:
    """Return why nothing can be added to a transaction that the broker rolled back; else None."""
    if not transaction.ended:
        return None
    return Refusal(
        Code.INVALID,
        f"transaction '{transaction.name}' takes nothing more: {transaction.doomed}; begin another",
    )


def _find_memory(core: Core, transaction: Transaction, growth: int) -> Refusal | None:
    """Make room for an open transaction to grow, or refuse it.

    All transactions together have a limit, those of a user and of a connection a share of it.
    """
    limit = core.options.max_transactions_memory
    if limit <= 0:
        return None
    weights = core.transactions
    of_connection, of_user = weights.charges.of(transaction.user, transaction.connection)
    share = limit // MEMORY_CONNECTION_PART
    if of_connection + growth > share:
        return Refusal(
            Code.LIMIT,
            f"the open transactions of this connection would take more than {share} bytes of "
            "memory, its part of max-transactions-memory; commit more often, or raise that",
        )
    share = limit // MEMORY_USER_PART
    if of_user + growth > share:
        why = (
            f"the open transactions of user '{transaction.user}' would take more than {share} "
            "bytes of memory, its part of max-transactions-memory"
        )
        of_others = weights.of_user(transaction.user)
        refusal = _roll_back_heavier(core, transaction, of_others, of_user + growth - share, why)
        if refusal is not None:
            return refusal
    excess = weights.weight + growth - limit
    if excess <= 0:
        return None
    return _roll_back_heavier(core, transaction, weights.by_connection(), excess, _short(limit))


def _roll_back_heavier(
    core: Core, transaction: Transaction, weights: dict[int, int], excess: int, why: str
) -> Refusal | None:
    """Roll back transactions of connections that hold more than the one that asks, the heaviest
    first, until the excess is gone and as much again: so finding them costs little.

    If the asking connection holds the most itself, it is refused. `weights` are those of the
    connections that share the limit.
    """
    own = weights.pop(transaction.connection, 0)
    heavier = {number: weight for number, weight in weights.items() if weight > own}
    if sum(heavier.values()) < excess:
        return Refusal(
            Code.LIMIT,
            f"{why}, and this connection holds the most of them; commit more often, or raise "
            "max-transactions-memory",
        )
    before = core.transactions.weight
    enough = excess + core.options.max_transactions_memory // ROLLED_BACK_PART
    for connection in sorted(heavier, key=heavier.__getitem__, reverse=True):
        for other in core.transactions.of_connection(connection):
            give_up(core, other, why)
            if before - core.transactions.weight >= enough:
                return None
    return None


def _short(limit: int) -> str:
    return (
        f"all open transactions together would take more than {limit} bytes of memory "
        "(max-transactions-memory)"
    )
