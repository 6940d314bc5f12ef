"""The table of headers that mean the same in docs/stomp.md, drawn from
`protocols.stomp.wire.synonyms`.

`make map` (python -m tests.meta.synonyms_page) draws it anew; a test compares.
"""

from daybook.protocols.stomp.wire.synonyms import ALL
from tests.meta import drawn_part, tree
from tests.meta.events_page import table

PAGE = tree.ROOT / "docs" / "stomp.md"
BEGIN = "<!-- synonyms: drawn by make map -->"
END = "<!-- end of synonyms -->"


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


def part(page: str) -> str:
    """Return what a page has between the marks."""
    return drawn_part.part(page, BEGIN, END)


def main() -> None:
    """Draw the part anew."""
    drawn_part.redraw(PAGE, BEGIN, END, draw())


if __name__ == "__main__":
    main()
