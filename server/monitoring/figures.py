"""The metrics of a broker: name, meaning, and how each is read.

These tables are the only list of metrics: the probe renders them and docs/monitoring.md shows them.
Names and units follow the conventions of Prometheus. Reading has no effects, does no disk I/O, and
takes little time: values of queues and addresses are read in slices. Must never know its callers,
nor their format.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from daybook.engine.queues.queue import Address, Queue
from daybook.engine.state.state import State
from daybook.journal.writing.writer import SYNC_BOUNDS, WriterStats
from daybook.protocols.port import LINK_STATES, RECEIVES, SENDS, Family, Histogram, Reading
from daybook.server.administration.views import counting_delivered
from daybook.server.hub.hub import Hub
from daybook.server.monitoring.cluster_figures import CLUSTER, cluster_readings
from daybook.server.monitoring.health import KINDS, Problem
from daybook.server.process.machine_memory import resident
from daybook.server.process.slices import into
from daybook.version import VERSION

SLICE: Final = 200
"""How many queues or values are in a slice: one to two milliseconds."""

Labels: TypeAlias = tuple[str, ...]
Value: TypeAlias = float | Histogram
Values: TypeAlias = Sequence[tuple[Labels, Value]]

US_PER_S: Final = 1_000_000


class AcceptorFigures(NamedTuple):
    """The figures of an acceptor."""

    name: str
    protocol: str
    connections: int


class ConnectorFigures(NamedTuple):
    """The figures of a connector."""

    name: str
    is_open: bool
    attempts: int
    failures: int


class Process(Protocol):
    """The values that only the process knows."""

    hub: Hub

    def now(self) -> int:
        """Return microseconds since 1970 UTC."""
        ...

    def stats(self) -> WriterStats:
        """Return the figures of the journal's writer."""
        ...

    def problems(self) -> list[Problem]:
        """The problems."""
        ...

    def unready(self) -> str:
        """Return why no messages are accepted; "" if they are."""
        ...

    def acceptors(self) -> list[AcceptorFigures]:
        """The acceptors."""
        ...

    def certificates(self) -> list[tuple[str, float]]:
        """The names of acceptors, and of the console, with certificates, and until when these are
        valid, in seconds since 1970 UTC."""
        ...

    def connectors(self) -> list[ConnectorFigures]:
        """The connectors."""
        ...

    def auto_links(self) -> list[str]:
        """The states of all auto-links."""
        ...

    def number(self, key: str) -> float:
        """Return a number of the status."""
        ...

    def oldest_ready(self) -> Mapping[str, Any]:
        """Return the ready message of all queues that has waited for longest, and its age."""
        ...

    def cluster(self) -> Mapping[str, Any]:
        """Return the status of the node that started this broker; empty without one."""
        ...

    def index_lag_us(self) -> int:
        """Return the age of the oldest durable event that is not indexed; 0 if all are."""
        ...


Read: TypeAlias = Callable[[Process], float | Histogram | Values]


class Figure(NamedTuple):
    """A metric of the whole broker: its family, and how it is read."""

    family: Family
    read: Read


def _gauge(name: str, read: Read, meaning: str, *labels: str) -> Figure:
    return Figure(Family(f"daybook_{name}", "gauge", meaning, labels), read)


def _counter(name: str, read: Read, meaning: str, *labels: str) -> Figure:
    return Figure(Family(f"daybook_{name}", "counter", meaning, labels), read)


def _status(key: str) -> Read:
    return lambda process: process.number(key)


def _problems(process: Process) -> Values:
    found = [problem.kind for problem in process.problems()]
    return [((kind,), found.count(kind)) for kind in KINDS]


def _connections(process: Process) -> Values:
    return [((each.name, each.protocol), each.connections) for each in process.acceptors()]


def _sessions(process: Process) -> float:
    return sum(peer.session.link_counts.sessions for peer in process.hub.peers)


