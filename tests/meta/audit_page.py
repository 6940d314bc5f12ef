"""The table of rules in docs/audit.md, drawn from `history.audit.rules`.

`make map` (python -m tests.meta.audit_page) draws it anew; a test compares.
"""

from daybook.history.audit.rules import RULES
from tests.meta import drawn_part, tree
from tests.meta.events_page import table

PAGE = tree.ROOT / "docs" / "audit.md"
BEGIN = "<!-- rules: drawn by make map -->"
END = "<!-- end of rules -->"


def draw() -> str:
    """Return the part of the page."""
    rows = [(f"`{rule.name}`", rule.says, rule.source) for rule in RULES]
    return "\n".join(["", *table(("rule", "what it says", "see"), rows), ""])


def part(page: str) -> str:
    """Return what a page has between the marks."""
    return drawn_part.part(page, BEGIN, END)


def main() -> None:
    """Draw the part anew."""
    drawn_part.redraw(PAGE, BEGIN, END, draw())


if __name__ == "__main__":
    main()
