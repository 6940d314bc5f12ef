"""The embedded engine: tables that it loads and drops, and questions that it refuses."""

import os
import re
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

from daybook.journal.errors import ArchiveError, Corruption, JournalError
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.duck import DuckEngine, memory_bytes
from daybook.pipeline.engines import History
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import Selection, SelectionError
from daybook.pipeline.sql.asking import Asking
from daybook.tools.daybook import cli
from tests.support.histories import some_history, write_history

JOURNAL = some_history(21, 300)
LAST = JOURNAL[-1].lsn
FOR_EVER = "SELECT count(*) FROM range(100000000) a(x), range(100000) b(y) WHERE x * y % 7 = 3"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history") / "data"
    return write_history(directory, JOURNAL, segment_bytes=1 << 15)


@pytest.fixture(scope="module")
def history(data: Path) -> History:
    return History(Source(str(data)))


def lsns(engine: DuckEngine, table: str) -> list[int]:
    return list(engine.ask(f"SELECT lsn FROM {table}")["lsn"].to_pylist())


def test_a_table_is_replaced_by_one_of_its_name_whatever_it_was(history: History) -> None:
    with DuckEngine() as engine:
        engine.define("t", "SELECT 1 AS lsn")
        engine.load("t", history, ["lsn"], Selection(from_lsn=5, to_lsn=7))
        assert lsns(engine, "t") == [5, 6, 7]
        engine.add("t", pa.table({"lsn": [9]}))
        assert lsns(engine, "t") == [9]
        engine.load("t", history, ["lsn"], Selection(to_lsn=2))
        assert lsns(engine, "t") == [1, 2]
        assert [batch.num_rows for batch in engine.stream("FROM t")] == [2]


def test_an_attached_table_is_read_once_and_then_gone(history: History) -> None:
    with DuckEngine() as engine:
        with engine.attached("t", history, ["lsn"]):
            assert lsns(engine, "t") == list(range(1, LAST + 1))
            with pytest.raises(duckdb.Error, match="only once"):
                lsns(engine, "t")
        with pytest.raises(duckdb.Error):
            lsns(engine, "t")


