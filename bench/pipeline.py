"""How fast history is read: `python -m bench.pipeline --events 5000000 --events 50000000`.

The decoder alone, DuckDB over the journal and over the same rows in Parquet, and Spark over both,
each question in a process of its own. Answers of all must be equal. Measurements with Spark are
left out, with a line that reports it, where Spark or Java are missing.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench.history import DONE, make_history
from bench.load.child import environment
from bench.load.frames import LoadError
from daybook.engine.facts.kinds import ENTERING, LEAVING
from daybook.journal.data_directory import JOURNAL
from daybook.journal.errors import JournalError
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Source, make_plan
from daybook.pipeline.reading import reading
from daybook.pipeline.schema import NAMED_COLUMNS, arrow_schema, listed
from daybook.pipeline.selection import EVERYTHING

GATE_DECODER: Final = 4_000_000.0
"""Thin rows per second that the decoder must reach."""
GATE_PARQUET: Final = 3.0
"""How many times as long as over Parquet a question may take over the journal."""
GATE_GROWTH: Final = 1.25
"""How much more processor time each event may take where there are many more of them.

By processor time, because two histories are measured minutes apart, and of thin questions, because
the fates of messages take a table that grows with them.
"""
ROW_GROUP: Final = 500_000
MEBIBYTE: Final = 1 << 20
PARQUET: Final = "parquet"

THIN: Final = ("lsn", "kind_id", "queue_id", "message", "time")
PARQUET_COLUMNS: Final = (*THIN, "kind", "queue", "delivery_count", "body")

DECODED: Final = {
    "thin": THIN,
    "with names": ("lsn", "kind", "queue", "message", "time"),
    "with names and bodies": ("lsn", "kind", "queue", "message", "time", "body"),
}
"""The questions for the decoder alone."""


class Question(msgspec.Struct, frozen=True):
    """A question and the columns that it needs.

    `thin` ones read few columns and remember little; `metadata` is enough for some over Parquet.
    """

    columns: tuple[str, ...]
    sql: str
    thin: bool = True
    metadata: bool = False


_IS_ROUTED: Final = f"CASE WHEN kind_id IN ({listed(ENTERING)}) THEN 1 ELSE 0 END"
_IS_SETTLED: Final = f"CASE WHEN kind_id IN ({listed(LEAVING)}) THEN 1 ELSE 0 END"
QUESTIONS: Final = {
    "count": Question(("lsn",), "SELECT count(*), max(lsn) FROM events", thin=False, metadata=True),
    "events by queue and kind": Question(
        ("queue_id", "kind_id"),
        "SELECT queue_id, kind_id, count(*) FROM events GROUP BY queue_id, kind_id",
    ),
    "account of each queue": Question(
        ("queue_id", "kind_id", "delivery_count", "time"),
        f"SELECT queue_id, sum({_IS_ROUTED}), sum({_IS_SETTLED}), "
        "max(delivery_count), max(time) - min(time) FROM events GROUP BY queue_id",
    ),
    "what became of each message": Question(
        ("queue_id", "kind_id", "message"),
        "SELECT queue_id, count(*), sum(routed - settled) FROM ("
        f"SELECT queue_id, message, sum({_IS_ROUTED}) AS routed, sum({_IS_SETTLED}) AS settled "
        "FROM events WHERE message > 0 GROUP BY queue_id, message) AS entries GROUP BY queue_id",
        thin=False,
    ),
    "bytes by queue": Question(
        ("queue", "body"),
        "SELECT queue, sum(octet_length(body)) FROM events GROUP BY queue",
        thin=False,
    ),
}

Answer = list[list[Any]]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one process: seconds of each run, and the time before the first.

    `rss` is the most memory that the process had, in bytes; `answer` the answer to the question.
    """

    seconds: list[float]
    cpu_seconds: float
    start: float
    rss: int
    answer: Answer = []


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the report. `cpu` is rows per second of processor time in this process."""

    work: str
    what: str
    events: int
    seconds: float
    rows_per_second: float
    cpu: float
    start: float
    rss: int


# ---- measurements, each in a separate process


def decode(directory: Path, what: str, runs: int) -> Run:
    """The decoder alone."""
    columns = DECODED[what]
    begun = time.perf_counter()
    names = not NAMED_COLUMNS.isdisjoint(columns)
    with reading(Source(str(directory)), names=names) as plan:
        planned = time.perf_counter() - begun

        def work() -> Answer:
            return [[sum(batch.num_rows for batch in read_plan(plan, columns))]]

        return _timed(work, runs, planned)


def embedded(directory: Path, what: str, runs: int) -> Run:
    """DuckDB over a stream of the decoder's batches."""
    question = QUESTIONS[what]
    begun = time.perf_counter()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    started = time.perf_counter() - begun

    def work() -> Answer:
        names = not NAMED_COLUMNS.isdisjoint(question.columns)
        with reading(Source(str(directory)), names=names) as plan:
            batches = read_plan(plan, question.columns, encoded=True)
            schema = arrow_schema(question.columns, encoded=True)
            reader = pa.RecordBatchReader.from_batches(schema, batches)
            connection.register("events", reader)
            return _sorted(connection.sql(question.sql).fetchall())

    return _timed(work, runs, started)


