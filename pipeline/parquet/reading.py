"""Reading a Parquet archive as history, for DuckDB and for Spark, with the journal around it.

Files are chosen by the LSNs and times in their manifests, and rows by conditions, so that the rows
are exactly those that the decoder would give. An event that is in the archive is read from there;
earlier and later events come from segments, and none may be missing in between.

Fault model: as `journal.archive.store`. Files are compared with their manifests before they are
read, so that a damaged file is reported; `pipeline.proving` checks the manifests themselves. Must
never know the queries.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import duckdb
import msgspec
from duckdb.func import FunctionNullHandling, PythonUDFType

from daybook.engine.facts.kinds import OF_TWO_MESSAGES, names
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.errors import ArchiveError
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline.engines import History
from daybook.pipeline.naming import NameTable
from daybook.pipeline.parquet.archive import (
    ArchivedSegment,
    ParquetArchive,
    ParquetFile,
    gaps_between,
    local_path,
)
from daybook.pipeline.planning import Source, make_plan
from daybook.pipeline.schema import (
    BY_NAME,
    DERIVED_COLUMNS,
    DUCK,
    SOURCES,
    SPARK,
    check_columns,
    spark_ddl,
    stored,
    type_name,
)
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.pipeline.typed_headers import DERIVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FAMILY: Final = names(OF_TWO_MESSAGES)
"""Kinds whose `related` is also a message."""
_FILTERED: Final = frozenset(
    {"lsn", "kind", "address", "queue", "queues", "message", "related", "time"}
)
"""Columns that the conditions may use."""
_LITTLE: Final = Selection(to_lsn=1)
"""A small selection, for plans of which only the names or the last LSN are used."""
_GLOBBED: Final = re.compile(r"([*?\[])")
_GLOBBED_BY_HADOOP: Final = re.compile(r"([*?\[\]{},\\])")
_DERIVING: Final = "daybook_"
"""Prefix of the functions of DuckDB that make derived columns."""


class Parts(msgspec.Struct, frozen=True):
    """How a selection is read: from files of a Parquet archive, and from segments.

    `base` is the archive, and `archived` selects the events of its `files`. Each selection of
    `rest` is to be read from the history's source.
    """

    history: History
    base: str
    files: tuple[ParquetFile, ...]
    archived: Selection
    rest: tuple[Selection, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files in the archive."""
        return tuple(file.path for file in self.files)

    def check_files(self) -> None:
        """Raise ArchiveError if a file was changed; see `ParquetArchive.check`."""
        ParquetArchive(self.base).check(self.files)

    def check(self) -> None:
        """Raise ArchiveError if events after the archive left the journal meanwhile.

        To be called after the rest was planned and is protected by a pin or lease.
        """
        first = _first_lsn(self.history.source) if self.rest else 0
        if first and first > self.rest[-1].from_lsn:
            raise _missing(self.base, self.rest[-1].from_lsn, first - 1)


def parts_of(history: History, selection: Selection) -> Parts:
    """Divide a selection between the Parquet archive of a history and its segments.

    The files are read to check that they are unchanged, each once in a process. Raises
    ArchiveError, JournalError, and SelectionError for names that neither has.
    """
    archive = ParquetArchive(history.parquet)
    segments = archive.segments()
    if not segments:
        raise ArchiveError(
            archive.url, "no segment is archived here; `daybook pipeline archive --to` archives"
        )
    first, last = segments[0].first_lsn, segments[-1].last_lsn
    to_lsn = last if selection.to_lsn is None else min(last, selection.to_lsn)
    archived = msgspec.structs.replace(
        selection, from_lsn=max(first, selection.from_lsn), to_lsn=to_lsn
    )
    for gap in gaps_between(segments):
        if gap.first_lsn <= to_lsn and gap.last_lsn >= archived.from_lsn:
            raise ArchiveError(
                archive.url, f"events {gap.first_lsn} to {gap.last_lsn} are missing in it; archive "
                "them, or select only events before or after the gap",
            )  # fmt: skip
    rest = _rest(history.source, archive, segments, selection)
    if selection.needs_names:
        rest = _with_known_names(history.source, archive, selection, rest)
    files = tuple(_files(segments, archived))
    archive.check(files)
    return Parts(history, archive.base, files, archived, rest)


def _files(segments: Sequence[ArchivedSegment], wanted: Selection) -> Iterator[ParquetFile]:
    """Yield the files that may contain wanted events."""
    assert wanted.to_lsn is not None
    for segment in segments:
        for file in segment.files:
            if file.last_lsn < wanted.from_lsn or file.first_lsn > wanted.to_lsn:
                continue
            if wanted.since is not None and file.time_max < wanted.since:
                continue
            if wanted.until is not None and file.time_min > wanted.until:
                continue
            yield file


