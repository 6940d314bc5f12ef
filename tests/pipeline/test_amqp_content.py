"""Messages of AMQP 1.0 in queries: DuckDB and Spark read the same headers, properties and bodies of
them, from the journal and from Parquet."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from daybook.engine.commands import Send
from daybook.engine.facts.values import Timestamp, Uuid
from daybook.engine.messages.amqp.sections import Properties
from daybook.journal.journal import SEGMENT_BYTES_MIN
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import STORED_COLUMNS
from daybook.pipeline.selection import Selection
from daybook.pipeline.spark.engine import SparkEngine
from daybook.pipeline.sql.asking import Asking
from tests.support.amqp.content import FORMAT, headers_for
from tests.support.amqp.peer import Peer, message
from tests.support.histories import write_history
from tests.support.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION = (
    "SELECT headers['colour'] AS colour, headers['number'] AS number, headers['flag'] AS flag, body"
    " FROM events WHERE kind = 'Routed' ORDER BY lsn"
)
BODY = b"\0an order"
ANSWER = [
    {"colour": "red", "number": "7", "flag": "true", "body": BODY},
    {"colour": None, "number": "3", "flag": None, "body": "täxt".encode()},
    {"colour": "of STOMP", "number": None, "flag": None, "body": b"plain"},
]


LATE = datetime(2027, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
STANDARD = Properties(
    message_id=Uuid(bytes(range(16))),
    user_id=b"anna",
    to="orders",
    subject="new",
    reply_to="answers",
    correlation_id=7,
    content_type="text/plain",
    content_encoding="identity",
    absolute_expiry_time=int(LATE.timestamp() * 1000),
    creation_time=1_700_000_000_123,
    group_id="g",
    group_sequence=3,
    reply_to_group_id="h",
)
TYPED = {
    "number": 3,
    "half": 0.5,
    "flag": False,
    "at": Timestamp(5),
    "nothing": None,
    "much": (1 << 64) - 1,
}
TYPED_QUESTION = (
    "SELECT lsn, properties.subject AS subject, properties.message_id AS id,"
    " properties.creation_time AS created, application_properties['number'].type AS type,"
    " application_properties['number'].integer + 1 AS next,"
    " application_properties['half'].double AS half, application_properties['flag'].boolean"
    " AS flag,"
    " application_properties['colour'].text AS colour"
    " FROM events WHERE kind = 'Routed' AND (properties.subject IS NOT NULL"
    " OR application_properties['number'].double > 3) ORDER BY lsn"
)
ALL_QUESTION = "SELECT properties, application_properties FROM events ORDER BY lsn"
CREATED = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
TYPED_ANSWER: list[dict[str, Any]] = [
    {"subject": None, "id": None, "created": None, "type": "long", "next": 8, "half": None,
     "flag": True, "colour": "red"},
    {"subject": "new", "id": "00010203-0405-0607-0809-0a0b0c0d0e0f", "created": CREATED,
     "type": "long", "next": 4, "half": 0.5, "flag": False, "colour": None},
    {"subject": "of STOMP", "id": None, "created": CREATED, "type": None, "next": None,
     "half": None, "flag": None, "colour": "of STOMP"},
]  # fmt: skip
EXTENSIVE_QUESTION = "SELECT properties FROM events WHERE properties.group_sequence = 3"
EXTENSIVE = {
    "user_id": b"anna", "to": "orders", "reply_to": "answers", "correlation_id": "7",
    "content_type": "text/plain", "content_encoding": "identity", "absolute_expiry_time": LATE,
    "group_id": "g", "group_sequence": 3, "reply_to_group_id": "h", "subject": "new",
    "message_id": "00010203-0405-0607-0809-0a0b0c0d0e0f", "creation_time": CREATED,
}  # fmt: skip


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    world = World()
    connection = world.connect()
    headers = headers_for(BODY, [("colour", "red")])
    world.ok(Send(connection, "orders", headers, BODY, format=FORMAT))
    peer = Peer(world).open()
    peer.sender(0, "orders")
    peer.send(0, 0, message("täxt", durable=True, properties={"number": 3}))
    world.send("orders", b"plain", connection, headers={"colour": "of STOMP"})
    data: Path = tmp_path_factory.mktemp("history") / "data"
    return History(Source(str(write_history(data, world.journal))))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, History]:
    """The journal, and a Parquet archive of the same messages alone."""
    world = World()
    connection = world.connect()
    headers = headers_for(BODY, [("colour", "red")])
    world.ok(Send(connection, "orders", headers, BODY, format=FORMAT))
    peer = Peer(world).open()
    peer.sender(0, "orders")
    peer.send(0, 0, message(b"x", durable=True, properties=TYPED, standard=STANDARD))
    head = {"colour": "of STOMP", "type": "of STOMP", "timestamp": "1700000000123"}
    world.send("orders", b"plain", connection, headers=head)
    # So much that a segment is full.
    world.send("orders", Random(1).randbytes(SEGMENT_BYTES_MIN), connection)
    cut = len(world.journal)
    world.send("orders", b"later", connection)
    folder = tmp_path_factory.mktemp("typed")
    data = write_history(
        folder / "data", world.journal, cuts=[cut], segment_bytes=SEGMENT_BYTES_MIN
    )
    source = Source(str(data))
    report = archive(source, str(folder / "parquet"))
    assert report.ok
    assert report.last_lsn >= cut
    return History(source), History(parquet=str(folder / "parquet"))


def _rows(engine: Engine, history: History) -> list[dict[str, Any]]:
    engine.load("events", history, ["lsn", "kind", "headers", "body"], Selection())
    found: list[dict[str, Any]] = engine.ask(QUESTION).to_pylist()
    return found


def _typed_rows(engine: Engine, history: History) -> list[dict[str, Any]]:
    columns = ["lsn", "kind", "properties", "application_properties"]
    engine.load("events", history, columns, Selection())
    found: list[dict[str, Any]] = engine.ask(TYPED_QUESTION).to_pylist()
    [whole] = engine.ask(EXTENSIVE_QUESTION).to_pylist()
    assert whole["properties"] == EXTENSIVE
    for row in found:
        row.pop("lsn")
    return found


def test_duckdb_reads_them(history: History) -> None:
    with DuckEngine() as engine:
        assert _rows(engine, history) == ANSWER


def test_duckdb_reads_properties_with_their_types(typed: tuple[History, History]) -> None:
    for history in typed:
        with DuckEngine() as engine:
            assert _typed_rows(engine, history) == TYPED_ANSWER


def test_questions_read_properties_with_their_types(typed: tuple[History, History]) -> None:
    for history in typed:
        with Asking(history) as asking, asking.answer(TYPED_QUESTION) as answer:
            rows = pa.Table.from_batches(answer.batches, answer.schema).drop(["lsn"]).to_pylist()
            assert rows == TYPED_ANSWER


@pytest.fixture
def engine(spark: "SparkSession") -> Iterator[SparkEngine]:
    with SparkEngine(spark=spark) as made:
        yield made


def test_spark_reads_them(engine: SparkEngine, history: History) -> None:
    assert _rows(engine, history) == ANSWER


def test_spark_reads_properties_with_their_types(
    engine: SparkEngine, typed: tuple[History, History]
) -> None:
    for history in typed:
        assert _typed_rows(engine, history) == TYPED_ANSWER
        rows = pa.Table.from_batches(
            engine.stream("SELECT properties, application_properties FROM events ORDER BY lsn")
        )
        with DuckEngine() as other:
            columns = ["lsn", "properties", "application_properties"]
            other.load("events", history, columns, Selection())
            expected = other.ask(
                "SELECT properties, application_properties FROM events ORDER BY lsn"
            )
        assert rows.to_pylist() == expected.to_pylist()


def test_files_do_not_have_what_can_be_derived(typed: tuple[History, History]) -> None:
    """So files of before these columns are read like any other."""
    for file in Path(typed[1].parquet).rglob("*.parquet"):
        assert tuple(pq.read_schema(file).names) == STORED_COLUMNS
