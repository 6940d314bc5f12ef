"""The memory account: memory that clients can make grow, and its limits.

Memory is estimated by kind (`KINDS`): some kinds are counted at each change (transactions,
deliveries in flight, bytes to and from each peer), the others are computed from the number of
objects. The limit is `max-memory`. Each kind that a client can make grow may use a quarter of it,
and has its own remedy when that is used up, so that one attack affects only one kind:

- output: all peers get small rooms (`room_of`) until it is less;
- deliveries in flight: all connections may have little in flight (`Core.unacked_max`);
- transactions: those of the connection that holds the most are rolled back
  (`engine.consumers.transactions`);
- input: the peers with the most that is not complete (frames, and messages of several) are
  disconnected, those of the user with the most first;
- connections, subscriptions, queues, addresses, ids: clients cannot create more;
- messages: addresses page (`global-max-size`, never above a quarter).

A user has a share of each kind, and of all together (`server.hub.shares`). The same remedies apply
to the connections of a user that has more, and to nobody else. Freed memory goes back to the system
(`server.process.heap`).

A peer that uses much of a kind that is short, and reads or settles nothing of it for
`stalled-timeout`, is disconnected. If the total still reaches the limit, producers are blocked; if
that does not help within seconds, the peer that uses the most is disconnected. So all memory can be
freed.

Must never know sockets. Its decisions reach the engine as volatile input, as credit does.
"""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from daybook.engine.broker import Broker
from daybook.engine.commands import ExpireTransactions
from daybook.engine.limits.pools import MEMORY_CONNECTION_PART
from daybook.engine.queues.consumer import UNLIMITED
from daybook.engine.queues.latest import LATEST_BYTES
from daybook.engine.queues.queue import Address
from daybook.engine.routing.duplicates import remembered
from daybook.engine.settling.delivery import limit_unacked
from daybook.server.hub.journal_port import Writer
from daybook.server.hub.peer import Peer
from daybook.server.hub.shares import ALL, INPUT, OBJECTS, OUTPUT, UNACKNOWLEDGED, Shares
from daybook.server.process.heap import Heap
from daybook.server.process.machine_memory import resident

CONNECTION_BYTES: Final = 24 * 1024
CONSUMER_BYTES: Final = 4 * 1024
TOUR_BYTES: Final = 8 * 1024
BUNDLE_BYTES: Final = 4 * 1024
QUEUE_BYTES: Final = 2 * 1024
ADDRESS_BYTES: Final = 512
ID_BYTES: Final = 128
WILDCARD_BYTES: Final = 512
GROUP_BYTES: Final = 512
NAME_COPIES: Final = 4
"""The measured memory of one object of each kind, without parts that are counted elsewhere; of one
word of a wildcard address; and of a message group that a consumer has. The last is how often the
name of a queue or address is stored.
"""

PRESSED_ROOM: Final = 16 * 1024
"""Bytes of deliveries on the way to one peer while output uses up its share."""
TUNED_ROOM_MIN: Final = 20 * 1024
TUNED_ROOMS: Final = 64 << 20
"""The limits of tuned rooms: the least room of a connection, and the room that all share. The
protocol of a connection sets the most."""

PRESSED_UNACKED: Final = 64 * 1024
"""Bytes of deliveries in flight to one connection while these use up their share."""

STALLED_BYTES: Final = 64 * 1024
"""A peer that uses less is not disconnected for being stalled."""

INPUT_BYTES: Final = 192 * 1024
"""A peer with less input that is not complete is not disconnected when input is short."""

HOLDER_BYTES: Final = 64 * 1024
"""A peer that uses less is not disconnected even if the broker is full."""

SWEPT_AT_A_TIME: Final = 1000
"""How many peers are recounted at each tick."""
COUNTED_AT_A_TIME: Final = 5000
"""Of how many addresses the ids are counted at each tick."""

ROUND_US: Final = 1_000_000
FULL_US: Final = 5_000_000
"""How long the total may be full before the peer that uses the most is disconnected."""

