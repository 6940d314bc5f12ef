"""Queries of somebody who may read history, and wants more: each way that is known is refused."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from daybook.journal.errors import JournalError
from daybook.pipeline.duck import DuckEngine, Limits
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.sql import fence
from daybook.pipeline.sql.asking import Asking
from daybook.pipeline.sql.errors import SqlError, place_of
from daybook.pipeline.sql.planning import Catalog
from tests.support.histories import some_history, write_history

SECRET = "the content of a file that nobody may read"
READING = (
    "FROM read_text('{file}')", "SELECT content FROM read_blob('{file}')", "FROM '{file}'",
    'FROM "{file}"', "FROM read_csv('{file}')", "FROM READ_CSV_AUTO('{file}', header => false)",
    "FROM read_json('{file}')", "FROM read_ndjson_objects('{file}')", "FROM read_parquet('{file}')",
    "FROM parquet_metadata('{file}')", "FROM sniff_csv('{file}')", "FROM glob('{folder}/*')",
    "FROM read_duckdb('{file}')", "FROM \"read_text\"('{file}')", "FROM main.read_text('{file}')",
    "FROM system.main.read_text('{file}')", "FROM /* x */ read_text /* y */ ('{file}') -- z",
    "FROM query('FROM read_text(''{file}'')')", "FROM query_table('{file}')",
    "FROM query_table(['{file}'])", "SELECT (SELECT content FROM read_text('{file}'))",
    "SELECT 1 WHERE EXISTS (FROM read_text('{file}'))",
    "WITH x AS (FROM read_text('{file}')) FROM x",
    "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x, glob('{folder}/*')) FROM x",
    "WITH read_text AS (SELECT 1) FROM read_text('{file}')",
    'WITH "{file}" AS (SELECT 1) SELECT (SELECT 1 FROM "{file}"), * FROM read_csv("{file}")',
    "SELECT * FROM events, LATERAL (FROM read_text('{file}'))",
    "FROM events JOIN read_text('{file}') ON true", "DESCRIBE FROM read_text('{file}')",
    "SUMMARIZE '{file}'", "DESCRIBE '{file}'", "VALUES ((SELECT content FROM read_text('{file}')))",
    "FROM (PIVOT (FROM read_text('{file}')) ON size IN (1) USING count(*))",
    "SELECT 1 ORDER BY (SELECT content FROM read_text('{file}'))",
    "SELECT list_transform([1], lambda x: (SELECT content FROM read_text('{file}')))",
    "SELECT json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{file}'')'))",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{file}'')'))",
    "SELECT json_serialize_plan('FROM read_text(''{file}'')')", "SELECT getenv('SECRET')",
    "SELECT current_setting('temp_directory')", "SELECT getvariable('x')",
    "FROM duckdb_settings()", "FROM duckdb_secrets()", "FROM which_secret('s3://x', 's3')",
    "FROM duckdb_databases", "FROM information_schema.tables", "FROM pg_catalog.pg_tables",
    "FROM duckdb_logs", "FROM duckdb_temporary_files()", "FROM pragma_database_size()",
    "FROM daybook_events", "FROM daybook_part_1", "FROM marked", "FROM sqlite_master",
    "FROM arrow_scan(1, 2, 3)", "FROM pandas_scan(1)", "FROM python_map_function((SELECT 1))",
    "SELECT finalize(to_aggregate_state('\\x00'::BLOB))", "SELECT __internal_decompress_string(1)",
    "FROM 'http://127.0.0.1:1/x.csv'", "FROM read_csv('s3://bucket/x.csv')",
    "FROM seq_scan('events')", "FROM test_all_types()", "FROM test_vector_types(1)",
)  # fmt: skip
"""Queries that begin like questions, and read or call more than the history."""
CHANGING = (
    "COPY events TO '{file}'", "COPY (FROM events) TO '{file}' (FORMAT csv)",
    "EXPORT DATABASE '{folder}'", "IMPORT DATABASE '{folder}'", "ATTACH '{file}' AS other",
    "DETACH memory", "USE other", "INSTALL httpfs", "LOAD httpfs", "LOAD '{file}'",
    "SET threads = 1000", "SET enable_external_access = true", "RESET lock_configuration",
    "SET GLOBAL memory_limit = '100GB'", "PRAGMA memory_limit='100GB'", "PRAGMA database_list",
    "CALL enable_logging('QueryLog', storage = 'file', storage_path = '{file}')",
    "FROM enable_logging('QueryLog', storage = 'file', storage_path = '{file}')",
    "FROM enable_profiling()", "FROM truncate_duckdb_logs()", "FROM force_checkpoint()",
    "SELECT write_log('x')", "CREATE SECRET (TYPE s3)", "CREATE TABLE x AS FROM events",
    "CREATE VIEW x AS FROM read_text('{file}')", "CREATE OR REPLACE VIEW events AS SELECT 1",
    "CREATE MACRO x() AS TABLE FROM read_text('{file}')", "DROP VIEW events", "DELETE FROM events",
    "UPDATE events SET lsn = 1", "INSERT INTO events DEFAULT VALUES", "CHECKPOINT", "VACUUM",
    "PREPARE x AS FROM read_text('{file}')", "EXECUTE x", "BEGIN", "EXPLAIN ANALYZE SELECT 1",
    "SELECT 1; SELECT 2", "SELECT 1; FROM read_text('{file}')", "; ;", "",
    "SELECT 1 /* ; */ ; COPY events TO '{file}'", "SELECT 1 --\n; DROP VIEW events",
    "WITH x AS (DELETE FROM daybook_events RETURNING *) FROM x",
    "WITH x AS (INSERT INTO events SELECT 1 RETURNING *) FROM x",
    "WITH x AS (UPDATE events SET lsn = 1 RETURNING *) FROM x",
    "WITH x AS (COPY events TO '{file}') FROM x", "PIVOT events ON kind USING count(*)",
    "SELECT 1\u037e DROP VIEW events", "\u202eSELECT 1; DROP VIEW events",
    "SELECT 1\x00; DROP VIEW events", "\uff33\uff25\uff2c\uff25\uff23\uff34 1",
)  # fmt: skip
"""Texts that are not questions."""
FINE = (
    "SELECT 1", "FROM events LIMIT 1", "FROM main.events LIMIT 1", "FROM EVENTS LIMIT 1",
    "SELECT count(*) FROM events, range(3)", "SHOW TABLES", "DESCRIBE events", "DESCRIBE",
    "SUMMARIZE SELECT 1 AS one", "VALUES (1), (2)", "SELECT unnest([1, 2])",
    "WITH \"Mine\" AS (SELECT 1 AS a) FROM mine", "TABLE queues",
    "SELECT 'FROM read_text(''/etc/passwd'')' AS text",
    "SELECT '{\"function_name\":\"read_text\"},\"table_name\":\"x\"' AS text",
    "SELECT 'a' AS read_text, 1 AS \"table_name\"", "SELECT 1 -- FROM read_text('x')",
    "FROM (PIVOT (SELECT kind FROM events) ON kind IN ('Routed') USING count(*))",
    "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x WHERE n < 5) FROM x",
    "SELECT key FROM json_each('{\"a\": 1}')", "SELECT 1;",
    "SELECT count(*) FROM duckdb_functions()", "SELECT kind FROM events UNION SELECT 'x'",
    "SELECT date_trunc('minute', time) AS at, count(*) FROM events GROUP BY ALL",
    "SELECT lsn FROM events WHERE lsn IN (" + ", ".join(map(str, range(2000))) + ")",
    "SELECT lsn FROM events WHERE " + " OR ".join(f"lsn = {n} AND kind > ''" for n in range(2000)),
    "SELECT lsn FROM events WHERE 'x' || kind" + " || 'x'" * 500 + " = ''",
    "SELECT lsn FROM events WHERE lsn" + " + 1" * 900 + " = 1",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history") / "data"
    return write_history(directory, some_history(5, 60))


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    with Catalog() as made:
        yield made


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A folder with a file that is text, CSV, and there."""
    file = tmp_path / "secret.csv"
    file.write_text(f"{SECRET}\n")
    return {"file": str(file), "folder": str(tmp_path)}


