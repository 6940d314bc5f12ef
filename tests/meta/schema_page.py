"""The table of columns in docs/pipeline.md, drawn from `pipeline.schema`.

`make map` (python -m tests.meta.schema_page) draws it anew; a test compares.
"""

from daybook.pipeline.schema import EVENT_COLUMNS, spark_ddl
from tests.meta import drawn_part, tree
from tests.meta.events_page import table

PAGE = tree.ROOT / "docs" / "pipeline.md"
BEGIN = "<!-- columns: drawn by make map -->"
END = "<!-- end of columns -->"


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            f"`{column.name}`",
            f"`{spark_ddl([column.name]).partition(' ')[2]}`",
            "only when named" if column.raw else "",
            column.doc,
        )
        for column in EVENT_COLUMNS
    ]
    return "\n".join(["", *table(("column", "type", "", "what it holds"), rows), ""])


def part(page: str) -> str:
    """Return what a page has between the marks."""
    return drawn_part.part(page, BEGIN, END)


def main() -> None:
    """Draw the part anew."""
    drawn_part.redraw(PAGE, BEGIN, END, draw())


if __name__ == "__main__":
    main()
