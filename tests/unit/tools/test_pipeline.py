"""The jobs of `daybook pipeline` as commands: output, files, and exit codes."""

import builtins
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from daybook.engine.commands import OpenConnection, Send
from daybook.engine.facts import events
from daybook.history.audit import re_execution
from daybook.journal.extras import install_command
from daybook.tools.daybook import cli
from daybook.tools.jobs.output import TABLE_ROWS, Output, write, write_file
from daybook.tools.pipeline import pipeline_group
from daybook.tools.terminal.extras import EXTRA
from tests.support.forging.faults import appended, of_kind
from tests.support.histories import write_history
from tests.support.stored.retention_world import RetentionWorld
from tests.support.worlds.auditing import OPTIONS, DoorWorld, door_history

SEED = 3
NOTHING_IN_ENVIRONMENT = {"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}


def pipeline(*arguments: object, given: str = "") -> Result:
    words = ["pipeline", *(str(each) for each in arguments)]
    return CliRunner().invoke(cli, words, env=NOTHING_IN_ENVIRONMENT, input=given)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by the options of worlds, whose filters are not selectors."""
    monkeypatch.setattr(re_execution, "Options", lambda: OPTIONS)


def written(directory: Path, messages: int) -> Path:
    world = door_history(SEED, messages)
    return write_history(directory, world.journal, cuts=world.ends)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with nothing wrong."""
    return written(tmp_path_factory.mktemp("right"), 200)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with one acknowledgement twice."""
    world = door_history(SEED, 200)
    told = appended(world.journal, of_kind(world.journal, events.ACKNOWLEDGED)[0].row)
    return write_history(tmp_path_factory.mktemp("faulty"), told, cuts=world.ends)


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A history that is long enough for sealed segments, and these as Parquet files."""
    data = written(tmp_path_factory.mktemp("long"), 900)
    target = tmp_path_factory.mktemp("parquet") / "archive"
    result = pipeline("archive", "--data", data, "--to", target)
    assert result.exit_code == 0, result.output
    assert list(target.rglob("*.parquet"))
    return data, target


@pytest.fixture(scope="module")
def shortened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A history whose beginning left, and the LSN of its first event."""
    world = DoorWorld()
    connection = world.ok(OpenConnection("stomp", "peer", "user", room=1 << 20))
    for _ in range(5):
        world.ok(Send(connection, "orders", b"", b"x" * 100))
    directory = tmp_path_factory.mktemp("shortened")
    retention = RetentionWorld(directory, world)
    retention.write()
    for _ in range(3):
        assert retention.round(2)
    world.ok(Send(connection, "orders", b"", b"late"))
    world.ok(Send(connection, "orders", b"", b"later"))
    retention.write()
    retention.close()
    return directory, retention.removed_lsn + 1


@pytest.mark.parametrize("job", ["audit", "latency", "replay"])
def test_a_span_that_ends_before_it_begins(job: str, data: Path) -> None:
    for begin, first, end, last in (
        ("--from", "100", "--to", "50"), ("--since", "2026-02-02", "--until", "2026-02-01"),
    ):  # fmt: skip
        result = pipeline(job, "--data", data, begin, first, end, last)
        assert result.exit_code == 2
        assert f"{begin} must not be after {end}" in " ".join(result.output.split())


def test_the_jobs_are_listed() -> None:
    result = pipeline("--help")
    assert result.exit_code == 0
    assert all(f"  {name} " in result.output for name in pipeline_group.commands)


@pytest.mark.parametrize("job", sorted(pipeline_group.commands))
def test_every_job_has_help(job: str) -> None:
    result = pipeline(job, "--help")
    assert result.exit_code == 0, result.output
    for option in ("--data", "--archive", "--help"):
        assert option in result.output


def test_a_job_that_does_not_exist() -> None:
    result = pipeline("count")
    assert result.exit_code == 2
    assert "No such command 'count'" in result.output


@pytest.mark.parametrize("module", ["daybook.pipeline.duck", "daybook.tools.jobs.audit"])
def test_a_package_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, data: Path, module: str
) -> None:
    real = builtins.__import__

    def lacking(name: str, *rest: Any) -> Any:
        if name == module:
            raise ModuleNotFoundError("no module", name="duckdb.core")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    result = pipeline("audit", "--data", data)
    assert result.exit_code == 1
    assert EXTRA["duckdb"] == "sql"
    assert f"this needs duckdb; install it with: {install_command('sql')}" in result.output
    if module == "daybook.tools.jobs.audit":
        for words in (("--engine", "spark"), ("--engine=spark",)):
            result = pipeline("audit", "--data", data, *words)
            assert result.exit_code == 1
            assert install_command("spark") in result.output


def test_pictures_without_their_extra_are_refused_before_the_job(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path
) -> None:
    imported = builtins.__import__

    def lacking(name: str, *others: Any, **more: Any) -> Any:
        if name.startswith(("matplotlib", "daybook.pipeline.jobs.latency_plots")):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return imported(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", lacking)
    words = ["pipeline", "latency", "--data", str(data), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 1
    assert "pictures need matplotlib; install it with: " in result.output
    assert "--no-plots" in result.output
    assert not (tmp_path / "out").exists()
    result = CliRunner().invoke(cli, [*words, "--no-plots"])
    assert result.exit_code == 0, result.output
    assert "0 pictures" in result.output


@pytest.mark.parametrize("job", ["audit", "latency", "trail"])
def test_a_job_needs_a_history(job: str) -> None:
    result = pipeline(job)
    assert result.exit_code == 2
    assert "name a history: --data DIR, --archive URL or --parquet DIR" in result.output


def test_a_directory_without_a_journal(tmp_path: Path) -> None:
    result = pipeline("audit", "--data", tmp_path)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert str(tmp_path) in result.output


class TestAudit:
    def test_a_right_history(self, data: Path) -> None:
        result = pipeline("audit", "--data", data)
        assert result.exit_code == 0, result.output
        assert "every message is accounted for" in result.stderr
        assert "(total)" in result.stdout
        assert "orders" in result.stdout

    def test_a_fault_is_shown_and_ends_with_one(self, faulty: Path, tmp_path: Path) -> None:
        file = tmp_path / "faults.csv"
        result = pipeline("audit", "--data", faulty, "--faults", file)
        assert result.exit_code == 1
        assert "1 fault (fits 1)" in result.stderr
        assert "does not exist" in result.stdout
        assert "ADR 2" in result.stdout
        (fault,) = rows_of(file)
        assert (fault["kind"], fault["source"]) == ("fits", "ADR 2")
        assert len(json.loads(fault["lsns"])) == 1

    def test_scripts_may_say_re_execute_still(self, data: Path) -> None:
        result = pipeline("audit", "--data", data, "--re-execute")
        assert result.exit_code == 0, result.output
        assert "--re-execute" not in pipeline("audit", "--help").output

    def test_all_of_it_for_programs(self, faulty: Path) -> None:
        result = pipeline("audit", "--data", faulty, "--format", "json")
        told = json.loads(result.stdout)
        assert told["fault_counts"] == {"fits": 1}
        assert sum(each["routed"] for each in told["queues"]) == told["total"]["routed"]

    def test_accounts_as_a_file(self, data: Path, tmp_path: Path) -> None:
        assert pipeline("audit", "--data", data, "--output", tmp_path / "a.csv").exit_code == 0
        assert pipeline("audit", "--data", data, "--output", tmp_path / "a.parquet").exit_code == 0
        rows = rows_of(tmp_path / "a.csv")
        table = pq.read_table(tmp_path / "a.parquet")
        assert [row["queue"] for row in rows] == table["queue"].to_pylist()

    def test_a_span_without_events(self, data: Path) -> None:
        result = pipeline("audit", "--data", data, "--from", 1_000_000)
        assert result.exit_code == 1
        assert "there is no event in this span: this history ends with event" in result.stderr
        result = pipeline("audit", "--data", data, "--since", "2999-01-01")
        assert result.exit_code == 1
        assert "this history ends with event" in result.stderr
        result = pipeline("audit", "--data", data, "--until", "1980-01-01", "--queue", "orders")
        assert result.exit_code == 1
        assert "which begins with event 1 at" in result.stderr

    @pytest.mark.parametrize(
        ("span", "told"),
        [
            (("--to", "3"), "nothing of this span is in this history, which begins with event"),
            (("--from", "1"), "events 1 to {before:,} were asked for and are not in this history"),
            (("--since", "1980-01-01"), "begins with event {first:,}, so what happened from 1980"),
        ],
    )
    def test_what_left_is_missing_if_it_is_asked_for(
        self, shortened: tuple[Path, int], span: tuple[str, str], told: str
    ) -> None:
        data, first = shortened
        result = pipeline("audit", "--data", data, *span)
        assert result.exit_code == 1, result.output
        assert told.format(first=first, before=first - 1) in result.stderr
        assert "--archive URL" in result.stderr

    def test_an_account_begins_where_history_begins(self, shortened: tuple[Path, int]) -> None:
        data, first = shortened
        result = pipeline("audit", "--data", data)
        assert result.exit_code == 0, result.output
        assert f"the account begins with event {first:,}, where this" in result.stderr
        for span in (("--from", first), ("--from", first + 1, "--since", "1980-01-01")):
            result = pipeline("audit", "--data", data, *span)
            assert result.exit_code == 0, result.output
            assert "history" not in result.stderr

    def test_a_queue_that_is_not_there(self, data: Path) -> None:
        result = pipeline("audit", "--data", data, "--queue", "order")
        assert result.exit_code == 2
        assert "history has no queue 'order'; did you mean 'orders'?" in result.output

    def test_a_file_whose_ending_says_nothing(self, data: Path) -> None:
        result = pipeline("audit", "--data", data, "--faults", "faults.xls")
        assert result.exit_code == 2
        assert "end it with one of .csv, .json" in result.output


class TestTrail:
    def messages(self, number: int) -> list[int]:
        return [event.lsn for event in of_kind(door_history(SEED, 200).journal, events.ROUTED)][
            :number
        ]

    def test_ids_from_all_sides(self, data: Path, tmp_path: Path) -> None:
        first, second, third, fourth = self.messages(4)
        file = tmp_path / "ids"
        file.write_text(f"{second}\n{third}\n", "utf-8")
        result = pipeline(
            "trail", "--data", data, first, "--messages", file, "--messages", "-",
            "--format", "csv", given=f"{fourth},",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        rows = list(csv.DictReader(result.stdout.splitlines()))
        assert {first, second, third, fourth} <= {int(row["message"]) for row in rows}
        assert f"in {len({row['root'] for row in rows})} families" in result.stderr

    def test_ids_that_are_unknown(self, data: Path) -> None:
        (known,) = self.messages(1)
        result = pipeline("trail", "--data", data, f"{known},1")
        assert result.exit_code == 1
        assert str(known) in result.stdout
        assert "nothing is known of these ids: 1;" in result.stderr
        result = pipeline("trail", "--data", data, *range(1_000_000, 1_000_012))
        assert result.exit_code == 1
        assert "1000009 and 2 more; a message's id is" in result.stderr

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (None, "is neither the id of a message nor a file"),
            (b"12 x7", "has 'x7', which is not the id"),
            (b"\xff\xfe", "is not text"),
            (b"\n", "name messages"),
            (b"0", "0 is not the id of a message"),
            (b"9223372036854775808", "9223372036854775808 is not the id of a message"),
        ],
    )
    def test_files_that_have_no_ids(
        self, data: Path, tmp_path: Path, content: bytes | None, told: str
    ) -> None:
        file = tmp_path / "ids"
        if content is not None:
            file.write_bytes(content)
        result = pipeline("trail", "--data", data, "--messages", file)
        assert result.exit_code == 2
        assert told in " ".join(result.output.split())

    def test_there_is_no_message_0(self, data: Path) -> None:
        result = pipeline("trail", "--data", data, "0")
        assert result.exit_code == 2
        assert "a whole number from 1 on" in " ".join(result.output.split())

    def test_a_table_is_no_file(self, data: Path, tmp_path: Path) -> None:
        result = pipeline(
            "trail", "--data", data, "5", "--format", "table", "--output", tmp_path / "a.csv"
        )
        assert result.exit_code == 2
        assert "a table is for the terminal" in result.output

    def test_parquet_needs_a_file(self, data: Path) -> None:
        result = pipeline("trail", "--data", data, "5", "--format", "parquet")
        assert result.exit_code == 2
        assert "add --output FILE" in result.output


class TestLatency:
    def test_a_summary_tables_and_pictures(self, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "deep" / "out"
        result = pipeline("latency", "--data", data, "--out", out, "--format", "parquet")
        assert result.exit_code == 0, result.output
        for title in ("Latency, in milliseconds", "By queue", "Hot spots", "Poison messages"):
            assert title in result.stdout
        assert len(list(out.glob("*.parquet"))) == 10
        assert (out / "latency_over_hours.png").stat().st_size > 10_000

    def test_tables_alone(self, data: Path, tmp_path: Path) -> None:
        result = pipeline("latency", "--data", data, "--out", tmp_path, "--no-plots")
        assert result.exit_code == 0
        assert not list(tmp_path.glob("*.png"))
        assert rows_of(tmp_path / "latency.csv")[0]["measure"] == "routed to delivered"

    def test_nothing_to_measure(self, data: Path) -> None:
        result = pipeline("latency", "--data", data, "--from", 1_000_000)
        assert result.exit_code == 0
        assert "there is no message in this span" in result.stderr

    def test_a_directory_that_cannot_be_made(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("", "utf-8")
        result = pipeline("latency", "--data", data, "--out", tmp_path / "file" / "out")
        assert result.exit_code == 1
        assert "Not a directory" in result.output


class TestParquet:
    """The jobs give the same answers for segments and for Parquet files with the journal."""

    @pytest.mark.parametrize(
        "job",
        [
            ("audit", "--format", "json"),
            ("audit", "--format", "json", "--from", "300"),
            ("trail", "MESSAGES", "--format", "json"),
            ("latency",),
        ],
        ids=" ".join,
    )
    def test_the_same_is_told(self, archived: tuple[Path, Path], job: tuple[str, ...]) -> None:
        data, target = archived
        routed = [
            str(event.lsn) for event in of_kind(door_history(SEED, 900).journal, events.ROUTED)
        ]
        job = tuple(word.replace("MESSAGES", ",".join(routed[10:13])) for word in job)
        of_journal = pipeline(*job, "--data", data)
        assert of_journal.exit_code == 0, of_journal.output
        assert of_journal.stdout
        of_both = pipeline(*job, "--data", data, "--parquet", target)
        assert of_both.stdout == of_journal.stdout


class TestOutput:
    def rows(self, count: int) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        return pa.table(
            {
                "id": list(range(count)),
                "names": [["a", "b"]] * count,
                "map": pa.array([{"k": "v"}] * count, pa.map_(pa.string(), pa.string())),
                "body": [b"x"] * count,
            }
        )

    def test_a_table_is_cut_and_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = self.rows(TABLE_ROWS + 5)
        assert write(Output("table"), rows.schema, rows.to_batches()) == TABLE_ROWS + 5
        told = capsys.readouterr()
        assert len(told.out.splitlines()) == TABLE_ROWS + 1
        assert "5 more rows are not shown" in told.err

    def test_what_csv_does_not_have_is_json(self, tmp_path: Path) -> None:
        rows = self.rows(1)
        write_file(tmp_path / "rows.csv", rows.schema, rows.to_batches(), "csv")
        (row,) = rows_of(tmp_path / "rows.csv")
        assert json.loads(row["names"]) == ["a", "b"]
        assert json.loads(row["map"]) == {"k": "v"}

    def test_json_is_one_object_a_line(self, tmp_path: Path) -> None:
        rows = self.rows(3)
        write_file(tmp_path / "rows.json", rows.schema, rows.to_batches(), "json")
        lines = (tmp_path / "rows.json").read_text("utf-8").splitlines()
        assert [json.loads(line)["id"] for line in lines] == [0, 1, 2]

    def test_a_file_appears_whole_or_not_at_all(self, tmp_path: Path) -> None:
        rows = self.rows(3)

        def broken() -> Any:
            yield from rows.to_batches()
            raise OSError("the disk is full")

        path = tmp_path / "rows.csv"
        path.write_text("as before", "utf-8")
        with pytest.raises(OSError, match="the disk is full"):
            write_file(path, rows.schema, broken(), "csv")
        assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]
        assert path.read_text("utf-8") == "as before"
