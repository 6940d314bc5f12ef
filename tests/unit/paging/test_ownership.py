"""One process at a time."""

import os
import subprocess
import sys
from pathlib import Path

from paging.ownership import owning_index
from tests.support.process import wait_for

OWN = """
import sys
from pathlib import Path
from paging.ownership import owning_index
with owning_index(Path(sys.argv[1])):
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
            wait_for(lambda: _waits(second.pid), "the second to wait")
            first.kill()
            assert second.stdout.readline() == "mine\n"
            second.kill()
    with owning_index(tmp_path):
        assert (tmp_path / "index-lock").exists()


def _waits(pid: int) -> bool:
    locks = Path("/proc/locks").read_text("ascii").splitlines()
    return any("->" in line and str(pid) in line.split() for line in locks)
