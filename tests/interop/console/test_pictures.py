"""The command that takes the pictures of the documentation: it begins only if it is asked well."""

import sys
from pathlib import Path

import pytest

from tests.meta import tree
from tests.support import nursery

pytestmark = pytest.mark.interop
WORDS = [sys.executable, "-m", "tests.interop.console.pictures"]


def test_help_and_mistakes_take_no_pictures(tmp_path: Path) -> None:
    for words, code, said in (
        (["--help"], 0, "--into DIR"), (["--into", str(tmp_path / "no")], 2, "no directory"),
        (["--wrong"], 2, "unrecognized arguments"),
    ):  # fmt: skip
        done = nursery.run(
            [*WORDS, *words], capture_output=True, text=True, check=False, cwd=tree.ROOT, timeout=30
        )
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
