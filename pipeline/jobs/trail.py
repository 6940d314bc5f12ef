"""The trails of many messages at once: all events of them and their families.

A family is a message with its original and its copies (dead letters, expired messages). The history
is read once for all ids; ids of copies and originals found there are searched in a further round,
until there are no new ones. What a restart did to a message is reported too, although there is no
event for it. Memory grows with the number of messages asked for, and with the events of one family.
Must never know which engine runs the SQL.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from daybook.engine.facts import details, events, life
from daybook.engine.facts.kinds import ENTERING, LEAVING, OF_TWO_MESSAGES, STAYING, changing, names
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.audit_tables import listed
from daybook.pipeline.schema import TIME_TYPE
from daybook.pipeline.selection import Selection, SelectionError

ROUNDS_MOST: Final = 100
"""A chain of copies is followed over at most this many steps."""
BATCH_ROWS: Final = 1 << 14

TRAIL: Final = pa.schema(
    [
        ("root", pa.int64()), ("message", pa.int64()), ("lsn", pa.int64()), ("time", TIME_TYPE),
        ("kind", pa.string()), ("reason", pa.string()), ("address", pa.string()),
        ("queues", pa.list_(pa.string())), ("consumer", pa.int64()), ("connection", pa.int64()),
        ("peer", pa.string()), ("user", pa.string()), ("delivery_count", pa.int32()),
        ("related", pa.int64()), ("detail", pa.string()), ("note", pa.string()),
    ]
)  # fmt: skip
"""The columns of the result; `root` is the first message of a family."""

EVENT_COLUMNS: Final = (
    "lsn", "time", "kind", "kind_id", "reason", "address", "queue_id", "queues", "message",
    "consumer", "connection", "related", "delivery_count", "persistent", "detail",
)  # fmt: skip
AROUND_COLUMNS: Final = ("lsn", "time", "kind_id", "queue_id", "connection", "detail")
AROUND_KINDS: Final = names(changing({life.BROKER, life.CONNECTION, life.QUEUE}, {life.BEGINS}))

LINKS: Final = f"""
SELECT DISTINCT message, related FROM {{table}}
WHERE kind_id IN ({listed(OF_TWO_MESSAGES)}) AND related <> 0
"""
Row = dict[str, Any]
Told = Callable[[str], None]


class Peer(msgspec.Struct):
    """The peer of a connection, from its event's detail."""

    peer: str = ""
    user: str = ""


class Trails(NamedTuple):
    """The result: the families by their roots, unknown ids, and the rows.

    The rows have the columns of TRAIL and are sorted by root and LSN; they can be read once, while
    the engine is open.
    """

    families: dict[int, list[int]]
    missing: list[int]
    batches: Iterator[pa.RecordBatch]


def trail(
    engine: Engine, history: History, messages: Iterable[int], told: Told = lambda now: None
) -> Trails:
    """Find all events of messages and their families. Raises JournalError and SelectionError."""
    asked = set(messages)
    if not asked:
        raise SelectionError("no message is named; name ids, or a file with ids")
    families = _Families()
    tables = _find(engine, history, asked, families, told)
    told("telling")
    known = {
        row["message"]
        for table in tables
        for row in _rows(engine, f"SELECT DISTINCT message FROM {table}")
    }
    grouped = families.by_root(known)
    _join(engine, tables, grouped)
    around = _Around(engine, history)
    rows = _stories(engine, around)
    missing = sorted(asked - known)
    return Trails(grouped, missing, _batches(rows))


def _find(
    engine: Engine, history: History, asked: set[int], families: "_Families", told: Told
) -> list[str]:
    """Load the events of the families, round by round; return the names of the tables."""
    tables: list[str] = []
    seen: set[int] = set()
    wanted = asked
    while wanted and len(tables) < ROUNDS_MOST:
        told(f"round {len(tables) + 1}, {len(wanted):,} messages")
        table = f"found_{len(tables)}"
        engine.load(table, history, EVENT_COLUMNS, Selection(messages=tuple(sorted(wanted))))
        seen |= wanted
        for row in _rows(engine, LINKS.format(table=table)):
            families.link(row["message"], row["related"])
        # Events of other messages are included if they refer to one of these.
        ids = pa.table({"message": pa.array(sorted(wanted), pa.int64())})
        engine.add(f"ids_{len(tables)}", ids)
        own = f"own_{len(tables)}"
        engine.define(
            own,
            f"SELECT f.* FROM {table} AS f JOIN ids_{len(tables)} AS i ON f.message = i.message",
        )
        tables.append(own)
        wanted = families.members() - seen
    return tables


class _Families:
    """Sets of related messages (a union-find)."""

    def __init__(self) -> None:
        self._above: Final[dict[int, int]] = {}

    def link(self, one: int, other: int) -> None:
        """Join the families of two messages; the oldest message is the root."""
        first, second = self.root(one), self.root(other)
        self._above[max(first, second)] = min(first, second)
        self._above.setdefault(min(first, second), min(first, second))

    def root(self, message: int) -> int:
        """Return the oldest known message of a family."""
        while (above := self._above.get(message, message)) != message:
            self._above[message] = self._above.get(above, above)
            message = above
        return message

    def members(self) -> set[int]:
        """Return all messages that were linked."""
        return set(self._above)

    def by_root(self, messages: Iterable[int]) -> dict[int, list[int]]:
        """Return the families of these messages."""
        found: dict[int, list[int]] = {}
        for message in sorted(messages):
            found.setdefault(self.root(message), []).append(message)
        return found


