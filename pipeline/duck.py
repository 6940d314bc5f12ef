"""The embedded engine: DuckDB in this process, over the decoder's batches and Parquet files.

A table loaded from the journal is stored by DuckDB, in memory up to a limit and in a temporary
directory above it; Parquet files are read in place. An attached table is not stored at all: it is
decoded while a query reads it, and can be read only once.

Fault model: an error of the decoder while DuckDB reads from it is raised unchanged, and so is a
changed Parquet file; if DuckDB lacks disk space or memory, that is a JournalError. Must never know
the meaning of queries.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from typing import Final, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from daybook.journal.errors import JournalError
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.engines import History, Item
from daybook.pipeline.parquet.reading import Parts, duck_rows
from daybook.pipeline.planning import Source
from daybook.pipeline.reading import reading
from daybook.pipeline.schema import NAMED_COLUMNS, arrow_schema, check_columns
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.scratch_folders import scratch_folder

BATCH_ROWS: Final = 1 << 16
MEMORY_MOST: Final = 2 << 30
"""What DuckDB may use by default. It spills above; but a table of all messages, as questions about
their states make one, needs about 100 bytes for each that it cannot spill."""
MEMORY_SHARE: Final = 3
"""On a small machine DuckDB may use one part in so many of the memory."""
MEMORY_LEAST: Final = 256 << 20

INTERRUPT_SECONDS: Final = 0.1
"""How long to wait for an interrupted query to end before interrupting it again."""

NO_EXTENSIONS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False, "autoload_known_extensions": False,
    "allow_community_extensions": False,
}  # fmt: skip
"""Settings of DuckDB: it has what was built in, and loads nothing else."""
_NUMBERED: Final = "daybook_part_"
Answer = TypeVar("Answer")


def memory_bytes() -> int:
    """Return the default number of bytes that DuckDB may use before it spills to disk."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(whole // MEMORY_SHARE, MEMORY_LEAST), MEMORY_MOST)


class Limits(NamedTuple):
    """The limits of a query besides memory; 0 leaves one to DuckDB.

    `spill_bytes` is the most that it may write into its temporary directory, `batch_rows` the
    number of rows of an answer that are made at a time.
    """

    threads: int = 0
    spill_bytes: int = 0
    batch_rows: int = BATCH_ROWS


NO_LIMITS: Final = Limits()