def _links(process: Process) -> Values:
    counts = [peer.session.link_counts for peer in process.hub.peers]
    senders = sum(each.senders for each in counts)
    return [((SENDS,), senders), ((RECEIVES,), sum(each.receivers for each in counts))]


def _auto_links(process: Process) -> Values:
    found = process.auto_links()
    return [((state,), found.count(state)) for state in LINK_STATES]


def _certificates(process: Process) -> Values:
    return [((name,), expires) for name, expires in process.certificates()]


def _memory(process: Process) -> Values:
    return [((kind,), size) for kind, size in process.hub.memory.by_kind().items()]


def _sync_times(process: Process) -> Histogram:
    stats = process.stats()
    total, buckets = 0, []
    for bound, count in zip((*SYNC_BOUNDS, float("inf")), stats.sync_counts, strict=True):
        total += count
        buckets.append((bound, total))
    return Histogram(tuple(buckets), stats.sync_seconds)


def _since_s(process: Process, moment: int) -> float:
    return max(0, process.now() - moment) / US_PER_S if moment else 0.0


BROKER: Final = (
    _gauge("build_info", lambda _: [((VERSION,), 1)], "Always 1; which release runs.", "version"),
    _gauge("uptime_seconds", _status("uptime_seconds"), "How long the process has served."),
    _gauge(
        "ready",
        lambda process: float(not process.unready()),
        "1 if the broker takes messages, 0 if not; as /ready reports.",
    ),
    _gauge(
        "problems", _problems,
        "Problems of the broker by kind, as `daybook health` reports them.", "kind",
    ),
    _gauge(
        "connections",
        _connections,
        "Connections of an acceptor, also those that have not logged in.",
        "acceptor", "protocol",
    ),
    _counter(
        "connections_refused_total",
        _status("connections_refused"),
        "Connections that were refused for a limit.",
    ),
    _gauge(
        "certificate_expiry_timestamp_seconds",
        _certificates,
        "Until when the certificate of an acceptor with TLS, or of the console ([console]), is"
        " valid, in seconds since 1970 UTC.",
        "acceptor",
    ),
    _gauge(
        "connector_up",
        lambda process: [((each.name,), float(each.is_open)) for each in process.connectors()],
        "1 if the connection of a connector is open, 0 if not.",
        "connector",
    ),
    _counter(
        "connector_attempts_total",
        lambda process: [((each.name,), each.attempts) for each in process.connectors()],
        "Attempts to open the connection of a connector.",
        "connector",
    ),
    _counter(
        "connector_failures_total",
        lambda process: [((each.name,), each.failures) for each in process.connectors()],
        "Attempts that failed, and open connections that ended.",
        "connector",
    ),
    _gauge(
        "auto_links",
        _auto_links,
        "Auto-links by state, on each of their connections.",
        "state",
    ),
    _counter(
        "strangers_dismissed_total",
        _status("connections_dismissed"),
        "Connections that were closed before their login, to make room for others.",
    ),
    _counter(
        "memory_dismissed_total",
        lambda process: process.hub.memory.dismissed,
        "Connections that were closed because they held too much memory.",
    ),
    _counter(
        "logins_refused_total",
        lambda process: process.hub.refusals.count,
        "Connections that were not let in, for their login or their first frame.",
    ),
    _counter(
        "logins_turned_away_total",
        _status("logins_turned_away"),
        "Logins that were not checked because too many waited.",
    ),
    _gauge(
        "logins_waiting", _status("logins_waiting"), "Logins whose passcodes wait to be checked."
    ),
    _gauge("sessions", _sessions, "Sessions of the protocols that have several on a connection."),
    _gauge(
        "links",
        _links,
        "Links by which clients send and receive; a subscription of STOMP is a link, too.",
        "role",
    ),
    _gauge("consumers", lambda process: len(_state(process).consumers), "Consumers."),
    _gauge(
        "producers_blocked",
        lambda process: process.hub.blocked.count,
        "Connections whose message waits for room at its address, in memory or on the disk.",
    ),
    _gauge(
        "transactions_open",
        lambda process: process.hub.broker.transactions.count,
        "Transactions that are neither committed nor aborted.",
    ),
    _gauge(
        "turn_longest_seconds",
        lambda process: process.hub.turns.describe(process.now())["turn_ms_longest_lately"] / 1000,
        "The longest turn of the event loop in the last one or two minutes, in processor time.",
    ),
    _gauge(
        "memory_held_bytes",
        _memory,
        "Memory that the broker holds for its clients, by kind.",
        "kind",
    ),
    _gauge(
        "memory_limit_bytes",
        lambda process: process.hub.memory.options.limit,
        "The limit of that memory (max-memory); 0: no limit.",
    ),
    _gauge("memory_resident_bytes", lambda _: resident(), "Memory of the broker's process."),
    _gauge("disk_free_bytes", _status("disk_free_bytes"), "Room on the disk of the journal."),
    _counter(
        "journal_blocks_total",
        lambda process: process.stats().blocks,
        "Blocks that became durable since the start.",
    ),
    _counter(
        "journal_events_total",
        lambda process: process.stats().events,
        "Events that became durable since the start.",
    ),
    _counter(
        "journal_raw_bytes_total",
        lambda process: process.hub.unindexed.journaled,
        "Rows and heaps of blocks since the start, before compression.",
    ),
    _gauge(
        "journal_durable_lsn",
        lambda process: process.hub.outbox.durable_lsn,
        "The last event that is on disk; all events of all time are counted by it.",
    ),
    _gauge(
        "journal_decided_lsn",
        lambda process: process.hub.broker.lsn,
        "The last event that was decided.",
    ),
    _gauge(
        "journal_pending_bytes",
        lambda process: process.hub.writer.pending_bytes + process.hub.broker.pending.raw_bytes,
        "Bytes that were decided and are not durable yet.",
    ),
    _gauge(
        "journal_segments",
        _status("journal_segments"),
        "Segments in the folder of the journal, as of the last disk scan.",
    ),
    Figure(
        Family(
            "daybook_journal_sync_seconds",
            "histogram",
            "How long the disk took to make a block durable (fdatasync).",
        ),
        _sync_times,
    ),
    _gauge(
        "journal_sync_running_seconds",
        lambda process: _since_s(process, process.hub.outbox.waiting_since),
        "How long the oldest block that is not durable has waited; 0 if none waits.",
    ),
    _gauge(
        "index_lag_events",
        lambda process: max(0, process.hub.outbox.durable_lsn - process.number("indexed_lsn")),
        "Durable events that are not indexed.",
    ),
    _gauge(
        "index_lag_bytes",
        _status("unindexed_bytes"),
        "Bytes that are journaled and not indexed; senders wait above max-unindexed-bytes.",
    ),
    _gauge(
        "index_lag_seconds",
        lambda process: process.index_lag_us() / US_PER_S,
        "How long ago the oldest event became durable that is not indexed.",
    ),
    _gauge("index_bytes", _status("index_bytes"), "Size of the index."),
    _counter(
        "indexer_restarts_total", _status("indexer_restarts"), "Restarts of the indexer."
    ),
    _gauge("signed_lsn", _status("signed_lsn"), "History is signed up to this event; 0 without."),
    _gauge(
        "anchored_lsn", _status("anchored_lsn"),
        "Every place of anchors has one up to this event; 0 without.",
    ),
    _gauge("queues", lambda process: len(_state(process).queues), "Queues."),
    _gauge(
        "oldest_ready_age_seconds",
        lambda process: process.oldest_ready()["oldest_ready_age_seconds"] or 0,
        "How long the oldest message that can be delivered has been in its queue; 0 for none.",
    ),
    _gauge("addresses", lambda process: len(_state(process).addresses), "Addresses."),
)  # fmt: skip


