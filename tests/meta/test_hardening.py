"""The page on attacks: rows are numbered without a gap, and name tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "hardening.md"
ROW = re.compile(r"\| (\d+) \|")
HEADING = ("| no. |", "|---")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?(?:::(\w+))?`")


def test_every_row_has_its_number_and_names_a_test() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and not line.startswith(HEADING)]
    numbers = [int(found[1]) for row in rows if (found := ROW.match(row))]
    assert len(numbers) == len(rows)
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, max(numbers) + 1))
    assert not [row for row in rows if not TEST.search(row) or row.count("|") != 5]


def test_the_tests_that_are_named_exist() -> None:
    for path, *names in TEST.findall(PAGE.read_text("utf-8")):
        source = (ROOT / path).read_text("utf-8")
        for name in filter(None, names):
            assert re.search(rf"\b(?:def|class) {name}\b", source), f"{path} has no {name}"
