"""Messages of AMQP 1.0 in queries: DuckDB and Spark read the same headers and bodies of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from daybook.engine.commands import Send
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection
from daybook.pipeline.spark.engine import SparkEngine
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


def _rows(engine: Engine, history: History) -> list[dict[str, Any]]:
    engine.load("events", history, ["lsn", "kind", "headers", "body"], Selection())
    found: list[dict[str, Any]] = engine.ask(QUESTION).to_pylist()
    return found


def test_duckdb_reads_them(history: History) -> None:
    with DuckEngine() as engine:
        assert _rows(engine, history) == ANSWER


@pytest.fixture
def engine(spark: "SparkSession") -> Iterator[SparkEngine]:
    with SparkEngine(spark=spark) as made:
        yield made


def test_spark_reads_them(engine: SparkEngine, history: History) -> None:
    assert _rows(engine, history) == ANSWER
