"""The broker as a deterministic state machine: commands in, events and effects out.

The only door to the engine. `handle` answers one command, `dispatch` hands out what became
deliverable, `take` gives the events decided since the last `take` to whoever writes them down. See
ADR 2.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from engine import (
    administration,
    carrying,
    commands,
    connections,
    delivery,
    duplicates,
    expiry,
    limits,
    routing,
    settling,
    subscriptions,
    transactions,
)
from engine.core import Core, Options
from engine.pending import Pending
from engine.refusals import Refusal
from engine.residency import relieve
from engine.state import State

Handler: TypeAlias = Callable[[Core, Any], int | Refusal]


def _send(core: Core, command: commands.Send) -> int | Refusal:
    if command.transaction is not None:
        return transactions.add_send(core, command)
    if not 0 <= command.priority <= 9 or not 0 <= command.expires <= routing.EXPIRES_MAX:
        refusal = routing.check_send(core, command)
        assert refusal is not None
        return refusal
    return routing.send(core, command)


def _chunk(core: Core, command: commands.Chunk) -> int | Refusal:
    send = command.send
    if not command.previous and send.transaction is not None:
        transaction = transactions.find(core, send.connection, send.transaction)
        if isinstance(transaction, Refusal):
            return transaction
    return routing.take_chunk(core, command)


def _acknowledge(core: Core, command: commands.Acknowledge) -> int | Refusal:
    if command.transaction is not None:
        return transactions.add_settlement(core, command)
    return settling.acknowledge(core, command)


def _reject(core: Core, command: commands.Reject) -> int | Refusal:
    if command.transaction is not None:
        return transactions.add_settlement(core, command)
    return settling.reject(core, command)


def _expire_due(core: Core, command: commands.ExpireDue) -> int | Refusal:
    core.more_due = expiry.expire_due(core, command.limit)
    return 0


HANDLERS: Final[dict[type, Handler]] = {
    commands.Send: _send,
    commands.Chunk: _chunk,
    commands.Acknowledge: _acknowledge,
    commands.Reject: _reject,
    commands.OpenConnection: connections.open_connection,
    commands.RefuseConnection: connections.refuse_connection,
    commands.CloseConnection: connections.close_connection,
    commands.Attach: subscriptions.attach,
    commands.Detach: subscriptions.detach,
    commands.DeleteSubscription: subscriptions.delete_subscription,
    commands.Credit: subscriptions.credit,
    commands.Room: connections.room,
    commands.Begin: transactions.begin,
    commands.Commit: transactions.commit,
    commands.Rollback: transactions.rollback,
    commands.ExpireDue: _expire_due,
    commands.CreateAddress: administration.create_address,
    commands.DeleteAddress: administration.delete_address,
    commands.CreateQueue: administration.create_queue_by_command,
    commands.DeleteQueue: administration.delete_queue,
    commands.ClearDuplicateIds: duplicates.clear,
    commands.PauseQueue: administration.pause_queue,
    commands.ResumeQueue: administration.resume_queue,
    commands.PurgeQueue: administration.purge_queue,
    commands.ChangeSettings: connections.change_settings,
    commands.Start: connections.start,
    commands.Checkpoint: connections.checkpoint,
    commands.Carry: carrying.carry,
    commands.CarryChunk: carrying.carry_chunk,
    commands.NoteSegmentsRemoved: carrying.note_segments_removed,
    commands.Stop: connections.stop,
}


class Broker(Core):
    """State machine over a `State`; the next event gets `next_lsn`."""

    def __init__(self, state: State, next_lsn: int = 1, options: Options | None = None) -> None:
        super().__init__(state, next_lsn, options if options is not None else Options())
        self.sizes.count_all(state)

    def configure(self, options: Options) -> None:
        """Put other options in force."""
        self.options = options
        limits.guard_all(self)
        self.review_due = True

    def report_disk(self, text: str) -> None:
        """Take note that the disk is full, by what people are to be told; empty: it is not."""
        self.disk_full = text
        limits.guard_all(self)

    def handle(self, command: commands.Command, now: int) -> int | Refusal:
        """Decide on a command; `now` is microseconds since 1970, as the clock says it, even if it
        went back: order is told by LSNs, and what expires goes by one clock.

        The answer is a Refusal, or the LSN that must be durable before anybody is told (0: nothing
        to wait for). For OpenConnection and Attach that LSN is also the new id.
        """
        self.now = now
        return HANDLERS[type(command)](self, command)

    def dispatch(self, now: int) -> None:
        """Deliver what can be delivered; deliveries are appended to `effects`."""
        self.now = now
        if self.touched or self.resized or self.review_due:
            delivery.dispatch(self)

    def page_out(self) -> int:
        """Leave to the store what need not be in memory, as far as it is indexed; return how many.

        No event and no decision: nothing shows of it.
        """
        store = self.state.store
        return relieve(self.state, store.indexed_lsn) if store is not None else 0

    def take(self) -> Pending | None:
        """Close the open batch and return it; None if it has no events."""
        if not self.pending.rows:
            return None
        batch = self.pending
        batch.time = self.now
        self.pending = Pending(self.next_lsn)
        return batch

    @property
    def lsn(self) -> int:
        """LSN of the last event decided."""
        return self.next_lsn - 1
