"""The trails of many messages at once: all events of them and their families.

A family is a message with its original and its copies (dead letters, expired messages). The engine
selects the rows of the families, in one scan for all ids; ids of copies and originals found there
are searched in a further round, until there are no new ones. The library (`history.places`) folds
the events of all families, and so tells what a restart did to a message, although there is no event
for it. Memory grows with the number of messages asked for and of what there is at a time, and with
the events of one family. Must never know which engine runs the SQL.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from daybook.engine.facts import details, events, life
from daybook.engine.facts.events import CONNECTION, KIND, MESSAGE, TIME
from daybook.engine.facts.kinds import ENTERING, OF_TWO_MESSAGES, TOPOLOGY, about, names
from daybook.engine.facts.mismatch import MismatchError
from daybook.history.initial_state import EVERYTHING, Beginning, beginning
from daybook.history.places import Consequence, Places
from daybook.history.scan import Event
from daybook.journal.segments.segment import first_lsn_of
from daybook.pipeline import rows
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.parquet.segments import segments_of
from daybook.pipeline.schema import TIME_TYPE, listed
from daybook.pipeline.selection import Selection, SelectionError
from daybook.times import EPOCH

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

EVENT_COLUMNS: Final = (*rows.COLUMNS, "kind", "reason", "address", "queues", "detail")
OF_CLIENTS: Final = TOPOLOGY & about(life.CONNECTION, life.CONSUMER)

LINKS: Final = f"""
SELECT DISTINCT message, related FROM {{table}}
WHERE kind_id IN ({listed(OF_TWO_MESSAGES)}) AND related <> 0
"""
ALL: Final = f"""
SELECT {", ".join(rows.COLUMNS)} FROM found
UNION ALL
SELECT {", ".join(f"a.{name}" for name in rows.COLUMNS)} FROM around AS a
LEFT JOIN (SELECT DISTINCT connection FROM found) AS c ON a.connection = c.connection
WHERE a.kind_id NOT IN ({listed(OF_CLIENTS)}) OR c.connection IS NOT NULL
ORDER BY lsn
"""
"""The events of the families, and all that is about queues, addresses, the broker and the
connections of the families."""
Row = dict[str, Any]
Told = Callable[[str], None]


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
    engine.load("around", history, rows.COLUMNS, Selection(kinds=names(TOPOLOGY)))
    story = _Story(engine, history, known, families)
    return Trails(grouped, sorted(asked - known), _batches(story.rows()))


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


class _Story:
    """The rows of all families, with what the fold of their events adds."""

    def __init__(
        self, engine: Engine, history: History, messages: set[int], families: _Families
    ) -> None:
        """Fold all events. Raises JournalError, and what reading the base raises."""
        self._engine: Final = engine
        self._families: Final = families
        self._peers: Final[dict[int, details.ConnectionDetail]] = {}
        self._restarts: Final[dict[int, list[Row]]] = {}
        places = Places()
        routed = f"SELECT message FROM found WHERE kind_id IN ({listed(ENTERING)})"
        older = messages - {row["message"] for row in _rows(engine, routed)}
        start = _start(history, older)
        places.folds = start is not None
        if start is not None:
            self._begin(places, start, older)
        for batch in engine.stream(ALL):
            for event in rows.events_in(batch):
                self._note_peer(event)
                self._note(event, _taken(places, event))

    def _begin(self, places: Places, start: Beginning, older: set[int]) -> None:
        """Fold the state before history, without the clients that the families do not meet."""
        met = {row["connection"] for row in _rows(self._engine, "SELECT connection FROM found")}
        met |= {event.row[CONNECTION] for event in start.events if event.row[MESSAGE]}
        kept = [
            event
            for event in start.events
            if event.row[KIND] not in OF_CLIENTS or event.row[CONNECTION] in met
        ]
        places.begin(Beginning(0, tuple(kept), start.counts))
        places.unknown |= older - {message for message, _, _ in start.counts}
        for event in kept:
            self._note_peer(event)

    def _note_peer(self, event: Event) -> None:
        if event.row[KIND] == events.CONNECTION_OPENED:
            detail = events.decode_detail(events.CONNECTION_OPENED, event.detail)
            assert isinstance(detail, details.ConnectionDetail)
            self._peers[event.row[CONNECTION]] = detail

    def _note(self, event: Event, consequences: list[Consequence]) -> None:
        """Note a row for each consequence of a restart."""
        for each in consequences:
            root = self._families.root(each.message)
            row = {
                "root": root, "message": each.message, "lsn": event.lsn,
                "time": EPOCH + timedelta(microseconds=event.row[TIME]), "kind": "BrokerStarted",
                "reason": None, "queues": [each.queue], "consumer": 0, "connection": 0,
                "peer": None, "user": None, "delivery_count": each.delivery_count, "related": 0,
                "detail": None, "note": each.text,
            }  # fmt: skip
            self._restarts.setdefault(root, []).append(row)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all families, one family after the other."""
        told = """
            SELECT s.root, f.* FROM found AS f JOIN families AS s ON f.message = s.message
            ORDER BY s.root, f.lsn
        """
        for root, own in groupby(_rows(self._engine, told), key=lambda row: row["root"]):
            addresses: dict[int, str | None] = {}
            for row in merge(own, self._restarts.get(root, ()), key=lambda row: row["lsn"]):
                if "address" in row:
                    addresses[row["message"]] = row["address"]
                    yield self._told(row)
                else:
                    yield {**row, "address": addresses[row["message"]]}

    def _told(self, row: Row) -> Row:
        peer = self._peers.get(row["connection"])
        return {
            **row,
            "reason": row["reason"] or None,
            "peer": peer.peer if peer is not None else None,
            "user": peer.user if peer is not None else None,
            "note": None,
        }


def _start(history: History, older: set[int]) -> Beginning | None:
    """Return the state before history, with some messages; None if nothing knows it."""
    with segments_of(history) as disk:
        first = first_lsn_of(disk)
        if first == 1:
            return EVERYTHING
        if not history.source.directory:
            return None
        start = beginning(Path(history.source.directory), disk, sorted(older))
    return start if start.lsn == first - 1 else None


def _taken(places: Places, event: Event) -> list[Consequence]:
    """Fold an event; of a message about which events contradict each other no more is folded."""
    try:
        return places.take(event)
    except (MismatchError, LookupError):
        if event.row[MESSAGE]:
            places.unknown.add(event.row[MESSAGE])
        return []


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