def embedded_parquet(directory: Path, what: str, runs: int) -> Run:
    """DuckDB over the same rows in Parquet."""
    begun = time.perf_counter()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    files = directory / PARQUET / "*.parquet"
    connection.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{files}')")
    started = time.perf_counter() - begun
    return _timed(lambda: _sorted(connection.sql(QUESTIONS[what].sql).fetchall()), runs, started)


def spark(cores: int, place: str, directory: Path, what: str, runs: int) -> Run:
    """Spark with so many cores, over the journal or over Parquet."""
    from daybook.pipeline.spark.session import session  # noqa: PLC0415 (all else does without Spark)

    question = QUESTIONS[what]
    begun = time.perf_counter()
    found = session(f"local[{cores}]", settings={"spark.sql.shuffle.partitions": "4"})
    found.range(10).count()
    started = time.perf_counter() - begun

    def work() -> Answer:
        if place == JOURNAL:
            reader = found.read.format("journal").option("columns", ",".join(question.columns))
            frame = reader.load(str(directory))
        else:
            frame = found.read.parquet(str(directory / PARQUET))
        frame.createOrReplaceTempView("events")
        return _sorted([tuple(row) for row in found.sql(question.sql).collect()])

    try:
        return _timed(work, runs, started)
    finally:
        found.stop()


WORKS: Final[dict[str, Callable[[Path, str, int], Run]]] = {
    "decoder": decode,
    "DuckDB, journal": embedded,
    "DuckDB, Parquet": embedded_parquet,
    "Spark local[1], journal": partial(spark, 1, JOURNAL),
    "Spark local[2], journal": partial(spark, 2, JOURNAL),
    "Spark local[2], Parquet": partial(spark, 2, PARQUET),
}
ENGINES: Final = tuple(WORKS)[1:]


def _sorted(rows: list[tuple[Any, ...]]) -> Answer:
    """Rows in an order of their own, in words that engines have in common."""
    plain = [[None if value is None else str(value) for value in row] for row in rows]
    return sorted(plain, key=str)


def _timed(work: Callable[[], Answer], runs: int, start: float) -> Run:
    seconds = []
    answer: Answer = []
    cpu = time.process_time()
    for _ in range(runs):
        begun = time.perf_counter()
        answer = work()
        seconds.append(time.perf_counter() - begun)
    cpu = (time.process_time() - cpu) / runs
    return Run(seconds=seconds, cpu_seconds=cpu, start=start, rss=_peak_rss(), answer=answer)


def _peak_rss() -> int:
    """The most memory that this process had; 0 where the system does not tell."""
    # getrusage begins with the values of the parent at the fork.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


# ---- making, measuring, comparing


def write_parquet(directory: Path) -> None:
    """The rows of a history as Parquet, unless they are there; row groups as an archive has."""
    folder = directory / PARQUET
    if folder.exists():
        return
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    schema = arrow_schema(PARQUET_COLUMNS)
    plan = make_plan(Source(str(directory)), EVERYTHING)
    with pq.ParquetWriter(
        part / "events.parquet", schema, compression="zstd", compression_level=3
    ) as writer:
        gathered: list[pa.RecordBatch] = []
        for batch in read_plan(plan, PARQUET_COLUMNS):
            gathered.append(batch)
            if sum(each.num_rows for each in gathered) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(gathered, schema))
                gathered = []
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered, schema))
    part.rename(folder)


def run_alone(directory: Path, work: str, what: str, runs: int) -> Run:
    """Make one measurement in a separate process; raises LoadError."""
    command = [
        sys.executable, "-m", "bench.pipeline", "--data", str(directory), "--alone", work, what,
        "--runs", str(runs),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, check=False, env=environment())
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise LoadError(f"{work} could not be asked for '{what}': {said}")
    return msgspec.json.decode(done.stdout, type=Run)


def measure(directory: Path, events: int, runs: int, engines: tuple[str, ...]) -> list[Figure]:
    """Measure everything over a history of so many events; raises LoadError."""
    make_history(directory, events)
    write_parquet(directory)
    count = int((directory / DONE).read_text())
    figures = []
    for what in DECODED:
        run = run_alone(directory, "decoder", what, runs)
        if run.answer != [[count]]:
            raise LoadError(f"the decoder gave {run.answer} rows of {count}")
        figures.append(_figure("decoder", what, count, run))
    for what in QUESTIONS:
        answers: dict[str, Answer] = {}
        for engine in engines:
            run = run_alone(directory, engine, what, runs)
            answers[engine] = run.answer
            figures.append(_figure(engine, what, count, run))
        differing = [engine for engine in answers if answers[engine] != answers[engines[0]]]
        if differing:
            raise LoadError(f"{differing[0]} and {engines[0]} differ in what they say of '{what}'")
    return figures


