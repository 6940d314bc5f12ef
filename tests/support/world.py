"""A broker without disk and network, and the law that holds for it: fold equals live.

`World` drives a `Broker` by commands, keeps every event in the form that a journal would give it
back in (packed rows, no bodies where they are not journaled), and folds them again to compare.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    Attach,
    AttachAll,
    Begin,
    ChangeSettings,
    Chunk,
    CloseConnection,
    Command,
    Commit,
    Credit,
    Detach,
    OpenConnection,
    RetryHeld,
    Rollback,
    Send,
    Settle,
    Start,
)
from daybook.engine.consumers.fallback import Emptying
from daybook.engine.core.core import Options
from daybook.engine.effects import REDELIVERED, RETAINED, Browsed, Effect
from daybook.engine.entries import arrivals
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.facts.details import Origin
from daybook.engine.facts.events import Row
from daybook.engine.facts.rows import unpack_wide
from daybook.engine.facts.settlements import BY_SETTLEMENT, FAILED
from daybook.engine.messages.headers import build
from daybook.engine.messages.message import UNREAD, Message
from daybook.engine.queues.consumer import Bundle
from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.level import position_of
from daybook.engine.queues.level_scan import oldest_known
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Refusal
from daybook.engine.state.apply import apply
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.engine.state.state import State
from tests.support.models.filters import compile_filter
from tests.support.worlds.hosts import HOSTS

SECOND = 1_000_000
MANY = 1 << 30


class Event(NamedTuple):
    """An event as a reader of the journal sees it."""

    lsn: int
    row: Row
    detail: bytes
    headers: bytes
    body: bytes

    @property
    def name(self) -> str:
        return events.BY_NUMBER[self.row[events.KIND]].name

    @property
    def reason(self) -> int:
        return self.row[events.REASON]

    @property
    def decoded(self) -> Any:
        return events.decode_detail(self.row[events.KIND], self.detail)


class Delivery(NamedTuple):
    """The delivery to a consumer, and the LSN that it waits for."""

    consumer: int
    message: int
    attempt: int
    gate: int
    body: bytes
    headers: bytes
    redelivered: bool
    retained: bool = False
    annotations: bytes = b""


def end_of_browse(consumer: int) -> Delivery:
    """The end of a browse, in its place behind the deliveries: no message has the id 0."""
    return Delivery(consumer, 0, 0, 0, b"", b"", False)


def unpack(batch: Any) -> list[Event]:
    """Decode a batch as the journal does: strings by the lengths in the rows."""
    heaps = [iter(heap) for heap in batch.heaps]
    found = []
    for position, packed in enumerate(batch.rows):
        row, lengths = unpack_wide(packed)
        strings = []
        for length, heap in zip(lengths, heaps, strict=True):
            string = next(heap) if length else b""
            assert len(string) == length
            strings.append(string)
        found.append(Event(batch.first_lsn + position, row, *strings))
    assert all(next(heap, None) is None for heap in heaps)
    return found


def fold(journal: list[Event], state: State | None = None) -> State:
    """Fold events into a state, a new one if none is given."""
    state = state if state is not None else State()
    for event in journal:
        apply(state, *event)
    return state


def contents(state: State) -> dict[tuple[int, int], tuple[object, ...]]:
    """Headers, body and origin of everything that is resident and that the journal has whole."""
    return {
        (queue.id, message.id): (
            message.headers,
            message.body,
            message.chunks,
            origin(state, message),
        )
        for queue in state.queues.values()
        for message in (entry.message for entry in queue.entries.values())
        if message.resident and not message.flags & events.BODY_OMITTED
    }


def origin(state: State, message: Message) -> Origin | None:
    """Where a message was before."""
    if message.origin is not UNREAD:
        return message.origin
    assert state.store is not None
    return state.store.origin(message)


def address_counts(state: State) -> dict[int, tuple[int, int]]:
    """How many messages queues of each address took, and how many none did."""
    return {each.id: (each.routed, each.unrouted) for each in state.addresses.values()}


def delivery_times(state: State) -> dict[tuple[int, int], int]:
    """When what consumers have in flight was delivered."""
    return {
        (consumer.id, number): entry.delivered_at
        for consumer in state.consumers.values()
        for number, entry in consumer.unacked.items()
    }


def check_bundle(bundle: Bundle, broker: Broker) -> None:
    """Members, order and credit of a bundle fit those of its consumers."""
    consumers = [each for each in broker.state.consumers.values() if each.bundle is bundle]
    assert set(bundle.members) == {each.id for each in consumers}
    assert set(bundle.found) | set(bundle.waiting) | set(bundle.reading) <= set(bundle.members)
    there = {(each.id, number) for each in consumers for number in (*each.unacked, *each.shown)}
    assert set(bundle.order) == (there if bundle.template.acknowledges else set())
    assert {number for _, number in bundle.order} == set(bundle.holding)
    if bundle.credit_policy == BY_SETTLEMENT and bundle.template.acknowledges:
        credited = sum(len(each.credited) for each in consumers)
        given = bundle.credit_messages + len(bundle.order) - credited
        assert given >= bundle.template.credit_messages
    # Nobody waits for credit that there is.
    assert not (bundle.waiting and bundle.has_credit) or broker.budget.is_spent


class World:
    """A broker, its clock, all its events, all its deliveries and all other effects."""

    def __init__(self, journal: Sequence[Event] = (), **options: Any) -> None:
        """Start a broker on a journal, an empty one if none is given."""
        options = {"hosts": HOSTS, "compile_filter": compile_filter, **options}
        self.options = Options(**options)
        self.now = 1_700_000_000 * SECOND
        self.journal = list(journal)
        self.deliveries: list[Delivery] = []
        self.effects: list[Effect] = []
        self.followed = 0
        self.follower = State()
        self._start()

    def _start(self, skipped: int = 0) -> None:
        self.broker = Broker(fold(self.journal), len(self.journal) + 1, self.options)
        self.ok(Start(version="test", skipped=skipped))

    # Driving.

    def handle(self, command: Command) -> int | Refusal:
        """Give the broker a command, without dispatching."""
        return self.broker.handle(command, self.now)

    def turn(self) -> None:
        """Let messages arrive, dispatch, and take what was decided and handed out."""
        arrivals.finish(self.broker)
        while self.broker.wildcard_subscriptions.has_work:
            self.broker.go_on(self.now)
        self.dispatch()

    def dispatch(self) -> None:
        """Dispatch, and take what was decided and handed out."""
        self.broker.dispatch(self.now)
        own: list[tuple[Emptying, Message, int, int, int]] = []
        for effect in self.broker.effects:
            if isinstance(effect, Browsed):
                self.deliveries.append(end_of_browse(effect.consumer.id))
                continue
            if not isinstance(effect, tuple):
                self.effects.append(effect)
                continue
            consumer, message, count, marks, gate = effect
            if isinstance(consumer.receiver, Emptying):
                own.append((consumer.receiver, message, count, marks, gate))
            self.deliveries.append(
                Delivery(
                    consumer.id, message.id, count, gate, message.body, message.headers,
                    bool(marks & REDELIVERED), bool(marks & RETAINED), message.annotations,
                )
            )  # fmt: skip
        self.broker.effects.clear()
        batch = self.broker.take()
        if batch is not None:
            assert batch.first_lsn == len(self.journal) + 1
            self.journal.extend(unpack(batch))
        assert len(self.journal) == self.broker.lsn
        for emptying, message, count, marks, gate in own:
            # The broker itself is the consumer.
            emptying.deliver(message, count, marks, gate)
        if own:
            self.dispatch()

    def ok(self, command: Command) -> int:
        """Execute a command, with dispatch; it must not be refused."""
        answer = self.handle(command)
        assert not isinstance(answer, Refusal), answer.text
        self.turn()
        return answer

    def refused(self, command: Command) -> Refusal:
        """Execute a command that must be refused and must change nothing."""
        self.turn()
        before = (self.broker.next_lsn, digest(self.state))
        answer = self.handle(command)
        assert isinstance(answer, Refusal), answer
        assert (self.broker.next_lsn, digest(self.state)) == before
        assert answer.text[0].islower() or answer.text[0] == "'"
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    def restart(self, skipped: int = 0) -> None:
        """Kill the broker, fold what it journaled, and start another on it."""
        self.turn()
        self.check()
        self._start(skipped)

    def lose(self, lsn: int, skipped: int = 0) -> None:
        """Kill the broker when only the events up to one were durable, and start another."""
        del self.journal[lsn:]
        self.deliveries = [each for each in self.deliveries if each.gate <= lsn]
        if self.followed > lsn:
            self.followed, self.follower = 0, State()
        self._start(skipped)

    def check(self) -> None:
        """Fold equals live, and both are consistent in themselves."""
        self.turn()
        self._check_derived()
        folded = fold(self.journal)
        assert check_invariants(self.state) == []
        assert check_invariants(folded) == []
        assert digest(folded) == digest(self.state)
        assert address_counts(folded) == address_counts(self.state)
        assert delivery_times(folded) == delivery_times(self.state)
        carried = {each.row[events.MESSAGE] for each in self.journal if each.name == "Carried"}
        resident = {
            key: value for key, value in contents(self.state).items() if key[1] not in carried
        }
        assert resident.items() <= contents(folded).items()

    def _check_derived(self) -> None:
        """Check the derived data of the broker that is not part of the state."""
        broker = self.broker
        for queue in self.state.queues.values():
            # From now on the queue knows it; the invariants say whether it is right then.
            oldest_known(queue)
        assert {address.name for address in broker.wildcards.all()} == {
            address.name for address in self.state.addresses.values() if address.is_wildcard
        }
        deleting = Counter(q.address.id for q in self.state.queues.values() if q.deleting)
        assert broker.work.ending == deleting
        assert deleting.keys() <= self.state.addresses.keys()
        forwarded = Counter(dict.fromkeys(self.state.connections, 0))
        underway = {copies.forwarding for at in broker.direct.copying for copies in at.copies}
        for link in broker.direct.receivers.values():
            waiting = (each for line in link.waiting.values() for each in line)
            for each in (*link.outstanding.values(), *waiting):
                forwarded[link.connection_id] += each.message.weight
                underway.add(each)
        for each in underway:
            if each.speaker is not None and each.speaker.id in forwarded:
                forwarded[each.speaker.id] += each.said_bytes
        for connection in self.state.connections.values():
            assert connection.forwarded_bytes == forwarded[connection.id]
        for bundle in broker.bundles.values():
            check_bundle(bundle, broker)

    def follow(self) -> None:
        """Check as `check` does, folding only what is new since the last call."""
        self.turn()
        self._check_derived()
        fold(self.journal[self.followed :], self.follower)
        self.followed = len(self.journal)
        assert check_invariants(self.state) == []
        assert check_invariants(self.follower) == []
        assert digest(self.follower) == digest(self.state)
        assert address_counts(self.follower) == address_counts(self.state)
        assert delivery_times(self.follower) == delivery_times(self.state)
        assert contents(self.state).items() <= contents(self.follower).items()

    # Commands by name.

    def connect(self, **values: Any) -> int:
        return self.ok(OpenConnection("stomp", "peer", "guest", **{"room": MANY, **values}))

    def close(self, connection: int, reason: int = reasons.CLOSED) -> int:
        return self.ok(CloseConnection(connection, reason))

    def attach(self, connection: int, address: str, **values: Any) -> int:
        return self.ok(Attach(connection, address, **values))

    def attach_all(
        self, connection: int, *addresses: str, queues_max: int = 1000, **values: Any
    ) -> int:
        """Attach one subscription to several: anycast by a name or pattern, multicast if it begins
        with a slash."""
        parts = [
            Attach(
                connection,
                name.removeprefix("/"),
                routing_type=MULTICAST if name.startswith("/") else ANYCAST,
                **values,
            )
            for name in addresses
        ]
        return self.ok(AttachAll(connection, parts, queues_max))

    def detach(self, consumer: int, **values: Any) -> int:
        return self.ok(Detach(consumer, **values))

    def send(self, address: str, body: bytes = b"", connection: int = 0, **values: Any) -> int:
        headers = build(list(values.pop("headers", {}).items()))
        return self.ok(Send(connection, address, headers, body, **values))

    def send_large(
        self, address: str, pieces: Sequence[bytes], connection: int = 0, **values: Any
    ) -> int:
        """Send a large message, chunk by chunk."""
        command = Send(connection, address, build(list(values.pop("headers", {}).items())), b"")
        for name, value in values.items():
            setattr(command, name, value)
        lsn = 0
        for piece in pieces:
            lsn = self.ok(Chunk(command, piece, lsn))
            command.chunks += (lsn,)
        command.body_bytes = sum(map(len, pieces))
        return self.ok(command)

    def large_body(self, message: Message) -> bytes:
        """The body of a large message, from the chunks that the journal has."""
        return b"".join(self.journal[lsn - 1].body for lsn in message.chunks)

    def ack(self, consumer: int, message: int, **values: Any) -> int:
        return self.ok(Settle(consumer, message, **values))

    def nack(self, consumer: int, message: int, **values: Any) -> int:
        return self.ok(Settle(consumer, message, **values, outcome=FAILED))

    def credit(self, consumer: int, messages: int = 0, size: int = 0) -> int:
        return self.ok(Credit(consumer, messages, size))

    def begin(self, connection: int, name: str = "t") -> int:
        return self.ok(Begin(connection, name))

    def commit(self, connection: int, name: str = "t") -> int:
        return self.ok(Commit(connection, name))

    def abort(self, connection: int, name: str = "t") -> int:
        return self.ok(Rollback(connection, name))

    def retry(self) -> None:
        """Let the broker look at what is held, until nothing changes."""
        self.turn()
        while self.broker.retry_due:
            self.ok(RetryHeld())

    def settings(self, mode: str = "decisions", **matches: dict[str, Any]) -> int:
        """Put settings in force; `all` is the match `#`, two underscores are a dot."""
        named = {
            "#" if match == "all" else match.replace("__", "."): {
                key.replace("_", "-"): value for key, value in values.items()
            }
            for match, values in matches.items()
        }
        return self.ok(ChangeSettings(named, mode))

    # Looking.

    @property
    def state(self) -> State:
        return self.broker.state

    def queue(self, name: str) -> Queue:
        return self.state.queue_by_name[name]

    def entries(self, name: str) -> list[Entry]:
        """All that is in the queue, in order of arrival, with content."""
        queue = self.queue(name)
        there = (*queue.standing(), *queue.entries.values())
        found = {entry.message.id: entry for entry in there}
        for entry in found.values():
            if not entry.message.resident:
                self.broker.fill(entry.message)
        return sorted(found.values(), key=position_of)

    def ready(self, name: str) -> list[bytes]:
        """Bodies of what is ready, in order of delivery."""
        entries = {entry.message.id: entry for entry in self.entries(name)}
        return [entries[entry.message.id].message.body for entry in self.queue(name).ready()]

    def held(self, name: str) -> list[bytes]:
        """Bodies of what is held, in order of arrival."""
        return [entry.message.body for entry in self.entries(name) if entry.held]

    def bodies(self, name: str) -> list[bytes]:
        """Bodies of all that is in the queue, in order of arrival."""
        return [entry.message.body for entry in self.entries(name)]

    def counts(self, name: str) -> dict[bytes, int]:
        """Delivery counts by body."""
        return {entry.message.body: entry.delivery_count for entry in self.entries(name)}

    def in_flight(self, name: str) -> list[bytes]:
        return [entry.message.body for entry in self.entries(name) if entry.state != READY]

    def taken(self, consumer: int | None = None) -> list[Delivery]:
        """Return the deliveries since the last look, to one consumer or to all."""
        found = [d for d in self.deliveries if consumer is None or d.consumer == consumer]
        self.deliveries = [d for d in self.deliveries if d not in found]
        return found

    def taken_bodies(self, consumer: int | None = None) -> list[bytes]:
        return [delivery.body for delivery in self.taken(consumer)]

    def events_named(self, name: str) -> list[Event]:
        self.turn()
        return [event for event in self.journal if event.name == name]

    def names_since(self, lsn: int) -> list[str]:
        """Names of the events after an LSN."""
        return [event.name for event in self.journal[lsn:]]
