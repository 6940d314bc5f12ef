"""One process at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.paging.indexer.ownership import owning_index

OWN = """
import sys
from pathlib import Path
from daybook.paging.indexer.ownership import owning_index
with owning_index(Path(sys.argv[1]), lambda text: print(text, flush=True)):
    print("mine", flush=True)
    sys.stdin.read()
"""


def run(code: str, *arguments: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=cwd, env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip


def test_the_next_waits_for_the_one_before(tmp_path: Path) -> None:
    with run(OWN, str(tmp_path)) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "mine\n"
        with run(OWN, str(tmp_path)) as second:
            assert second.stdout is not None
            assert f"process {first.pid} still writes the index" in second.stdout.readline()
            first.kill()
            while (line := second.stdout.readline()) != "mine\n":
                assert "still writes the index" in line
            second.kill()
    with owning_index(tmp_path, pytest.fail):
        assert (tmp_path / "index-lock").exists()
