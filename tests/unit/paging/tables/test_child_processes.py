"""Processes of our own: their imports, and where these come from."""

import os
import subprocess
from pathlib import Path

import pytest

import daybook
from daybook.paging.tables.child_processes import child_command

TRAP = "raise SystemExit('a module of the working directory was run')\n"
ROOT = Path(__file__).resolve().parents[4]


def run(*words: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a child in a folder."""
    return subprocess.run(
        child_command(*words), cwd=folder, env=os.environ | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["paging", "journal", "select", "json", "lmdb", "msgspec"])
def test_nothing_is_imported_from_the_working_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(TRAP)
    (tmp_path / f"{name}.py").write_text(TRAP)
    done = run("daybook.paging.checks.index_check", str(tmp_path / "none"), folder=tmp_path)
    assert "data.mdb" in done.stderr
    assert "working directory" not in done.stderr


def test_what_the_user_names_is_imported(tmp_path: Path) -> None:
    (tmp_path / "guest_of_the_user.py").write_text("def main(words): print(words); return 5\n")
    done = run("guest_of_the_user", "a b", "c", folder=ROOT, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (5, "['a b', 'c']\n")


def test_the_rooms_come_behind_the_standard_library_and_before_what_is_installed(
    tmp_path: Path,
) -> None:
    (tmp_path / "paths.py").write_text("import sys\ndef main(words): print(*sys.path, sep='\\n')\n")
    places = run("paths", folder=tmp_path, PYTHONPATH=str(tmp_path)).stdout.splitlines()
    before = places[: places.index(str(Path(daybook.__file__).parents[1]))]
    assert os.path.dirname(os.__file__) in before  # noqa: PTH120
    assert not any(place.endswith("-packages") for place in before)
