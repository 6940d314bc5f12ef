"""The engine on Spark: history by the data source `journal`, questions translated by sqlglot.

What is loaded is planned at once, so that every question about it sees the same snapshot. Must
never know what is asked.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import unix_micros
from pyspark.sql.types import TimestampType
from sqlglot import transpile

from pipeline.engines import History
from pipeline.schema import check_columns
from pipeline.selection import EVERYTHING, Selection
from pipeline.session import session
from pipeline.source_options import options_of
from pipeline.spark_failures import told

STREAM_ROWS: Final = 1 << 14


class SparkEngine:
    """An `Engine` that runs on as many machines as Spark has."""

    name: Final = "spark"

    def __init__(self, master: str = "") -> None:
        """Raises SparkError."""
        self._ours: Final = SparkSession.getActiveSession() is None
        with told():
            self.spark: Final = session(master)
        self._tables: Final[set[str]] = set()

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """Make a table of selected events. Raises JournalError and SelectionError."""
        history.check()
        chosen = check_columns(columns)
        with told():
            reader = self.spark.read.format("journal")
            frame = reader.options(**options_of(history.source, chosen, selection)).load()
            # This makes the plan, and not only when somebody asks.
            frame.rdd.getNumPartitions()
            self._name(table, frame)

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of rows that are here."""
        with told():
            self._name(table, self.spark.createDataFrame(rows))

    def define(self, table: str, sql: str) -> None:
        """Give a question a name. Raises SparkError."""
        with told():
            self._name(table, self._answer(sql))

    def ask(self, sql: str) -> pa.Table:
        """The answer to a question, in memory. Raises JournalError and SelectionError."""
        with told():
            return self._answer(sql).toArrow()

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The answer in pieces. Raises JournalError and SelectionError."""
        with told():
            frame = self._answer(sql)
            schema = frame.limit(0).toArrow().schema
            rows = _without_zones(frame).toLocalIterator(prefetchPartitions=True)
            while piece := list(islice(rows, STREAM_ROWS)):
                yield _batch(piece, schema)

    def close(self) -> None:
        """Let go of everything; of the session, if it was made here."""
        if self._ours:
            self.spark.stop()
        else:
            for table in self._tables:
                self.spark.catalog.dropTempView(table)

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


def _without_zones(frame: DataFrame) -> DataFrame:
    """The frame with times as microseconds: Python's would be those of this machine's zone."""
    return frame.select(
        *(
            unix_micros(frame[field.name]).alias(field.name)
            if isinstance(field.dataType, TimestampType)
            else frame[field.name]
            for field in frame.schema
        )
    )


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_map(kind):
        values = tuple(value if value is None else list(value.items()) for value in values)
    return pa.array(values, kind)
