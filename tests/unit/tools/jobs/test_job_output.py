"""Files that jobs and questions write: whole or not at all, and errors name them as users did."""

import errno
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

from daybook.tools.jobs.output import write_file, written_whole  # noqa: E402
from daybook.tools.journal_cli import cli  # noqa: E402
from daybook.tools.pipeline import pipeline_group  # noqa: E402
from daybook.tools.terminal.failures import describe  # noqa: E402

ROWS = pa.schema([("number", pa.int64())])


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_file_that_cannot_be_made_is_named_as_the_user_did(tmp_path: Path, form: str) -> None:
    path = tmp_path / "nowhere" / f"rows.{form}"
    with pytest.raises(OSError, match="No such file") as caught:
        write_file(path, ROWS, [pa.RecordBatch.from_pylist([{"number": 1}], ROWS)], form)
    assert describe(caught.value) == f"{path}: No such file or directory"


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_an_answer_that_cannot_be_written_names_its_file(
    history: Any, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "nowhere" / f"rows.{form}"
    arguments = ["sql", str(history.data), "SELECT 1 AS one", "--output", str(path)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    assert done.output == f"Error: {path}: No such file or directory\n"


def test_errors_about_other_files_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"

    def break_off() -> None:
        with written_whole(path) as partial:
            partial.write_bytes(b"half")
            raise OSError(errno.EIO, "it broke", "elsewhere")

    with pytest.raises(OSError, match="elsewhere") as caught:
        break_off()
    assert caught.value.filename == "elsewhere"
    assert list(tmp_path.iterdir()) == []


def test_archiving_offers_no_parquet_to_read() -> None:
    options = {option for each in pipeline_group.commands["archive"].params for option in each.opts}
    assert "--to" in options
    assert "--parquet" not in options
