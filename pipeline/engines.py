"""The interface of the engines that run a job's SQL: DuckDB in this process, or Spark (ADR 14).

Jobs write SQL once, in the part of DuckDB's dialect that sqlglot can translate for Spark. A job
loads the history that it needs as tables, then runs queries. Must never know the meaning of
queries.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa

from daybook.pipeline.planning import Source
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class History(msgspec.Struct, frozen=True):
    """The history that a job reads: segments, a Parquet archive, or both as one history.

    An event that both have is read from the Parquet archive (`pipeline.jobs.archive`).
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
    """Tables by name, and queries over them; used by one thread; a context manager."""

    @property
    def name(self) -> str:
        """`embedded` or `spark`."""
        ...

    @property
    def tasks_at_once(self) -> int:
        """How many items `each` asks about at a time."""
        ...

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """Make a table of selected events with these columns, replacing one of that name.

        All queries over it see the same snapshot. Raises JournalError and SelectionError.
        """
        ...

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of the given rows, which should be few."""
        ...

    def define(self, table: str, sql: str) -> None:
        """Define a view, to which other queries may refer."""
        ...

    def ask(self, sql: str) -> pa.Table:
        """Return the result of a query, in memory."""
        ...

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Return the result of a query in batches, for results of any size."""
        ...

    def each(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return the answers of a function for some items, in their order.

        Where the engine has other processes or machines, they are asked there: function, items and
        answers must be picklable.
        """
        ...

    def close(self) -> None:
        """Release tables and connections."""
        ...

    def __enter__(self) -> "Engine": ...

    def __exit__(self, *exc: object) -> None: ...
