"""The engine on Spark: history from the data source `journal`, queries translated by sqlglot.

A load is planned at once, so that all queries over it see the same snapshot. Must never know the
meaning of queries.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.functions import map_entries, struct, transform, unix_micros, when
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType
from sqlglot import transpile

from daybook.pipeline.engines import Answer, History, Item
from daybook.pipeline.parquet.reading import spark_rows
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import PLAIN_COLUMNS, check_columns
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.pipeline.spark.failures import translated_errors
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
        """Use the given session, else the active one, else create one.

        Raises SparkError.
        """
        self._ours: Final = spark is None and SparkSession.getActiveSession() is None
        with translated_errors():
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

        Events that the first query decodes are kept for later ones, in memory or on disk.
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
        """As `load`, but decoded for each query: for queries that need little of a long history."""
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
        """Read a Parquet archive, and the events that it does not have."""
        frame, parts = spark_rows(self.spark, history, columns, selection)
        for rest in parts.rest:
            frame = frame.unionByName(self._planned(history.source, columns, rest))
        parts.check()
        return frame

    def _planned(self, source: Source, columns: tuple[str, ...], selection: Selection) -> DataFrame:
        """Plan a load now; every logical scan needs a load of its own."""
        reader = self.spark.read.format("journal")
        frame = reader.options(**options_of(source, columns, selection)).load()
        # Asking for the number of partitions makes Spark plan now, and not at the first query.
        frame.rdd.getNumPartitions()
        return frame

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of the given rows."""
        with self._asking():
            self._name(table, self.spark.createDataFrame(rows))

    def define(self, table: str, sql: str) -> None:
        """Define a view. Raises SparkError."""
        with self._asking():
            self._name(table, self._answer(sql))

    def ask(self, sql: str) -> pa.Table:
        """Return the result of a query, in memory. Raises JournalError and SelectionError."""
        with self._asking():
            return self._answer(sql).toArrow()

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Return the result of a query in batches. Raises JournalError and SelectionError."""
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

    @property
    def tasks_at_once(self) -> int:
        """As many as the session has cores: all of one machine, unless it says otherwise."""
        return max(int(self.spark.sparkContext.defaultParallelism), 1)

    def each(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return the answers of a function for some items, each asked in a task. Raises
        SparkError."""
        if not items:
            return []
        with self._asking():
            asked = self.spark.sparkContext.parallelize(list(items), len(items)).map(function)
            return list(asked.collect())

    def close(self) -> None:
        """Release all tables, and the session if it was created here."""
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
        """Translate Spark's errors, and raise KeyboardInterrupt for Ctrl-C."""
        with self._interrupts.awaited(), translated_errors():
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
    """Define `events`, with all plain columns, and the views over it as temporary views.

    They show the history up to now; call this again for newer events. Only the span, the addresses
    and the messages of the selection are used. Raises JournalError and SelectionError.
    """
    source = history.source
    if selection.to_lsn is None and (source.directory or source.archive):
        selection = msgspec.structs.replace(selection, to_lsn=last_lsn(source))
    engine = SparkEngine(spark=spark)
    prepare(engine, history, BY_NAME, selection)
    # The views keep the `events` with few columns over which they were defined.
    engine.scan(EVENTS, history, PLAIN_COLUMNS, msgspec.structs.replace(selection, queues=()))


def _plainly(frame: DataFrame) -> DataFrame:
    """Convert columns whose values Python rows would change.

    Times become microseconds, because datetime objects would be in this machine's zone. Maps become
    lists of pairs, because dictionaries would lose the order of their keys.
    """
    return frame.select(
        *(_plain(frame[field.name], field.dataType).alias(field.name) for field in frame.schema)
    )


def _plain(column: Column, kind: DataType) -> Column:
    if isinstance(kind, TimestampType):
        return unix_micros(column)
    if isinstance(kind, ArrayType):
        return transform(column, lambda each: _plain(each, kind.elementType))
    if isinstance(kind, MapType):
        return transform(
            map_entries(column),
            lambda pair: struct(
                _plain(pair["key"], kind.keyType).alias("key"),
                _plain(pair["value"], kind.valueType).alias("value"),
            ),
        )
    if isinstance(kind, StructType):
        fields = (_plain(column[each.name], each.dataType).alias(each.name) for each in kind)
        return when(column.isNotNull(), struct(*fields))
    return column


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
