"""docs/verification.md lists all mistakes that tests plant, and every test that it names exists."""

import pytest

from tests.meta import drawn_part, tree
from tests.meta.verification_page import (
    LEAST,
    LISTS,
    PAGE,
    ROWS,
    SECTIONS,
    draw,
    functions_of,
    lists_of,
    marks,
)


@pytest.mark.parametrize("check", SECTIONS)
def test_the_table_is_what_the_tests_plant(check: str) -> None:
    page = PAGE.read_text("utf-8")
    begin, end = marks(check)
    assert page.count(begin) == page.count(end) == 1
    assert drawn_part.part(page, begin, end) == draw(check), "run `make map`"


@pytest.mark.parametrize("check", SECTIONS)
def test_every_check_has_mistakes_and_their_tests_exist(check: str) -> None:
    least = LEAST if check != "soak" else 2
    assert len(ROWS[check]) >= least
    assert len(set(ROWS[check])) == len(ROWS[check])
    for _, test in ROWS[check]:
        module, _, name = test.partition("::")
        assert name in functions_of(module)


def test_every_list_of_mistakes_is_on_the_page() -> None:
    modules = [
        str(path.relative_to(tree.ROOT)) for path in (tree.ROOT / "tests").rglob("test_*.py")
    ]
    # Those of tests/meta are about sources, not about the broker.
    found = set().union(*(lists_of(each) for each in modules if "tests/meta" not in each))
    assert found <= LISTS, f"not in tests.meta.verification_page: {found - LISTS}"
