"""`journal sql`: its arguments, the answers in each format, the exit codes, and the shell."""

import csv
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

from daybook.journal.archive.archive import Archive  # noqa: E402
from daybook.journal.blocks.format import segment_first_lsn  # noqa: E402
from daybook.journal.disk import RealDisk  # noqa: E402
from daybook.journal.segments.segment import segment_names  # noqa: E402
from daybook.pipeline.sql.writing import as_text, plain  # noqa: E402
from daybook.tools.journal_cli import cli  # noqa: E402
from daybook.tools.sql import command as sql_module  # noqa: E402

KINDS = "SELECT kind, count(*) AS n FROM events WHERE kind IN ('Routed', 'Expired') GROUP BY kind"
SECONDS = 20
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def ask(*words: object, **options: Any) -> Result:
    return CliRunner().invoke(cli, ["sql", *map(str, words)], **options)


def test_a_question_is_answered_as_a_table(history: Any) -> None:
    result = ask(history.data, "SELECT queue, messages FROM queues WHERE queue = 'bulk'")
    assert result.exit_code == 0, result.output
    assert result.stdout == "queue  messages\nbulk          0\n"


def test_numbers_can_be_copied_into_a_question(history: Any) -> None:
    result = ask(history.data, "SELECT 1234567 AS lsn, 1.25 AS share, true AS yes, NULL AS none")
    assert result.stdout.split() == ["lsn", "share", "yes", "none", "1234567", "1.25", "yes", "-"]


def test_json_has_times_maps_and_bodies_as_text(history: Any) -> None:
    result = ask(
        history.data, f"SELECT * FROM events WHERE lsn = {history['acknowledged']}",
        "--format", "jsonl",
    )  # fmt: skip
    event = json.loads(result.stdout)
    assert event["kind"] == "Routed"
    assert event["body"] == "one"
    assert event["headers"] == {"destination": "/queue/orders", "n": "one"}
    assert re.fullmatch(r"2025-11-20T12:00:\d\d\.000000Z", event["time"])
    assert event["queues"] == ["orders"]
    array = ask(history.data, "SELECT lsn FROM events LIMIT 2", "--format", "json").stdout
    assert json.loads(array) == [{"lsn": 1}, {"lsn": 2}]
    assert json.loads(ask(history.data, "FROM events LIMIT 0", "--format", "json").stdout) == []