def filled(question: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        question = question.replace(f"{{{name}}}", value)
    return question


@pytest.mark.parametrize("question", READING + CHANGING)
def test_what_does_more_than_read_history_is_refused(
    catalog: Catalog, places: dict[str, str], question: str
) -> None:
    before = {path.name for path in Path(places["folder"]).iterdir()}
    with pytest.raises(SqlError) as said:
        catalog.check(filled(question, places))
    assert SECRET not in str(said.value)
    assert before == {path.name for path in Path(places["folder"]).iterdir()}


@pytest.mark.parametrize("question", READING + CHANGING)
def test_without_the_fence_no_file_is_read_or_written_either(
    places: dict[str, str], question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of DuckDB, alone."""
    monkeypatch.setenv("SECRET", SECRET)
    with DuckEngine() as engine:
        engine.define("events", "SELECT 1 AS lsn, 'Routed' AS kind")
        engine.close_off()
        told: Any = []
        try:
            result = engine.connection.execute(filled(question, places))
            told = result.fetchall() if result else []
        except (duckdb.Error, RuntimeError, ValueError) as error:
            told = str(error)
    assert SECRET not in str(told)
    assert [path.name for path in Path(places["folder"]).iterdir()] == ["secret.csv"]
    assert Path(places["file"]).read_text() == f"{SECRET}\n"


def test_questions_are_answered(data: Path) -> None:
    with Asking(History(Source(str(data)))) as asking:
        for question in FINE:
            with asking.answer(question) as answer:
                for _ in answer.batches:
                    pass


def test_a_refusal_names_the_place(catalog: Catalog) -> None:
    with pytest.raises(SqlError, match="read only history") as said:
        catalog.check("SELECT *\nFROM Read_Text('/etc/passwd')")
    assert str(said.value).endswith(
        "\n\nline 2: FROM Read_Text('/etc/passwd')\n" + " " * 13 + "^" * 9
    )
    assert place_of(str(said.value)) == (2, 6)
    with pytest.raises(SqlError, match='Did you mean "events"') as said:
        catalog.check("SELECT * FROM event")
    assert place_of(str(said.value)) == (1, 15)


@pytest.mark.parametrize("line", [1, 9, 10])
def test_the_mark_is_under_the_mistake_in_each_line(catalog: Catalog, line: int) -> None:
    question = "\n" * (line - 1) + "SELECT kin FROM events"
    with pytest.raises(SqlError) as said:
        catalog.need(question)
    *_, text, mark = str(said.value).splitlines()
    assert text[mark.index("^") :].startswith("kin ")
    assert place_of(str(said.value)) == (line, 8)


def test_the_end_of_a_long_line_has_no_character(catalog: Catalog) -> None:
    with pytest.raises(SqlError) as said:
        catalog.need("SELECT " + "1," * 300 + " kin FROM events")
    assert place_of(str(said.value)) == (1, 0)
    assert place_of("there is no query") is None


@pytest.mark.parametrize("depth", [400, 999, 5000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("[", "]"), ("NOT ", ""), ("- ", ""), ("(SELECT ", ")"), ("abs(", ")")],
)
def test_deep_queries_are_answered_or_refused(
    data: Path, opening: str, closing: str, depth: int
) -> None:
    with Asking(History(Source(str(data)))) as asking:
        question = f"SELECT {opening * depth}1{closing * depth}"
        try:
            with asking.answer(question) as answer:
                assert next(answer.batches).num_rows == 1
        except SqlError:
            pass
    assert sys.getrecursionlimit() == 1000


def test_limits_hold(tmp_path: Path) -> None:
    long = "SELECT max(s) AS s FROM (SELECT repeat('x', 100) || range AS s FROM range(3000000)"
    with DuckEngine(64 << 20, Limits(threads=1, spill_bytes=1 << 20)) as engine:
        engine.close_off()
        assert engine.ask("SELECT current_setting('threads') AS n")["n"].to_pylist() == [1]
        with pytest.raises(JournalError, match="DuckDB cannot continue"):
            engine.ask(f"{long} ORDER BY s DESC OFFSET 1)")
        before = threading.active_count()
        engine.ask("SELECT count(*) FROM range(1000000)")
        assert threading.active_count() == before


def test_answers_come_in_batches_of_the_size_that_was_asked_for() -> None:
    with DuckEngine(limits=Limits(batch_rows=2048)) as engine:
        sizes = [batch.num_rows for batch in engine.stream("FROM range(10000)")]
    assert max(sizes) <= 2048


def test_the_functions_of_this_duckdb_are_known(catalog: Catalog) -> None:
    """A function for tables that a later DuckDB has is refused until somebody looks at it."""
    with pytest.raises(SqlError):
        catalog.check("FROM parquet_schema('x')")
    assert "read_text" not in fence.MAKING_ROWS
