"""docs/audit.md says which rules an audit asks; each names where it is written."""

import re

from daybook.history.audit.rules import RULES
from tests.meta import audit_page, tree


def test_the_page_is_what_the_rules_are() -> None:
    page = audit_page.PAGE.read_text("utf-8")
    assert page.count(audit_page.BEGIN) == page.count(audit_page.END) == 1
    assert audit_page.part(page) == audit_page.draw(), "run `make map`"


def test_each_rule_has_its_source() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    decisions = {path.name[:4] for path in (tree.ROOT / "docs" / "adr").glob("*.md")}
    for rule in RULES:
        if found := re.fullmatch(r"ADR (\d+)", rule.source):
            assert f"{int(found[1]):04d}" in decisions
        else:
            assert re.fullmatch(r"DESIGN \d+", rule.source)


def test_the_page_says_of_every_field_what_shows_it() -> None:
    page = audit_page.PAGE.read_text("utf-8")
    drawn = audit_page.part(page, audit_page.BEGIN_CELLS, audit_page.END_CELLS)
    assert drawn == audit_page.draw_cells(), "run `make map`"


def test_the_page_says_what_older_brokers_did() -> None:
    page = audit_page.PAGE.read_text("utf-8")
    drawn = audit_page.part(page, audit_page.BEGIN_CHANGES, audit_page.END_CHANGES)
    assert drawn == audit_page.draw_changes(), "run `make map`"
