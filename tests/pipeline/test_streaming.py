"""A stream gives each event in exactly one batch, whatever comes between."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import LOCK
from daybook.journal.errors import JournalError
from daybook.journal.pins import NO_PIN, lowest_pinned_lsn
from daybook.journal.segments.segment import segment_names
from daybook.pipeline.schema import arrow_schema
from daybook.pipeline.selection import SelectionError
from daybook.pipeline.spark.datasource import JournalSource
from daybook.pipeline.spark.streaming import JournalStreamReader
from tests.support.histories import some_history
from tests.support.stored.growing import Growing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

EVENTS = some_history(11, 300)
ALL = ReadAllAvailable()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Growing]:
    with Growing(tmp_path / "data", EVENTS) as growing:
        growing.grow(200)
        yield growing


def reader_of(path: Path, *columns: str, **options: str) -> JournalStreamReader:
    chosen = columns or ("lsn",)
    source = JournalSource({"path": str(path), "columns": ",".join(chosen), **options})
    reader = source.streamReader(from_arrow_schema(arrow_schema(chosen)))
    assert isinstance(reader, JournalStreamReader)
    return reader


def rows_between(reader: JournalStreamReader, begin: int, end: int) -> list[dict[str, Any]]:
    """Return the rows of a batch that tasks would read, each by a reader of another process."""
    sent = pickle.dumps(reader_like(reader))
    return [
        row
        for partition in reader.partitions({"lsn": begin}, {"lsn": end})
        for batch in received(sent).read(received(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def reader_like(reader: JournalStreamReader) -> JournalStreamReader:
    return JournalStreamReader(reader._options)


def received(sent: bytes) -> Any:
    return pickle.loads(sent)  # noqa: S301


def lsns(rows: list[dict[str, Any]]) -> list[int]:
    return [row["lsn"] for row in rows]


def test_it_begins_where_it_is_told(journal: Growing) -> None:
    starts = {"": 1, "earliest": 1, "latest": 201, "77": 77}
    for text, lsn in starts.items():
        options = {"startingLsn": text} if text else {}
        assert reader_of(journal.directory, **options).initialOffset() == {"lsn": lsn}


def test_batches_meet_and_grow_with_the_journal(journal: Growing) -> None:
    reader = reader_of(journal.directory, splitBytes="1000")
    begin, found = 1, []
    for last in (200, 200, 430, 431):
        journal.grow(last)
        end = reader.latestOffset({"lsn": begin}, ALL)["lsn"]
        assert end == last + 1
        found += lsns(rows_between(reader, begin, end))
        begin = end
    assert found == list(range(1, 432))


def test_a_batch_has_no_more_rows_than_allowed(journal: Growing) -> None:
    reader = reader_of(journal.directory, maxRowsPerBatch="70")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(70)
    ends = [reader.latestOffset({"lsn": begin}, limit)["lsn"] for begin in (1, 71, 141, 201)]
    assert ends == [71, 141, 201, 201]
    assert lsns(rows_between(reader, 71, 141)) == list(range(71, 141))


def test_it_ends_where_it_is_told(journal: Growing) -> None:
    reader = reader_of(journal.directory, endingLsn="50")
    assert reader.latestOffset({"lsn": 1}, ALL) == {"lsn": 51}
    assert reader.reportLatestOffset() == {"lsn": 51}


def test_available_now_is_what_was_there_then(journal: Growing) -> None:
    reader = reader_of(journal.directory)
    reader.prepareForTriggerAvailableNow()
    journal.grow(300)
    assert reader.latestOffset({"lsn": 1}, ALL) == {"lsn": 201}
    assert reader.reportLatestOffset() == {"lsn": 301}


def test_names_are_learned_on_the_way(tmp_path: Path) -> None:
    columns = ("lsn", "queue", "address")
    created = [event.lsn for event in EVENTS if event.name == "QueueCreated"]
    assert created[-1] > created[0]
    with Growing(tmp_path / "data", EVENTS) as journal:
        reader = reader_of(journal.directory, *columns)
        begin, found = 1, []
        for last in (*created, len(EVENTS)):
            journal.grow(last)
            found += rows_between(reader, begin, last + 1)
            begin = last + 1
        whole = reader_of(journal.directory, *columns)
        assert found == rows_between(whole, 1, len(EVENTS) + 1)


def test_a_queue_may_come_later(tmp_path: Path) -> None:
    created = next(event for event in EVENTS if event.name == "QueueCreated" and event.lsn > 20)
    name = created.decoded.name
    with Growing(tmp_path / "data", EVENTS) as journal:
        journal.grow(created.lsn - 1)
        reader = reader_of(journal.directory, "lsn", "queue", queues=name)
        assert reader.partitions({"lsn": 1}, {"lsn": created.lsn}) == []
        journal.grow(len(EVENTS))
        rows = rows_between(reader, created.lsn, len(EVENTS) + 1)
    assert rows[0] == {"lsn": created.lsn, "queue": name}


def test_what_left_while_it_was_stopped_is_told(journal: Growing, tmp_path: Path) -> None:
    journal.grow(600)
    archive = Archive(str(tmp_path / "archive"))
    for name in segment_names(journal.disk)[:-1]:
        archive.put(journal.disk, name, now=1)
    first = journal.lose_first()
    alone = reader_of(journal.directory)
    for ask in (
        lambda: alone.latestOffset({"lsn": first - 1}, ALL),
        lambda: alone.partitions({"lsn": first - 1}, {"lsn": first}),
    ):
        with pytest.raises(JournalError, match=rf"LSN {first - 1}, .* LSN {first}: .* archive"):
            ask()
    assert alone.latestOffset({"lsn": first}, ALL) == {"lsn": 601}
    both = reader_of(journal.directory, archive=str(tmp_path / "archive"))
    assert both.initialOffset() == {"lsn": 1}
    assert lsns(rows_between(both, first - 5, 601)) == list(range(first - 5, 601))


def test_the_checkpoint_of_another_journal_is_told(journal: Growing) -> None:
    reader = reader_of(journal.directory)
    assert reader.latestOffset({"lsn": 201}, ALL) == {"lsn": 201}
    with pytest.raises(JournalError, match="LSN 202, but history ends with LSN 200"):
        reader.latestOffset({"lsn": 202}, ALL)


def test_what_is_to_come_next_is_pinned(journal: Growing) -> None:
    (journal.directory / LOCK).touch()
    reader = reader_of(journal.directory)
    assert lowest_pinned_lsn(journal.directory) == NO_PIN
    assert reader.initialOffset() == {"lsn": 1}
    assert lowest_pinned_lsn(journal.directory) == 1
    reader.latestOffset({"lsn": 90}, ALL)
    assert lowest_pinned_lsn(journal.directory) == 90
    reader.commit({"lsn": 120})
    assert lowest_pinned_lsn(journal.directory) == 120
    reader.stop()
    assert lowest_pinned_lsn(journal.directory) == NO_PIN


def test_a_span_is_no_option_of_a_stream(journal: Growing) -> None:
    with pytest.raises(SelectionError, match="a stream has startingLsn and endingLsn"):
        reader_of(journal.directory, lsn="1..5")


def stream(spark: "SparkSession", path: Path, **options: str) -> "DataFrame":
    columns = {"columns": "lsn, kind, queue, message"}
    return spark.readStream.format("journal").options(**columns, **options).load(str(path))


Batches = list[tuple[int, list[tuple[int, str]]]]


def run(frame: "DataFrame", batches: Batches, checkpoint: Path, **trigger: Any) -> "StreamingQuery":
    """Gather batches, with their numbers, from where the checkpoint says."""

    def gather(batch: "DataFrame", number: int) -> None:
        rows = batch.select("lsn", "kind").orderBy("lsn").collect()
        batches.append((number, [(row["lsn"], row["kind"]) for row in rows]))

    writing = frame.writeStream.foreachBatch(gather).trigger(**trigger)
    return writing.option("checkpointLocation", str(checkpoint)).start()


def expected(first: int, last: int) -> list[tuple[int, str]]:
    return [(event.lsn, event.name) for event in EVENTS[first - 1 : last]]


def test_a_query_goes_on_where_it_stopped(
    spark: "SparkSession", journal: Growing, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    frame = stream(spark, journal.directory, maxRowsPerBatch="90")
    batches: Batches = []
    run(frame, batches, checkpoint, availableNow=True).awaitTermination()
    assert batches == [(0, expected(1, 90)), (1, expected(91, 180)), (2, expected(181, 200))]

    journal.grow(350)
    # A batch that was planned and not finished is planned and read again, though there is more.
    for path in (checkpoint / "commits").glob("*2*"):
        path.unlink()
    again: Batches = []
    run(frame, again, checkpoint, availableNow=True).awaitTermination()
    assert again == [(2, expected(181, 200)), (3, expected(201, 290)), (4, expected(291, 350))]
    offsets = (checkpoint / "offsets" / "4").read_text().splitlines()
    assert json.loads(offsets[-1]) == {"lsn": 351}


def test_a_query_follows_a_journal_that_grows(
    spark: "SparkSession", journal: Growing, tmp_path: Path
) -> None:
    batches: Batches = []
    frame = stream(spark, journal.directory)
    query = run(frame, batches, tmp_path / "checkpoint", processingTime="0 seconds")
    try:
        for last in (200, 280, 460):
            journal.grow(last)
            query.processAllAvailable()
            assert [row for _, rows in batches for row in rows] == expected(1, last)
    finally:
        query.stop()
