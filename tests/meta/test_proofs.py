"""Every point of docs/compatibility.md names the tests that prove it, and these exist.

The names are in `tests/interop/proofs.toml`, so that the page is for its readers alone.
"""

import ast
import re
import tomllib
from functools import cache
from typing import Final

import pytest

from tests.meta import tree

PAGE: Final = tree.ROOT / "docs" / "compatibility.md"
INTEROP: Final = tree.ROOT / "tests" / "interop"
NOT_APPLICABLE: Final = "not applicable"


def points() -> dict[tuple[str, str], str]:
    """The verdict on each point of the page, by section and point."""
    found: dict[tuple[str, str], str] = {}
    section = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] != "point" and not cells[0].startswith("---"):
            key = section, cells[0].replace("`", "")
            assert key not in found, f"{key} is there twice"
            found[key] = cells[2]
    return found


def proofs() -> dict[tuple[str, str], list[str] | str]:
    """The tests of each point, by section and point."""
    named = tomllib.loads((INTEROP / "proofs.toml").read_text("utf-8"))
    return {(section, point): tests for section in named for point, tests in named[section].items()}


@cache
def names_in(module: str) -> frozenset[str]:
    path = INTEROP / f"test_{module}.py"
    if not path.exists():
        return frozenset()
    body = ast.parse(path.read_text("utf-8")).body
    names = [each.name for each in body if isinstance(each, ast.FunctionDef)]
    return frozenset(name.removeprefix("test_") for name in names if name.startswith("test_"))


def test_every_point_names_its_tests() -> None:
    unproved = sorted(points().keys() - proofs().keys())
    assert not unproved, f"tests/interop/proofs.toml lacks {unproved}"
    unknown = sorted(proofs().keys() - points().keys())
    assert not unknown, f"docs/compatibility.md has no {unknown}"


@pytest.mark.parametrize(("key", "tests"), proofs().items())
def test_the_tests_exist(key: tuple[str, str], tests: list[str] | str) -> None:
    if isinstance(tests, str):
        assert tests == NOT_APPLICABLE
        assert points().get(key, "").startswith(NOT_APPLICABLE), key
        return
    assert tests, key
    for each in tests:
        assert re.fullmatch(r"\w+::\w+", each), each
        module, _, name = each.partition("::")
        assert name in names_in(module), each
