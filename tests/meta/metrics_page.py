"""The table of metrics in docs/monitoring.md, drawn from `server.monitoring.figures`.

`make map` (python -m tests.meta.metrics_page) draws it anew; a test compares.
"""

from daybook.server.monitoring.figures import FAMILIES
from tests.meta import drawn_part, tree
from tests.meta.events_page import table

PAGE = tree.ROOT / "docs" / "monitoring.md"
BEGIN = "<!-- metrics: drawn by make map -->"
END = "<!-- end of metrics -->"


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            f"`{family.name}`",
            family.kind,
            ", ".join(f"`{label}`" for label in family.labels),
            family.help,
        )
        for family in FAMILIES
    ]
    return "\n".join(["", *table(("metric", "type", "labels", "meaning"), rows), ""])


def part(page: str) -> str:
    """Return what a page has between the marks."""
    return drawn_part.part(page, BEGIN, END)


def main() -> None:
    """Draw the part anew."""
    drawn_part.redraw(PAGE, BEGIN, END, draw())


if __name__ == "__main__":
    main()