def test_an_answer_that_is_left_half_read_is_let_go_of(history: History) -> None:
    with DuckEngine() as engine:
        with engine.attached("t", history, ["lsn", "body"]):
            _, batches = engine.reader("SELECT a.* FROM t a, range(100000)")
            assert next(batches).num_rows
        assert engine.ask("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_what_goes_wrong_in_the_decoder_is_raised_as_what_it_was(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*args: Any, **options: Any) -> Any:
        yield from list(read_plan(*args, **options))[:1]
        raise Corruption("00000000000000000001.seg", 4096, 1, "the crc is wrong")

    monkeypatch.setattr("daybook.pipeline.duck.read_plan", damaged)
    with DuckEngine() as engine, pytest.raises(Corruption, match="offset 4096"):
        engine.load("t", history, ["lsn"])


def test_names_that_nobody_had_are_told(history: History) -> None:
    with DuckEngine() as engine, pytest.raises(SelectionError, match="did you mean 'orders'"):
        engine.load("t", history, ["lsn"], Selection(queues=("order",)))


def test_ctrl_c_ends_a_question(history: History) -> None:
    with DuckEngine() as engine:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.ask(FOR_EVER)
        timer.join()
        assert engine.ask("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_nothing_is_read_or_written_but_history(history: History, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    for directory in (allowed, tmp_path):
        (directory / "a.csv").write_text("n\n1\n")
    with DuckEngine() as engine:
        engine.load("t", history, ["lsn"])
        engine.close_off([str(allowed)])
        assert engine.ask(f"FROM '{allowed}/a.csv'").to_pylist() == [{"n": 1}]
        for question in (
            f"FROM '{tmp_path}/a.csv'",
            f"FROM read_text('{allowed}/../a.csv')",
            "FROM glob('/*')",
            "FROM history",
            "FROM engine",
        ):
            with pytest.raises(duckdb.Error):
                engine.ask(question)
        for statement in ("SET threads = 1", f"COPY t TO '{tmp_path}/t.csv'", "INSTALL httpfs"):
            with pytest.raises(duckdb.Error):
                engine.connection.execute(statement)
        assert lsns(engine, "t")[-1] == LAST


def test_what_does_not_fit_goes_to_disk_and_goes_away(tmp_path: Path) -> None:
    with DuckEngine(100 << 20) as engine:
        spill = Path(engine.ask("SELECT current_setting('temp_directory') AS d")["d"][0].as_py())
        engine.define(
            "long", "SELECT range AS n, repeat('x', 100) || range AS s FROM range(3000000)"
        )
        engine.close_off()
        answer = engine.ask("SELECT count(*) AS n, max(s) AS s FROM (FROM long ORDER BY s DESC)")
        assert answer["n"].to_pylist() == [3_000_000]
        assert spill.is_dir()
    assert not spill.exists()
    assert 0 < memory_bytes() <= 2 << 30


def test_what_does_not_fit_at_all_is_said_with_the_remedy() -> None:
    with DuckEngine(1 << 20) as engine, pytest.raises(JournalError, match="--memory") as said:
        engine.ask("SELECT list(range) FROM range(10000000)")
    assert "SET " not in str(said.value)


@pytest.fixture(scope="module")
def archived(history: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet archive of all but the newest segment, with a name that needs care."""
    target = tmp_path_factory.mktemp("archive") / "it's [an] archive"
    archive(history.source, str(target))
    return target


QUESTIONS = (
    "SELECT count(*) AS n FROM events",
    "SELECT lsn, kind, queue, body FROM events ORDER BY lsn",
    f"SELECT lsn FROM events WHERE lsn > {LAST - 9}",
    "SELECT lsn FROM events LIMIT 3",
    "SELECT * FROM queues ORDER BY created_lsn",
    "SELECT count(*) AS n FROM events a JOIN events b ON a.message = b.message "
    "WHERE a.kind = 'Routed' AND b.kind = 'Acknowledged'",
    "SELECT count(*) AS n FROM events WHERE queue = 'orders' AND kind = 'Delivered'",
    "SELECT count(*) AS n FROM events WHERE queue = 'nobody'",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_over_parquet_answers_are_the_same(history: History, archived: Path, question: str) -> None:
    answers = []
    for each in (history, History(history.source, str(archived))):
        with Asking(each) as asking, asking.answer(question) as answer:
            answers.append([row for batch in answer.batches for row in batch.to_pylist()])
    assert answers[0] == answers[1]


def test_parquet_alone_is_a_history(archived: Path) -> None:
    with (
        Asking(History(parquet=str(archived))) as asking,
        asking.answer("SELECT max(lsn) AS last, count(*) AS n FROM events") as answer,
    ):
        (row,) = next(answer.batches).to_pylist()
    assert row["last"] == row["n"] < LAST


@pytest.mark.parametrize("size", [-1, 0, 200])
def test_a_file_that_is_spoiled_while_it_is_asked_is_told(
    archived: Path, tmp_path: Path, size: int
) -> None:
    mine = Path(shutil.copytree(archived, tmp_path / "parquet"))
    file = min(mine.rglob("*.parquet"))
    with DuckEngine() as engine:
        engine.load("loaded", History(parquet=str(mine)), ["lsn", "kind"])
        if size < 0:
            file.unlink()
        else:
            os.truncate(file, size)
        with pytest.raises(ArchiveError, match=re.escape(f"{file}: ")):
            engine.ask("SELECT * FROM loaded")
        with pytest.raises(ArchiveError, match=re.escape(f"{file}: ")):
            list(engine.stream("SELECT * FROM loaded"))


@pytest.mark.parametrize("how", ["removed", "empty", "zeros", "folder"])
@pytest.mark.parametrize("job", ["audit", "latency"])
def test_a_job_tells_files_that_cannot_be_read_in_a_sentence(
    archived: Path, tmp_path: Path, how: str, job: str
) -> None:
    mine = Path(shutil.copytree(archived, tmp_path / "parquet"))
    file = min(mine.rglob("*.parquet"))
    if how == "zeros":
        file.write_bytes(bytes(file.stat().st_size))
    elif how == "empty":
        os.truncate(file, 0)
    elif how == "removed":
        file.unlink()
    else:
        shutil.rmtree(file.parent)
        file.parent.write_bytes(b"")
    environment = {"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}
    done = CliRunner(env=environment).invoke(cli, ["pipeline", job, "--parquet", str(mine)])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {file}: ")


def test_memory_that_does_not_suffice_is_told() -> None:
    with DuckEngine(memory=64 << 20) as engine:
        engine.connection.execute("SET temp_directory = ''")
        with pytest.raises(JournalError, match="DuckDB cannot continue: Out of Memory Error"):
            engine.ask("SELECT array_agg(repeat('x', 1000) || range) FROM range(1000000)")


def test_a_history_that_names_nothing_is_refused() -> None:
    with pytest.raises(SelectionError, match="name a data directory"):
        Asking(History())
