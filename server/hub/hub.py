"""The hub connects sessions, engine, outbox and journal writer. No asyncio, no sockets, no threads.

Data flow of a turn (ADR 3): `received` has turned arriving bytes into commands; `turn` resumes work
that exceeded its slice (ADR 27), dispatches once for all commands, lets the sessions encode the
deliveries, puts all output into the outbox, and closes the block if the disk is idle or the block
is full. `durable` releases the output that waited, and schedules a turn that closes the next block.
The caller (listeners, or the simulator) supplies transports, time and the scheduling of turns; it
calls everything from one thread.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from daybook.engine.broker import Broker
from daybook.engine.commands import Command, RetryHeld, Room, Stop, Withhold
from daybook.engine.consumers import transactions
from daybook.engine.facts.definitions import AutoLink
from daybook.engine.facts.pending import Pending
from daybook.engine.facts.reasons import ADMINISTRATION, LIMIT, UNREADABLE
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Store, StoreError
from daybook.engine.refusals import UNFINISHED, Refusal
from daybook.protocols.port import Body, Login, MessagingSession, Pull, SaslStep
from daybook.server.administration.views import counting
from daybook.server.hub.blocked import BlockedSenders
from daybook.server.hub.deadlines import Deadlines
from daybook.server.hub.journal_port import NoChunks, Writer
from daybook.server.hub.memory import Memory
from daybook.server.hub.outbox import Outbox
from daybook.server.hub.peer import CHUNKS_AT_ONCE, LARGE_AHEAD_CHUNKS, Chunks, Peer
from daybook.server.hub.ports import STALL_US, HubOptions, ignore_notice
from daybook.server.hub.slow_consumers import SlowConsumers
from daybook.server.hub.turns import Answer, Turns
from daybook.server.hub.unindexed import Unindexed
from daybook.server.process.slices import at_once
from daybook.server.users.login_refusals import Refusals
from daybook.server.users.logins import HostRequest, LoginRequest
from daybook.server.users.sasl import Mechanisms

STOPPING: Final = "the broker is stopping"


class Hub:
    """All connections of a broker. `schedule` must call `turn` soon; `authenticate` must answer a
    LoginRequest by calling the function that it gets with (user or None, text); `admit` returns why
    a user may not use a virtual host, "" if it may; `mechanisms` are those of logins by SASL."""

    def __init__(
        self,
        broker: Broker,
        writer: Writer,
        options: HubOptions,
        *,
        clock: Callable[[], int],
        schedule: Callable[[], None],
        authenticate: Callable[[LoginRequest, Callable[[str | None, str], None]], None],
        admit: Callable[[HostRequest], str],
        mechanisms: Mechanisms,
    ) -> None:
        self.broker: Final = broker
        self.writer: Final = writer
        self.options = options
        self.outbox: Final = Outbox(broker.lsn)
        self.peers: Final[set[Peer]] = set()
        self.failure: Exception | None = None
        self.stopping = False
        self.stalled_bodies = 0
        self.extra_status: Callable[[], dict[str, Any]] = dict
        self.chunks: Chunks = NoChunks()
        self.secret = b""  # What `Caller.secret` is.
        self.unindexed: Final = Unindexed(broker)
        self._paging_from = 0
        self._clock: Final = clock
        self._schedule: Final = schedule
        self._authenticate: Final = authenticate
        self._admit: Final = admit
        self.mechanisms: Final = mechanisms
        self._scheduled = False
        self._active: dict[Peer, None] = {}
        self._released: dict[Peer, None] = {}
        self._by_connection: dict[int, Peer] = {}
        self._paused: set[Peer] = set()
        self.refusals: Final = Refusals(lambda command: self.request(command))
        self.turns: Final = Turns(broker)
        self.blocked: Final = BlockedSenders(broker, clock, self._by_connection.get)
        self.memory: Final = Memory(
            broker, writer, self.peers, options.memory,
            make_room=self._make_room, dismiss=self.dismiss,
        )  # fmt: skip
        self.slow: Final = SlowConsumers(broker, self._by_connection.get, self.dismiss)
        self.on_notice: Callable[[str], None] = ignore_notice
        self._slowed_since = 0  # 0 while the disk slows down nobody
        # Peers whose bodies can be continued, in turn.
        self._streaming: dict[Peer, None] = {}
        self._finishing: dict[Peer, None] = {}
        # Peers whose pulls can be answered, in turn; and those whose next one waits for the disk.
        self._pulling: dict[Peer, None] = {}
        self._undurable: Final[dict[Peer, None]] = {}
        self._deadlines: Final[Deadlines[Peer]] = Deadlines()
        self.turns.next_expiry = clock() + options.expiry_scan_us
        self._last_event = clock()
        self._marked_lsn = -1

    # ---- called by transports

    def opened(self, peer: Peer) -> None:
        """A peer connected."""
        self.peers.add(peer)
        peer.session.tick(self._clock())
        self._after(peer)

    def received(self, peer: Peer, data: bytes) -> None:
        """Bytes came from a peer."""
        if self.failure is not None or self.stopping or peer.closed:
            return
        begun = self.turns.begin_input()
        now = self._clock()
        peer.session.receive(data, now)
        self.turns.heard(peer, now)
        self.memory.charge_input(peer)
        self._after(peer)
        self._see_to_input(peer)
        self.turns.took(begun, now)

    def _see_to_input(self, peer: Peer) -> None:
        """Stop reading from a peer that has to wait for any reason."""
        session = peer.session
        if self.turns.must_wait(peer):
            self.turns.wait(peer)
        elif not session.is_blocked and self._must_pause(peer):
            self._pause(peer)
        elif session.has_unfinished:
            self.turns.let_finish(peer)

    def _must_pause(self, peer: Peer) -> bool:
        """Return whether reading from a peer must pause until less is waiting."""
        return (
            self.writer.pending_bytes + self.broker.pending.heap_bytes
            > self.options.max_pending_bytes
            or peer.output_bytes() > peer.output_limit
            or peer.session.is_ahead(self.outbox.durable_lsn, LARGE_AHEAD_CHUNKS)
        )

    def drained(self, peer: Peer) -> None:
        """The transport of a peer, which was full, has room again."""
        self._make_room(peer)
        if peer.has_bodies:
            self._streaming[peer] = None
        if peer.pulls:
            self._pulling[peer] = None
        if peer in self._paused:
            self._resume()
        self._soon()

    def lost(self, peer: Peer) -> None:
        """The connection of a peer is gone."""
        if peer.closed:
            return
        peer.closed = True
        self._deadlines.forget(peer)
        self.peers.discard(peer)
        self._paused.discard(peer)
        self.turns.waiting.pop(peer, None)
        self.blocked.remove(peer)
        self.memory.forget(peer)
        self._drop_bodies(peer)
        self._by_connection.pop(peer.connection, None)
        if self.failure is None and not self.stopping:
            self.turns.allow_input()
            peer.session.connection_lost(self._clock())
            self._soon()

    def configure(self, options: HubOptions) -> None:
        """Apply other options."""
        self.options = options
        self.memory.configure(options.memory)
        self._soon()

    def close_connection(self, connection: int, what: str, advice: str) -> bool:
        """Close a connection for an administrator; return whether there is one."""
        if (peer := self._by_connection.get(connection)) is not None:
            self.dismiss(peer, what, advice, ADMINISTRATION)
        return peer is not None

    def attach_link(self, connection: int, link: AutoLink) -> bool:
        """Attach an auto-link on a connection; return whether there is one."""
        peer = self._by_connection.get(connection)
        if peer is None:
            return False
        self.turns.allow_input()
        peer.session.attach_link(link, self._clock())
        self._after(peer)
        self._soon()
        return True

    def renew_auto_links(self) -> None:
        """Let all connections attach auto-links that are new, and end those that are gone."""
        for peer in list(self.peers):
            if peer.connection:
                self.turns.allow_input()
                peer.session.renew_auto_links(self._clock())
                self._after(peer)
        self._soon()

    def session_of(self, connection: int) -> MessagingSession | None:
        """Return the session of a connection, None if it is gone."""
        peer = self._by_connection.get(connection)
        return peer.session if peer is not None else None

    def dismiss(self, peer: Peer, what: str, advice: str, reason: int = LIMIT) -> None:
        """End the connection of a peer, and send it the reason if it still reads."""
        self.turns.allow_input()
        peer.session.dismiss(what, advice, self._clock(), reason)
        self.blocked.remove(peer)
        self._paused.discard(peer)
        self._after(peer)

    def request(self, command: Command, callback: Answer | None = None) -> None:
        """Execute an administrator's command; `callback` gets the answer when it may be sent."""
        self.turns.allow(self.turns.lengths.slice)
        answer = self.broker.handle(command, self._clock())
        if answer is UNFINISHED:
            self.turns.unfinished.append((command, callback))
        elif callback is not None:
            if isinstance(answer, Refusal):
                callback(answer)
            else:
                lsn = answer
                self.outbox.call(lambda: callback(lsn), lsn)
        self._soon()

    def stop(self, callback: Answer) -> None:
        """Stop reading from peers, decide the stop, and call back when it is durable."""
        self.turn()
        self.refusals.flush()
        self.stopping = True
        self.request(Stop(), callback)

    def say_goodbye(self) -> None:
        """Tell the peers that the broker stops, behind all that they were to hear."""
        for peer in self.peers:
            peer.say_goodbye(STOPPING)

    def status(self, counted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the figures for `daybook status`; `counted` is what was counted in slices."""
        return {
            "lsn": self.broker.lsn,
            "durable_lsn": self.outbox.durable_lsn,
            **(counted or at_once(counting(self.broker.state))),
            "max_unindexed_bytes": self.options.max_unindexed_bytes,
            "pending_bytes": self.writer.pending_bytes + self.broker.pending.raw_bytes,
            "peers_paused": len(self._paused),
            **self.turns.describe(self._clock()),
            "sync_ms_running": self._since_ms(self.outbox.waiting_since),
            "producers_slowed_ms": self._since_ms(self._slowed_since),
            **self.blocked.status(),
            "bytes_not_paging": self.broker.room.sizes.bytes,
            "slow_consumers": self.slow.describe(),
            **self.refusals.counts(),
            "stalled_bodies": self.stalled_bodies,
            **self.memory.status(),
            **self.extra_status(),
        }

    def _since_ms(self, moment: int) -> float:
        """Milliseconds since a moment, 0 if there was none."""
        return round(max(0, self._clock() - moment) / 1000, 3) if moment else 0.0

    def beginning_of(self, message: Message) -> bytes:
        """The first chunk of a large message, empty before it is durable. Raises StoreError."""
        first = message.chunks[:1]
        return self.chunks.chunks(first, 0)[0] if first[0] <= self.outbox.durable_lsn else b""

    def piece_of(self, message: Message, number: int) -> bytes:
        """A chunk of a large message by its place, empty before it is durable. Raises
        StoreError."""
        chunk = message.chunks[number]
        if chunk > self.outbox.durable_lsn:
            return b""
        return self.chunks.chunks([chunk], message.chunks[number - 1] if number else 0)[0]

    def first_chunk(self) -> int:
        """Return the LSN of the oldest chunk in use besides those of queued messages; 0 if none.

        Those of bodies under way, deliveries of the next turn, messages that wait for receivers of
        direct addresses, and open transactions must stay.
        """
        firsts = [peer.first_chunk() for peer in self.peers]
        delivered = [each[1] for each in self.broker.effects if isinstance(each, tuple)]
        firsts += [message.chunks[0] for message in delivered if message.chunks]
        firsts.append(transactions.first_chunk(self.broker))
        firsts.append(self.broker.direct.first_chunk)
        return min(filter(None, firsts), default=0)

    # ---- called by the writer, in this thread

    def durable(self, lsn: int) -> None:
        """Everything up to this LSN is on disk."""
        if lsn <= self.outbox.durable_lsn or self.failure is not None:
            return
        # The turn closes the next block: one that is closed here would be too small.
        if self.broker.pending.rows or self.blocked.count or self.turns.has_work:
            self._soon()
        for outlet in self.outbox.durable(lsn):
            assert isinstance(outlet, Peer)
            self._settle_output(outlet)
        self._resume()
        if self.broker.is_touched or self.broker.effects:
            self._soon()
        if self._undurable:
            self._pulling.update(self._undurable)
            self._undurable.clear()
            self._soon()

    def failed(self, error: Exception) -> None:
        """Handle a failure of the journal: from now on no output may be sent."""
        self.failure = error

    def disk_full(self, text: str) -> None:
        """Accept no more messages (consumers continue); with "" accept them again."""
        self.broker.report_disk(text)
        self.refusals.is_disk_short = bool(text)
        self._soon()

    # ---- called by the indexer

    @property
    def unindexed_bytes(self) -> int:
        """Bytes of rows and heaps of closed blocks that are not indexed."""
        return self.unindexed.bytes

    def indexed(self, lsn: int, indexed_bytes: int | None) -> None:
        """The store has the state at an LSN; `indexed_bytes` were journaled by then, if known."""
        limit = self.options.max_unindexed_bytes
        if indexed_bytes is not None and self.unindexed.index(indexed_bytes, limit):
            self._soon()
        if lsn >= self._paging_from and self.failure is None:
            self.turns.allow(self.turns.lengths.turn)
            self.broker.page_out()
            self._soon()
        self._resume()

    def index_failing(self, why: str) -> None:
        """Indexing has failed, so senders are refused with this reason; "": it works again."""
        self.unindexed.fail(why, self.options.max_unindexed_bytes)
        self._soon()

    def attach_store(self, store: Store) -> None:
        """Use a store that did not exist at the start for entries that leave memory.

        No entry leaves memory before the store knows all removals until now.
        """
        self.broker.state.attach_store(store)
        self._paging_from = self.broker.lsn

    # ---- turns

    def turn(self) -> None:
        """Dispatch, encode, put output into the outbox, close the block if it is time."""
        self._scheduled = False
        if self.failure is not None:
            return
        begun = self.turns.meter()
        now = self._clock()
        broker = self.broker
        self.turns.is_pressed = self.unindexed_bytes > self.options.max_unindexed_bytes // 2
        if self._has_work:
            self.turns.go_on(now, self._proceed, self.request)
        self.turns.allow(self.turns.lengths.delivery)
        broker.dispatch(now)
        if broker.effects:
            self._deliver(now)
        if self.blocked.count and not self._is_behind():
            self.turns.allow_input()
            if self.blocked.wake(self._went_on):
                self._soon()
        if self.memory.is_due:
            self.memory.review(self._clock())
        if broker.notices or broker.rights.denials:
            self._tell(now)
        if self._pulling:
            self._answer_pulls(next(iter(self._pulling)))
        if self._active:
            active, self._active = self._active, {}
            for peer in active:
                self._flush(peer)
        if self._released:
            released, self._released = self._released, {}
            for peer in released:
                self._settle_output(peer)
        if self._streaming:
            self._stream(next(iter(self._streaming)))
        pending = broker.pending
        if pending.rows and self._closes(pending):
            self._close_block()
        if is_left_over := broker.is_touched or bool(broker.effects) or self._has_work:
            self._soon()
        self.turns.next_turn(is_left_over=is_left_over)
        self.turns.took(begun, now)

    @property
    def _has_work(self) -> bool:
        return self.turns.has_work and not self.stopping and not self._is_behind()

    def _proceed(self, peer: Peer) -> None:
        """Resume a peer whose input waited for its turn."""
        if self._must_pause(peer):
            self._pause(peer)
            return
        peer.session.proceed(self._clock())
        self._went_on(peer)

    def tick(self) -> None:
        """Do periodic work: heart-beats, expiry, marks. Call it about ten times a second."""
        if self.stopping or self.failure is not None:
            return
        now = self._clock()
        for peer in self._deadlines.due(now):
            peer.tick(now)
            self.stalled_bodies += peer.session.has_stalled
            self._after(peer)
        self.turns.tick(now, self.options)
        if self.broker.retry_due:
            self.broker.handle(RetryHeld(), now)
            self._soon()
        for peer in [each for each in self._finishing if now - each.moved >= STALL_US]:
            self._drop_bodies(peer)
            self._settle_output(peer)
        self.memory.tick(now)
        self.slow.tick(now)
        self.broker.look_again(now)
        if self.broker.pending.can_wait and not self.outbox.blocks_in_flight:
            self._close_block()
        if self.blocked.count or self.broker.notices or self.broker.is_touched or self._has_work:
            self._soon()
        self.refusals.tick(now)
        self._mark_if_idle(now)

    def clock_stepped(self, step: int) -> None:
        """The clock was set by so many microseconds: deadlines move along."""
        now = self._clock()
        self.turns.next_expiry = self.turns.next_name_scan = self._last_event = now
        self.memory.clock_stepped(step, now)
        for peer in list(self.peers):
            peer.session.clock_stepped(step, now)
            self._after(peer)

    def _mark_if_idle(self, now: int) -> None:
        lsn = self.outbox.durable_lsn
        idle = lsn == self.broker.lsn and now - self._last_event >= self.options.idle_mark_us
        if idle and lsn != self._marked_lsn:
            self._marked_lsn = lsn
            self.writer.mark(now)

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule()

    def _closes(self, pending: Pending) -> bool:
        """Whether the open block is to be closed now. One with nothing but decisions about direct
        addresses waits for the next tick: the loop would wait for a disk for which nobody does."""
        if pending.raw_bytes >= self.options.block_bytes:
            return True
        if self.outbox.blocks_in_flight:
            return False
        return self.outbox.is_awaited or not pending.can_wait

    def _close_block(self) -> None:
        batch = self.broker.take()
        if batch is None:
            return
        self.outbox.close(batch.last_lsn, self._clock())
        self._last_event = batch.time
        self.unindexed.add(batch.raw_bytes, self.options.max_unindexed_bytes)
        self.writer.submit(batch)

    def _deliver(self, now: int) -> None:
        effects, self.broker.effects = self.broker.effects, []
        affected: dict[int, None] = {}
        last = None
        for effect in effects:
            if isinstance(effect, tuple):
                consumer, message, delivery_count, marks, gate = effect
                consumer.receiver.deliver(message, delivery_count, marks, gate)
            else:
                consumer = effect.consumer
                effect.hand_to(consumer.receiver, now)
                affected[consumer.connection_id] = None
            if consumer is not last:
                last = consumer
                peer = self._by_connection.get(consumer.connection_id)
                if peer is not None:
                    self._active[peer] = None
        for connection in affected:
            self._after_effects(connection, now)

    def _after_effects(self, connection: int, now: int) -> None:
        """Handle a session after effects, which may have ended it."""
        peer = self._by_connection.get(connection)
        if peer is None:
            return
        peer.session.conclude(now)
        if peer.session.closing:
            self.blocked.remove(peer)
            self._paused.discard(peer)
            self._after(peer)

    # ---- one peer

    def _after(self, peer: Peer) -> None:
        """Handle the output and requests of a session after a call."""
        session = peer.session
        self._active[peer] = None
        if session.host_request is not None:
            request = HostRequest(peer.user, session.host_request, peer.name, peer.address)
            session.admitted(self._admit(request), self._clock())
        if not peer.connection and session.connection:
            peer.connection = session.connection
            self._by_connection[peer.connection] = peer
        if session.is_blocked and peer not in self.blocked.stopped:
            self._paused.discard(peer)
            self.blocked.stop(peer)
        if session.login_request is not None:
            self._begin_login(peer)
        if session.refusal is not None:
            (reason, protocol, login, text), session.refusal = session.refusal, None
            login = peer.sasl.login if peer.sasl is not None else login
            refusal = reason, protocol, login, text
            self.refusals.note(refusal, peer=peer.name, address=peer.address, now=self._clock())
        if session.closing:
            peer.sasl = None
        if session.next_deadline != peer.deadline and not session.closing:
            self._deadlines.set(peer, session.next_deadline)
        self._soon()

    def _begin_login(self, peer: Peer) -> None:
        asked = peer.session.login_request
        assert asked is not None
        request = None if peer.login_begun else self._login_of(peer, asked)
        if request is None:
            return

        def answer(user: str | None, text: str) -> None:
            if peer.closed or self.stopping or self.failure is not None:
                return
            self.turns.allow_input()
            peer.user = user or ""
            if user is not None and request.proof is not None and isinstance(asked, SaslStep):
                asked.taker.prove(request.proof.answer)
            peer.session.authenticated(user, text, self._clock())
            self._after(peer)
            peer.sasl = None
            if peer.awaits_login:
                peer.awaits_login = False
                if peer not in self._paused and not peer.session.is_blocked:
                    peer.transport.resume_reading()
            self._see_to_input(peer)

        peer.login_begun = True
        self._authenticate(request, answer)
        if peer.session.login_request is not None:
            # Its further input stays in the kernel meanwhile.
            peer.awaits_login = True
            peer.transport.pause_reading()
            peer.transport.notice_end()

    def _login_of(self, peer: Peer, asked: Login | SaslStep) -> LoginRequest | None:
        """Return the login to be checked, None if the peer got a challenge instead."""
        caller = peer.caller
        request = LoginRequest(
            "", "", caller.is_loopback, peer.name, peer.address,
            lambda: not peer.closed and not peer.session.closing,
        )  # fmt: skip
        if isinstance(asked, Login):
            proven = caller.certified if asked.by_certificate else ""
            return replace(request, login=asked.login, passcode=asked.passcode, proven=proven)
        if peer.sasl is None:
            peer.sasl = self.mechanisms.begin(caller)
        said = peer.sasl.take(asked, request)
        if isinstance(said, LoginRequest):
            return said
        asked.taker.challenge(said, self._clock())
        self._after(peer)
        return None

    def _flush(self, peer: Peer) -> None:
        session = peer.session
        if session.out:
            parts = session.out
            session.out = []
            gate = session.gate
            session.gate = 0
            if session.bodies:
                peer.expect(session.bodies)
                session.bodies = []
            self.outbox.put(peer, parts, gate)
        if session.pulls:
            peer.pulls.extend(session.pulls)
            session.pulls = []
            self._pulling[peer] = None
            self._soon()
        if peer.released or session.closing:
            self._released[peer] = None

    def _settle_output(self, peer: Peer) -> None:
        """After bytes were given to the transport: allow more, or close after the last."""
        peer.released = False
        if peer.has_bodies:
            self._streaming[peer] = None
            self._soon()
            if peer.session.closing and peer not in self._finishing:
                self._finishing[peer] = None
                peer.moved = self._clock()
            return
        if peer.session.closing:
            # The session's last output may not be in the outbox yet.
            if peer.generation is None and not peer.session.out and not peer.closing:
                peer.closing = True
                peer.transport.close(peer.session.close_delay_ms)
            return
        if peer.pulls:
            self._pulling[peer] = None
            self._soon()
        self._make_room(peer)

    def _make_room(self, peer: Peer) -> None:
        output = peer.output_bytes()
        self.memory.charge(peer, output)
        connection = self.broker.state.connections.get(peer.connection)
        # A subscription that ended may have used up the room of the next one.
        if connection is not None and (connection.consumers or connection.room <= 0):
            taken = output + peer.body_bytes + peer.session.unsent_bytes
            room = self.memory.room_of(peer) - taken
            self.broker.handle(Room(peer.connection, room), self._clock())

    def _stream(self, peer: Peer) -> None:
        """Write a slice of a peer's bodies; the rest in later turns."""
        del self._streaming[peer]
        left = peer.body_bytes
        try:
            if peer.pump(self.chunks):
                self._streaming[peer] = None
        except StoreError as error:
            self._give_up(peer, str(error))
            return
        if peer.body_bytes < left:
            peer.moved = self._clock()
            peer.session.is_taking(peer.moved)
        if not peer.has_bodies:
            self._finishing.pop(peer, None)
            self._settle_output(peer)
            # The output for which reading paused may have waited behind the body.
            self._resume()
        if self._streaming:
            self._soon()

    def _answer_pulls(self, peer: Peer) -> None:
        """Give a session the next pieces that it asked for; the rest in later turns."""
        del self._pulling[peer]
        durable_lsn = self.outbox.durable_lsn
        for _ in range(CHUNKS_AT_ONCE):
            if peer.session.closing or not peer.may_pull(durable_lsn):
                break
            self._answer_pull(peer.pulls.popleft())
            self._after(peer)
        if peer.pulls and not peer.session.closing:
            if peer.may_pull(durable_lsn):
                self._pulling[peer] = None
            elif peer.pulls[0].needs > durable_lsn:
                self._undurable[peer] = None
        if self._pulling:
            self._soon()

    def _answer_pull(self, pull: Pull) -> None:
        now = self._clock()
        try:
            [piece] = self.chunks.chunks((pull.chunk,), pull.before)
        except StoreError as error:
            self._withhold(pull, str(error), lambda text: pull.taker.give_up(text, now), now)
        else:
            pull.taker.take(piece, now)

    def _give_up(self, peer: Peer, why: str) -> None:
        """End a connection in the middle of a body that cannot be read; no delivery counts."""
        body = peer.body
        assert body is not None
        self._drop_bodies(peer)
        now = self._clock()

        def end(text: str) -> None:
            peer.session.connection_lost(now, UNREADABLE, text)

        self._withhold(body, why, end, now)
        peer.closing = True
        peer.transport.close(0)

    def _withhold(
        self, body: Body | Pull, why: str, give_back: Callable[[str], None], now: int
    ) -> None:
        """Withhold a message whose body cannot be read, after it was given back to its queue.

        It is not delivered again: it would end each connection, or link, that gets it.
        """
        consumer = self.broker.consumer_of(body.consumer, body.message)
        text = f"the body of message {body.message} cannot be read: {why}"
        give_back(text)
        if consumer is not None:
            answer = self.broker.handle(Withhold(consumer.queue.id, body.message), now)
            kept = f"it stays in queue '{consumer.queue.name}' and is not delivered"
            if isinstance(answer, Refusal):
                kept = f"it was acknowledged, and is in queue '{consumer.queue.name}' no more"
            self.on_notice(f"{text} {kept}")

    def _drop_bodies(self, peer: Peer) -> None:
        peer.drop_bodies()
        self._streaming.pop(peer, None)
        self._finishing.pop(peer, None)
        self._pulling.pop(peer, None)
        self._undurable.pop(peer, None)

    def _pause(self, peer: Peer) -> None:
        if peer not in self._paused:
            self._paused.add(peer)
            peer.session.is_unheard = True
            peer.transport.pause_reading()
            if self._is_behind() and not self._slowed_since:
                self._slowed_since = self._clock()

    def _resume(self) -> None:
        """Resume reading from paused peers, if the reason is over."""
        if not self._paused or self.writer.pending_bytes > self.options.max_pending_bytes // 2:
            return
        self._slowed_since = 0
        for peer in list(self._paused):
            is_ahead = peer.session.is_ahead(self.outbox.durable_lsn, LARGE_AHEAD_CHUNKS // 2)
            if peer.output_bytes() <= peer.output_limit // 2 and not is_ahead:
                self._paused.discard(peer)
                if peer.session.has_more:
                    self.turns.wait(peer)
                    self._soon()
                    continue
                self._read_again(peer)
                if peer.session.has_unfinished:
                    self.turns.let_finish(peer)
                    self._soon()

    def _is_behind(self) -> bool:
        """Return whether more bytes wait for the disk than allowed."""
        waiting = self.writer.pending_bytes + self.broker.pending.heap_bytes
        return waiting > self.options.max_pending_bytes

    def _went_on(self, peer: Peer) -> None:
        """Handle a peer after its turn; it may have to wait again."""
        self._after(peer)
        self.turns.allow_input()
        self._see_to_input(peer)
        session = peer.session
        is_stopped = session.has_more or session.is_blocked or peer in self._paused
        if not is_stopped and (session.has_unfinished or peer not in self.turns.waiting):
            self._read_again(peer)

    def _read_again(self, peer: Peer) -> None:
        peer.session.listen_again(self._clock())
        if not peer.awaits_login:
            peer.transport.resume_reading()

    def _tell(self, now: int) -> None:
        notices, self.broker.notices = self.broker.notices, []
        for text in notices:
            self.on_notice(text)
        self.refusals.denials.take(self.broker.rights.denials, now)
