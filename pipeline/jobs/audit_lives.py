"""When queues, consumers and connections existed in an audited span.

Collected from their events, in order; memory grows with their number, not with the number of
messages. A consumer or connection that is older than the span is known only from its later events.
Must never know which engine runs the SQL.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, cast

import msgspec

from daybook.engine.facts import details, events, life
from daybook.engine.facts.kinds import NAMING, changing, names
from daybook.history.initial_state import beginning
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.selection import Selection

NEVER: Final = 1 << 62
"""An LSN after all others: the end of something that has not ended."""

LIFE_COLUMNS: Final = (
    "lsn", "kind_id", "address_id", "queue_id", "consumer", "connection", "detail",
)  # fmt: skip
ADDRESS_NAMING: Final = changing({life.ADDRESS}, {life.BEGINS, life.CHANGES})
QUEUE_NAMING: Final = changing({life.QUEUE}, {life.BEGINS, life.CHANGES})


class Fault(msgspec.Struct, frozen=True):
    """An impossible or forbidden event: its kind, its place, and a sentence.

    `lsns` are the events that show it, the first ones if there are many; `events` is their number.
    """

    kind: str
    lsns: tuple[int, ...]
    text: str
    message: int = 0
    queue: str = ""
    address: str = ""
    events: int = 1


class LifeEvent(NamedTuple):
    """An event of one of TOPOLOGY, with its detail as JSON."""

    lsn: int
    kind: int
    address: int
    queue: int
    consumer: int
    connection: int
    detail: str | None


class QueueLife:
    """The life of a queue: begin and end (LSNs), name, address, and whether it is durable."""

    __slots__ = ("address", "begins", "deleted", "durable", "ends", "name")

    def __init__(self, begins: int, name: str, address: int, *, durable: bool) -> None:
        self.begins = begins
        self.ends = NEVER
        self.deleted = False
        self.name = name
        self.address = address
        self.durable = durable


class ConsumerLife:
    """The life of a consumer: begin and end (LSNs), queue and connection (0 for unknown)."""

    __slots__ = ("begins", "connection", "ends", "queue")

    def __init__(self, begins: int, queue: int, connection: int) -> None:
        self.begins = begins
        self.ends = NEVER
        self.queue = queue
        self.connection = connection


class Lives:
    """The lives of queues, consumers and connections in a span that begins with event `first`."""

    def __init__(self, first: int) -> None:
        self.first: Final = first
        self.restarts: Final[list[int]] = []
        self.queues: Final[dict[int, QueueLife]] = {}
        self.consumers: Final[dict[int, ConsumerLife]] = {}
        self.addresses: Final[dict[int, str]] = {}
        self.faults: Final[list[Fault]] = []
        self._closed: Final[dict[int, int]] = {}
        self._open: Final[dict[int, set[int]]] = {}

    def learn(self, event: LifeEvent) -> None:
        """Process the next event; LSN 0 stands for what existed before the first event."""
        kind = event.kind
        if kind in ADDRESS_NAMING:
            detail = msgspec.json.decode(event.detail or "{}", type=details.AddressDetail)
            self.addresses[event.address] = detail.name
        elif kind in QUEUE_NAMING:
            self._queue_named(event)
        elif event.lsn < self.first:
            return
        elif kind == events.QUEUE_DELETED:
            self._queue_deleted(event)
        elif kind == events.CONNECTION_OPENED:
            self._open[event.connection] = set()
        elif kind == events.CONNECTION_CLOSED:
            self._closed_one(event)
        elif kind == events.CONSUMER_ATTACHED:
            self._attached(event)
        elif kind == events.CONSUMER_DETACHED:
            self._detached(event)
        elif kind == events.BROKER_STARTED:
            self._restarted(event.lsn)

    def _queue_named(self, event: LifeEvent) -> None:
        detail = msgspec.json.decode(event.detail or "{}", type=details.QueueDetail)
        life = self.queues.get(event.queue)
        if life is None or event.kind == events.QUEUE_CREATED:
            # A queue older than the span may also have ended before it; then it has no events in
            # it.
            begins = event.lsn if event.lsn >= self.first else 0
            known = QueueLife(begins, detail.name, event.address, durable=detail.durable)
            self.queues[event.queue] = known
        else:
            life.name, life.address = detail.name, event.address

    def _queue_deleted(self, event: LifeEvent) -> None:
        life = self.queues.setdefault(
            event.queue, QueueLife(0, f"#{event.queue}", event.address, durable=True)
        )
        if life.ends < event.lsn:
            self._blame("no-queue", event, "it had ended", life.ends)
            return
        life.ends, life.deleted = event.lsn, True

    def _closed_one(self, event: LifeEvent) -> None:
        connection = event.connection
        if connection >= self.first and connection not in self._open:
            self._blame("no-connection", event, "it had ended", self._closed.get(connection, 0))
            return
        for consumer in sorted(self._open.pop(connection, ())):
            life = self.consumers[consumer]
            life.ends = event.lsn
            text = (
                f"connection {connection} was closed by event {event.lsn} while its consumer "
                f"{consumer} was attached; ConsumerDetached comes first"
            )
            queue, address = self.place(life.queue)
            self.faults.append(
                Fault("not-detached", (consumer, event.lsn), text, queue=queue, address=address)
            )
        self._closed[connection] = event.lsn

    def _attached(self, event: LifeEvent) -> None:
        connection, consumer = event.connection, event.consumer
        if connection >= self.first and connection not in self._open:
            self._blame("no-connection", event, "it had ended", self._closed.get(connection, 0))
        self._open.setdefault(connection, set()).add(consumer)
        self.consumers[consumer] = ConsumerLife(event.lsn, event.queue, connection)

    def _detached(self, event: LifeEvent) -> None:
        consumer = event.consumer
        life = self.consumers.get(consumer)
        if life is None and consumer < self.first:
            life = self.consumers[consumer] = ConsumerLife(0, event.queue, event.connection)
        if life is None or life.ends < NEVER:
            self._blame("no-consumer", event, "it had ended", life.ends if life else 0)
            return
        life.ends = event.lsn
        self._open.get(life.connection, set()).discard(consumer)

    def _restarted(self, lsn: int) -> None:
        self.restarts.append(lsn)
        for consumers in self._open.values():
            for consumer in consumers:
                self.consumers[consumer].ends = lsn
        self._open.clear()
        for queue in self.queues.values():
            if not queue.durable and queue.ends == NEVER:
                queue.ends = lsn

    def _blame(self, kind: str, event: LifeEvent, gone: str, ended: int) -> None:
        name = events.BY_NUMBER[event.kind].name
        what = {
            "no-queue": f"queue {event.queue}",
            "no-connection": f"connection {event.connection}",
        }.get(kind, f"consumer {event.consumer}")
        why = f"{gone} with event {ended}" if ended else "nothing says that it began"
        queue, address = self.place(event.queue) if event.queue else ("", "")
        text = f"event {event.lsn} ({name}) is about {what}, but {why}"
        self.faults.append(Fault(kind, (event.lsn,), text, queue=queue, address=address))

    def place(self, queue_id: int) -> tuple[str, str]:
        """Return the names of a queue and of its address."""
        life = self.queues.get(queue_id)
        if life is None:
            return f"#{queue_id}", ""
        return life.name, self.addresses.get(life.address, f"#{life.address}")

    def restart_after(self, lsn: int) -> int:
        """Return the LSN of the first restart after an event, NEVER if there is none."""
        at = bisect_right(self.restarts, lsn)
        return self.restarts[at] if at < len(self.restarts) else NEVER

    def consumer_end(self, consumer: int, connection: int, lsn: int) -> int:
        """Return when a consumer that existed at an event was detached, NEVER if it was not.

        For a consumer older than the span it may be the end of its connection, or a restart.
        """
        life = self.consumers.get(consumer)
        if life is not None:
            return life.ends
        ended = self._closed.get(connection, NEVER) if consumer < self.first else NEVER
        return min(ended, self.restart_after(lsn)) if ended > lsn else ended

    def gone_queues(self) -> Iterator[int]:
        """Return the ids of queues that ended in the span."""
        return (number for number, life in self.queues.items() if life.ends < NEVER)


class Group(NamedTuple):
    """Deliveries and settlements of one queue, consumer and connection: the first and last LSN.

    For entry events without a consumer, consumer and connection are 0.
    """

    queue: int
    consumer: int
    connection: int
    first: int
    last: int


class Bounds(NamedTuple):
    """The LSNs between which events of a group are possible, and the fault of others."""

    group: Group
    first: int
    last: int
    kind: str
    text: str


def wrong_bounds(lives: Lives, group: Group) -> Bounds | None:
    """Return the bounds of a group with impossible events; None if all are possible."""
    name, _ = lives.place(group.queue)
    queue = lives.queues.get(group.queue)
    if queue is None and lives.first == 1:
        return Bounds(group, NEVER, NEVER, "no-queue", f"queue {group.queue} was never created")
    if queue is not None and not queue.begins <= group.first <= group.last <= queue.ends:
        text = f"queue '{name}' was there {_span(queue.begins, queue.ends)}"
        return Bounds(group, queue.begins, queue.ends, "no-queue", text)
    return _wrong_consumer(lives, group) if group.consumer else None


def _wrong_consumer(lives: Lives, group: Group) -> Bounds | None:
    number = group.consumer
    life = lives.consumers.get(number)
    if life is None and number >= lives.first:
        return Bounds(group, NEVER, NEVER, "no-consumer", f"consumer {number} was never attached")
    if life is None:
        ends = lives.consumer_end(number, group.connection, lives.first)
        life = ConsumerLife(0, group.queue, group.connection)
        life.ends = ends
    if life.queue not in (0, group.queue):
        other, _ = lives.place(life.queue)
        text = f"consumer {number} is of queue '{other}'"
        return Bounds(group, NEVER, NEVER, "no-consumer", text)
    if life.connection != group.connection:
        text = f"consumer {number} is of connection {life.connection}, not {group.connection}"
        return Bounds(group, NEVER, NEVER, "no-consumer", text)
    if life.begins <= group.first and group.last <= life.ends:
        return None
    text = f"consumer {number} was there {_span(life.begins, life.ends)}"
    return Bounds(group, life.begins, life.ends, "no-consumer", text)


def _span(begins: int, ends: int) -> str:
    words = [f"from event {begins} on"] if begins else []
    words += [f"until event {ends}"] if ends < NEVER else []
    return " ".join(words)


def life_event(values: dict[str, object]) -> LifeEvent:
    """Convert a row of a table to an event."""
    lsn, kind, address, queue, consumer, connection = (
        cast("int", values[name])
        for name in ("lsn", "kind_id", "address_id", "queue_id", "consumer", "connection")
    )
    detail = cast("str | None", values["detail"])
    return LifeEvent(lsn, kind, address, queue, consumer, connection, detail)


def older_events(engine: Engine, history: History, first: int = NEVER) -> Iterator[LifeEvent]:
    """Yield events that name addresses and queues before an event, for `Lives.learn`.

    If the beginning of the history left, this includes the names in the base. Raises JournalError,
    and the errors of reading the base.
    """
    source = history.source
    if source.directory:
        for event in beginning(Path(source.directory), source.disk()).events:
            yield _as_life(event.row, event.detail)
    older = Selection(kinds=names(NAMING), to_lsn=first - 1)
    engine.load("older", history, LIFE_COLUMNS, older)
    for batch in engine.stream("SELECT * FROM older ORDER BY lsn"):
        yield from map(life_event, batch.to_pylist())


def _as_life(row: events.Row, detail: bytes) -> LifeEvent:
    """Convert an event of the beginning, which has no LSN."""
    decoded = events.decode_detail(row[events.KIND], detail)
    return LifeEvent(
        0, row[events.KIND], row[events.ADDRESS], row[events.QUEUE], row[events.CONSUMER],
        row[events.CONNECTION], msgspec.json.encode(decoded).decode(),
    )  # fmt: skip
