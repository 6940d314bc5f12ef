"""Deciding transactions: buffered until commit, then one indivisible group of events.

Nothing of an open transaction is in the journal or in the logical state; what it settles is *held*:
still in flight, and not to be settled again meanwhile. Commit checks everything before the first
event.
"""

from typing import Final, TypeAlias

from engine import duplicates, events, limits
from engine.commands import Acknowledge, Begin, Commit, Reject, Rollback, Send
from engine.core import Core
from engine.id_cache import key_of
from engine.message import MESSAGE_OVERHEAD_BYTES, Entry
from engine.refusals import Code, Refusal
from engine.routing import check_send, queue_needed, send, target_of
from engine.settling import acknowledge_entry, give_all_back, restore_credit, select
from engine.state import Connection, Consumer

Operation: TypeAlias = Send | Acknowledge | Reject

CHUNK_OVERHEAD_BYTES: Final = 64
"""What a chunk of a large message weighs in a transaction."""

OPEN_TRANSACTIONS_MAX: Final = 1000
"""How many transactions a connection can have open, so that none can fill the memory."""


class Transaction:
    """What a client wants to happen together, in order, and what that weighs."""

    __slots__ = ("bytes", "doomed", "name", "operations", "settled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations: list[Operation] = []
        self.settled: dict[int, tuple[Consumer, list[Entry]]] = {}
        self.bytes = 0
        self.doomed = ""


def begin(core: Core, command: Begin) -> int | Refusal:
    """Open a transaction."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    if command.transaction in connection.transactions:
        return Refusal(Code.ALREADY_EXISTS, f"transaction '{command.transaction}' is open already")
    if len(connection.transactions) >= OPEN_TRANSACTIONS_MAX:
        return Refusal(
            Code.LIMIT,
            f"this connection has {OPEN_TRANSACTIONS_MAX} open transactions; commit or abort some",
        )
    connection.transactions[command.transaction] = Transaction(command.transaction)
    return 0


def find(core: Core, connection_id: int, name: str) -> Transaction | Refusal:
    """Return an open transaction of a connection."""
    connection = core.state.connections.get(connection_id)
    transaction = connection.transactions.get(name) if connection is not None else None
    if not isinstance(transaction, Transaction):
        return Refusal(Code.NOT_FOUND, f"there is no open transaction '{name}' on this connection")
    return transaction


def add_send(core: Core, command: Send) -> int | Refusal:
    """Take a message into a transaction."""
    transaction = find(core, command.connection, command.transaction or "")
    if isinstance(transaction, Refusal):
        return transaction
    refusal = check_send(core, command)
    if refusal is not None:
        return refusal
    limit = core.options.max_transaction_bytes
    # The overhead counts too, or endless empty messages would weigh nothing. Of a large body only
    # the list of its chunks does: the body is in the journal already.
    weight = transaction.bytes + len(command.headers) + len(command.body) + MESSAGE_OVERHEAD_BYTES
    weight += CHUNK_OVERHEAD_BYTES * len(command.chunks)
    if weight > limit:
        return Refusal(
            Code.LIMIT,
            f"transaction '{transaction.name}' holds more than {limit} bytes "
            "(max-transaction-bytes)",
        )
    transaction.bytes = weight
    transaction.operations.append(command)
    return 0


def add_settlement(core: Core, command: Acknowledge | Reject) -> int | Refusal:
    """Take a settlement into a transaction; its deliveries are held from here on."""
    consumer = core.state.consumers.get(command.consumer)
    if consumer is None:
        return Refusal(Code.NOT_FOUND, f"there is no consumer {command.consumer}")
    transaction = find(core, consumer.connection_id, command.transaction or "")
    if isinstance(transaction, Refusal):
        return transaction
    chosen = select(core, consumer, command)
    if isinstance(chosen, Refusal):
        return chosen
    for entry in chosen:
        consumer.held[entry.message.id] = transaction.name
        # Apollo: an acknowledgement in a transaction gives credit without consuming.
        if isinstance(command, Acknowledge) and entry.message.id not in consumer.credited:
            restore_credit(consumer, entry)
            consumer.credited.add(entry.message.id)
    transaction.settled[len(transaction.operations)] = (consumer, chosen)
    transaction.operations.append(command)
    core.touch(consumer.queue)
    return 0


def commit(core: Core, command: Commit) -> int | Refusal:
    """Carry out a transaction whole; refused, it is rolled back, unless it is only blocked."""
    transaction = find(core, command.connection, command.transaction)
    if isinstance(transaction, Refusal):
        return transaction
    refusal = _check(core, transaction)
    connection = core.state.connections[command.connection]
    if refusal is None:
        targets = [
            target_of(core, each) for each in transaction.operations if isinstance(each, Send)
        ]
        refusal = limits.check_together(core, connection.id, dict(targets))
    if refusal is not None:
        if refusal.code is not Code.BLOCKED:
            end(core, connection, transaction, events.COMMIT_REFUSED, refusal.text)
        return refusal
    del connection.transactions[transaction.name]
    _release(transaction)
    first = core.next_lsn
    for position, operation in enumerate(transaction.operations):
        _carry_out(core, transaction, position, operation)
    detail = events.TransactionDetail(
        transaction=transaction.name, first=first, events=core.next_lsn - first
    )
    return core.emit(
        events.row(events.TRANSACTION_COMMITTED, connection=connection.id, time=core.now),
        events.encode_detail(detail),
    )


def _check(core: Core, transaction: Transaction) -> Refusal | None:
    if transaction.doomed:
        return Refusal(
            Code.INVALID,
            f"transaction '{transaction.name}' cannot be committed: {transaction.doomed}",
        )
    # Address by name of queues that operations before this one would create: `check_send` looks at
    # the state before the commit and cannot know of them.
    planned: dict[str, str] = {}
    ids: set[tuple[str, bytes]] = set()
    for position, operation in enumerate(transaction.operations):
        if isinstance(operation, Send):
            refusal = check_send(core, operation) or _check_planned(core, planned, operation)
            if refusal is None and operation.duplicate_id:
                refusal = _check_id(core, transaction.name, ids, operation)
            if refusal is not None:
                return refusal
        elif isinstance(operation, Reject):
            address = transaction.settled[position][0].queue.address
            target = core.state.settings.resolve(address.name).dead_letter_address
            if target not in core.state.queue_by_name:
                planned.setdefault(target, target)
    return None


def _check_planned(core: Core, planned: dict[str, str], command: Send) -> Refusal | None:
    """Refuse a send that needs a queue which an operation before it creates on another address."""
    needed = queue_needed(core, command)
    if needed is None:
        return None
    name, address = needed
    other = planned.setdefault(name, address)
    if other == address:
        return None
    return Refusal(
        Code.ALREADY_EXISTS,
        f"queue '{name}' would be created on address '{other}' and on '{address}' in one "
        "transaction; a queue's name is unique in the broker",
    )


def _check_id(
    core: Core, transaction: str, ids: set[tuple[str, bytes]], command: Send
) -> Refusal | None:
    """Refuse a send whose id its address had before, or has from a send before this one."""
    name, address = target_of(core, command)
    key = key_of(command.duplicate_id)
    if not core.state.settings.resolve(name).id_cache_size:
        return None
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
    if isinstance(operation, Acknowledge):
        for entry in entries:
            acknowledge_entry(core, entry)
        return
    give_all_back(core, entries, events.NACK)


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
    """Let go of what a transaction held."""
    for consumer, entries in transaction.settled.values():
        for entry in entries:
            consumer.held.pop(entry.message.id, None)


def rollback(core: Core, command: Rollback) -> int | Refusal:
    """Forget a transaction because its client says so."""
    transaction = find(core, command.connection, command.transaction)
    if isinstance(transaction, Refusal):
        return transaction
    connection = core.state.connections[command.connection]
    return end(core, connection, transaction, events.ROLLBACK, "")


def end(
    core: Core, connection: Connection, transaction: Transaction, reason: int, text: str
) -> int:
    """Roll back: nothing happens to the messages, and what was settled can be settled again."""
    core.line.leave(connection.id)
    _release(transaction)
    del connection.transactions[transaction.name]
    detail = events.TransactionDetail(transaction=transaction.name, text=text)
    return core.emit(
        events.row(
            events.TRANSACTION_ROLLED_BACK, reason=reason, connection=connection.id, time=core.now
        ),
        events.encode_detail(detail),
    )
