"""The table of shares in docs/configuration.md, drawn from `server.users.pools`.

`make map` (python -m tests.meta.pools_page) draws it anew; a test compares.
"""

from daybook.engine.limits.pools import Limit
from daybook.server.configuration.options import BROKER
from daybook.server.users.pools import POOLS
from tests.meta import drawn_part, tree
from tests.meta.events_page import table

PAGE = tree.ROOT / "docs" / "configuration.md"
BEGIN = "<!-- pools: drawn by make map -->"
END = "<!-- end of pools -->"
KEYS = {option.name for option in BROKER}


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            each.name,
            _told(each.of_all),
            _told(each.of_user),
            _told(each.of_connection),
            each.beyond,
            f"`{each.charged}`",
        )
        for each in POOLS
    ]
    titles = ("pool", "all", "a user", "a connection", "beyond it", "checked in")
    return "\n".join(["", *table(titles, rows), ""])


def _told(limit: Limit) -> str:
    if isinstance(limit, int):
        return f"{limit:,}"
    return f"`{limit}`" if limit in KEYS else limit


def part(page: str) -> str:
    """Return what a page has between the marks."""
    return drawn_part.part(page, BEGIN, END)


def main() -> None:
    """Draw the part anew."""
    drawn_part.redraw(PAGE, BEGIN, END, draw())


if __name__ == "__main__":
    main()
