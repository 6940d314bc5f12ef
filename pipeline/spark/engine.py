"""The engine on Spark: history by the data source `journal`, questions translated by sqlglot.

What is loaded is planned at once, so that every question about it sees the same snapshot. Must
never know what is asked.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.functions import map_entries, unix_micros
from pyspark.sql.types import MapType, StructField, TimestampType
from sqlglot import transpile

from daybook.pipeline.engines import History
from daybook.pipeline.parquet.reading import spark_rows
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import PLAIN_COLUMNS, check_columns
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.pipeline.spark.failures import told
from daybook.pipeline.spark.interrupts import Interrupts
from daybook.pipeline.spark.options import options_of
from daybook.pipeline.spark.session import session
from daybook.pipeline.spark.streaming import last_lsn
from daybook.pipeline.views import BY_NAME, EVENTS, prepare

STREAM_ROWS: Final = 1 << 14


class SparkEngine:
    """An `Engine` that runs on as many machines as Spark has."""

    name: Final = "spark"

    def __init__(self, master: str = "", spark: SparkSession | None = None) -> None:
        """Use a session that somebody else made, else the one there is, else make one.

        Raises SparkError.
        """
        self._ours: Final = spark is None and SparkSession.getActiveSession() is None
        with told():
            self.spark: Final = spark or session(master)
        self._interrupts: Final = Interrupts(self.spark.sparkContext)
        self._tables: Final[set[str]] = set()
        self._kept: Final[list[DataFrame]] = []

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """Make a table of selected events. Raises JournalError and SelectionError.

        What the first question decodes is kept for the next ones, in memory or on disk.
        """
        with self._asking():
            frame = self._loaded(history, columns, selection).persist(StorageLevel.MEMORY_AND_DISK)
            self._kept.append(frame)
            self._name(table, frame)

    def scan(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """The same, decoded anew for each question: for who asks for little of much."""
        with self._asking():
            self._name(table, self._loaded(history, columns, selection))

    def _loaded(self, history: History, columns: Sequence[str], selection: Selection) -> DataFrame:
        history.check()
        chosen = check_columns(columns)
        if history.parquet:
            return self._archived(history, chosen, selection)
        return self._planned(history.source, chosen, selection)

    def _archived(
        self, history: History, columns: tuple[str, ...], selection: Selection
    ) -> DataFrame:
        """What is in a Parquet archive, and what is not there yet."""
        frame, parts = spark_rows(self.spark, history, columns, selection)
        for rest in parts.rest:
            frame = frame.unionByName(self._planned(history.source, columns, rest))
        parts.check()
        return frame

    def _planned(self, source: Source, columns: tuple[str, ...], selection: Selection) -> DataFrame:
        """A load of its own, as every logical scan needs one, which is planned now."""
        reader = self.spark.read.format("journal")
        frame = reader.options(**options_of(source, columns, selection)).load()
        # Who asks how many parts it has makes Spark plan; else the first question would.
        frame.rdd.getNumPartitions()
        return frame

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of rows that are here."""
        with self._asking():
            self._name(table, self.spark.createDataFrame(rows))

    def define(self, table: str, sql: str) -> None:
        """Give a question a name. Raises SparkError."""
        with self._asking():
            self._name(table, self._answer(sql))

    def ask(self, sql: str) -> pa.Table:
        """The answer to a question, in memory. Raises JournalError and SelectionError."""
        with self._asking():
            return self._answer(sql).toArrow()

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The answer in pieces. Raises JournalError and SelectionError."""
        with self._asking():
            frame = self._answer(sql)
            schema = frame.limit(0).toArrow().schema
            rows = _plainly(frame).toLocalIterator(prefetchPartitions=True)
        while True:
            with self._asking():
                piece = list(islice(rows, STREAM_ROWS))
            if not piece:
                return
            yield _batch(piece, schema)

    def close(self) -> None:
        """Let go of everything; of the session, if it was made here."""
        self._interrupts.close()
        if self._ours:
            self.spark.stop()
        else:
            for table in self._tables:
                self.spark.catalog.dropTempView(table)
            for frame in self._kept:
                frame.unpersist()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """What Spark throws is a sentence, and Ctrl-C is KeyboardInterrupt."""
        with self._interrupts.awaited(), told():
            yield

    def _name(self, table: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(table)
        self._tables.add(table)

    def _answer(self, sql: str) -> DataFrame:
        (spoken,) = transpile(sql, read="duckdb", write="spark")
        return self.spark.sql(spoken)

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def views(spark: SparkSession, history: History, selection: Selection = EVERYTHING) -> None:
    """Make `events`, with all plain columns, and the views over it temporary views of a session.

    They tell of history up to now; call it again for more. Of the selection its span, addresses
    and messages count. Raises JournalError and SelectionError.
    """
    source = history.source
    if selection.to_lsn is None and (source.directory or source.archive):
        selection = msgspec.structs.replace(selection, to_lsn=last_lsn(source))
    engine = SparkEngine(spark=spark)
    prepare(engine, history, BY_NAME, selection)
    # The views go on with the few columns of `events` that they were defined over.
    engine.scan(EVENTS, history, PLAIN_COLUMNS, msgspec.structs.replace(selection, queues=()))


def _plainly(frame: DataFrame) -> DataFrame:
    """The frame with what Python's rows would spoil in another form.

    Times are microseconds: as objects they would be in this machine's zone. Maps are lists of
    pairs, for dictionaries come without the order of their keys.
    """

    def plain(field: StructField) -> Column:
        if isinstance(field.dataType, TimestampType):
            return unix_micros(frame[field.name]).alias(field.name)
        if isinstance(field.dataType, MapType):
            return map_entries(frame[field.name]).alias(field.name)
        return frame[field.name]

    return frame.select(*map(plain, frame.schema))


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