DISMISSED_AT_A_TIME: Final = 32
SHOWN_MAX: Final = 10
KINDS: Final = (
    "messages", "unacknowledged", "transactions", "output", "input", "objects", "journal",
)  # fmt: skip


class MemoryOptions(msgspec.Struct):
    """Limits in bytes and microseconds. `limit` 0 means no limit, `stalled_us` 0 means never.

    `of_user` is what one user may hold of all kinds together, 0 for no limit.
    """

    limit: int = 0
    of_user: int = 0
    unacked_max: int = UNLIMITED
    stalled_us: int = 30_000_000
    transaction_timeout_us: int = 300_000_000
    transaction_scan_us: int = 1_000_000

    @property
    def share(self) -> int:
        """The bytes that one kind may use."""
        return self.limit // 4 if self.limit > 0 else UNLIMITED

    @property
    def in_flight(self) -> int:
        """The bytes that one connection may have in flight."""
        return min(self.unacked_max, self.share // MEMORY_CONNECTION_PART)


class Memory:
    """The account of one broker. `dismiss` disconnects a peer, with the reason and advice."""

    def __init__(
        self,
        broker: Broker,
        writer: Writer,
        peers: Collection[Peer],
        options: MemoryOptions,
        *,
        make_room: Callable[[Peer], None],
        dismiss: Callable[[Peer, str, str], None],
    ) -> None:
        self.options = options
        self.output = 0
        self.input = 0
        # Whether the next turn must check the account.
        self.is_due = False
        self.is_output_short = False
        self.is_unacked_short = False
        self.dismissed = 0
        self._broker: Final = broker
        self._writer: Final = writer
        self._peers: Final = peers
        self._make_room: Final = make_room
        self._dismiss: Final = dismiss
        self.heap = Heap(None)
        self.shares: Final = Shares()
        # Users that have more than `of_user`, and since when.
        self._users_full: dict[str, int] = {}
        self._to_sweep: list[Peer] = []
        self._ids = self._total = 0
        # The addresses whose ids are still to be counted in this round, and the count so far.
        self._to_count: list[Address] = []
        self._counted = 0
        self._full_since = 0
        self._next_round = 0
        self._next_scan = 0
        # For peers that use much of a kind that is short: the least that they used, and since when.
        self._marks: dict[Peer, tuple[int, int]] = {}
        self.configure(options)

    def configure(self, options: MemoryOptions) -> None:
        """Apply other limits."""
        self.options = options
        self._limit_unacked()

    # ---- what peers hold

    def charge(self, peer: Peer, output: int) -> None:
        """Note how many bytes are on the way to a peer."""
        if output != peer.charged_output:
            self.output += output - peer.charged_output
            peer.charged_output = output
            if self.output > self.options.share and not self.is_output_short:
                self.is_due = True

    def charge_input(self, peer: Peer) -> None:
        """Note how many bytes of a peer's input its session holds."""
        used = peer.session.buffered_bytes + peer.layer_bytes
        if used != peer.charged_input:
            self.input += used - peer.charged_input
            peer.charged_input = used
            if self.input > self.options.share:
                self.is_due = True

    def forget(self, peer: Peer) -> None:
        """Stop counting a peer whose connection ended."""
        self.output -= peer.charged_output
        self.input -= peer.charged_input
        peer.charged_output = peer.charged_input = 0
        self._marks.pop(peer, None)

    def room_of(self, peer: Peer) -> int:
        """Return how many bytes of deliveries may be on their way to a peer now."""
        room = tuned(peer.room, len(self._peers)) if peer.is_tuned else peer.room
        is_short = self.is_output_short
        if self.shares.short and not is_short:
            is_short = self.shares.is_short(self._user_of(peer), OUTPUT)
        return min(PRESSED_ROOM, room) if is_short else room

    # ---- periodic work

    def tick(self, now: int) -> None:
        """Recount, and apply the remedies. Called ten times a second."""
        self._sweep(now)
        self._count_ids(now)
        self.review(now)
        self.heap.tick(self._total, now)
        if now >= self._next_scan:
            self._next_scan = now + self.options.transaction_scan_us
            if self.options.transaction_timeout_us > 0 and self._broker.transactions.count:
                self._broker.handle(ExpireTransactions(self.options.transaction_timeout_us), now)
        if now >= self._next_round:
            self._next_round = now + ROUND_US
            self._relieve(now)

    def clock_stepped(self, step: int, now: int) -> None:
        """Adjust measured times after the clock was set."""
        self._broker.transactions.clock_stepped(step)
        self._next_round = self._next_scan = now
        self._full_since = now if self._full_since else 0
        self._users_full = dict.fromkeys(self._users_full, now)
        self.heap.clock_stepped(now)
        self._marks.clear()

    def _count_ids(self, now: int) -> None:
        """Count the ids that some addresses remember, in a round that begins once a second."""
        if not self._to_count:
            if now < self._next_round:
                return
            self._to_count = list(self._broker.state.addresses.values())
            self._counted = 0
        self._counted += sum(map(remembered, self._to_count[-COUNTED_AT_A_TIME:]))
        del self._to_count[-COUNTED_AT_A_TIME:]
        if not self._to_count:
            self._ids = self._counted

    def _sweep(self, now: int) -> None:
        """Recount some peers, because sockets do not report the bytes that they send."""
        weights = self._broker.transactions.charges.of_connection
        if not self._to_sweep:
            self._to_sweep = list(self._peers)
        for peer in self._to_sweep[-SWEPT_AT_A_TIME:]:
            if not peer.closed:
                self.charge(peer, peer.output_bytes())
                self.charge_input(peer)
                self._count(peer, weights)
        del self._to_sweep[-SWEPT_AT_A_TIME:]
        if not self._to_sweep:
            self._judge_users(now)

    def _count(self, peer: Peer, weights: dict[int, int]) -> None:
        """Count what a peer holds for its user."""
        connection = self._broker.state.connections.get(peer.connection)
        if connection is None:
            return
        each = CONSUMER_BYTES + QUEUE_BYTES
        left = QUEUE_BYTES * self._broker.owners.left_count(connection.id)
        self.shares.count(
            connection.user,
            output=peer.charged_output,
            input=peer.charged_input,
            unacknowledged=connection.unacked_bytes,
            transactions=weights.get(connection.id, 0),
            objects=CONNECTION_BYTES + peer.fixed_bytes + each * len(connection.consumers) + left,
        )

    # ---- shares of users

    def _judge_users(self, now: int) -> None:
        """Apply the remedies to users that have more than their share."""
        options, shares = self.options, self.shares
        for user, queues in self._broker.state.queues_of.items():
            shares.count(user, objects=queues * (QUEUE_BYTES + ADDRESS_BYTES))
        most = options.of_user if options.of_user > 0 else UNLIMITED
        changed = shares.complete(options.share, most)
        if changed:
            self._press(changed)
        for user in shares.short:
            if shares.is_short(user, INPUT) and (excess := shares.excess(user, options.share)) > 0:
                self._dismiss_senders(excess, user)
        self._users_full = {
            user: self._users_full.get(user, now)
            for user, short in shares.short.items()
            if ALL in short
        }

    def _press(self, changed: dict[str, frozenset[str]]) -> None:
        """Limit the memory of users that have more than their share now, or lift the limit."""
        notices = self._broker.notices
        for user, short in changed.items():
            used = sum(self.shares.of_user.get(user, {}).values())
            notices.append(
                f"user '{user}' holds {used} bytes of memory, more than its share of "
                f"{', '.join(sorted(short))} (max-memory-per-user): its connections get little at a"
                " time until it is less"
                if short
                else f"user '{user}' holds {used} bytes of memory, less than its share again"
            )
        texts: dict[str, tuple[str, str]] = {}
        for user in self.shares.short:
            if self.shares.is_short(user, OBJECTS):
                text = (
                    f"the broker makes no more %s for user '{user}': those it has take more memory "
                    "than its share (max-memory-per-user); delete some, or raise max-memory"
                )
                over = text % "subscriptions" if OBJECTS in self.shares.short[user] else ""
                texts[user] = text % "queues and addresses", over
        self._broker.report_users(texts)
        for peer in list(self._peers):
            if not peer.closed and self._user_of(peer) in changed:
                self._make_room(peer)
        self._limit_unacked(changed)

    def review(self, now: int) -> None:
        """Compare the account with its limits, and apply the remedies."""
        self.is_due = False
        share = self.options.share
        used = self.by_kind()
        output_short = _is_short(self.output, share, self.is_output_short)
        if output_short != self.is_output_short:
            self.is_output_short = output_short
            self._tell("output that clients do not read", self.output, output_short)
            for peer in list(self._peers):
                if not peer.closed:
                    self._make_room(peer)
        unacked = used["unacknowledged"]
        unacked_short = _is_short(unacked, share, self.is_unacked_short)
        if unacked_short != self.is_unacked_short:
            self.is_unacked_short = unacked_short
            self._tell("deliveries that are not acknowledged", unacked, unacked_short)
            self._limit_unacked()
        self._limit_objects(used["objects"])
        if self.input > share:
            self._dismiss_senders(self.input - share * 7 // 8)
        self._total = sum(used.values())
        self._hold(self._total, now)

    def _limit_objects(self, used: int) -> None:
        """Forbid new queues and addresses, or also consumers, when these use too much."""
        share = self.options.share
        text = (
            f"the broker makes no more %s for clients: connections, subscriptions, queues, "
            f"addresses and ids take {used} bytes of memory, and their share is a quarter of "
            f"max-memory, {share} bytes; delete some, or raise max-memory"
        )
        full = text % "queues and addresses" if used > share else ""
        over = text % "subscriptions" if used > 2 * share else ""
        if bool(full) != bool(self._broker.room.objects_full) and full:
            self._broker.notices.append(full)
        self._broker.report_objects(full, over)

    def _hold(self, total: int, now: int) -> None:
        """Block producers, or resume them, depending on the total."""
        limit = self.options.limit if self.options.limit > 0 else UNLIMITED
        full = _is_short(total, limit, bool(self._full_since))
        if full == bool(self._full_since):
            return
        self._full_since = now if full else 0
        if not full:
            self._broker.report_memory("")
            self._broker.notices.append(f"memory is free again: {total} of {limit} bytes are held")
            return
        text = (
            f"the broker is short of memory: it holds {total} bytes, and max-memory is {limit}; it "
            "takes no messages until some were consumed"
        )
        self._broker.report_memory(text)
        self._broker.notices.append(text)

    def _tell(self, what: str, used: int, is_short: bool) -> None:
        share = self.options.share
        self._broker.notices.append(
            f"{what} takes {used} bytes of memory, more than a quarter of max-memory ({share}): "
            "each connection gets little at a time until it is less"
            if is_short
            else f"{what} takes {used} bytes of memory, less than its share again"
        )

    def _limit_unacked(self, users: Collection[str] | None = None) -> None:
        """Limit the deliveries in flight to each connection, or only to those of some users."""
        broker, most = self._broker, self.options.in_flight
        pressed = min(PRESSED_UNACKED, most)
        broker.unacked_max = pressed if self.is_unacked_short else most
        for connection in broker.state.connections.values():
            if users is None or connection.user in users:
                is_short = self.shares.is_short(connection.user, UNACKNOWLEDGED)
                limit_unacked(broker, connection, pressed if is_short else broker.unacked_max)

    # ---- disconnecting peers

    def _relieve(self, now: int) -> None:
        """Disconnect peers that keep the broker short of memory."""
        is_short = self.is_output_short or self.is_unacked_short or self._full_since
        if not (is_short or self.shares.short):
            self._marks.clear()
            return
        if self.options.stalled_us > 0:
            self._dismiss_stalled(now)
        if self._full_since and now - self._full_since >= FULL_US:
            self._dismiss_largest(sum(self.by_kind().values()) - self.options.limit * 7 // 8)
        for user, since in self._users_full.items():
            if now - since >= FULL_US:
                used = sum(self.shares.of_user.get(user, {}).values())
                self._dismiss_largest(used - self.options.of_user * 7 // 8, user)

    def _dismiss_stalled(self, now: int) -> None:
        marks: dict[Peer, tuple[int, int]] = {}
        left = DISMISSED_AT_A_TIME
        for peer in list(self._peers):
            used = self._short_bytes(peer)
            if used < STALLED_BYTES or peer.session.closing:
                continue
            least, since = self._marks.get(peer, (used + 1, now))
            if used < least:
                least, since = used, now
            marks[peer] = (least, since)
            if now - since >= self.options.stalled_us and left > 0:
                left -= 1
                seconds = self.options.stalled_us / 1_000_000
                self._end(
                    peer,
                    f"the broker is short of memory, and this connection holds {used} bytes of "
                    f"messages of which it took and settled nothing for {seconds:g} seconds "
                    "(stalled-timeout)",
                )
        self._marks = marks

    def _short_bytes(self, peer: Peer) -> int:
        shares, user = self.shares, self._user_of(peer) if self.shares.short else ""
        is_short = self.is_output_short or self._full_since or shares.is_short(user, OUTPUT)
        used = peer.output_bytes() if is_short else 0
        if self.is_unacked_short or self._full_since or shares.is_short(user, UNACKNOWLEDGED):
            used += self._unacked_bytes(peer)
        return used

    def _unacked_bytes(self, peer: Peer) -> int:
        connection = self._broker.state.connections.get(peer.connection)
        return connection.unacked_bytes if connection is not None else 0

    def _dismiss_senders(self, too_much: int, user: str | None = None) -> None:
        """Disconnect the peers with the largest unfinished input, of all users or of one, until so
        much is gone. The user that holds the most is the first to lose some."""
        held: Counter[str] = Counter()
        senders = []
        for peer in self._peers:
            whose = self._user_of(peer)
            held[whose] += peer.charged_input
            if peer.charged_input >= INPUT_BYTES and user in (None, whose):
                senders.append((whose, peer))
        # Strangers have nothing in common.
        held[""] = 0
        senders.sort(key=lambda each: (held[each[0]], each[1].charged_input), reverse=True)
        whose, part = ("clients", "a quarter") if user is None else (f"user '{user}'", "an eighth")
        for _, peer in senders:
            if too_much <= 0:
                return
            too_much -= peer.charged_input
            self._end(
                peer,
                f"what {whose} began to send and did not finish takes {part} of max-memory, and "
                f"this connection holds the most of it, {peer.charged_input} bytes",
            )
            self.charge_input(peer)

    def _dismiss_largest(self, too_much: int, user: str | None = None) -> None:
        """Disconnect the peers that use the most, of all users or of one, until so much is gone."""
        key = "max-memory" if user is None else "max-memory-per-user"
        holders = []
        for peer, used in self._holders():
            if user not in (None, self._user_of(peer)):
                continue
            if peer.session.closing:
                too_much -= used
            elif used >= HOLDER_BYTES:
                holders.append((peer, used))
        for peer, used in holders[:DISMISSED_AT_A_TIME]:
            if too_much <= 0:
                return
            too_much -= used
            self._end(
                peer,
                f"the broker is short of memory ({key}), and this connection holds the most of "
                f"it: {used} bytes of output, deliveries and transactions",
            )

    def _end(self, peer: Peer, what: str) -> None:
        self.dismissed += 1
        user = self._user_of(peer)
        self._broker.notices.append(f"connection of {peer.name} (user '{user}') is closed: {what}")
        self._dismiss(
            peer,
            what,
            "read faster, acknowledge and finish frames in time, or raise max-memory of the broker",
        )

    def _user_of(self, peer: Peer) -> str:
        connection = self._broker.state.connections.get(peer.connection)
        return connection.user if connection is not None else ""

    def _holders(self) -> list[tuple[Peer, int]]:
        """Return peers by the memory that they use, the most first."""
        weights = self._broker.transactions.by_connection()
        found = [
            (
                peer,
                peer.charged_output
                + peer.charged_input
                + self._unacked_bytes(peer)
                + weights.get(peer.connection, 0),
            )
            for peer in self._peers
        ]
        found.sort(key=_bytes_of, reverse=True)
        return found

    # ---- for people

    def by_kind(self) -> dict[str, int]:
        """Return the bytes used by each kind, in the order of KINDS."""
        broker = self._broker
        state, sizes = broker.state, broker.room.sizes
        unacked = sum([connection.unacked_bytes for connection in state.connections.values()])
        unqueued = sum(
            [each.shown_bytes + each.forwarded_bytes for each in state.connections.values()]
        )
        objects = (
            CONNECTION_BYTES * len(self._peers)
            + CONSUMER_BYTES * (len(state.consumers) + broker.direct.count)
            + TOUR_BYTES * state.browser_count
            + BUNDLE_BYTES * len(broker.bundles)
            + QUEUE_BYTES * len(state.queues)
            + ADDRESS_BYTES * len(state.addresses)
            + ID_BYTES * self._ids
            + LATEST_BYTES * sum(len(queue.latest or ()) for queue in state.keyed.values())
            + NAME_COPIES * state.names_length
            + WILDCARD_BYTES * (broker.wildcards.nodes + broker.wildcard_subscriptions.nodes)
            + GROUP_BYTES * (state.groups.known + state.groups.flying)
            + sum([peer.fixed_bytes for peer in self._peers])
        )
        return {
            "messages": max(0, sizes.weight - unacked + unqueued),
            "unacknowledged": unacked,
            "transactions": broker.transactions.weight,
            "output": self.output,
            "input": self.input,
            "objects": objects,
            "journal": self._writer.pending_bytes + broker.pending.raw_bytes,
        }

    def status(self) -> dict[str, Any]:
        """Return the memory by kind and by peer, for `daybook status`."""
        used = self.by_kind()
        weights = self._broker.transactions.by_connection()
        most = [
            {
                "connection": peer.connection,
                "peer": peer.name,
                "user": self._user_of(peer),
                "bytes": size,
                "output": peer.charged_output,
                "input": peer.charged_input,
                "unacknowledged": self._unacked_bytes(peer),
                "transactions": weights.get(peer.connection, 0),
            }
            for peer, size in self._holders()[:SHOWN_MAX]
            if size
        ]
        return {
            "max_memory": self.options.limit,
            "memory_held": sum(used.values()),
            "memory_resident": resident(),
            "memory_short_of": self._short_of(),
            "connections_dismissed": self.dismissed,
            "memory": used,
            "memory_holders": most,
            "memory_users": self.shares.largest(SHOWN_MAX),
            **self.heap.status(),
        }

    def _short_of(self) -> str:
        short = [
            name
            for name, is_so in (
                ("output", self.is_output_short),
                ("unacknowledged", self.is_unacked_short),
                ("objects", bool(self._broker.room.objects_full)),
                ("all", bool(self._full_since)),
            )
            if is_so
        ]
        return ", ".join(short)


def _is_short(used: int, limit: int, was_short: bool) -> bool:
    """Return whether the limit is exceeded; after that, until an eighth of it is free."""
    return used > limit * 7 // 8 if was_short else used > limit


def _bytes_of(item: tuple[Peer, int]) -> int:
    return item[1]


def tuned(room: int, connections: int) -> int:
    """Return the room of a connection among so many, at most `room`."""
    return min(room, max(TUNED_ROOM_MIN, TUNED_ROOMS // max(1, connections)))