def test_csv_has_what_has_parts_as_json(history: Any) -> None:
    result = ask(
        history.data,
        "SELECT message, queues FROM messages WHERE len(queues) > 1",
        "--format",
        "csv",
    )
    assert list(csv.reader(result.stdout.splitlines())) == [
        ["message", "queues"],
        [str(history["several"]), '["audit","ledger"]'],
    ]


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_a_file_is_written_in_the_format_of_its_name(
    history: Any, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"answer.{suffix}"
    result = ask(history.data, KINDS + " ORDER BY kind", "--output", file)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    if suffix == "parquet":
        rows = pq.read_table(file).to_pylist()
    elif suffix == "csv":
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
    elif suffix == "json":
        rows = json.loads(file.read_text())
    else:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["Expired", "Routed"]
    assert int(rows[0]["n"]) == 1


def test_a_file_that_could_not_be_finished_is_as_it_was(history: Any, tmp_path: Path) -> None:
    file = tmp_path / "answer.csv"
    file.write_text("before")
    result = ask(history.data, "SELECT CAST(kind AS INT) FROM events", "--output", file)
    assert result.exit_code == 2
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_long_table_says_that_it_is_cut(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daybook.tools.sql.output.TABLE_ROWS", 3)
    result = ask(history.data, "SELECT lsn FROM events")
    assert result.stdout.split() == ["lsn", "1", "2", "3"]
    assert "only the first 3 rows are shown" in result.stderr
    limited = ask(history.data, "SELECT lsn FROM events", "--limit", 4)
    assert limited.stdout.split() == ["lsn", "1", "2", "3", "4"]
    assert limited.stderr == ""


def test_no_rows_are_said(history: Any) -> None:
    result = ask(history.data, "SELECT lsn FROM events WHERE queue = 'order'")
    assert result.exit_code == 0
    assert "note: history has no queue 'order'; did you mean 'orders'?" in result.stderr
    assert "no rows" in result.stderr


def test_questions_come_from_arguments_files_and_standard_input(
    history: Any, tmp_path: Path
) -> None:
    file = tmp_path / "question.sql"
    file.write_text("SELECT 7 AS seven;\n")
    expected = "seven\n    7\n"
    assert ask(history.data, "--file", file).stdout == expected
    assert ask(history.data, input="SELECT 7 AS seven").stdout == expected
    assert ask("SELECT 7 AS seven", "--data", history.data).stdout == expected
    assert ask("--data", history.data, input=" ").exit_code == 2


def test_a_question_may_be_longer_than_the_name_of_a_file(history: Any) -> None:
    question = "SELECT " + " + ".join(["1"] * 200) + " AS sum"
    result = ask(question, "--data", history.data)
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["sum", "200"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["SELECT kin FROM events"], '"kind"'),
        (["SELEC"], "syntax error"),
        (["DELETE FROM events"], "history can be read, not changed"),
        (["COPY events TO '/tmp/x'"], "--output"),
        (["SELECT * FROM read_text('/etc/passwd')"], "queries can read only history"),
        (["SELECT", "1", "2"], "into quotes"),
        (["SELECT 1", "--format", "parquet"], "not for standard output; name a file with --output"),
        (["/nowhere/at/all"], "/nowhere/at/all: there is no such directory"),
        (["SELECT 1", "--output", "answer.txt"], "does not say which format"),
        (["SELECT 1", "--output", "a.csv", "--format", "table"], "for people"),
        (["SELECT 1", "--file", "a.sql"], "not both"),
        (["SELECT 1", "--memory", "1"], "a size from"),
    ],
)
def test_bad_use_is_a_sentence(history: Any, words: list[str], said: str) -> None:
    result = ask("--data", history.data, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("question", ["SELECT count(*) FROM events", "SELECT 1"])
@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_directory_without_a_journal_is_a_sentence(
    tmp_path: Path, name: str, question: str
) -> None:
    result = ask(tmp_path / name, question)
    assert result.exit_code == 1
    assert "not a data directory" in result.stderr


COUNT = "SELECT count(*) AS n FROM events"


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_an_archive_without_segments_is_a_sentence(history: Any, tmp_path: Path, name: str) -> None:
    for words in (["--data", history.data], []):
        result = ask(COUNT, "--archive", tmp_path / name, *words)
        assert result.exit_code == 1
        assert str(tmp_path / name) in result.stderr
        assert result.stdout == ""


def test_an_archive_that_nothing_went_to_yet_is_not_missed(history: Any) -> None:
    whole = ask(history.data, COUNT)
    assert ask(history.data, COUNT, "--with-archive").output == whole.output


def test_an_archive_can_be_asked_alone(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(history.data / "journal")
    first, second = segment_names(disk)[:2]
    archive = Archive(str(tmp_path / "archive"))
    archive.put(disk, first, now=1)
    monkeypatch.chdir(tmp_path)
    result = ask(COUNT, "--archive", tmp_path / "archive")
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["n", str((segment_first_lsn(second) or 0) - 1)]
    joined = ask(COUNT, "--archive", tmp_path / "archive", "--data", history.data)
    assert joined.output == ask(history.data, COUNT).output


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ("1 year 2 months 3 days 04:05:06.5", "P1Y2M3DT4H5M6.5S"),
        ("-90 minutes", "PT-1H-30M"),
        ("-14 months", "P-1Y-2M"),
        ("10 days", "P10D"),
        ("20 minutes", "PT20M"),
        ("0 seconds", "PT0S"),
        ("30 hours 1 microsecond", "PT30H0.000001S"),
    ],
)
def test_an_interval_is_a_duration(history: Any, interval: str, text: str) -> None:
    question = f"SELECT INTERVAL '{interval}' AS span"
    for form, expected in (("jsonl", f'{{"span":"{text}"}}'), ("csv", f"span\n{text}")):
        assert ask(history.data, question, "--format", form).stdout == expected + "\n"


def test_a_damaged_block_is_named(history: Any, tmp_path: Path) -> None:
    for file in (history.data / "journal").iterdir():
        (tmp_path / "journal").mkdir(exist_ok=True)
        (tmp_path / "journal" / file.name).write_bytes(file.read_bytes())
    segment = sorted((tmp_path / "journal").glob("*.seg"))[0]
    damaged = bytearray(segment.read_bytes())
    damaged[4096 + 200] ^= 1
    segment.write_bytes(damaged)
    result = ask(tmp_path, "SELECT sum(message) FROM events")
    assert result.exit_code == 1
    assert segment.name in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_package_is_a_sentence(history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "daybook.tools.sql.running", None)
    monkeypatch.setattr(sql_module, "needs_extra", lambda error: click.ClickException("install it"))
    result = ask(history.data, "SELECT 1")
    assert result.exit_code == 1
    assert "install it" in result.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"text", "text"),
        (b"\xff\x00", "\\xff00"),
        (float("inf"), "inf"),
        ([(b"a", None)], {"a": None}),
    ],
)
def test_values_as_json_has_them(value: Any, text: Any) -> None:
    assert plain(value) == text
    assert as_text(b"\xc3\xbc") == "ü"


