"""The table of headers that mean the same in docs/stomp.md, drawn from
`protocols.stomp.wire.synonyms`.

`make map` (python -m tests.meta.drawn.synonyms_page) redraws it; a test compares.
"""

from daybook.protocols.stomp.wire.synonyms import ALL
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            each.what,
            each.frames,
            ", ".join(f"`{name}`" for name in each.names),
            each.rule.value + (f", because otherwise {each.risk}" if each.risk else ""),
        )
        for each in ALL
    ]
    titles = ("what", "on", "headers, the first one first", "if there are several")
    return "\n".join(["", *table(titles, rows), ""])


PART = Drawn(tree.ROOT / "docs" / "stomp.md", "synonyms", draw)

if __name__ == "__main__":
    PART.redraw()
