"""The table of requests in docs/cli.md, drawn from `server.administration.admin_requests`.

`make map` (python -m tests.meta.drawn.requests_page) draws it anew; a test compares.
"""

import msgspec

from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.request_rows import Request
from daybook.tools.administration.request_commands import help_of
from tests.meta import tree
from tests.meta.drawn.drawn_part import Drawn
from tests.meta.drawn.events_page import table


def draw() -> str:
    """Return the part of the page."""
    rows = [
        (
            f"`{name}`",
            ", ".join(_field(field) for field in msgspec.structs.fields(row)),
            ", ".join(f"`{way.command}`" for way in row.ways),
            _first_sentence(row),
        )
        for name, row in REQUESTS.items()
    ]
    return "\n".join(["", *table(("request", "fields", "commands", "what it does"), rows), ""])


def _field(field: msgspec.structs.FieldInfo) -> str:
    return f"`{field.name}`" if field.required else f"[`{field.name}`]"


def _first_sentence(row: type[Request]) -> str:
    return " ".join(help_of(row).partition("\n\n")[0].split())


PART = Drawn(tree.ROOT / "docs" / "cli.md", "requests", draw)

if __name__ == "__main__":
    PART.redraw()