class Terminal:
    """A terminal with `journal sql` on it."""

    def __init__(self, data: Path, state: Path, *words: str) -> None:
        environment = dict(os.environ, XDG_STATE_HOME=str(state), TERM="xterm", COLUMNS="120")
        environment["PROMPT_TOOLKIT_NO_CPR"] = "1"
        self.pid, self.file = pty.fork()
        if not self.pid:
            command = [sys.executable, "-m", "daybook.tools.journal_cli", "sql", str(data), *words]
            os.execve(sys.executable, command, environment)
        self.text = ""
        self._seen = 0

    def wait_for(self, text: str) -> None:
        """Read until a text is there, behind the last one waited for."""
        try:
            heard = self.heard(text, SECONDS)
        except OSError:
            heard = False
        assert heard, f"{text!r} did not come: {self.text!r}"

    def heard(self, text: str, within: float) -> bool:
        """Whether that text comes in so many seconds."""
        deadline = time.monotonic() + within
        while (found := self.text.find(text, self._seen)) < 0:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.file], [], [], left)[0]:
                piece = self._read()
                self.text += ESCAPES.sub("", piece).replace("\r", "")
        self._seen = found + len(text)
        return True

    def _read(self) -> str:
        try:
            return os.read(self.file, 1 << 16).decode(errors="replace")
        except OSError as error:
            raise OSError(f"the shell has ended: {self.text!r}") from error

    def type(self, text: str, then: str) -> None:
        os.write(self.file, text.encode())
        self.wait_for(then)

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        with suppress(OSError):
            self.heard("what it does not say", SECONDS)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = 0
        return code

    def close(self) -> None:
        """Leave nothing running."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)


@pytest.fixture
def terminal(history: Any, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(history.data, tmp_path)
    try:
        made.wait_for("journal>")
        yield made
    finally:
        made.close()


FOR_EVER = "SELECT count(*) FROM range(100000000) a(x), range(100000) b(y) WHERE x * y % 7 = 3;"


def test_the_shell(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type(".tables\r", "milestones")
    terminal.type(".schema queues\r", "routing_type")
    terminal.type("SELECT 40 + 2 AS n\r", "...>")
    terminal.type("FROM events\rLIMIT 1;\r", "42")
    terminal.type("SELECT kin FROM events;\r", "Candidate bindings")
    terminal.type(".nothing\r", "there is no command .nothing")
    terminal.type("SELECT 'milesto' || mileston\t", "milestones")
    terminal.type("\x03", "journal>")
    terminal.type(f".output {tmp_path}/answer.csv\r", "answers go to")
    terminal.type("SELECT 1 AS one;\r", "journal>")
    terminal.type(".output\r", "journal>")
    terminal.type(".quit\r", ".quit")
    assert terminal.end() == 0
    assert (tmp_path / "answer.csv").read_text() == "one\n1\n"
    kept = (tmp_path / "daybook" / "sql-history").read_text()
    assert "+SELECT 40 + 2 AS n" in kept


def test_ctrl_c_ends_the_question_and_not_the_shell(terminal: Terminal) -> None:
    terminal.type(FOR_EVER + "\r", "= 3;")
    # Between the prompt and the question, Ctrl-C would drop the question without a word.
    wait_until_asked(terminal.pid)
    terminal.type("\x03", "ended")
    terminal.wait_for("journal>")
    terminal.type("SELECT 40 + 2 AS n;\r", "42")
    terminal.wait_for("journal>")
    os.write(terminal.file, b"\x04")
    assert terminal.end() == 0


def test_ctrl_c_ends_a_command_in_silence(history: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "daybook.tools.journal_cli", "sql", str(history.data), FOR_EVER],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until_asked(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (130, "", "")


def wait_until_asked(pid: int) -> None:
    """Wait until DuckDB works on the question: it has threads then that take time."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        spent = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        if threads > 2 and int(spent) > 0 and _is_busy(pid):
            return
        time.sleep(0.05)
    raise AssertionError("the question was never asked")


def _is_busy(pid: int) -> bool:
    """Whether a thread that is not the first one has worked for some time."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid) and int((task / "schedstat").read_text().split()[0]) > 5e8:
            return True
    return False


def test_a_reader_that_goes_away_ends_it_in_silence(history: Any) -> None:
    command = f"{sys.executable} -m daybook.tools.journal_cli sql {history.data} "
    many = "'SELECT a.* FROM events a, events b, events c' --format csv"
    done = subprocess.run(
        ["/bin/bash", "-c", f"{command}{many} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[0].startswith("lsn,time,kind")
    assert done.stdout.splitlines()[1] == "0"
    assert done.stderr == ""


def test_where_history_begins_is_said(history: Any, tmp_path: Path) -> None:
    whole = ask(history.data, KINDS)
    assert "history begins" not in whole.stderr
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    first, second, *_ = segment_names(RealDisk(data / "journal"))
    (data / "journal" / first).unlink()
    result = ask(data, KINDS)
    lsn = segment_first_lsn(second)
    assert f"note: history begins with event {lsn} here" in result.stderr, result.output
    assert "history begins" not in ask(data, "SELECT 1").stderr
