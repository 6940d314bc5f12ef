"""Rows over a Parquet archive equal those over the journal (ADR 14), alone and joined with it."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError
from daybook.journal.segments.segment import segment_names
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.engines import History
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.parquet.archive import ABOUT, ParquetArchive
from daybook.pipeline.parquet.reading import duck_rows, parts_of, spark_rows
from daybook.pipeline.planning import Source
from daybook.pipeline.reading import reading
from daybook.pipeline.schema import ALL_COLUMNS, PLAIN_COLUMNS, arrow_schema
from daybook.pipeline.selection import EVERYTHING, Selection, SelectionError
from tests.support.histories import some_history, write_history
from tests.support.world import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENT_BYTES = 1 << 14


class Place(NamedTuple):
    """A history on disk, and its Parquet archive."""

    journal: list[Event]
    data: Path
    parquet: Path

    @property
    def source(self) -> Source:
        return Source(str(self.data))

    @property
    def both(self) -> History:
        return History(self.source, str(self.parquet))


def whole_commands(journal: Sequence[Event]) -> list[int]:
    """Ends of blocks that leave a message and what it was made from in one, as brokers do."""
    kept = set(range(150, len(journal), 150))
    for event in journal:
        if event.name in ("DeadLettered", "Expired") and event.row[10]:
            kept -= set(range(min(event.row[10], event.lsn), max(event.row[10], event.lsn)))
    return sorted(kept)


def make_place(folder: Path, seed: int = 3, messages: int = 600) -> Place:
    journal = some_history(seed, messages)
    cuts = whole_commands(journal)
    data = write_history(folder / "data", journal, cuts=cuts, segment_bytes=SEGMENT_BYTES)
    place = Place(journal, data, folder / "a [1]*parquet,{b}")
    assert archive(place.source, str(place.parquet)).ok
    return place


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with TemporaryDirectory() as folder:
        yield make_place(Path(folder))


def copied(place: Place, folder: Path) -> Place:
    return Place(
        place.journal,
        Path(shutil.copytree(place.data, folder / "data")),
        Path(shutil.copytree(place.parquet, folder / "parquet")),
    )


def from_journal(source: Source, selection: Selection, columns: Sequence[str]) -> pa.Table:
    with reading(source, selection) as plan:
        return pa.Table.from_batches(read_plan(plan, columns), arrow_schema(columns))


def from_parquet(history: History, selection: Selection, columns: Sequence[str]) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        rows = duck_rows(connection, history, columns, selection)
        found = connection.sql(rows.sql).to_arrow_table()
        schema = arrow_schema(columns)
        assert found.schema.names == list(columns)
        tables = [found.cast(schema)]
        for rest in rows.parts.rest:
            part = from_journal(history.source, rest, columns)
            before = rest.to_lsn is not None and rest.to_lsn < rows.parts.archived.from_lsn
            tables.insert(0 if before else len(tables), part)
            rows.parts.check()
        return pa.concat_tables(tables)


def selections(journal: Sequence[Event], last_name: int) -> st.SearchStrategy[Selection]:
    """Selections by what is in a journal; names are those that exist up to an event."""
    names = {
        name: sorted(
            {event.decoded.name for event in journal[:last_name] if event.name == f"{name}Created"}
        )
        for name in ("Queue", "Address")
    }
    some = st.integers(0, len(journal) + 2)
    times = st.sampled_from([event.row[11] + off for event in journal for off in (-1, 0, 1)])
    return st.builds(
        Selection,
        kinds=few(sorted({event.name for event in journal})),
        queues=few(names["Queue"]),
        addresses=few(names["Address"]),
        messages=few(sorted({event.row[7] for event in journal if event.row[7]})),
        from_lsn=st.just(1) | some,
        to_lsn=st.none() | some,
        since=st.none() | times,
        until=st.none() | times,
    )


def few(options: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    some = st.lists(st.sampled_from(options), min_size=1, max_size=3, unique=True).map(tuple)
    return st.just(()) | st.just(()) | st.just(()) | some


@settings(max_examples=25)
@given(st.data())
def test_rows_over_parquet_are_those_over_the_journal(place: Place, data: st.DataObject) -> None:
    last = ParquetArchive(str(place.parquet)).segments()[-1].last_lsn
    # A name that came later is refused where only the archive is asked.
    selection = data.draw(selections(place.journal, last))
    columns = data.draw(
        st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, max_size=6, unique=True)
        | st.just(list(ALL_COLUMNS))
    )
    expected = from_journal(place.source, selection, columns)
    assert from_parquet(place.both, selection, columns).equals(expected)
    alone = History(parquet=str(place.parquet))
    clipped = last if selection.to_lsn is None else min(last, selection.to_lsn)
    archived = from_journal(
        place.source, msgspec.structs.replace(selection, to_lsn=clipped), columns
    )
    assert from_parquet(alone, selection, columns).equals(archived)


def test_spark_reads_the_same_rows(spark: "SparkSession", place: Place) -> None:
    times = sorted(event.row[11] for event in place.journal)
    messages = [event.row[7] for event in place.journal if event.name == "DeadLettered"]
    schema = arrow_schema(ALL_COLUMNS)
    alone = History(parquet=str(place.parquet))
    for selection in (
        EVERYTHING,
        Selection(queues=("press", "orders"), kinds=("Routed", "Acknowledged")),
        Selection(addresses=("größe/kg",), messages=tuple(messages[:3]), from_lsn=20),
        Selection(since=times[400], until=times[900]),
        Selection(from_lsn=len(place.journal) + 1),
    ):
        rows = spark_rows(spark, alone, ALL_COLUMNS, selection)
        found = rows.frame.toArrow().sort_by("lsn")
        assert found.schema.names == schema.names
        # Names of the fields within a map differ, and nothing else.
        assert found.cast(schema).equals(from_parquet(alone, selection, ALL_COLUMNS))
        assert rows.parts.rest == ()


def test_files_are_chosen_by_lsn_and_time(place: Place) -> None:
    segments = ParquetArchive(str(place.parquet)).segments()
    assert len(segments) > 3
    (file,) = segments[1].files

    def paths(**wanted: int) -> tuple[str, ...]:
        return parts_of(place.both, Selection(**wanted)).paths

    assert len(paths()) == len(segments)
    assert paths(from_lsn=file.first_lsn, to_lsn=file.last_lsn) == (file.path,)
    assert file.path not in paths(since=file.time_max + 1)
    assert file.path in paths(since=file.time_max)
    assert file.path not in paths(until=file.time_min - 1)
    assert file.path in paths(until=file.time_min)
    assert paths(from_lsn=len(place.journal) + 1) == ()


def test_what_is_selected_from_none_of_both_is_an_empty_table(place: Place) -> None:
    nothing = Selection(from_lsn=len(place.journal) + 10)
    found = from_parquet(place.both, nothing, ALL_COLUMNS)
    assert found.num_rows == 0
    assert found.schema == arrow_schema(ALL_COLUMNS)


def test_names_of_neither_are_told(place: Place) -> None:
    for history in (place.both, History(parquet=str(place.parquet))):
        with pytest.raises(SelectionError, match="history has no queue 'order'; did you mean 'ord"):
            parts_of(history, Selection(queues=("order",)))
        with pytest.raises(SelectionError, match="history has no address 'order'"):
            parts_of(history, Selection(addresses=("order",)))


def test_archived_segments_may_leave_the_journal(place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    for segment in ParquetArchive(str(mine.parquet)).segments():
        (mine.data / "journal" / segment.segment).unlink()
    found = from_parquet(mine.both, EVERYTHING, PLAIN_COLUMNS)
    assert found.column("lsn").to_pylist() == list(range(1, len(place.journal) + 1))
    # Names are known from the archive alone, so the rows of the journal's part have numbers.
    last = ParquetArchive(str(mine.parquet)).segments()[-1].last_lsn
    expected = from_journal(place.source, Selection(to_lsn=last), PLAIN_COLUMNS)
    assert found.slice(0, last).equals(expected)


def test_events_before_the_archive_come_from_segments(place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    first = ParquetArchive(str(mine.parquet)).segments()[0]
    (mine.parquet / ABOUT / f"{first.segment}.json").unlink()
    assert len(parts_of(mine.both, EVERYTHING).rest) == 2
    found = from_parquet(mine.both, EVERYTHING, ALL_COLUMNS)
    assert found.equals(from_journal(place.source, EVERYTHING, ALL_COLUMNS))
    within = Selection(from_lsn=2, to_lsn=first.last_lsn)
    assert from_parquet(mine.both, within, ["lsn"]).num_rows == first.last_lsn - 1


def test_a_gap_before_the_archive_is_told(place: Place, tmp_path: Path) -> None:
    """Of the segments that left only the first is at hand, and Parquet begins with the third."""
    mine = copied(place, tmp_path)
    segments = ParquetArchive(str(mine.parquet)).segments()
    left = Archive(str(tmp_path / "left"))
    left.put(RealDisk(mine.data / "journal"), segments[0].segment, now=0)
    for segment in segments[:2]:
        (mine.parquet / ABOUT / f"{segment.segment}.json").unlink()
    history = History(Source(archive=left.url), str(mine.parquet))
    first, last = segments[0].last_lsn + 1, segments[1].last_lsn
    with pytest.raises(ArchiveError, match=f"events {first} to {last} are neither in it nor in"):
        parts_of(history, EVERYTHING)
    assert from_parquet(history, Selection(to_lsn=first - 1), ["lsn"]).num_rows == first - 1


def test_a_gap_between_archive_and_journal_is_told(place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    disk = RealDisk(mine.data / "journal")
    last = ParquetArchive(str(mine.parquet)).segments()[-1]
    (mine.parquet / ABOUT / f"{last.segment}.json").unlink()
    parts = parts_of(mine.both, EVERYTHING)
    parts.check()
    for name in segment_names(disk)[:-1]:
        disk.remove(name)
    told = f"events {last.first_lsn} to {last.last_lsn} are neither in it nor in the history around"
    with pytest.raises(ArchiveError, match=told):
        parts_of(mine.both, EVERYTHING)
    # Retention removed it between the two calls.
    with pytest.raises(ArchiveError, match=told):
        parts.check()
    before = Selection(to_lsn=last.first_lsn - 1)
    assert from_parquet(mine.both, before, ["lsn"]).num_rows == last.first_lsn - 1


def test_a_gap_within_the_archive_is_told_where_it_matters(place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    gone = ParquetArchive(str(mine.parquet)).segments()[1]
    (mine.parquet / ABOUT / f"{gone.segment}.json").unlink()
    told = f"events {gone.first_lsn} to {gone.last_lsn} are missing in it"
    with pytest.raises(ArchiveError, match=told):
        parts_of(mine.both, EVERYTHING)
    assert parts_of(mine.both, Selection(to_lsn=gone.first_lsn - 1)).paths
    assert parts_of(mine.both, Selection(from_lsn=gone.last_lsn + 1)).paths


def test_the_archive_of_another_journal_is_refused(place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    for path in (mine.parquet / ABOUT).glob("*.json"):
        ours = path.read_text()
        path.write_text(ours.replace(b"history of tests".hex(), "00" * 16))
    with pytest.raises(ArchiveError, match="it is the archive of another data directory"):
        parts_of(mine.both, EVERYTHING)


def test_an_empty_archive_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no segment is archived here; `daybook pipeline arch"):
        parts_of(History(parquet=str(tmp_path)), EVERYTHING)


def first_file(place: Place) -> Path:
    return place.parquet / ParquetArchive(str(place.parquet)).segments()[0].files[0].path


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.999])
def test_a_flipped_bit_is_told_where_the_file_is_needed(
    place: Place, tmp_path: Path, part: float
) -> None:
    mine = copied(place, tmp_path)
    file = first_file(mine)
    # What was found whole once is looked at again when it changed.
    assert from_parquet(mine.both, EVERYTHING, ["lsn"]).num_rows == len(place.journal)
    before = file.stat().st_mtime_ns
    content = bytearray(file.read_bytes())
    content[int(part * len(content))] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before, before + 1))
    told = f"{re.escape(str(file))}: it was changed since it was written: .*archive --verify` lists"
    with pytest.raises(ArchiveError, match=told):
        from_parquet(mine.both, EVERYTHING, ["lsn"])
    behind = ParquetArchive(str(mine.parquet)).segments()[0].last_lsn + 1
    assert from_parquet(mine.both, Selection(from_lsn=behind), ["lsn"]).num_rows


@pytest.mark.parametrize("size", [-1, 0, 100])
def test_a_file_that_is_missing_or_cut_is_told(place: Place, tmp_path: Path, size: int) -> None:
    mine = copied(place, tmp_path)
    file = first_file(mine)
    if size < 0:
        shutil.rmtree(file.parent)
        told = "there is no such file; `daybook pipeline archive --verify`"
    else:
        os.truncate(file, size)
        told = f"it has {size} bytes instead of the "
    with pytest.raises(ArchiveError, match=f"{re.escape(str(file))}: {told}"):
        from_parquet(History(parquet=str(mine.parquet)), EVERYTHING, ["lsn"])


def test_spark_reads_no_damaged_file(spark: "SparkSession", place: Place, tmp_path: Path) -> None:
    mine = copied(place, tmp_path)
    file = first_file(mine)
    content = file.read_bytes()
    file.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    with pytest.raises(ArchiveError, match="it was changed since it was written"):
        spark_rows(spark, mine.both, ["lsn"])
