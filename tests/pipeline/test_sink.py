"""The sink: options and columns, rows as messages, batches and streams on a real broker."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from daybook.client.endpoint import parse_url
from daybook.client.stomp import Frame, StompClient
from daybook.pipeline.publishing import ROWS_MAX, PublishError
from daybook.pipeline.selection import SelectionError
from daybook.pipeline.spark.sink import DaybookSink, SinkOptions, messages_of, read_options
from tests.support.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1

[[address-setting]]
match = "forgetful"
id-cache-size = 0
"""
URL = "stomp://guest:secret@127.0.0.1:1"
PLAIN = {"url": URL, "address": "a", "id": "q"}


TYPES = {
    "binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType(),
    "date": DateType(), "array<int>": ArrayType(IntegerType()),
}  # fmt: skip


def schema(ddl: str) -> StructType:
    """Columns as DDL; Spark's own parser of it would need a JVM."""
    pairs = [column.split() for column in ddl.split(", ")]
    return StructType([StructField(name, TYPES[type_name]) for name, type_name in pairs])


# ---- options and columns


def test_options_have_defaults_and_count_in_any_case() -> None:
    options = read_options(
        {"URL": URL, "ADDRESS": "a", "checkpointLocation": "x"}, schema("body binary"), "drawn"
    )
    assert options == SinkOptions(URL, "drawn", "a", "", (), 0.0, 300.0, ROWS_MAX, 8 << 20)
    options = read_options(
        {**PLAIN, "routingType": "MULTICAST", "rate": "0.5", "maxRowsPerTransaction": "7"},
        schema("body string, lsn bigint"),
        "drawn",
    )
    assert (options.id, options.routing_type, options.order) == ("q", "multicast", ("lsn",))
    assert (options.rate, options.rows_max) == (0.5, 7)


@pytest.mark.parametrize(
    ("options", "ddl", "words"),
    [
        ({"address": "a", "id": "q"}, "body binary", "name the broker"),
        ({**PLAIN, "url": "http://me:secret@h"}, "body binary", "not an address to connect"),
        ({"url": URL, "address": "a"}, "body binary", "name the query"),
        ({**PLAIN, "adress": "a"}, "body binary", "did you mean address"),
        ({**PLAIN, "x": "a"}, "body binary", "options: url"),
        ({**PLAIN, "routingType": "both"}, "body binary", "anycast or multicast"),
        ({**PLAIN, "rate": "-1"}, "body binary", "a number above 0"),
        ({**PLAIN, "rate": "nan"}, "body binary", "a number above 0"),
        ({**PLAIN, "maxRowsPerTransaction": "1.5"}, "body binary", "a number above 0"),
        ({**PLAIN, "orderBy": "k"}, "body binary", "orderBy names 'k'"),
        ({**PLAIN, "orderBy": "k"}, "body binary, k array<int>", "cannot be sorted by 'k'"),
        (PLAIN, "value binary", "no column body"),
        (PLAIN, "body int", "column body is int; make it binary or string"),
        (PLAIN, "body binary, prioritiy int", "did you mean priority"),
        (PLAIN, "body binary, when date", "the sink has no use for column"),
        ({"url": URL, "id": "q"}, "body binary", "name the address"),
    ],
)
def test_what_makes_no_sense_is_told(options: dict[str, str], ddl: str, words: str) -> None:
    with pytest.raises(SelectionError, match=words) as error:
        read_options(options, schema(ddl), "")
    assert "secret" not in str(error.value)


def test_modes_that_replace_are_refused() -> None:
    with pytest.raises(SelectionError, match="append"):
        DaybookSink(PLAIN).writer(schema("body binary"), True)
    with pytest.raises(SelectionError, match="append"):
        DaybookSink(PLAIN).streamWriter(schema("body binary"), True)


def test_a_broker_that_is_away_is_for_tasks_to_wait_for() -> None:
    assert DaybookSink(PLAIN).writer(schema("body binary"), False)
    assert DaybookSink(PLAIN).streamWriter(schema("body binary"), False)


# ---- rows


def test_rows_become_messages() -> None:
    options = read_options(PLAIN, schema("body string, address string"), "")
    when = datetime(2026, 11, 20, 12, 0, 0, 123456, UTC)
    batch = pa.record_batch(
        {
            "body": ["héllo", ""],
            "address": ["/topic/t", None],
            "headers": pa.array(
                [[("a", "1"), ("b", None)], None], pa.map_(pa.string(), pa.string())
            ),
            "priority": pa.array([9, None], pa.int16()),
            "persistent": [False, None],
            "expires": pa.array([when, None], pa.timestamp("us", tz="UTC")),
        }
    )
    first, second = messages_of([batch], options)
    assert (first.destination, first.body, first.headers) == (
        "/topic/t", "héllo".encode(), (("a", "1"),),
    )  # fmt: skip
    assert (first.priority, first.persistent) == (9, False)
    assert first.expires == int(when.timestamp() * 1000)
    assert (second.destination, second.body, second.headers) == ("a", b"", ())
    assert (second.priority, second.persistent, second.expires) == (4, True, 0)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": [None]}, "lsn = .7,. has no body"),
        ({"body": ["x"], "address": [""], "none": [1]}, "has no address"),
        ({"body": ["x"], "priority": [10]}, "priority 10; it goes from 0 to 9"),
        ({"body": ["x"], "expires": [-1]}, "expires before 1970"),
    ],
)
def test_rows_that_can_be_no_message_are_named(
    columns: dict[str, list[object]], words: str
) -> None:
    address = "" if "none" in columns else "a"
    options = SinkOptions(URL, "q", address, "", ("lsn",), 0.0, 1.0, 10, 10)
    with pytest.raises(PublishError, match=words):
        list(messages_of([pa.record_batch({**columns, "lsn": [7]})], options))


