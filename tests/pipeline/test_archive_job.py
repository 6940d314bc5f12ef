"""Archiving as Parquet: whole, once, whatever happens on the way; on both engines; and as Delta."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb
import fsspec  # type: ignore[import-untyped]
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from daybook.engine import commands as c
from daybook.engine.facts.events import TIME
from daybook.journal.archive.archive import Archive
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, NoJournal
from daybook.journal.retention import remove
from daybook.journal.segments.segment import segment_names
from daybook.pipeline import delta
from daybook.pipeline.decoding import Limits, read_plan, read_split
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.archive import ArchiveReport, archive
from daybook.pipeline.jobs.audit import audit
from daybook.pipeline.parquet import writing as parquet_writing
from daybook.pipeline.parquet.archive import ABOUT, Gap, ParquetArchive
from daybook.pipeline.parquet.reading import duck_rows
from daybook.pipeline.planning import Source
from daybook.pipeline.proving import ProofReport, prove
from daybook.pipeline.reading import reading
from daybook.pipeline.schema import STORED_COLUMNS, arrow_schema
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.tools.daybook import cli
from tests.meta import tree
from tests.support.histories import some_history, write_history
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import Event, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENT_BYTES = 1 << 14
BLOCK_EVENTS = 60
HISTORY = some_history(5, 500)
KILLS = 12
"""At how many calls of the disk a run is killed, at most."""


def write(folder: Path, history: list[Event] = HISTORY) -> Path:
    cuts = range(BLOCK_EVENTS, len(history), BLOCK_EVENTS)
    return write_history(folder, history, cuts=cuts, segment_bytes=SEGMENT_BYTES)


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A data directory that no test changes."""
    with TemporaryDirectory() as folder:
        yield write(Path(folder) / "data")


def source_of(directory: Path) -> Source:
    return Source(str(directory))


def sealed(directory: Path) -> list[str]:
    return segment_names(RealDisk(directory / "journal"))[:-1]


def files_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def proven(url: str, live: Source | None = None) -> ProofReport:
    report = prove(ParquetArchive(url), live, progress=lambda _: None)
    assert report.faults == []
    assert report.unlisted == []
    assert report.exact == report.blocks
    return report


def archived_rows(url: str) -> pa.Table:
    with duckdb.connect() as connection:
        rows = duck_rows(connection, History(parquet=url), STORED_COLUMNS)
        return connection.sql(rows.sql).to_arrow_table().cast(arrow_schema(STORED_COLUMNS))


def journal_rows(directory: Path, to_lsn: int) -> pa.Table:
    with reading(source_of(directory), Selection(to_lsn=to_lsn)) as plan:
        return pa.Table.from_batches(read_plan(plan, STORED_COLUMNS), arrow_schema(STORED_COLUMNS))


def test_all_sealed_segments_and_no_other_are_archived(data: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "new" / "parquet")
    told: list[str] = []
    report = archive(source_of(data), target, told=lambda outcome: told.append(outcome.segment))
    assert report.ok
    assert told == [each.segment for each in report.added] == sealed(data)
    assert len(told) > 3
    last = report.last_lsn
    assert 1 == report.first_lsn < last < len(HISTORY)
    assert proven(target, source_of(data)).last_lsn == last
    assert archived_rows(target).equals(journal_rows(data, last))


