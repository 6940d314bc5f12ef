"""Deciding about connections and about the broker's own start and stop."""

from typing import Final

from daybook.engine.commands import (
    Checkpoint,
    CloseConnection,
    OpenConnection,
    RefuseConnection,
    Room,
    Start,
    Stop,
)
from daybook.engine.consumers.bundle_subscriptions import forget_all
from daybook.engine.consumers.owner_ends import end_all
from daybook.engine.consumers.subscriptions import NEVER, detach_consumer
from daybook.engine.consumers.transactions import end
from daybook.engine.core import quotas
from daybook.engine.core.core import Core
from daybook.engine.core.parts import Closing, Emptying
from daybook.engine.direct.attaching import detach_all
from daybook.engine.direct.serving import serve_connection
from daybook.engine.entries import last_values, rings
from daybook.engine.facts import details, events, reasons
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.link_routes import passing
from daybook.engine.queues.consumer import Connection
from daybook.engine.refusals import UNFINISHED, Code, Refusal
from daybook.engine.settling.delivery import touch_queues_of
from daybook.engine.state.digest import digest, digest_costs_more_than
from daybook.engine.state.feature_levels import level_of_state
from daybook.engine.topology import history_removal
from daybook.engine.topology.purges import all_left
from daybook.engine.topology.topology import delete_useless
from daybook.levels import LEVEL, LEVEL_MIN

STOP_UNITS: Final = 50_000
"""How much a stop does to end connections, in units of the budget: some tenths of a second."""
DIGESTED_MAX: Final = 200_000
"""How many entries in memory a stop looks at for the digest. The digests of checkpoints, which the
indexer computes, prove the state of a broker that has more."""


def open_connection(core: Core, command: OpenConnection) -> int | Refusal:
    """Open a connection; its id is the LSN of the event."""
    refusal = quotas.check_connection(core, command.user, command.host)
    if refusal is None and command.only:
        refusal = _check_only(core, command)
    if refusal is not None:
        return refusal
    detail = details.ConnectionDetail(
        protocol=command.protocol,
        peer=command.peer,
        user=command.user,
        client_id=command.client_id,
        host=command.host,
        connector=command.connector,
    )
    lsn = core.next_lsn
    core.emit(
        events.row(events.CONNECTION_OPENED, connection=lsn, time=core.now),
        events.encode_detail(detail),
    )
    connection = core.state.connections[lsn]
    connection.room = command.room
    connection.is_trusted = bool(command.connector) and not command.user
    connection.unacked_max = core.unacked_max
    core.client_ids[_client_of(connection)] += 1
    return lsn


def _client_of(peer: Connection | OpenConnection) -> tuple[str, str, str]:
    """Return what makes a client the same one: another user may give itself any id."""
    return peer.host, peer.user, peer.client_id


def _check_only(core: Core, command: OpenConnection) -> Refusal | None:
    """Return why a connection cannot be the only one of its client."""
    if not core.client_ids[_client_of(command)]:
        return None
    return Refusal(
        Code.ALREADY_EXISTS,
        f"client id '{command.client_id}' is in use by another connection of user"
        f" '{command.user}'; close that one, or take another id",
    )


def refuse_connection(core: Core, command: RefuseConnection) -> int:
    """Record that a peer was refused."""
    detail = details.ConnectionDetail(
        protocol=command.protocol,
        peer=command.peer,
        user=command.user,
        text=command.text,
        count=command.count,
    )
    return core.emit(
        events.row(events.CONNECTION_REFUSED, reason=command.reason, time=core.now),
        events.encode_detail(detail),
    )


def close_connection(core: Core, command: CloseConnection) -> int | Refusal:
    """End a connection with everything that belongs to it, as far as the budget allows.

    What is left is done without another command, unless somebody waits for the end, and asks again.
    """
    closing = core.work.closing.get(command.connection)
    if closing is None:
        connection = core.state.connections.get(command.connection)
        if connection is None:
            return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
        closing = _begin_close(core, connection, command.reason, command.text)
    closing.is_left = closing.is_left or not command.asks_again
    return close(core, closing) or UNFINISHED


def _begin_close(core: Core, connection: Connection, reason: int, text: str) -> Closing:
    closing = core.work.closing[connection.id] = Closing(connection, reason, text)
    client = _client_of(connection)
    core.client_ids[client] -= 1
    if not core.client_ids[client]:
        del core.client_ids[client]
    core.room.waiting.leave_all(connection.id)
    forget_all(core, connection)
    # None of its consumers gets anything from here on; each is retired when it is its turn.
    connection.room = NEVER
    closing.consumers = list(connection.consumers.values())
    closing.consumers.reverse()
    return closing


