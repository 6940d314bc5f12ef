"""Spark answers what DuckDB answers, and says in a sentence what it cannot."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from daybook.journal.data_directory import JOURNAL
from daybook.journal.errors import JournalError
from daybook.pipeline import views
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import Engine, History
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import PLAIN_COLUMNS
from daybook.pipeline.selection import Selection, SelectionError
from daybook.pipeline.spark.engine import SparkEngine
from daybook.pipeline.spark.engine import views as make_views
from daybook.pipeline.spark.failures import sentence
from daybook.pipeline.spark.session import SparkError, why
from tests.pipeline.conftest import QUICK_JAVA
from tests.support.histories import some_history, write_history
from tests.support.stored.growing import Growing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THIN = ("lsn", "time", "kind", "queue", "message", "headers", "body", "queues")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    data = write_history(tmp_path_factory.mktemp("history") / "data", some_history(12, 300))
    return History(Source(str(data)))


@pytest.fixture
def engine(spark: "SparkSession") -> Iterator[SparkEngine]:
    with SparkEngine(spark=spark) as made:
        yield made


QUESTIONS = [
    "SELECT kind, count(*) AS n, min(lsn) AS first FROM events GROUP BY kind ORDER BY kind",
    "SELECT count(DISTINCT message) FILTER (WHERE kind = 'Routed') AS n FROM events",
    "SELECT lsn, time, headers, body, queues FROM events WHERE message > 0 ORDER BY lsn",
    "SELECT queue, max_by(kind, lsn) AS last FROM events WHERE queue IS NOT NULL "
    "GROUP BY queue ORDER BY queue",
    "SELECT message, lsn - lag(lsn) OVER (PARTITION BY message ORDER BY lsn) AS since "
    "FROM events WHERE message > 0 ORDER BY lsn",
    "SELECT date_trunc('hour', time) AS hour, count(*) AS n FROM events GROUP BY 1 ORDER BY 1",
    "SELECT a.lsn, b.lsn AS other FROM events a JOIN events b ON a.message = b.message "
    "AND a.kind = 'Routed' AND b.kind = 'Delivered' ORDER BY 1, 2",
    "SELECT headers['kind'] AS kind, count(*) AS n FROM events GROUP BY 1 ORDER BY 1 NULLS FIRST",
]


def rows(engine: Engine, sql: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = engine.ask(sql).to_pylist()
    return found


def test_both_engines_answer_alike(engine: SparkEngine, history: History) -> None:
    selection = Selection(queues=("orders", "archive"), from_lsn=20)
    with DuckEngine() as duck:
        for each in (engine, duck):
            each.load("events", history, THIN, selection)
        for question in QUESTIONS:
            expected = rows(duck, question)
            assert expected
            assert rows(engine, question) == expected, question


def test_the_views_are_alike(spark: "SparkSession", history: History) -> None:
    make_views(spark, history)
    with SparkEngine(spark=spark) as engine, DuckEngine() as duck:
        views.prepare(duck, history, views.BY_NAME)
        for view in views.VIEWS:
            names = ", ".join(column.name for column in view.columns)
            question = f"SELECT {names} FROM {view.name} ORDER BY {names}"
            assert rows(engine, question) == rows(duck, question), view.name
        assert tuple(engine.ask("SELECT * FROM events LIMIT 1").column_names) == PLAIN_COLUMNS


def test_a_stream_is_the_answer_in_pieces(engine: SparkEngine, history: History) -> None:
    engine.load("events", history, THIN)
    question = "SELECT *, struct(lsn, kind) AS pair FROM events ORDER BY lsn"
    pieces = list(engine.stream(question))
    assert pa.Table.from_batches(pieces) == engine.ask(question).combine_chunks()
    assert list(engine.stream("SELECT lsn FROM events WHERE lsn < 0")) == []


def test_tables_of_rows_and_of_questions(engine: SparkEngine) -> None:
    engine.add(
        "few", pa.table({"message": pa.array([1, 2, None], pa.int64()), "b": ["x", "", "z"]})
    )
    engine.define("more", "SELECT message + 1 AS next, b FROM few WHERE b <> ''")
    assert rows(engine, "SELECT * FROM more ORDER BY b") == [
        {"next": 2, "b": "x"},
        {"next": None, "b": "z"},
    ]
    engine.add("few", pa.table({"message": [7]}))
    assert rows(engine, "SELECT * FROM few") == [{"message": 7}]


def test_a_table_is_a_snapshot_of_when_it_was_loaded(engine: SparkEngine, tmp_path: Path) -> None:
    with Growing(tmp_path / "data", some_history(13, 80)) as journal:
        journal.grow(100)
        engine.load("events", History(Source(str(journal.directory))), ("lsn",))
        journal.grow(200)
        for _ in range(2):
            assert rows(engine, "SELECT count(*) AS n FROM events") == [{"n": 100}]


def test_a_parquet_archive_and_what_goes_on_are_one_history(
    engine: SparkEngine, tmp_path: Path
) -> None:
    data = write_history(tmp_path / "data", some_history(16, 200), segment_bytes=1 << 14)
    source = Source(str(data))
    with DuckEngine() as duck:
        duck.load("events", History(source), THIN)
        expected = rows(duck, "SELECT * FROM events ORDER BY lsn")
    archive(source, str(tmp_path / "parquet"))
    segments = sorted((data / JOURNAL).glob("*.seg"))
    for path in segments[:-2]:
        path.unlink()
    engine.load("events", History(source, str(tmp_path / "parquet")), THIN)
    assert rows(engine, "SELECT * FROM events ORDER BY lsn") == expected
    last = int(segments[-1].stem)
    engine.load("tail", History(Source(), str(tmp_path / "parquet")), ("lsn",))
    assert rows(engine, "SELECT max(lsn) AS last FROM tail") == [{"last": last - 1}]


def test_an_engine_leaves_the_session_as_it_was(spark: "SparkSession", history: History) -> None:
    with SparkEngine(spark=spark) as engine:
        engine.load("passing", history, ("lsn",))
        assert spark.catalog.tableExists("passing")
    assert not spark.catalog.tableExists("passing")
    assert spark.range(1).count() == 1


def test_mistakes_are_sentences(engine: SparkEngine, history: History) -> None:
    with pytest.raises(SelectionError, match=r"^name a data directory"):
        engine.load("events", History(), ("lsn",))
    with pytest.raises(SelectionError, match=r"^events have no column 'lns'; did you mean lsn"):
        engine.load("events", history, ("lns",))
    with pytest.raises(SelectionError, match=r"^history has no queue 'order, s'"):
        engine.load("events", history, ("lsn",), Selection(queues=("order, s",)))
    with pytest.raises(JournalError, match=r"^/nowhere is not a data directory"):
        engine.load("events", History(Source("/nowhere")), ("lsn",))
    engine.load("events", history, ("lsn",))
    for sql, text in {
        "SELECT lns FROM events": "name `lns` cannot be resolved. Did you mean",
        "SELECT FROM WHERE": "this is not SQL that Spark can run",
        "SELECT * FROM nothing": "The table or view `nothing` cannot be found",
        "SELECT CAST('x' AS int) AS n FROM events": "The value 'x' of the type",
    }.items():
        with pytest.raises(SparkError) as told:
            engine.ask(sql)
        assert text in str(told.value)
        assert "\n\tat " not in str(told.value)


def test_damage_is_told_as_the_decoder_tells_it(engine: SparkEngine, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", some_history(14, 100))
    segment = min((data / JOURNAL).glob("*.seg"))
    engine.load("events", History(Source(str(data))), ("lsn", "body"))
    content = bytearray(segment.read_bytes())
    content[5000] ^= 1
    segment.write_bytes(content)
    with pytest.raises(SparkError, match=rf"^segment {segment.name}, offset \d+ .*\. Nothing was"):
        engine.ask("SELECT count(body) AS n FROM events")
    with pytest.raises(SparkError, match=rf"^segment {segment.name}, offset \d+"):
        list(engine.stream("SELECT * FROM events"))


MESSAGES = {
    "[SOME.THING] It is so. SQLSTATE: 42703; line 1": ("", "It is so."),
    "An error occurred while calling o1.x.\n: org.x.SparkException: No.\n\tat a.b": ("", "No."),
    "Aborted: Traceback (most recent call last):\n  File\n    x\na.b.SomeError: told\n\n\tat o": (
        "SomeError",
        "told",
    ),
    "Traceback (most recent call last):\n  File 1\nKeyError: 'a'\n\nDuring handling of the above "
    "exception, another exception occurred:\n\nTraceback (most recent call last):\n  File 2\n"
    "Told: b: c\n": ("Told", "b: c"),
    "Traceback (most recent call last):\n  File 1\nAssertionError\n": (
        "AssertionError",
        "AssertionError",
    ),
    "Traceback (most recent call last):\n  cut": ("", "cut"),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_behind_a_message(message: str) -> None:
    assert sentence(message) == MESSAGES[message]


def started(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, for one has one JVM at most."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_that_is_said(tmp_path: Path) -> None:
    told = (
        "import daybook.pipeline.spark.session as s\n"
        "try: s.session()\nexcept s.SparkError as e: print(e)"
    )
    done = started(told, JAVA_HOME=str(tmp_path))
    assert done.stdout.startswith("Spark needs Java 17 or newer, and none was found"), done.stderr


def test_why_spark_did_not_start() -> None:
    log = (
        "WARNING: Using incubator modules\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must be one of these.\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)\n"
    )
    assert why(log) == "Master must be one of these."
    assert why("WARNING: Using incubator modules\n") == ""


def test_a_session_says_nothing_of_its_own(java: str, tmp_path: Path) -> None:
    """Of its start, of a question that it refuses, and of Ctrl-C in the middle of one."""
    code = (
        "import sys\n"
        "from daybook.pipeline.spark.engine import SparkEngine\n"
        "from daybook.pipeline.spark.session import SparkError\n"
        "with SparkEngine('local[1]') as engine:\n"
        "    try: engine.ask('SELECT two')\n"
        "    except SparkError as error: print(error)\n"
        "    engine.spark.range(10_000_000).createOrReplaceTempView('ids')\n"
        "    try:\n"
        "        print('asking', flush=True)\n"
        "        engine.ask('SELECT sum(a.id * b.id % 7) FROM ids a, ids b')\n"
        "    except KeyboardInterrupt: print('interrupted')\n"
        "    print(engine.ask('SELECT 1 AS one').to_pylist())\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **QUICK_JAVA},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert "`two` cannot be resolved" in program.stdout.readline()
        assert program.stdout.readline() == "asking\n"
        program.send_signal(signal.SIGINT)
        assert program.stdout.read().splitlines() == ["interrupted", "[{'one': 1}]"]
        assert program.stderr.read() == ""
    assert program.returncode == 0


@pytest.mark.slow
def test_nothing_in_the_working_directory_is_run(java: str, tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", some_history(12, 50))
    trap = "raise SystemExit('a module of the working directory was run')\n"
    for name in ("select", "pipeline", "journal"):
        (tmp_path / f"{name}.py").write_text(trap)
    command = [sys.executable, "-P", "-m", "daybook", "pipeline", "audit"]
    done = subprocess.run(
        [*command, "--data", str(data), "--engine", "spark", "--master", "local[1]"],
        cwd=tmp_path,
        env={**os.environ, **QUICK_JAVA, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
