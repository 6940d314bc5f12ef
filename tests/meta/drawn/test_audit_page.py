"""docs/audit.md says which rules an audit asks; each names where it is written."""

import re

import pytest

from daybook.history.audit.rules import RULES
from tests.meta import tree
from tests.meta.drawn import audit_page
from tests.meta.drawn.drawn_part import Drawn


@pytest.mark.parametrize("part", audit_page.PARTS, ids=lambda part: part.name)
def test_the_page_is_what_the_code_says(part: Drawn) -> None:
    assert part.is_current(), "run `make map`"


def test_each_rule_has_its_source() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    decisions = {path.name[:4] for path in (tree.ROOT / "docs" / "adr").glob("*.md")}
    for rule in RULES:
        if found := re.fullmatch(r"ADR (\d+)", rule.source):
            assert f"{int(found[1]):04d}" in decisions
        else:
            assert re.fullmatch(r"DESIGN \d+", rule.source)
