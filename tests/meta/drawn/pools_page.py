"""The table of shares in docs/configuration.md, drawn from `server.users.pools`.

`make map` (python -m tests.meta.drawn.pools_page) redraws it; a test compares.
"""

from daybook.engine.limits.pools import Limit
from daybook.server.config_keys.options import BROKER
from daybook.server.users.pools import POOLS
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table

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


PART = Drawn(tree.ROOT / "docs" / "configuration.md", "pools", draw)

if __name__ == "__main__":
    PART.redraw()
