"""The page on attacks: each row has a number of its own, and names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "hardening.md"
ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?(?:::(\w+))?`")


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if ROW.match(line)]
    bare = [row for row in rows if not TEST.search(row) or row.count("|") != 5]
    assert not bare


def test_the_tests_that_are_named_exist() -> None:
    for path, *names in TEST.findall(PAGE.read_text("utf-8")):
        source = (ROOT / path).read_text("utf-8")
        for name in filter(None, names):
            assert re.search(rf"\b(?:def|class) {name}\b", source), f"{path} has no {name}"