DELIVERED: Final = Family(
    "daybook_messages_delivered_total", "counter",
    "Messages that were handed to consumers since the start, each as often as it was.",
)  # fmt: skip
"""Consumers are counted in slices, so it is read apart."""


def _state(process: Process) -> State:
    return process.hub.broker.state


def _of_queues(name: str, kind: str, meaning: str) -> Family:
    return Family(f"daybook_queue_{name}", kind, meaning, ("address", "queue"))


QUEUES: Final = (
    _of_queues("messages_ready", "gauge", "Messages that can be delivered."),
    _of_queues(
        "messages_in_flight", "gauge", "Messages that were delivered and are not acknowledged."
    ),
    _of_queues(
        "messages_held", "gauge", "Messages that are set aside because they cannot leave."
    ),
    _of_queues("messages_scheduled", "gauge", "Messages that are not delivered before a time."),
    _of_queues("size_bytes", "gauge", "Size of its messages."),
    _of_queues("paused", "gauge", "1 if somebody paused it or its address, 0 if not."),
    _of_queues("consumers", "gauge", "Consumers of the queue."),
    _of_queues("messages_added_total", "counter", "Messages that were routed to the queue."),
    _of_queues(
        "messages_acknowledged_total", "counter", "Messages that consumers acknowledged."
    ),
    _of_queues(
        "messages_dead_lettered_total", "counter", "Messages that had too many failed deliveries."
    ),
    _of_queues("messages_expired_total", "counter", "Messages that expired."),
    _of_queues(
        "messages_replaced_total", "counter", "Messages that a newer last value replaced."
    ),
    _of_queues("messages_evicted_total", "counter", "Messages that left a full ring."),
)  # fmt: skip