class Pulled:
    """Batches that DuckDB reads; keeps the exception, of which DuckDB reports only the text."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches: Final = batches
        self.failure: BaseException | None = None

    def __iter__(self) -> "Pulled":
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self.failure = error
            raise

    def close(self) -> None:
        """End the decoding; DuckDB must no longer read from it."""
        if isinstance(self._batches, Generator):
            self._batches.close()


class DuckEngine:
    """An `Engine` that needs no JVM."""

    name: Final = "embedded"

    def __init__(self, memory: int = 0, limits: Limits = NO_LIMITS) -> None:
        """`memory` is in bytes; above it tables and sorts spill to disk. 0 is the default."""
        self._limits: Final = limits
        self._resources: Final = ExitStack()
        # DuckDB misses some Ctrl-C; the calling thread sees all, because it only waits for this
        # one.
        self._runner: Final = self._resources.enter_context(ThreadPoolExecutor(1, "daybook-duckdb"))
        spill = self._resources.enter_context(scratch_folder("sql"))
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{(memory or memory_bytes()) >> 10}KiB",
            "temp_directory": str(spill),
            **NO_EXTENSIONS,
        }
        if limits.threads:
            config["threads"] = limits.threads
        if limits.spill_bytes:
            config["max_temp_directory_size"] = f"{limits.spill_bytes >> 10}KiB"
        self.connection: Final = self._resources.enter_context(duckdb.connect(config=config))
        self.connection.execute("SET TimeZone = 'UTC'")
        # Names in queries are tables, never variables of this program.
        self.connection.execute("SET python_enable_replacements = false")
        self._made: Final[dict[str, str]] = {}
        self._pulled: list[Pulled] = []
        self._archived: Final[list[Parts]] = []
        self._reader: pa.RecordBatchReader | None = None

    def load(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> None:
        """Make a table of selected events. Raises JournalError and SelectionError."""
        with self._parts(history, check_columns(columns), selection) as parts:
            stored = f"{table}_of_segments"
            segments = [part for part in parts if part.startswith(f"FROM {_NUMBERED}")]
            if len(segments) == len(parts):
                self._create("TABLE", table, " UNION ALL ".join(parts))
                return
            if segments:
                self._create("TABLE", stored, " UNION ALL ".join(segments))
        archived = next(part for part in parts if part not in segments)
        # The part of the journal before the archive is nearly always empty.
        behind = [f"FROM {stored}"] if segments else []
        self._create("VIEW", table, " UNION ALL ".join([archived, *behind]))

    @contextmanager
    def attached(
        self,
        table: str,
        history: History,
        columns: Sequence[str],
        selection: Selection = EVERYTHING,
    ) -> Iterator[None]:
        """Provide a table, in LSN order, that is not stored and can be read once.

        Raises as `load` does; errors of decoding are raised when the table is read.
        """
        with self._parts(history, check_columns(columns), selection) as parts:
            self._create("VIEW", table, " UNION ALL ".join(parts))
            try:
                yield
            finally:
                self._put_away()

    @contextmanager
    def _parts(
        self, history: History, columns: tuple[str, ...], selection: Selection
    ) -> Iterator[list[str]]:
        """Give the selected events as queries, in LSN order; those over segments can run once."""
        history.check()
        with ExitStack() as resources:
            if not history.parquet:
                yield [self._register(resources, history.source, columns, selection)]
                return
            rows = duck_rows(self.connection, history, columns, selection)
            self._archived.append(rows.parts)
            parts = [f"({rows.sql})"]
            for each in rows.parts.rest:
                before = each.to_lsn is not None and each.to_lsn < rows.parts.archived.from_lsn
                part = self._register(resources, history.source, columns, each)
                parts.insert(0 if before else len(parts), part)
            rows.parts.check()
            yield parts

    def _register(
        self, resources: ExitStack, source: Source, columns: tuple[str, ...], selection: Selection
    ) -> str:
        """Return a query over the decoder's batches; valid as long as `resources` is open."""
        names = not NAMED_COLUMNS.isdisjoint(columns)
        plan = resources.enter_context(reading(source, selection, names=names))
        pulled = Pulled(read_plan(plan, columns, encoded=True))
        self._pulled.append(pulled)
        name = f"{_NUMBERED}{len(self._pulled)}"
        schema = arrow_schema(columns, encoded=True)
        reader = pa.RecordBatchReader.from_batches(schema, pulled)
        self.connection.register(name, reader)
        resources.callback(pulled.close)
        resources.callback(self.connection.unregister, name)
        return f"FROM {name}"

    def add(self, table: str, rows: pa.Table) -> None:
        """Make a table of the given rows."""
        self.connection.register("daybook_rows", rows)
        self._create("TABLE", table, "FROM daybook_rows")
        self.connection.unregister("daybook_rows")

    def define(self, table: str, sql: str) -> None:
        """Define a view."""
        self._create("VIEW", table, sql)

    def _create(self, what: str, table: str, sql: str) -> None:
        """Create a table or a view, replacing one of that name."""
        before = self._made.pop(table, "")
        if before:
            self.connection.execute(f"DROP {before} {table}")
        self._run(lambda: self.connection.execute(f"CREATE TEMP {what} {table} AS {sql}"))
        self._made[table] = what

    def close_off(self, directories: Sequence[str] = ()) -> None:
        """From now on queries can access no files outside these directories, and no network."""
        # DuckDB checks paths before it resolves patterns in them.
        names = [each for name in directories for each in (name, escape(name))]
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
        self.connection.execute(f"SET allowed_directories = [{listed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def ask(self, sql: str) -> pa.Table:
        """Return the result of a query, in memory."""
        return self._run(lambda: self.connection.sql(sql).to_arrow_table())

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Return the result of a query in batches."""
        yield from self.reader(sql)[1]

    def reader(self, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema of a result, and its batches."""
        self._put_away()
        reader = self._run(
            lambda: self.connection.sql(sql).to_arrow_reader(self._limits.batch_rows)
        )
        self._reader = reader
        return reader.schema, self._told(reader)

    def _put_away(self) -> None:
        """Close a result that may not have been read completely."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self._run(reader.close)

    def _told(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            batch = self._run(lambda: next(reader, None))
            if batch is None:
                return
            yield batch

    def _run(self, call: Callable[[], Answer]) -> Answer:
        """Run a call of DuckDB; a KeyboardInterrupt interrupts it first.

        Raises errors of the decoder unchanged, ArchiveError if a Parquet file changed since it was
        checked, and JournalError if disk space or memory is missing.
        """
        doing = self._runner.submit(call)
        try:
            return doing.result()
        except KeyboardInterrupt:
            self._end(doing)
            raise
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            for pulled in self._pulled:
                if pulled.failure is not None:
                    raise pulled.failure from error
            for parts in self._archived:
                parts.check_files()
            if isinstance(error, duckdb.OutOfMemoryException):
                # Its advice is about settings that are locked here.
                what = str(error).partition("\n")[0]
                raise JournalError(
                    f"DuckDB cannot continue: {what}; allow it more memory (--memory), or give "
                    "TMPDIR more room"
                ) from error
            if isinstance(error, duckdb.IOException):
                raise JournalError(f"DuckDB cannot continue: {error}") from error
            raise

    def _end(self, doing: Future[Answer]) -> None:
        """Interrupt DuckDB until the call ends; a call that has not begun misses an interrupt."""
        while not doing.done():
            # Terminals may send further interrupts; the first one is already being handled.
            with suppress(KeyboardInterrupt):
                self.connection.interrupt()
                wait([doing], INTERRUPT_SECONDS)

    @property
    def tasks_at_once(self) -> int:
        """One: they are asked in this process."""
        return 1

    def each(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Return the answers of a function for some items; they are asked in this process."""
        return [function(item) for item in items]

    def close(self) -> None:
        """Close DuckDB and all tables."""
        self._put_away()
        self._resources.close()

    def __enter__(self) -> "DuckEngine":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
