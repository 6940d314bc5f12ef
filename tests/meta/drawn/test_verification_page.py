"""docs/verification.md lists all mistakes that tests plant, and every test that it names exists."""

import pytest

from tests.meta import tree
from tests.meta.drawn.verification_page import (
    LEAST,
    LISTS,
    PARTS,
    ROWS,
    SECTIONS,
    functions_of,
    lists_of,
)


@pytest.mark.parametrize("check", SECTIONS)
def test_the_table_is_what_the_tests_plant(check: str) -> None:
    assert PARTS[check].is_current(), "run `make map`"


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
    assert found <= LISTS, f"not in tests.meta.drawn.verification_page: {found - LISTS}"