def close(core: Core, closing: Closing) -> int:
    """Continue closing a connection; return its LSN, 0 if there is more to do."""
    connection = closing.connection
    while connection.transactions:
        transaction = next(iter(connection.transactions.values()))
        end(core, connection, transaction, closing.reason, "")
        if core.budget.is_spent:
            return 0
    while closing.consumers:
        consumer = closing.consumers[-1]
        # Perhaps it read a queue that ended with another consumer.
        if consumer.id in core.state.consumers and not detach_consumer(
            core, consumer, closing.reason
        ):
            return 0
        closing.consumers.pop()
        if core.budget.is_spent:
            return 0
    if not (
        detach_all(core, connection.id, closing.reason)
        and passing.end_all(core, connection.id, closing.reason)
        and end_all(core, connection.id)
    ):
        return 0
    del core.work.closing[connection.id]
    detail = details.ConnectionClosedDetail(text=closing.text)
    return core.emit(
        events.row(
            events.CONNECTION_CLOSED,
            reason=closing.reason, connection=connection.id, time=core.now,
        ),
        events.encode_detail(detail),
    )  # fmt: skip


def room(core: Core, command: Room) -> int | Refusal:
    """Note how many more bytes of deliveries a connection has room for."""
    connection = core.state.connections.get(command.connection)
    if connection is None:
        return Refusal(Code.NOT_FOUND, f"there is no connection {command.connection}")
    if connection.id in core.work.closing:
        return 0
    was_full = connection.room <= 0
    connection.room = command.bytes
    if was_full and command.bytes > 0:
        touch_queues_of(core, connection)
        serve_connection(core, connection.id)
        passing.let_go(core, connection.id)
    return 0


def start(core: Core, command: Start) -> int:
    """Begin to serve: this one event removes what did not survive the last broker."""
    detail = details.BrokerStartedDetail(
        version=command.version,
        cut_bytes=command.cut_bytes,
        cut_segment=command.cut_segment,
        cut_offset=command.cut_offset,
        level=LEVEL,
        epoch=command.epoch,
        node=command.node,
    )
    core.level = command.level if command.level > LEVEL_MIN else level_of_state(core.state)
    core.room.review_due = True
    core.skip(command.skipped)
    returning = in_flight(core)
    row = events.row(events.BROKER_STARTED, time=core.now)
    lsn = core.emit(row, events.encode_detail(detail))
    core.work.ending.clear()
    for queue in core.state.queues.values():
        if queue.deleting:
            core.work.emptying[queue.id] = Emptying(queue, reasons.RESTART, 0)
            core.work.ending[queue.address.id] += 1
    last_values.remove_replaced(core, returning)
    rings.begin(core, returning)
    history_removal.review_all(core)
    delete_useless(core)
    all_left(core)
    return lsn


def in_flight(core: Core) -> dict[int, list[int]]:
    """Return by queue the messages in flight from queues that look at what returns."""
    found: dict[int, list[int]] = {}
    for consumer in core.state.consumers.values():
        queue = consumer.queue
        if queue.definition.keyed_by or rings.size_of(core, queue) >= 0:
            found.setdefault(queue.id, []).extend(consumer.unacked)
    return found


def checkpoint(core: Core, command: Checkpoint) -> int | Refusal:
    """Record the digest of an earlier state, so that folds can compare theirs."""
    if not 0 < command.lsn < core.next_lsn:
        return Refusal(Code.INVALID, f"event {command.lsn} has not been decided")
    return core.emit(
        events.row(events.CHECKPOINT, related=command.lsn, time=core.now),
        events.encode_detail(details.CheckpointDetail(digest=command.digest)),
    )


def stop(core: Core, command: Stop) -> int:
    """Stop cleanly. Deliveries in flight return and count: it is unknown how far they got.

    What takes longer than `STOP_UNITS` is left as it is: the next start ends connections that are
    open still, as it does after a kill, and by one event for all of them.
    """
    core.budget.allow(STOP_UNITS)
    for closing in list(core.work.closing.values()):
        if not close(core, closing):
            break
    for connection in list(core.state.connections.values()):
        if core.budget.is_spent:
            break
        if connection.id not in core.work.closing:
            close(core, _begin_close(core, connection, reasons.SHUTDOWN, ""))
    core.budget.limit = NO_LIMIT
    core.touched.clear()
    core.later.clear()
    core.backlog.clear()
    core.room.resized.clear()
    core.room.review_due = False
    is_hurried = digest_costs_more_than(core.state, DIGESTED_MAX)
    known = "" if is_hurried else digest(core.state)
    detail = details.BrokerStoppedDetail(digest=known, hurried=is_hurried)
    return core.emit(
        events.row(events.BROKER_STOPPED, reason=reasons.SHUTDOWN, time=core.now),
        events.encode_detail(detail),
    )