def test_a_second_run_does_nothing_and_later_ones_add_what_is_new(tmp_path: Path) -> None:
    part = write(tmp_path / "part", HISTORY[: len(HISTORY) // 2])
    target = tmp_path / "parquet"
    first = archive(source_of(part), str(target))
    before = files_of(target)
    again = archive(source_of(part), str(target))
    assert (again.added, again.already) == ([], len(first.added))
    assert files_of(target) == before
    whole = write(tmp_path / "whole")
    more = archive(source_of(whole), str(target))
    assert more.already == len(first.added)
    assert [each.segment for each in more.added] == sealed(whole)[more.already :]
    assert len(more.added) > 1
    after = files_of(target)
    assert {
        name: after[name] for name in before if not name.endswith("names.json")
    }.items() <= before.items()
    proven(str(target), source_of(whole))
    alone = tmp_path / "at-once"
    archive(source_of(whole), str(alone))
    assert files_of(alone) == after


def spoiled(file: Path, how: str) -> None:
    if how == "removed":
        file.unlink()
    else:
        os.truncate(file, {"empty": 0, "cut": 100}[how])


@pytest.mark.parametrize("how", ["removed", "empty", "cut"])
def test_files_that_are_not_whole_are_made_again(data: Path, tmp_path: Path, how: str) -> None:
    target = tmp_path / "parquet"
    first = archive(source_of(data), str(target))
    before = files_of(target)
    spoiled(target / first.added[1].files[0].path, how)
    spoiled(target / ABOUT / f"{first.added[2].segment}.proof", how if how != "cut" else "empty")
    again = archive(source_of(data), str(target))
    assert again.ok
    assert again.added == first.added[1:3]
    assert again.already == len(first.added) - 2
    assert files_of(target) == before


@pytest.mark.parametrize("how", ["removed", "empty", "cut"])
def test_what_cannot_be_made_again_is_told(tmp_path: Path, how: str) -> None:
    data = write(tmp_path / "data")
    target = tmp_path / "parquet"
    gone = archive(source_of(data), str(target)).added[0]
    remove(RealDisk(data / "journal"), [gone.segment])
    file = target / gone.files[0].path
    spoiled(file, how)
    report = run("--data", data, "--to", target)
    assert report.exit_code == 1
    (told,) = report.output.splitlines()[2:]
    assert told.startswith(f"segment {gone.segment} is incomplete in the archive, and the given h")
    assert f"{file}: " in told
    assert told.endswith("; name a data directory or an archive of segments that has it")


def test_a_segment_over_midnight_becomes_a_file_for_each_day(tmp_path: Path) -> None:
    begin = HISTORY[0].row[TIME]
    stretched = [
        event._replace(row=(*event.row[:TIME], begin + (event.row[TIME] - begin) * 20_000))
        for event in HISTORY
    ]
    directory = write(tmp_path / "data", stretched)
    target = tmp_path / "parquet"
    report = archive(source_of(directory), str(target))
    assert any(len(each.files) > 1 for each in report.added)
    for segment in report.added:
        for file in segment.files:
            times = pq.ParquetFile(target / file.path).read(["time"]).column("time")
            assert {str(time.date()) for time in times.to_pylist()} == {file.day}
            lsns = f"{file.first_lsn:020d}-{file.last_lsn:020d}"
            assert file.path == f"day={file.day}/{lsns}.parquet"
    proven(str(target))
    assert archived_rows(str(target)).equals(journal_rows(directory, report.last_lsn))


def test_files_are_encoded_for_scans(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writing, "GROUP_ROWS", 50)
    small = partial(read_split, limits=Limits(rows=1))
    monkeypatch.setattr("daybook.pipeline.jobs.archive.read_split", small)
    (added, *_) = archive(source_of(data), str(tmp_path / "parquet")).added
    metadata = pq.ParquetFile(tmp_path / "parquet" / added.files[0].path).metadata
    assert metadata.num_row_groups > 1
    columns = {
        metadata.row_group(0).column(number).path_in_schema: metadata.row_group(0).column(number)
        for number in range(metadata.num_columns)
    }
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    for name in ("lsn", "time", "message", "related"):
        assert "DELTA_BINARY_PACKED" in columns[name].encodings
    for name in ("kind", "address", "queue", "headers.key_value.key"):
        assert "RLE_DICTIONARY" in columns[name].encodings
    assert "RLE_DICTIONARY" not in columns["body"].encodings
    assert columns["lsn"].statistics.min == 1


KILLED = """
import os, signal, sys
from daybook.journal.disk import RealDisk, RealFile
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.planning import Source
made = 0
def dying(call):
    def counted(*arguments):
        global made
        made += 1
        if made == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return counted
for kind, name in ((RealFile, "pwrite"), (RealFile, "fdatasync"), (RealDisk, "rename"),
                   (RealDisk, "sync_directory"), (RealDisk, "create")):
    setattr(kind, name, dying(getattr(kind, name)))
for line in sys.stdin:
    last = int(line)
    pid = os.fork()
    if not pid:
        assert archive(Source(sys.argv[1]), sys.argv[2]).ok
        print("calls", made, flush=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("ended", code, flush=True)
"""


class Archiving:
    """A process that forks one for each run, which is killed at a call to the disk; a context
    manager."""

    def __init__(self, directory: Path, target: Path) -> None:
        arguments = [sys.executable, "-c", KILLED, str(directory), str(target)]
        self._process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            cwd=tree.ROOT,
        )  # fmt: skip

    def killed_at(self, call: int) -> list[str]:
        """Return the output and exit code of a run that is killed at that call."""
        self._process.stdin.write(f"{call}\n")
        said = [self._process.stdout.readline().strip()]
        while said[-1] and not said[-1].startswith("ended"):
            said.append(self._process.stdout.readline().strip())
        return said

    def __enter__(self) -> "Archiving":
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_is_completed_by_the_next(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with Archiving(data, target) as archiving:
        said, ended = archiving.killed_at(1_000_000)
        assert ended == "ended 0"
        calls = int(said.split()[1])
        expected = files_of(target)
        proven(str(target))
        for call in range(1, calls + 1, max(calls // KILLS, 1)):
            shutil.rmtree(target)
            assert archiving.killed_at(call) == [f"ended {-signal.SIGKILL}"]
            listed = [each.segment for each in ParquetArchive(str(target)).segments()]
            report = archive(source_of(data), str(target))
            assert report.ok
            assert [each.segment for each in report.added] == sealed(data)[len(listed) :]
            there = files_of(target).items()
            assert {name: sha for name, sha in there if not name.endswith(".part")} == expected


def test_a_damaged_segment_is_told_and_left_out_until_it_is_restored(tmp_path: Path) -> None:
    directory = write(tmp_path / "data")
    names = sealed(directory)
    bad = directory / "journal" / names[1]
    content = bad.read_bytes()
    # In the frames of the second block; not in its header, or in what names anything.
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 0xFF
    bad.write_bytes(damaged)
    target = str(tmp_path / "parquet")
    report = archive(source_of(directory), target)
    (problem,) = report.problems
    assert problem.startswith(f"segment {names[1]} was not archived: segment {names[1]}, offset ")
    assert [each.segment for each in report.added] == [names[0], *names[2:]]
    first, third = report.added[0], report.added[1]
    assert report.gaps == [Gap(first.last_lsn + 1, third.first_lsn - 1)]
    assert not report.ok
    bad.write_bytes(content)
    report = archive(source_of(directory), target)
    assert report.ok
    assert [each.segment for each in report.added] == [names[1]]
    proven(target)


def test_history_of_another_journal_is_refused(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "parquet"
    archive(source_of(data), str(target))
    before = files_of(target)
    other = write(tmp_path / "other")
    for name in segment_names(RealDisk(other / "journal")):
        (other / "journal" / name).unlink()
    with pytest.raises(NoJournal, match="there is no segment to archive"):
        archive(source_of(other), str(target))
    manifest = next((target / ABOUT).glob("*.json"))
    segment = msgspec.json.decode(manifest.read_bytes())
    segment["data_id"] = "00" * 16
    manifest.write_bytes(msgspec.json.encode(segment))
    with pytest.raises(ArchiveError, match="history of another data directory is archived here"):
        archive(source_of(data), str(target))
    assert len(files_of(target)) == len(before)


def test_segments_that_left_for_an_archive_become_parquet_too(data: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(data, tmp_path / "data"))
    disk = RealDisk(directory / "journal")
    store = Archive(str(tmp_path / "archive"))
    names = sealed(directory)
    for name in names[:3]:
        store.put(disk, name, now=0)
    alone = archive(Source(archive=str(tmp_path / "archive")), str(tmp_path / "alone"))
    assert [each.segment for each in alone.added] == names[:3]
    proven(str(tmp_path / "alone"))
    for name in names[:2]:
        disk.remove(name)
    both = Source(str(directory), str(tmp_path / "archive"))
    report = archive(both, str(tmp_path / "both"))
    assert [each.segment for each in report.added] == names
    archive(source_of(data), str(tmp_path / "expected"))
    assert files_of(tmp_path / "both") == files_of(tmp_path / "expected")


def test_names_from_before_the_journal_come_from_its_base(tmp_path: Path) -> None:
    world = World()
    connection = world.ok(c.OpenConnection("stomp", "10.0.0.1:61613", "user"))
    world.ok(c.Attach(connection, "orders", credit_messages=9))
    with closing(RetentionWorld(tmp_path / "data", world)) as retention:
        retention.write()
        for _ in range(2):
            world.ok(c.Send(connection, "orders", b"", b"body"))
            assert retention.round(9)
        assert retention.removed_lsn > 0
        for _ in range(60):
            world.ok(c.Send(connection, "orders", b"", b"more"))
        retention.write()
        target = str(tmp_path / "parquet")
        report = archive(source_of(tmp_path / "data"), target)
        assert report.ok
        assert report.first_lsn == retention.removed_lsn + 1
        proven(target, source_of(tmp_path / "data"))
        rows = archived_rows(target)
        names = {name for name in rows.column("queue").to_pylist() if name is not None}
        assert names == {"orders"}


def test_an_archive_in_fsspec_memory(data: Path, tmp_path: Path) -> None:
    url = f"memory:/{tmp_path}/parquet"
    report = archive(source_of(data), url)
    assert archive(source_of(data), url).added == []
    proven(url)
    assert archived_rows(url).equals(journal_rows(data, report.last_lsn))


S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def s3_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a local server that speaks S3.

    It is a process of its own: deltalake keeps all threads of Python waiting while it asks.
    """
    with subprocess.Popen(
        [sys.executable, "-c", S3_SERVER], text=True, stderr=subprocess.DEVNULL,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        address = f"127.0.0.1:{int(server.stdout.readline())}"
        connection = HTTPConnection(address)
        connection.request("PUT", "/parquet")
        assert connection.getresponse().status == 200
        connection.close()
        for name, value in (
            ("ENDPOINT_URL", f"http://{address}"), ("ALLOW_HTTP", "true"), ("REGION", "us-east-1"),
            ("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"),
        ):  # fmt: skip
            monkeypatch.setenv(f"AWS_{name}", value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield "s3://parquet/deep/within"
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        server.stdin.close()


def test_an_archive_in_s3(data: Path, s3_url: str) -> None:
    report = archive(source_of(data), s3_url)
    assert report.ok
    assert archive(source_of(data), s3_url).added == []
    assert proven(s3_url).last_lsn == report.last_lsn
    assert archived_rows(s3_url).equals(journal_rows(data, report.last_lsn))
    assert delta.commit(ParquetArchive(s3_url)) == len(report.added)
    assert delta.commit(ParquetArchive(s3_url)) == 0
    assert DeltaTable(s3_url).count() == report.last_lsn
    victim = report.added[1].files[0].path
    fsspec.open(f"{s3_url}/{victim}").fs.rm(f"{s3_url}/{victim}")
    (fault,) = prove(ParquetArchive(s3_url), progress=lambda _: None).faults
    assert (fault.url, "no such object" in fault.what) == (f"{s3_url}/{victim}", True)


def test_an_archive_that_cannot_be_written_is_told(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match="it cannot be used: Not a directory"):
        archive(source_of(data), str(tmp_path / "file"))


def test_the_originals_may_be_deleted_and_an_audit_says_the_same(tmp_path: Path) -> None:
    """The proof of the issue: archive, delete, audit again; and the hashes verify."""
    directory = write(tmp_path / "data")
    target = str(tmp_path / "parquet")

    def audited(engine: Engine, history: History) -> Any:
        return msgspec.to_builtins(audit(engine, history, EVERYTHING, now=1 << 60))

    with DuckEngine() as engine:
        before = audited(engine, History(source_of(directory)))
    report = archive(source_of(directory), target)
    disk = RealDisk(directory / "journal")
    remove(disk, [each.segment for each in report.added])
    assert segment_names(disk) == [f"{report.last_lsn + 1:020d}.seg"]
    with DuckEngine() as engine:
        after = audited(engine, History(source_of(directory), target))
    assert after == before
    assert before["events"] == len(HISTORY)
    assert len(before["queues"]) > 3
    proven(target, source_of(directory))


class TestDelta:
    def test_each_segment_is_a_version(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "parquet"
        report = archive(source_of(data), str(target))
        assert delta.commit(ParquetArchive(str(target))) == len(report.added)
        assert delta.commit(ParquetArchive(str(target))) == 0
        table = DeltaTable(target)
        assert table.version() == len(report.added)
        assert table.count() == report.last_lsn
        for version, segment in enumerate(report.added, 1):
            table.load_as_version(version)
            rows = table.to_pyarrow_dataset().to_table(columns=["lsn"]).column("lsn")
            assert sorted(rows.to_pylist()) == list(range(1, segment.last_lsn + 1))
        proven(str(target), source_of(data))

    def test_its_rows_are_those_of_the_journal(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "parquet"
        report = archive(source_of(data), str(target))
        delta.commit(ParquetArchive(str(target)))
        events = DeltaTable(target).to_pyarrow_dataset()
        with duckdb.connect() as connection:
            connection.register("events", events)
            listed = ", ".join(STORED_COLUMNS)
            found = connection.sql(f"SELECT {listed} FROM events ORDER BY lsn").to_arrow_table()
            connection.execute("SET TimeZone = 'UTC'")
            days = connection.sql(
                "SELECT count(*) FROM events WHERE day <> CAST(time::DATE AS TEXT)"
            )
            assert days.fetchall() == [(0,)]
        expected = journal_rows(data, report.last_lsn)
        assert found.cast(arrow_schema(STORED_COLUMNS)).equals(expected)

    def test_a_run_that_broke_off_before_a_commit_is_completed(
        self, data: Path, tmp_path: Path
    ) -> None:
        """A kill is imitated: the last segment is archived, and not committed."""
        target = tmp_path / "parquet"
        report = archive(source_of(data), str(target))
        last = target / ABOUT / f"{report.added[-1].segment}.json"
        content = last.read_bytes()
        last.unlink()
        assert delta.commit(ParquetArchive(str(target))) == len(report.added) - 1
        last.write_bytes(content)
        assert delta.commit(ParquetArchive(str(target))) == 1
        assert DeltaTable(target).count() == report.last_lsn

    def test_a_path_that_looks_like_a_url_is_a_path(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        report = archive(source_of(data), "a:/b")
        assert delta.commit(ParquetArchive("a:/b")) == len(report.added)
        assert archived_rows("a:/b").num_rows == report.last_lsn
        assert DeltaTable(tmp_path / "a:" / "b").count() == report.last_lsn

    def test_a_log_that_makes_no_sense_is_told(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "parquet"
        archive(source_of(data), str(target))
        (target / "_delta_log").mkdir()
        (target / "_delta_log" / "00000000000000000000.json").write_text("{")
        with pytest.raises(ArchiveError, match="its Delta table cannot be written: "):
            delta.commit(ParquetArchive(str(target)))


def test_spark_makes_the_same_files(spark: "SparkSession", data: Path, tmp_path: Path) -> None:
    embedded = archive(source_of(data), str(tmp_path / "embedded"))
    report: ArchiveReport = archive(source_of(data), str(tmp_path / "spark"), spark=spark)
    assert report.added == embedded.added
    assert files_of(tmp_path / "spark") == files_of(tmp_path / "embedded")
    again = run("--data", data, "--to", tmp_path / "spark", "--engine", "spark")
    assert again.exit_code == 0, again.output
    assert again.output.startswith(f"archived 0 segments, 0 events, 0 bytes; {len(report.added)} ")


def run(*arguments: object) -> Result:
    environment = {"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}
    runner = CliRunner(env=environment)
    return runner.invoke(cli, ["pipeline", "archive", *map(str, arguments)])


class TestCommand:
    def test_archiving_proving_and_restoring(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "parquet"
        done = run("--data", data, "--to", target, "--format", "delta")
        assert done.exit_code == 0, done.output
        count = len(sealed(data))
        assert done.output.startswith(f"archived {count} segments, ")
        assert DeltaTable(target).version() == count
        again = run("--data", data, "--to", target, "--json")
        assert msgspec.json.decode(again.output)["already"] == count
        shown = run("--to", target, "--verify", "--data", data)
        assert shown.exit_code == 0
        assert "proven by their hash, 0 by the digest" in shown.output
        assert shown.output.endswith("everything is proven\n")
        restored = run("--to", target, "--restore", tmp_path / "restored")
        assert restored.output == (
            f"restored {count} segments, bit for bit, to {tmp_path / 'restored'}\n"
        )
        assert msgspec.json.decode(
            run("--to", target, "--restore", tmp_path / "restored", "--json").output
        )["segments"] == sealed(data)

    def test_what_is_wrong_ends_with_1(self, data: Path, tmp_path: Path) -> None:
        target = tmp_path / "parquet"
        run("--data", data, "--to", target)
        file = min(target.rglob("*.parquet"))
        file.unlink()
        shown = run("--to", target, "--verify")
        assert shown.exit_code == 1
        assert f"{file} (LSN 1): there is no such object" in shown.output
        assert shown.output.endswith("1 faults\n")
        assert msgspec.json.decode(run("--to", target, "--verify", "--json").output)["ok"] is False
        nothing = run("--to", tmp_path / "elsewhere", "--verify")
        assert nothing.exit_code == 1
        assert nothing.output == f"Error: {tmp_path / 'elsewhere'}: no segment is archived here\n"

    def test_bad_use_is_told(self, data: Path, tmp_path: Path) -> None:
        for arguments, told in (
            (("--data", data), "Missing option '--to'"),
            (("--to", tmp_path), "name a history: --data DIR or --archive URL\n"),
            (("--to", tmp_path, "--parquet", "x"), "No such option '--parquet'"),
            (("--to", tmp_path, "--verify", "--restore", "x"), "exclude each other"),
        ):
            result = run(*arguments)
            assert result.exit_code == 2, result.output
            assert told in result.output


def test_temporary_files_are_gone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    archive(source_of(data), str(tmp_path / "parquet"))
    proven(str(tmp_path / "parquet"))
    assert os.listdir(folder) == []  # noqa: PTH208 - names are wanted, not paths
