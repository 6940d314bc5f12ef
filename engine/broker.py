"""The broker as a deterministic state machine: commands in, events and effects out.

The only entry point of the engine. `handle` answers one command, `dispatch` delivers what became
deliverable, `take` returns the events decided since the last `take`, to be written to the journal.
See ADR 2.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from daybook.engine import commands
from daybook.engine.administration import (
    administration,
    carried_content,
    group_resets,
    message_moves,
    retention_commands,
    settings_changes,
    signatures,
    unlisted,
    updates,
)
from daybook.engine.consumers import (
    bundle_subscriptions,
    composite,
    connections,
    fallback,
    owner_ends,
    slices,
    subscriptions,
    transactions,
)
from daybook.engine.consumers.attach_plan import routing_type_at
from daybook.engine.core import capacity, permission_checks, unreadable
from daybook.engine.core.core import Core, Options
from daybook.engine.core.residency import Relief
from daybook.engine.direct import attaching, forwarding
from daybook.engine.direct import settling as direct_settling
from daybook.engine.dispatch import dispatch, resuming
from daybook.engine.entries import arrivals, retained_messages, retroactive, schedules
from daybook.engine.facts import details, events
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.facts.pending import Pending
from daybook.engine.facts.reasons import CLOSED
from daybook.engine.limits.waiting_senders import sender_of
from daybook.engine.link_routes import passing
from daybook.engine.messages.message import PRIORITIES
from daybook.engine.queues.consumer import Consumer
from daybook.engine.refusals import UNFINISHED, Refusal, is_denial
from daybook.engine.routing import chunks, divert_decisions, duplicates, expiry, routing, send_plan
from daybook.engine.routing.send_outcome import Outcome, outcome_of
from daybook.engine.settings.permissions import ROLES_NONE, Permissions
from daybook.engine.settling import held_messages, settlement
from daybook.engine.state.feature_levels import level_of
from daybook.engine.state.state import State
from daybook.engine.topology import durable_subscriptions, ownership, sweep

REQUEST_CHARACTERS_MAX: Final = 2000
"""How much of the request of an administrator is recorded."""

_NOTHING: Final[dict[int, list[int]]] = {}
_PRIORITIES: Final = frozenset(range(PRIORITIES))

Handler: TypeAlias = Callable[[Core, Any], int | Refusal]


def _send(core: Core, command: commands.Send) -> int | Refusal:
    if core.rights.permissions is not None:
        refused = permission_checks.check_send(core, command)
        if refused is not None:
            return refused
    if core.routed.table.routes:
        elsewhere = passing.check_here(core, command.address, is_in=True)
        if elsewhere is not None:
            return elsewhere
    if core.direct.is_used and command.queue is None:
        entry = forwarding.entry_for(core, command.address)
        if entry is not None:
            answer = _check_values(core, command) or forwarding.forward(
                core, command, entry, command.attempt, command.marks
            )
            if answer is not None:
                return answer
            # It falls back to a queue of its name.
            command.routing_type = ANYCAST
    if command.transaction is not None:
        return transactions.add_send(core, command)
    refusal = _check_values(core, command)
    return refusal if refusal is not None else routing.send(core, command)


def _check_values(core: Core, command: commands.Send) -> Refusal | None:
    expires = command.expires
    if (
        command.priority not in _PRIORITIES
        or (expires and not 0 < expires <= send_plan.EXPIRES_MAX)
        or (command.due and not 0 < command.due <= send_plan.EXPIRES_MAX)
    ):
        return send_plan.check_values(core, command)
    return None


def _attach_sender(core: Core, command: commands.AttachSender) -> int | Refusal:
    refused = permission_checks.check_owner(core, command)
    answer = refused or attaching.attach_sender(core, command)
    if answer or not command.address:
        return answer
    send = commands.Send(
        command.connection, command.address, b"", b"",
        queue=command.queue, routing_type=command.routing_type,
    )  # fmt: skip
    if core.rights.permissions is not None:
        refused = permission_checks.check_send(core, send)
    refused = refused or send_plan.check_place(core, send)
    # Whatever else a message may be refused for can be otherwise when it comes.
    if refused is not None and is_denial(refused):
        return refused
    if core.owners.stays_with and command.address in core.state.address_by_name:
        address = core.state.address_by_name[command.address]
        core.owners.send_to(address.id, command.connection, command.link)
    return 0


def _chunk(core: Core, command: commands.Chunk) -> int | Refusal:
    send = command.send
    if not command.previous and core.rights.permissions is not None:
        refused = permission_checks.check_send(core, send)
        if refused is not None:
            return refused
    if core.direct.is_used and send.queue is None:
        entry = forwarding.entry_for(core, send.address)
        if entry is not None and not entry.stores_here:
            refused = forwarding.check_piece(core, send, entry)
            return chunks.record(core, command) if refused is None else refused
        if entry is not None:
            # A queue of its name may get it.
            send.routing_type = ANYCAST
    if not command.previous and send.transaction is not None:
        transaction = transactions.find(core, send.connection, send.transaction)
        if isinstance(transaction, Refusal):
            return transaction
        ended = transactions.check_open(transaction)
        if ended is not None:
            return ended
    return chunks.take_chunk(core, command)


def _send_to_all(core: Core, command: commands.SendToAll) -> int | Refusal:
    refusal = attaching.check_stored(core, (each.address for each in command.sends))
    if refusal is not None:
        return refusal
    if core.rights.permissions is not None:
        for send in command.sends:
            refused = permission_checks.check_send(core, send)
            if refused is not None:
                return refused
    return composite.send_to_all(core, command)


def _give_up_send(core: Core, command: commands.GiveUpSend) -> int:
    core.room.waiting.leave(sender_of(command))
    owner_ends.link_ended(core, core.owners.send_no_more(command.connection, command.link))
    return 0


def _settle(core: Core, command: commands.Settle) -> int | Refusal:
    link = core.direct.receivers.get(command.consumer)
    if link is not None:
        return direct_settling.settle(core, command, link)
    if command.transaction is not None:
        return transactions.add_settlement(core, command)
    return settlement.settle(core, command)


def _accept_all(core: Core, command: commands.AcceptAll) -> int | Refusal:
    link = core.direct.receivers.get(command.consumer)
    if link is not None:
        return direct_settling.accept_all(core, command, link)
    return settlement.accept_all(core, command)


def _attach(core: Core, command: commands.Attach) -> int | Refusal:
    if core.routed.table.routes:
        elsewhere = passing.check_here(core, command.address, is_in=False)
        if elsewhere is not None:
            return elsewhere
    answer: int | Refusal | None = permission_checks.check_owner(core, command)
    if answer is None and core.direct.is_used:
        answer = attaching.attach_receiver(core, command)
    if answer is not None:
        return answer
    if command.auto_link is not None:
        # Messages that are stored here go to the other container as they go to any consumer.
        command.routing_type = ANYCAST
    return subscriptions.attach(core, command)


def _attach_all(core: Core, command: commands.AttachAll) -> int | Refusal:
    refusal = attaching.check_stored(core, (each.address for each in command.parts))
    return refusal if refusal is not None else bundle_subscriptions.attach_all(core, command)


def _settle_sent(core: Core, command: commands.SettleSent) -> int:
    direct_settling.settle_sent(core, command)
    return 0


def _detach_sender(core: Core, command: commands.DetachSender) -> int:
    link = core.direct.senders.get(command.sender)
    return attaching.detach(core, link, CLOSED) if link is not None else 0


def _detach(core: Core, command: commands.Detach) -> int | Refusal:
    link = core.direct.receivers.get(command.consumer)
    if link is not None:
        attaching.detach(core, link, command.reason)
        return 0
    bundle = core.bundles.get(command.consumer)
    if bundle is not None:
        return bundle_subscriptions.detach_all(core, command, bundle)
    consumer = core.state.consumers.get(command.consumer) if core.owners.lingering else None
    answer = subscriptions.detach(core, command)
    if consumer is None or isinstance(answer, Refusal):
        return answer
    owner_ends.link_ended(core, consumer.queue.address.id)
    return core.next_lsn - 1


def _delete_unused(core: Core, command: commands.DeleteUnused) -> int:
    if not core.work.names_to_scan:
        owner_ends.end_lingering(core)
    return sweep.delete_unused(core, command)


def _credit(core: Core, command: commands.Credit) -> int | Refusal:
    link = core.direct.receivers.get(command.consumer)
    if link is not None:
        return direct_settling.credit(core, command, link)
    if command.consumer in core.bundles:
        return bundle_subscriptions.credit(core, command)
    return subscriptions.credit(core, command)


def _expire_due(core: Core, command: commands.ExpireDue) -> int | Refusal:
    retroactive.look_for_old(core)
    core.work.more_due = expiry.expire_due(core, command.limit)
    return 0


def _deliver_due(core: Core, command: commands.DeliverDue) -> int | Refusal:
    core.work.more_scheduled = schedules.deliver_due(core, command.limit)
    return 0


def _administer(core: Core, command: commands.Administer) -> int | Refusal:
    """Carry out a command, and record who asked for it, if it led to anything."""
    first = core.next_lsn
    answer = HANDLERS[type(command.command)](core, command.command)
    if core.next_lsn == first:
        return answer
    lsn = _record_request(core, commands.RecordRequest(command.by, command.request, first))
    return answer if isinstance(answer, Refusal) else lsn


def _record_request(core: Core, command: commands.RecordRequest) -> int:
    """Record who asked for the events since one of them."""
    request = command.request
    if len(request) > REQUEST_CHARACTERS_MAX:
        request = request[:REQUEST_CHARACTERS_MAX] + "..."
    return core.emit(
        events.row(events.ADMINISTERED, related=command.first, time=core.now),
        events.encode_detail(details.AdministeredDetail(by=command.by, request=request)),
    )


HANDLERS: Final[dict[type, Handler]] = {
    commands.Send: _send,
    commands.SendToAll: _send_to_all,
    commands.Chunk: _chunk,
    commands.GiveUpSend: _give_up_send,
    commands.Settle: _settle,
    commands.AcceptAll: _accept_all,
    commands.Resume: resuming.resume,
    commands.Withhold: settlement.withhold,
    commands.OpenConnection: connections.open_connection,
    commands.RefuseConnection: connections.refuse_connection,
    commands.RecordDenial: permission_checks.record,
    commands.CloseConnection: connections.close_connection,
    commands.Attach: _attach,
    commands.AttachSender: _attach_sender,
    commands.SettleSent: _settle_sent,
    commands.DetachSender: _detach_sender,
    commands.ChangeDistributions: attaching.change_distributions,
    commands.HostLinks: passing.host_links,
    commands.RouteLink: passing.route,
    commands.Pass: passing.pass_on,
    commands.EndRoutedLink: passing.end_link,
    commands.AttachAll: _attach_all,
    commands.Detach: _detach,
    commands.CreateTemporary: ownership.create_temporary,
    commands.EndOwner: owner_ends.end_owner,
    commands.DeleteSubscription: durable_subscriptions.delete,
    commands.Credit: _credit,
    commands.Room: connections.room,
    commands.Begin: transactions.begin,
    commands.Commit: transactions.commit,
    commands.Rollback: transactions.rollback,
    commands.ExpireTransactions: transactions.expire,
    commands.ExpireDue: _expire_due,
    commands.DeliverDue: _deliver_due,
    commands.DeleteUnused: _delete_unused,
    commands.RetryHeld: held_messages.retry,
    commands.ReleaseHeld: held_messages.release,
    commands.DeliverScheduled: schedules.deliver_scheduled,
    commands.CreateAddress: administration.create_address,
    commands.DeleteAddress: administration.delete_address,
    commands.CreateQueue: administration.create_queue_by_command,
    commands.DeleteQueue: administration.delete_queue,
    commands.CreateDivert: divert_decisions.create_divert,
    commands.DeleteDivert: divert_decisions.delete_divert,
    commands.DropUnlisted: unlisted.drop_unlisted,
    commands.ClearDuplicateIds: duplicates.clear,
    commands.ForgetRetained: retained_messages.forget_by_command,
    commands.ResetGroups: group_resets.reset_groups,
    commands.PauseQueue: administration.pause_queue,
    commands.ResumeQueue: administration.resume_queue,
    commands.PurgeQueue: administration.purge_queue,
    commands.ActOnMessages: message_moves.act,
    commands.UpdateQueue: updates.update_queue,
    commands.UpdateAddress: updates.update_address,
    commands.PauseAddress: updates.pause_address,
    commands.ResumeAddress: updates.resume_address,
    commands.Administer: _administer,
    commands.RecordRequest: _record_request,
    commands.ChangeSettings: settings_changes.change_settings,
    commands.SetSettings: settings_changes.set_settings,
    commands.RemoveSettings: settings_changes.remove_settings,
    commands.Start: connections.start,
    commands.Checkpoint: connections.checkpoint,
    signatures.RecordSignature: signatures.record_signature,
    signatures.RecordKeyChange: signatures.record_key_change,
    retention_commands.Carry: carried_content.carry,
    retention_commands.CarryChunk: carried_content.carry_chunk,
    retention_commands.NoteSegmentsRemoved: carried_content.note_segments_removed,
    commands.Stop: connections.stop,
}


class Broker(Core):
    """State machine over a `State`; the next event gets `next_lsn`. `identity` is what others know
    it by, 32 hexadecimal digits."""

    def __init__(
        self,
        state: State,
        next_lsn: int = 1,
        options: Options | None = None,
        identity: str = "0" * 32,
    ) -> None:
        super().__init__(state, next_lsn, options if options is not None else Options())
        self.identity = identity
        self.room.sizes.count_all(state, self.options.hosts)
        self._relief: Final = Relief()
        # The roles of users, also where there are no rules.
        self._roles: Permissions | None = None

    def configure(self, options: Options) -> None:
        """Put new options in force."""
        self.options = options
        self.filters.replace_compiler(options.compile_filter)
        capacity.guard_all(self)
        self.room.review_due = True

    def permit(self, permissions: Permissions | None) -> None:
        """Put other rules of permissions in force; without rules users may do everything."""
        self._roles = permissions
        permission_checks.put_in_force(self, permissions)

    def let_wildcards_follow(self) -> None:
        """Let subscriptions with wildcards follow the permissions in force, in later turns."""
        permission_checks.let_wildcards_follow(self)

    def roles_of(self, user: str) -> frozenset[str]:
        """Return the roles that a user has now."""
        return self._roles.roles_of(user) if self._roles is not None else ROLES_NONE

    def report_disk(self, text: str) -> None:
        """Note that the disk is full, with the text that clients are to see; an empty text: it is
        not."""
        self.room.disk_full = text
        capacity.guard_all(self)

    def report_memory(self, text: str) -> None:
        """Note that memory is full, with the text that clients are to see; an empty text: it is
        not."""
        self.room.memory_full = text
        capacity.guard_all(self)

    def report_objects(self, full: str, over: str) -> None:
        """Note that no more queues, addresses and ids fit, or (`over`) no consumers either."""
        was_over, self.room.objects_over = self.room.objects_over, over
        self.room.objects_full = full
        if was_over and not over:
            self.wildcard_subscriptions.look_again_for_all(
                each for each in self.bundles.values() if each.is_short
            )

    def report_users(self, short: dict[str, tuple[str, str]]) -> None:
        """Note which users have used up their share, with the same two texts for each."""
        was_short, self.room.users_short = self.room.users_short, short
        if any(over and not short.get(user, ("", ""))[1] for user, (_, over) in was_short.items()):
            self.wildcard_subscriptions.look_again_for_all(
                each for each in self.bundles.values() if each.is_short
            )

    def block_senders(self, text: str, policy: str, least: int = 0) -> None:
        """Accept no messages, for the reason in `text`; with an empty text accept them again. The
        policy is BLOCK or FAIL and overrides those of the addresses; consumers continue. Addresses
        with fewer multicast queues than `least` still accept messages."""
        self.room.behind = text
        self.room.behind_policy = policy
        self.room.behind_least = least
        capacity.guard_all(self)

    def has_topics(self, least: int) -> bool:
        """Whether an address has at least so many multicast queues; it takes a look at each."""
        return any(len(each.multicast) >= least for each in self.state.addresses.values())

    def handle(self, command: commands.Command, now: int) -> int | Refusal:
        """Decide on a command; `now` is microseconds since 1970 by the clock, even if the clock was
        set back: LSNs define the order, and all expiry uses this one clock.

        The answer is a Refusal, or the LSN that must be durable before the client gets its answer
        (0: nothing to wait for). For OpenConnection and Attach that LSN is also the new id.
        """
        self.now = now
        self.budget.spent += 1
        if self.state.arrivals and not arrivals.may_pass(self, command):
            return UNFINISHED
        return HANDLERS[type(command)](self, command)

    def holders(self, connection: int, message: int) -> list[int]:
        """Return the ids of a connection's consumers, or of their bundles, that have a message in
        flight.

        None unless consumers of it settle by message (`engine.commands.Attach`).
        """
        known = self.state.connections.get(connection)
        if known is None:
            return []
        found = [
            consumer.id if consumer.bundle is None else consumer.bundle.id
            for consumer in (known.holders or {}).get(message, ())
        ]
        return found or list(self.direct.holders.get(connection, _NOTHING).get(message, ()))

    def is_direct(self, consumer: int) -> bool:
        """Whether a consumer receives from a direct address."""
        return consumer in self.direct.receivers

    def is_waypoint(self, sender: int) -> bool:
        """Whether a link leads to an address whose messages pass through queues of brokers."""
        link = self.direct.senders.get(sender)
        return link is not None and link.address is not None and link.address.entry.waypoint

    def routing_type(self, address: str) -> str:
        """Return the routing type by which a consumer of an address gets messages if it says
        none."""
        return routing_type_at(self, address)

    @property
    def routes_links(self) -> bool:
        """Whether there are routes by which links are passed on to containers."""
        return bool(self.routed.table.routes)

    def available(self, consumer: int) -> int | None:
        """Return how many messages wait for a consumer, whatever credit it has; None for one of
        several queues."""
        link = self.direct.receivers.get(consumer)
        if link is not None:
            return link.waits
        found = self.state.consumers.get(consumer)
        return found.queue.ready_count if found is not None else None

    def consumer_of(self, number: int, message: int) -> Consumer | None:
        """Return a consumer by its id, or by that of its bundle the one that has a message."""
        bundle = self.bundles.get(number)
        return self.state.consumers.get(number) if bundle is None else bundle.holder(message)

    @property
    def is_touched(self) -> bool:
        """Whether queues were touched that dispatch has still to look at."""
        return bool(self.touched or self.backlog)

    def dispatch(self, now: int) -> None:
        """Deliver what can be delivered; what follows is appended to `effects`."""
        self.now = now
        if self.direct.changed:
            fallback.review(self)
        if self.is_touched or self.room.resized or self.room.review_due or self.refilled:
            dispatch.dispatch(self)

    def look_again(self, now: int) -> None:
        """Make the next dispatch try again the queues that could not be read some time ago."""
        if self.unreadable or self.work.held_again:
            self.now = now
            unreadable.wake(self)

    @property
    def has_more(self) -> bool:
        """Whether `go_on` has work left."""
        return slices.has_more(self)

    def go_on(self, now: int) -> None:
        """Do a slice of the work that needs no command (`engine.consumers.slices`)."""
        self.now = now
        slices.go_on(self)

    def page_out(self) -> int:
        """Page out indexed entries that need not be in memory; return how many.

        This is neither an event nor a decision: deliveries do not depend on it. `page_out_more`
        does the rest when the turn's budget is spent.
        """
        self._relief.begin(self.state)
        return self.page_out_more()

    def page_out_more(self) -> int:
        """Continue `page_out`; return how many entries left memory."""
        return self._relief.go_on(self.state, self.room.sizes, self.budget)

    @property
    def pages_out(self) -> bool:
        """Whether `page_out` has left something to do."""
        return self._relief.is_left

    def take(self) -> Pending | None:
        """Close the open batch and return it; None if it has no events."""
        if not self.pending.rows:
            return None
        batch = self.pending
        batch.time = self.now
        batch.level = self.level = level_of(batch.rows, batch.details, self.level)
        self.pending = Pending(self.next_lsn)
        return batch

    def outcome(self, since: int, connection: int) -> Outcome | None:
        """Return what became of the message that the events behind `since` are about, as far as the
        connection that sent it may know the queues: those that it may consume from or browse.

        To be called right after `handle`. None if no event says it, as in an open transaction.
        """
        sender = self.state.connections.get(connection)
        user = sender.user if sender is not None else ""
        return outcome_of(
            self.state,
            self.pending,
            since,
            lambda queue: permission_checks.may_know(self, user, queue),
        )

    @property
    def retry_due(self) -> bool:
        """Whether some held messages are to be tried again."""
        return self.work.held_changed or bool(self.work.held_walk)

    @property
    def scans_names(self) -> bool:
        """Whether the scan for unused queues and addresses has some left."""
        return bool(self.work.names_to_scan)

    def wakes(self, now: int) -> bool:
        """Whether a scheduled message may be due, so that `DeliverDue` must be handled."""
        return now // 1000 >= self.state.wake_at

    @property
    def lsn(self) -> int:
        """LSN of the last event decided."""
        return self.next_lsn - 1
