"""What runs a job's SQL: DuckDB in this process, or Spark. One text, two engines (ADR 14).

SQL is written as DuckDB has it, in what sqlglot can say in Spark's words, too. A job loads what it
needs of history as tables, then asks. Must never know what is asked.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError


class History(msgspec.Struct, frozen=True):
    """What a job is about: segments, a Parquet archive of some, or both as one history.

    Where both have an event it is read from the Parquet archive (`pipeline.jobs.archive`).
    """

    source: Source = Source()
    parquet: str = ""

    def check(self) -> None:
        """Raise SelectionError if it names nothing."""
        if not (self.source.directory or self.source.archive or self.parquet):
            raise SelectionError(
                "name a data directory, an archive of segments, or a Parquet archive"
            )


class Engine(Protocol):
    """Tables by name and questions about them; used by one thread, a context manager."""

    @property
    def name(self) -> str:
        """`embedded` or `spark`."""
        ...

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """Make a table of selected events with these columns, in place of one of that name.

        Whatever asks it sees the same snapshot. Raises JournalError and SelectionError.
        """
        ...

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of rows that are here, which should be few."""
        ...

    def define(self, table: str, sql: str) -> None:
        """Give a question a name, by which others may refer to what it answers."""
        ...

    def ask(self, sql: str) -> pa.Table:
        """The answer to a question, in memory."""
        ...

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The answer in pieces, for answers of any size."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *exc: object) -> None: ...
