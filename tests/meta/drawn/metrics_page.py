"""The table of metrics in docs/monitoring.md, drawn from `server.monitoring.figures`.

`make map` (python -m tests.meta.drawn.metrics_page) redraws it; a test compares.
"""

from daybook.server.monitoring.figures import FAMILIES
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table


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


PART = Drawn(tree.ROOT / "docs" / "monitoring.md", "metrics", draw)

if __name__ == "__main__":
    PART.redraw()
