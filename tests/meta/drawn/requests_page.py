"""The tables of requests in docs/cli.md, and of their permissions in docs/security.md, drawn from
`server.administration.admin_requests`.

`make map` (python -m tests.meta.drawn.requests_page) draws them again; a test compares.
"""

import inspect
from collections.abc import Callable

import msgspec

from daybook.server.administration.admin_requests import REQUESTS
from daybook.server.administration.request_rows import Filtered, Request
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


def draw_rights() -> str:
    """Return the table of permissions: the commands that need the same at the same place."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in REQUESTS.values():
        where = "all addresses (`#`)" if row.place is Request.place else _returned(row.place)
        if issubclass(row, Filtered):
            where = "at some address: only what the user may see is listed"
        other = "" if row.needed is Request.needed else _returned(row.needed)
        found.setdefault((where, other), []).extend(f"`{way.command}`" for way in row.ways)
    rows = [(", ".join(commands), where, other) for (where, other), commands in found.items()]
    header = ("command", "where", "allowed by `manage` there, or by")
    return "\n".join(["", *table(header, rows), ""])


def _returned(method: Callable[..., object]) -> str:
    """Return a method's own description of its result."""
    said = " ".join((inspect.getdoc(method) or "").split())
    return said.removeprefix("Return ").removesuffix(".")


PART = Drawn(tree.ROOT / "docs" / "cli.md", "requests", draw)
RIGHTS = Drawn(tree.ROOT / "docs" / "security.md", "rights", draw_rights)

if __name__ == "__main__":
    PART.redraw()
    RIGHTS.redraw()