def _row_of_queue(queue: Queue) -> tuple[int, ...]:
    """Return the values of a queue in the order of QUEUES."""
    return (
        queue.ready_count, queue.in_flight_count, queue.held_count, queue.scheduled_count,
        queue.bytes, int(queue.paused or queue.address.definition.paused), len(queue.consumers),
        queue.added, queue.acknowledged, queue.dead_lettered, queue.expired, queue.replaced,
        queue.evicted,
    )  # fmt: skip


def _of_addresses(name: str, kind: str, meaning: str) -> Family:
    return Family(f"daybook_address_{name}", kind, meaning, ("address",))


ADDRESSES: Final = (
    _of_addresses("messages", "gauge", "Messages in all queues of the address."),
    _of_addresses("size_bytes", "gauge", "Size of the messages in all queues of the address."),
    _of_addresses("paging", "gauge", "1 if its entries leave memory, 0 if not."),
    _of_addresses(
        "producers_blocked", "gauge", "Connections whose message waits for room at the address."
    ),
    _of_addresses(
        "duplicates_total", "counter", "Messages that were dropped because their id was known."
    ),
)

QUEUES_LEFT_OUT: Final = Family(
    "daybook_queues_left_out", "gauge", "Queues without metrics of their own (max-queues)."
)
ADDRESSES_LEFT_OUT: Final = Family(
    "daybook_addresses_left_out", "gauge", "Addresses without metrics of their own (max-queues)."
)

FAMILIES: Final = (
    *(figure.family for figure in BROKER),
    *(figure.family for figure in CLUSTER),
    DELIVERED, QUEUES_LEFT_OUT, *QUEUES, ADDRESSES_LEFT_OUT, *ADDRESSES,
)  # fmt: skip
"""All families, in the order of their output."""


def readings(process: Process, names_max: int) -> Iterator[Reading | None]:
    """Yield all metrics in slices; None is a slice without values.

    Queues that are not temporary come first, the oldest first, so that the same queues have metrics
    of their own each time. All others are summed up as one queue with empty labels.
    """
    for figure in BROKER:
        value = figure.read(process)
        is_single = isinstance(value, int | float | Histogram)
        yield Reading(figure.family, [((), value)] if is_single else value)  # type: ignore[arg-type,list-item]
    yield from cluster_readings(process.cluster())
    yield from _delivered(process)
    sizes: dict[int, tuple[int, int]] = {}
    yield from _queues(process, names_max, sizes)
    yield from _addresses(process, names_max, sizes)