def _rest(
    source: Source,
    archive: ParquetArchive,
    segments: Sequence[ArchivedSegment],
    selection: Selection,
) -> tuple[Selection, ...]:
    """Return the selections before and after the archived segments that the source has."""
    first = _first_lsn(source)
    if not first:
        return ()
    check_same(source, archive, segments)
    before, behind = segments[0].first_lsn, segments[-1].last_lsn + 1
    rest = []
    if max(selection.from_lsn, first) < before:
        to_lsn = before - 1 if selection.to_lsn is None else min(before - 1, selection.to_lsn)
        last = make_plan(source, _LITTLE, names=False).last_lsn
        if last < to_lsn:
            raise _missing(archive.url, last + 1, to_lsn)
        rest.append(_between(selection, max(selection.from_lsn, first), to_lsn))
    if selection.to_lsn is None or selection.to_lsn >= behind:
        from_lsn = max(selection.from_lsn, behind)
        if first > from_lsn:
            raise _missing(archive.url, from_lsn, first - 1)
        rest.append(_between(selection, from_lsn, selection.to_lsn))
    return tuple(each for each in rest if each.to_lsn is None or each.from_lsn <= each.to_lsn)


def _between(selection: Selection, from_lsn: int, to_lsn: int | None) -> Selection:
    return msgspec.structs.replace(selection, from_lsn=from_lsn, to_lsn=to_lsn)


def _missing(url: str, first_lsn: int, last_lsn: int) -> ArchiveError:
    return ArchiveError(
        url, f"events {first_lsn} to {last_lsn} are neither in it nor in the history around it; "
        "name the archive of segments that has them, and run `daybook pipeline archive` more often",
    )  # fmt: skip


def _first_lsn(source: Source) -> int:
    """Return the first LSN of the segments, 0 if there is no source."""
    if not (source.directory or source.archive):
        return 0
    names = segment_names(source.disk())
    return (segment_first_lsn(names[0]) or 0) if names else 0


def check_same(
    source: Source, archive: ParquetArchive, segments: Sequence[ArchivedSegment]
) -> None:
    """Raise ArchiveError if a Parquet archive is of another data directory than segments."""
    disk = source.disk()
    segment = open_segment(disk, segment_names(disk)[-1], LAYOUT)
    segment.close()
    if {each.data_id for each in segments} != {segment.header.data_id.hex()}:
        raise ArchiveError(archive.url, "it is the archive of another data directory")


def _with_known_names(
    source: Source, archive: ParquetArchive, selection: Selection, rest: tuple[Selection, ...]
) -> tuple[Selection, ...]:
    """Remove names from the rest that only the archive knows: those of queues deleted long ago.

    Raises SelectionError for names that the archive does not know either.
    """
    known = archive.names()
    queues, addresses = dict(known.queues), dict(known.addresses)
    there_queues: set[str] = set()
    there_addresses: set[str] = set()
    if _first_lsn(source):
        # Any plan has the names of the whole journal.
        names = make_plan(source, _LITTLE).names
        there_queues, there_addresses = set(names.queues.names), set(names.addresses.names)
        queues |= dict(zip(names.queues.ids.tolist(), names.queues.names, strict=True))
        addresses |= dict(zip(names.addresses.ids.tolist(), names.addresses.names, strict=True))
    NameTable(queues).ids_of(selection.queues, "queue")
    NameTable(addresses).ids_of(selection.addresses, "address")
    wanted_queues = tuple(name for name in selection.queues if name in there_queues)
    wanted_addresses = tuple(name for name in selection.addresses if name in there_addresses)
    if (selection.queues and not wanted_queues) or (selection.addresses and not wanted_addresses):
        return ()
    return tuple(
        msgspec.structs.replace(each, queues=wanted_queues, addresses=wanted_addresses)
        for each in rest
    )


class DuckRows(NamedTuple):
    """Archived rows for DuckDB: a SELECT in LSN order; `parts.rest` must be read separately."""

    sql: str
    parts: Parts


def duck_rows(
    connection: duckdb.DuckDBPyConnection,
    history: History,
    columns: Sequence[str],
    selection: Selection = EVERYTHING,
) -> DuckRows:
    """Make a SELECT for a connection of DuckDB over a history that has a Parquet archive.

    It is always valid, has exactly these columns with the types of `arrow_schema`, and may become a
    table or a view. Files behind URLs are read through fsspec. Raises as `parts_of` does.
    """
    chosen = check_columns(columns)
    parts = parts_of(history, selection)
    if not parts.paths:
        nothing = (f"NULL::{type_name(BY_NAME[name].type, DUCK)} AS {name}" for name in chosen)
        return DuckRows(f"SELECT {', '.join(nothing)} WHERE false", parts)
    if not DERIVED.keys().isdisjoint(chosen):
        _teach(connection)
    files = ", ".join(_quoted(_duck_path(path)) for path in _located(connection, parts))
    conditions = " AND ".join(_duck_conditions(parts.archived))
    sql = (
        f"SELECT {', '.join(map(_duck_column, chosen))} "
        f"FROM read_parquet([{files}], hive_partitioning = false) "
        f"WHERE {conditions}"
    )
    return DuckRows(sql, parts)


def _duck_column(name: str) -> str:
    """Return a column as it is made of those of a file."""
    if name not in DERIVED_COLUMNS:
        return name
    return f"{_DERIVING}{name}({', '.join(SOURCES)}) AS {name}"