def _figure(work: str, what: str, events: int, run: Run) -> Figure:
    # The best one: other load of the machine slows the others.
    seconds = min(run.seconds)
    return Figure(
        work=work, what=what, events=events, seconds=seconds, rows_per_second=events / seconds,
        cpu=events / run.cpu_seconds if run.cpu_seconds else 0.0, start=run.start, rss=run.rss,
    )  # fmt: skip


def gates(figures: list[Figure]) -> list[tuple[str, float, float, bool]]:
    """A gate: its name, the measured value, the limit, and whether it holds."""
    found = []
    by_key = {(figure.work, figure.what, figure.events): figure for figure in figures}
    sizes = sorted({figure.events for figure in figures})
    for events in sizes:
        thin = by_key["decoder", "thin", events].rows_per_second
        name = f"decoder, thin rows/s of {events:,} events"
        found.append((name, thin, GATE_DECODER, thin >= GATE_DECODER))
        for what, question in QUESTIONS.items():
            journal = by_key.get(("DuckDB, journal", what, events))
            parquet = by_key.get(("DuckDB, Parquet", what, events))
            if not question.metadata and journal is not None and parquet is not None:
                ratio = journal.seconds / parquet.seconds
                name = f"DuckDB, journal : Parquet, {what}, {events:,} events"
                found.append((name, ratio, GATE_PARQUET, ratio <= GATE_PARQUET))
    for what, question in QUESTIONS.items() if len(sizes) > 1 else ():
        small = by_key.get(("DuckDB, journal", what, sizes[0]))
        large = by_key.get(("DuckDB, journal", what, sizes[-1]))
        if question.thin and small is not None and large is not None:
            growth = small.cpu / large.cpu
            name = f"DuckDB, journal, growth {sizes[0]:,} to {sizes[-1]:,}, {what}"
            found.append((name, growth, GATE_GROWTH, growth <= GATE_GROWTH))
    return found


def has_spark() -> str:
    """Empty if Spark can be measured, else why not."""
    try:
        import pyspark  # noqa: F401, PLC0415 (that is the question)
    except ImportError:
        return "pyspark is not installed"
    return "" if shutil.which("java") else "there is no Java"


@click.command(context_settings={"show_default": True})
@click.option("--events", type=click.IntRange(1000), multiple=True, default=(5_000_000,))
@click.option("--data", type=click.Path(path_type=Path), help="Keep histories here.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Of each; the best counts.")
@click.option("--engine", "engines", type=click.Choice(ENGINES), multiple=True, help="Not all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--alone", nargs=2, hidden=True)
def main(
    events: tuple[int, ...],
    data: Path | None,
    runs: int,
    engines: tuple[str, ...],
    as_json: bool,
    alone: tuple[str, str] | None,
) -> None:
    """Measure reading history with the decoder, DuckDB and Spark.

    Exit codes: 0 measured, 1 a gate was missed or no measurement was possible, 2 bad use.
    """
    if alone is not None:
        assert data is not None
        try:
            run = WORKS[alone[0]](data, alone[1], runs)
        except (JournalError, duckdb.Error) as error:
            raise click.ClickException(str(error)) from error
        sys.stdout.buffer.write(msgspec.json.encode(run))
        return
    engines = engines or ENGINES
    without = has_spark()
    if without:
        engines = tuple(engine for engine in engines if "Spark" not in engine)
        click.echo(f"without Spark: {without}", err=True)
    figures: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as temporary:
            folder = data if data is not None else Path(temporary)
            for count in sorted(events):
                figures += measure(folder / str(count), count, runs, engines)
    except LoadError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")
    else:
        report(figures)
    if not all(holds for *_, holds in gates(figures)):
        sys.exit(1)


def report(figures: list[Figure]) -> None:
    """Print the results, and the gates."""
    for figure in figures:
        click.echo(
            f"{figure.events:>12,}  {figure.work:<24} {figure.what:<28} {figure.seconds:8.2f} s "
            f"{figure.rows_per_second:>12,.0f} rows/s  cpu {figure.cpu:>12,.0f}  "
            f"start {figure.start:5.2f} s  RSS {figure.rss / MEBIBYTE:6.0f} MiB"
        )
    for name, found, limit, holds in gates(figures):
        click.echo(f"{'holds ' if holds else 'MISSED'} {name}: {found:,.2f} (limit {limit:,.2f})")


if __name__ == "__main__":
    main()