def _join(engine: Engine, tables: list[str], families: dict[int, list[int]]) -> None:
    """Define the table `families`, and the view `found` with the events of all rounds."""
    pairs = [(root, each) for root, members in families.items() for each in members]
    columns = {
        "root": pa.array([root for root, _ in pairs], pa.int64()),
        "message": pa.array([message for _, message in pairs], pa.int64()),
    }
    engine.add("families", pa.table(columns))
    engine.define("found", " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables))


class _Around:
    """Context of the events: restarts, queues that do not survive them, peers."""

    def __init__(self, engine: Engine, history: History) -> None:
        self.restarts: Final[list[Row]] = []
        self.transient_queues: Final[set[int]] = set()
        self.peers: Final[dict[int, Peer]] = {}
        engine.load("around", history, AROUND_COLUMNS, Selection(kinds=AROUND_KINDS))
        needed = f"""
            SELECT a.* FROM around AS a
            LEFT JOIN (SELECT DISTINCT connection FROM found) AS c ON a.connection = c.connection
            WHERE a.kind_id <> {events.CONNECTION_OPENED} OR c.connection IS NOT NULL
            ORDER BY a.lsn
        """
        for row in _rows(engine, needed):
            if row["kind_id"] == events.BROKER_STARTED:
                self.restarts.append(row)
            elif row["kind_id"] == events.QUEUE_CREATED:
                detail = msgspec.json.decode(row["detail"] or "{}", type=details.QueueDetail)
                if not detail.durable:
                    self.transient_queues.add(row["queue_id"])
            else:
                peer = msgspec.json.decode(row["detail"] or "{}", type=Peer)
                self.peers[row["connection"]] = peer


def _stories(engine: Engine, around: _Around) -> Iterator[Row]:
    """Yield the rows of all families, one family after the other."""
    told = """
        SELECT s.root, f.* FROM found AS f JOIN families AS s ON f.message = s.message
        ORDER BY s.root, f.lsn
    """
    for root, rows in groupby(_rows(engine, told), key=lambda row: row["root"]):
        yield from _Family(root, around).story(list(rows))


class _Family:
    """The places of one family's messages, to find out what restarts did to them."""

    def __init__(self, root: int, around: _Around) -> None:
        self._root: Final = root
        self._around: Final = around
        self._places: Final[dict[tuple[int, int], Row]] = {}
        self._names: Final[dict[int, str]] = {}

    def story(self, rows: list[Row]) -> Iterator[Row]:
        """Yield the rows, with rows for the effects of restarts between them."""
        restarts = [each for each in self._around.restarts if each["lsn"] > rows[0]["lsn"]]
        for row in rows:
            while restarts and restarts[0]["lsn"] < row["lsn"]:
                yield from self._restart(restarts.pop(0))
            self._follow(row)
            peer = self._around.peers.get(row["connection"])
            yield {
                **row,
                "reason": row["reason"] or None,
                "peer": peer.peer if peer is not None else None,
                "user": peer.user if peer is not None else None,
                "note": None,
            }
        for restart in restarts:
            yield from self._restart(restart)

    def _follow(self, row: Row) -> None:
        """Update the place of a message."""
        kind, message, queue = row["kind_id"], row["message"], row["queue_id"]
        if kind in ENTERING:
            for number, name in zip(_queue_ids(row), row["queues"] or (), strict=False):
                self._names[number] = name
                self._places[message, number] = row
        elif kind in LEAVING:
            self._places.pop((message, queue), None)
        elif kind in STAYING:
            self._names[queue] = (row["queues"] or [f"#{queue}"])[0]
            self._places[message, queue] = row

    def _restart(self, restart: Row) -> Iterator[Row]:
        """Yield the effects of a restart: messages that it drops, and deliveries that return."""
        for (message, queue), last in list(self._places.items()):
            if not last["persistent"] or queue in self._around.transient_queues:
                del self._places[message, queue]
                why = "it is not persistent"
                if queue in self._around.transient_queues:
                    why = "the queue does not outlive the broker"
                note = f"dropped by the restart: {why}"
            elif last["kind_id"] == events.DELIVERED:
                self._places[message, queue] = {**last, "kind_id": events.RETURNED}
                note = (
                    f"in flight to consumer {last['consumer']}, returned to its place by the "
                    f"restart; attempt {last['delivery_count']} counts"
                )
            else:
                continue
            yield {
                "root": self._root, "message": message, "lsn": restart["lsn"],
                "time": restart["time"], "kind": "BrokerStarted", "reason": None,
                "address": last["address"], "queues": [self._names[queue]], "consumer": 0,
                "connection": 0, "peer": None, "user": None,
                "delivery_count": last["delivery_count"], "related": 0, "detail": None,
                "note": note,
            }  # fmt: skip


def _queue_ids(row: Row) -> list[int]:
    if row["queue_id"]:
        return [row["queue_id"]]
    detail = msgspec.json.decode(row["detail"] or "{}", type=details.RoutedDetail)
    return list(detail.queues)


def _rows(engine: Engine, sql: str) -> Iterator[Row]:
    for batch in engine.stream(sql):
        yield from batch.to_pylist()


def _batches(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    gathered: list[Row] = []
    for row in rows:
        gathered.append({name: row[name] for name in TRAIL.names})
        if len(gathered) == BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(gathered, TRAIL)
            gathered = []
    if gathered:
        yield pa.RecordBatch.from_pylist(gathered, TRAIL)