# ---- on Spark and a broker


@pytest.fixture(scope="module")
def broker(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("sink") / "data"
    with BrokerProcess(directory, config=CONFIG) as process:
        yield process.start()


@pytest.fixture
def url(broker: BrokerProcess, spark: "SparkSession") -> str:
    spark.dataSource.register(DaybookSink)
    # The passcode is written so that it cannot be mistaken for the login.
    return f"stomp://guest:%67uest@127.0.0.1:{broker.port}"


def drained(url: str, destination: str, count: int) -> list[Frame]:
    """The messages in a queue, which must be so many and no more."""
    with StompClient(parse_url(url)) as client:
        client.send("SUBSCRIBE", [("destination", destination), ("id", "1")])
        frames = []
        for _ in range(count):
            frame = client.message(30)
            assert frame is not None, f"{len(frames)} of {count} came"
            frames.append(frame)
        client.wait_for(client.request_receipt("UNSUBSCRIBE", [("id", "1")]))
        assert client.message(0) is None, "there were more"
    return frames


def write(frame: "DataFrame", url: str, **options: str) -> None:
    frame.write.format("daybook").mode("append").options(url=url, **options).save()


def test_a_batch_with_an_id_of_its_own_is_published_once(spark: "SparkSession", url: str) -> None:
    frame = spark.range(0, 500, 1, 3).selectExpr(
        "cast(id as string) body", "id", "map('n', cast(id % 7 as string)) headers",
        "cast(id % 10 as int) priority",
    )  # fmt: skip
    options = {"address": "/queue/batch", "orderBy": "id", "maxRowsPerTransaction": "60"}
    write(frame, url, id="once", **options)
    write(frame, url, id="once", **options)
    frames = drained(url, "/queue/batch", 500)
    assert sorted(int(each.body) for each in frames) == list(range(500))
    for each in frames:
        number = int(each.body)
        assert (each.headers["n"], each.headers["priority"]) == (str(number % 7), str(number % 10))
    write(frame.where("id < 10"), url, **options)
    write(frame.where("id < 10"), url, **options)
    assert len(drained(url, "/queue/batch", 20)) == 20


def test_a_partition_is_published_in_its_order(spark: "SparkSession", url: str) -> None:
    frame = spark.range(0, 200, 1, 4).selectExpr("200 - id lsn", "cast(200 - id as string) body")
    write(frame.coalesce(1), url, address="/queue/ordered", maxRowsPerTransaction="30")
    assert [int(each.body) for each in drained(url, "/queue/ordered", 200)] == list(range(1, 201))


def test_an_address_that_forgets_is_refused_before_anything_is_sent(
    spark: "SparkSession", url: str
) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) body")
    with pytest.raises(PySparkException, match="set id-cache-size") as error:
        write(frame, url, address="/queue/forgetful")
    assert "67uest" not in str(error.value)
    with pytest.raises(PySparkException, match=r"refused.*has wildcards") as error:
        write(frame, url, address="/queue/a{b}")
    assert "67uest" not in str(error.value)
    assert drained(url, "/queue/forgetful", 0) == []


def test_a_stream_whose_batch_is_repeated_is_published_once(
    spark: "SparkSession", url: str, tmp_path: Path
) -> None:
    """Spark forgets that the last batch was done, as after a crash just before it wrote that."""
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()

    def run() -> None:
        lines = spark.readStream.format("text").load(str(files)).selectExpr("value body")
        query = (
            lines.writeStream.format("daybook")
            .options(url=url, id="stream", address="/queue/stream", maxRowsPerTransaction="10")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for batch in range(2):
        lines = [f"{batch}-{number}" for number in range(35)]
        (files / f"{batch}.txt").write_text("\n".join(lines))
        run()
    commits = checkpoint / "commits"
    assert (commits / "1").exists()
    for name in ("1", ".1.crc"):
        (commits / name).unlink(missing_ok=True)
    run()
    assert (commits / "1").exists()
    found = [each.body.decode() for each in drained(url, "/queue/stream", 70)]
    assert found == [f"{batch}-{number}" for batch in range(2) for number in range(35)]