def _delivered(process: Process) -> Iterator[Reading | None]:
    found: list[int] = []
    for _ in into(found, counting_delivered(_state(process))):
        yield None
    yield Reading(DELIVERED, [((), found[0])])


def process_readings(uptime_seconds: float) -> Iterator[Reading]:
    """Yield the metrics of a process that is no broker, and takes no messages."""
    values: dict[str, Values] = {
        "daybook_build_info": [((VERSION,), 1)],
        "daybook_uptime_seconds": [((), uptime_seconds)],
        "daybook_ready": [((), 0.0)],
        "daybook_memory_resident_bytes": [((), resident())],
    }
    for family in FAMILIES:
        if family.name in values:
            yield Reading(family, values[family.name])


def _queues(
    process: Process, names_max: int, sizes: dict[int, tuple[int, int]]
) -> Iterator[Reading | None]:
    """Yield the metrics of queues; adds messages and bytes of each address to `sizes`, by id."""
    lasting: list[tuple[Labels, tuple[int, ...]]] = []
    temporary: list[tuple[Labels, tuple[int, ...]]] = []
    rest, left_out = [0] * len(QUEUES), 0
    queues = list(_state(process).queues.values())
    for at in range(0, len(queues), SLICE):
        for queue in queues[at : at + SLICE]:
            row = _row_of_queue(queue)
            address = queue.address
            messages, size = sizes.get(address.id, (0, 0))
            sizes[address.id] = messages + queue.message_count, size + queue.bytes
            kept = temporary if queue.definition.temporary else lasting
            if len(kept) < names_max:
                kept.append(((address.name, queue.name), row))
            else:
                left_out += 1
                rest = [sum(pair) for pair in zip(rest, row, strict=True)]
        yield None
    free = names_max - len(lasting)
    for _, row in temporary[free:]:
        left_out += 1
        rest = [sum(pair) for pair in zip(rest, row, strict=True)]
    rows = lasting + temporary[:free]
    if left_out:
        rows.append((("", ""), tuple(rest)))
    yield from _told(QUEUES_LEFT_OUT, left_out, QUEUES, rows)


def _addresses(
    process: Process, names_max: int, sizes: dict[int, tuple[int, int]]
) -> Iterator[Reading | None]:
    rows: list[tuple[Labels, tuple[int, ...]]] = []
    rest, left_out = [0] * len(ADDRESSES), 0
    addresses = list(_state(process).addresses.values())
    for at in range(0, len(addresses), SLICE):
        for address in addresses[at : at + SLICE]:
            row = _row_of_address(process, address, sizes.get(address.id, (0, 0)))
            if len(rows) < names_max:
                rows.append(((address.name,), row))
            else:
                left_out += 1
                rest = [sum(pair) for pair in zip(rest, row, strict=True)]
        yield None
    if left_out:
        rows.append((("",), tuple(rest)))
    yield from _told(ADDRESSES_LEFT_OUT, left_out, ADDRESSES, rows)


def _row_of_address(process: Process, address: Address, size: tuple[int, int]) -> tuple[int, ...]:
    """Return the values of an address in the order of ADDRESSES."""
    waiting = process.hub.broker.room.waiting.length(address.name)
    return (*size, int(address.paging), waiting, address.duplicates)


def _told(
    left_out_family: Family,
    left_out: int,
    families: Sequence[Family],
    rows: Sequence[tuple[Labels, tuple[int, ...]]],
) -> Iterator[Reading]:
    """Convert rows to readings, family by family."""
    yield Reading(left_out_family, [((), left_out)])
    for column, family in enumerate(families):
        for at in range(0, max(len(rows), 1), SLICE):
            values = [(labels, row[column]) for labels, row in rows[at : at + SLICE]]
            yield Reading(family, values)
