"""The embedded engine: DuckDB in this process, over the decoder's batches or Parquet files.

A loaded table is stored by DuckDB, in memory up to its limit and on disk above. Must never know
what is asked.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import duckdb
import pyarrow as pa

from pipeline.decoding import read_plan
from pipeline.engines import History
from pipeline.reading import reading
from pipeline.schema import NAMED_COLUMNS, arrow_schema, check_columns
from pipeline.selection import EVERYTHING, Selection

BATCH_ROWS: Final = 1 << 16


class DuckEngine:
    """An `Engine` that needs no JVM."""

    name: Final = "embedded"

    def __init__(self) -> None:
        self._held: Final = ExitStack()
        self.connection: Final = self._held.enter_context(duckdb.connect())
        self.connection.execute("SET TimeZone = 'UTC'")

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
        names = not NAMED_COLUMNS.isdisjoint(chosen)
        with reading(history.source, selection, names=names) as plan:
            batches = pa.RecordBatchReader.from_batches(
                arrow_schema(chosen), read_plan(plan, chosen)
            )
            self.connection.register("daybook_batches", batches)
            self.connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM daybook_batches"
            )
            self.connection.unregister("daybook_batches")

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of rows that are here."""
        self.connection.register("daybook_rows", rows)
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM daybook_rows"
        )
        self.connection.unregister("daybook_rows")

    def define(self, table: str, sql: str) -> None:
        """Give a question a name."""
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {sql}")

    def ask(self, sql: str) -> pa.Table:
        """The answer to a question, in memory."""
        return self.connection.sql(sql).to_arrow_table()

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The answer in pieces."""
        yield from self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    def close(self) -> None:
        """Let go of everything."""
        self._held.close()

    def __enter__(self) -> "DuckEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
