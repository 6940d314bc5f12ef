"""The files of a data directory have their names from one module, and the check finds others."""

from pathlib import Path

import pytest

from tests.meta import tree
from tests.meta.code.file_names import NAMES, file_names

ALLOWED = {"journal/data_directory.py"}


def test_names_of_files_are_spelled_once() -> None:
    found = [
        finding
        for path in tree.sources(tree.ROOT, *tree.rooms(), "bench")
        if str(path.relative_to(tree.ROOT)) not in ALLOWED
        for finding in file_names(path)
    ]
    assert found == []


def test_the_engine_needs_none_of_them() -> None:
    for path in tree.sources(tree.ROOT, "engine", "protocols"):
        assert "data_directory" not in path.read_text("utf-8")


def test_the_names_are_known() -> None:
    assert {"lock", "journal", "index", "base", "pins", "data-id", "users.toml"} <= NAMES


@pytest.mark.parametrize(
    "source",
    [
        "x = data / 'journal'",
        "x = 'journal' / name",
        "x = Path(data, 'index')",
        "x = data.joinpath('base')",
        "x = [data / each for each in ('journal', 'base')]",
        "x = {'lock', 'index'}",
        "x = 'users.toml'",
        "x = open(f'{data}/x', 'data.mdb')",
        "JOURNAL: Final = 'journal'",
    ],
)
def test_a_spelled_name_is_found(tmp_path: Path, source: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source + "\n")
    assert list(file_names(path))


@pytest.mark.parametrize(
    "source",
    [
        "x = read.format('journal')",
        "x = {'journal': 1}",
        "x = ('queue', 'journal', 'index')",
        "x = b'base'",
    ],
)
def test_a_plain_word_is_no_name(tmp_path: Path, source: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(source + "\n")
    assert list(file_names(path)) == []
