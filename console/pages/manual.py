"""The documentation of this release, a page of it as text: problems lead to its sections, and forms
to its pages.

The files are those that were installed with the console, or those of its checkout.
"""

import asyncio
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from starlette.responses import Response

from daybook.console.visits import NOT_FOUND, Page, Refused, Visit, without_broker
from daybook.server.monitoring.health import anchor_of

FOLDERS: Final = (
    Path(__file__).resolve().parents[2] / "docs",
    Path(sys.prefix) / "share" / "doc" / "daybook" / "docs",
)
"""Where the documentation is in a checkout, and in an installation."""
_HEADING: Final = re.compile(r"(#{1,6})\s+(.+?)\s*")
_FENCES: Final = ("```", "~~~")


class Section(NamedTuple):
    """A part of a page: its heading with the level of that, both empty before the first one, and
    the lines below."""

    level: int
    heading: str
    lines: list[str]

    @property
    def anchor(self) -> str:
        """The anchor of its heading."""
        return anchor_of(self.heading)

    @property
    def text(self) -> str:
        """Its lines, without the empty ones around them."""
        return "\n".join(self.lines).strip("\n")


@cache
def documents() -> dict[str, Path]:
    """Return the pages that are here, by their names; an installation may have none."""
    folder = next((each for each in FOLDERS if each.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in folder.glob("*.md")}


def sections_of(text: str) -> list[Section]:
    """Return the sections of a page in Markdown, in their order."""
    sections, is_code = [Section(0, "", [])], False
    for line in text.splitlines():
        is_code ^= line.startswith(_FENCES)
        found = None if is_code else _HEADING.fullmatch(line)
        if found is None:
            sections[-1].lines.append(line)
        else:
            sections.append(Section(len(found[1]), found[2], []))
    return sections if sections[0].text else sections[1:]


@without_broker
async def manual(visit: Visit) -> Response:
    """Show a page of the documentation."""
    name = visit.request.path_params["page"]
    if name not in documents():
        raise Refused(NOT_FOUND, f"there is no page '{name[:40]}' of the documentation here")
    text = await asyncio.to_thread(documents()[name].read_text, "utf-8")
    return visit.page(
        "manual.html", title=f"{name}.md", sections=sections_of(text), is_of_moment=False
    )


@without_broker
async def manuals(visit: Visit) -> Response:
    """List the pages of the documentation, with their titles."""
    pages = await asyncio.to_thread(_titles)
    return visit.page("manuals.html", title="Documentation", manuals=pages, is_of_moment=False)


@cache
def _titles() -> list[tuple[str, str]]:
    found = {name: sections_of(path.read_text("utf-8")) for name, path in documents().items()}
    return [
        (name, next((each.heading for each in sections if each.heading), name))
        for name, sections in sorted(found.items())
    ]


PAGES: Final[tuple[tuple[str, Page, list[str]], ...]] = (
    ("/docs", manuals, ["GET"]), ("/docs/{page}", manual, ["GET"]),
)  # fmt: skip