def _teach(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a connection the functions that make derived columns."""
    given: list[Any] = [type_name(BY_NAME[name].type, DUCK) for name in SOURCES]
    for name, derive in DERIVED.items():
        with suppress(duckdb.NotImplementedException):  # it has them
            connection.create_function(
                _DERIVING + name,
                derive,
                given,
                type_name(BY_NAME[name].type, DUCK),
                type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,
            )


def _located(connection: duckdb.DuckDBPyConnection, parts: Parts) -> list[str]:
    """Return the paths of the files for DuckDB; registers the fsspec file system of a URL."""
    local = local_path(parts.base)
    if local:
        return [f"{local}/{path}" for path in parts.paths]
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415

    files, base = url_to_fs(parts.base)
    protocol = files.protocol if isinstance(files.protocol, str) else files.protocol[0]
    if not connection.filesystem_is_registered(protocol):
        connection.register_filesystem(files)
    return [str(files.unstrip_protocol(f"{base}/{path}")) for path in parts.paths]


def _duck_path(path: str) -> str:
    """Escape a path, so that DuckDB does not take it for a pattern."""
    return _GLOBBED.sub(r"[\1]", path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(map(_quoted, texts))


def _duck_conditions(selection: Selection) -> Iterator[str]:
    """Yield the conditions of `pipeline.decoding.Filter` as SQL."""
    yield f"lsn BETWEEN {selection.from_lsn} AND {selection.to_lsn}"
    if selection.kinds:
        yield f"kind IN ({_listed(selection.kinds)})"
    if selection.addresses:
        yield f"address IN ({_listed(selection.addresses)})"
    if selection.queues:
        names = _listed(selection.queues)
        several = f"queue IS NULL AND list_has_any(queues, [{names}])"
        yield f"(queue IN ({names}) OR ({several}))"
    if selection.messages:
        ids = ", ".join(map(str, selection.messages))
        yield f"(message IN ({ids}) OR (kind IN ({_listed(FAMILY)}) AND related IN ({ids})))"
    if selection.since is not None:
        yield f"time >= make_timestamptz({selection.since})"
    if selection.until is not None:
        yield f"time <= make_timestamptz({selection.until})"


class SparkRows(NamedTuple):
    """Archived rows for Spark: a DataFrame; `parts.rest` must be read separately, and united."""

    frame: "DataFrame"
    parts: Parts


def spark_rows(
    spark: "SparkSession",
    history: History,
    columns: Sequence[str],
    selection: Selection = EVERYTHING,
) -> SparkRows:
    """Make a DataFrame over a history that has a Parquet archive.

    It has exactly these columns with the types of `spark_ddl`. Executors read the files themselves,
    so all of them must be able to reach the archive; s3:// becomes s3a://. Raises as `parts_of`
    does.
    """
    chosen = check_columns(columns)
    parts = parts_of(history, selection)
    if not parts.paths:
        return SparkRows(spark.createDataFrame([], spark_ddl(chosen)), parts)
    base = _hadoop_url(parts.base)
    needed = stored({*chosen, *_FILTERED})
    frame = spark.read.schema(spark_ddl(needed)).parquet(
        *(_GLOBBED_BY_HADOOP.sub(r"\\\1", f"{base}/{path}") for path in parts.paths)
    )
    for condition in _spark_conditions(parts.archived):
        frame = frame.where(condition)
    return SparkRows(frame.select(*map(_spark_column, chosen)), parts)


def _spark_column(name: str) -> "Column":
    """Return a column as it is made of those of a file."""
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415

    if name not in DERIVED_COLUMNS:
        return f.col(name)
    derive = cast("Any", arrow_udf)(DERIVED[name], type_name(BY_NAME[name].type, SPARK))
    made: Column = derive(*map(f.col, SOURCES)).alias(name)
    return made


def _hadoop_url(base: str) -> str:
    local = local_path(base)
    if local:
        return f"file:{local}"
    return f"s3a://{base.removeprefix('s3://')}" if base.startswith("s3://") else base


def _spark_conditions(selection: Selection) -> Iterator["Column"]:
    """Yield the same conditions for Spark."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    assert selection.to_lsn is not None
    yield f.col("lsn").between(selection.from_lsn, selection.to_lsn)
    if selection.kinds:
        yield f.col("kind").isin(*selection.kinds)
    if selection.addresses:
        yield f.col("address").isin(*selection.addresses)
    if selection.queues:
        wanted = f.array(*map(f.lit, selection.queues))
        several = f.col("queue").isNull() & f.arrays_overlap(f.col("queues"), wanted)
        yield f.col("queue").isin(*selection.queues) | several
    if selection.messages:
        ids = selection.messages
        related = f.col("kind").isin(*FAMILY) & f.col("related").isin(*ids)
        yield f.col("message").isin(*ids) | related
    if selection.since is not None:
        yield f.col("time") >= f.timestamp_micros(f.lit(selection.since))
    if selection.until is not None:
        yield f.col("time") <= f.timestamp_micros(f.lit(selection.until))
