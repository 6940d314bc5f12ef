"""The table of columns in docs/pipeline.md, drawn from `pipeline.schema`.

`make map` (python -m tests.meta.drawn.schema_page) redraws it; a test compares.
"""

from daybook.pipeline.schema import EVENT_COLUMNS, spark_ddl
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            f"`{column.name}`",
            f"`{spark_ddl([column.name]).partition(' ')[2]}`",
            "only when named" if column.must_be_named else "",
            column.doc,
        )
        for column in EVENT_COLUMNS
    ]
    return "\n".join(["", *table(("column", "type", "", "what it holds"), rows), ""])


PART = Drawn(tree.ROOT / "docs" / "pipeline.md", "columns", draw)

if __name__ == "__main__":
    PART.redraw()
