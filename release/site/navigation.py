"""The sections of the site: the headings below "Documentation" in README.md, with their pages.

README.md is the only list of pages. A section has a title, a sentence, and a list item for each
group of pages, whose links name them.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

HEADING: Final = "\n## Documentation\n"
_SECTION: Final = re.compile(
    r"^### ([^\n]+)\n+([^\n]+)\n\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md|docs/adr/)\)")


class Entry(NamedTuple):
    """A page and its title in the navigation; the path is relative to the root of the sources."""

    title: str
    path: str


class Section(NamedTuple):
    """A part of the documentation."""

    title: str
    sentence: str
    text: str
    entries: list[Entry]


def parts(readme: str) -> tuple[str, str, str]:
    """Return README.md before, in and behind its part about the documentation."""
    before, heading, rest = readme.partition(HEADING)
    assert heading, "README.md has no heading 'Documentation'"
    documentation, following, after = rest.partition("\n## ")
    return before, documentation, following + after


def sections(readme: str) -> list[Section]:
    """Return the sections that README.md lists."""
    return [
        Section(title, sentence, text, [Entry(*link) for link in _LINK.findall(text)])
        for title, sentence, text in _SECTION.findall(parts(readme)[1])
    ]


def read(root: Path) -> list[Section]:
    """Return the sections of the documentation of a source tree."""
    return sections((root / "README.md").read_text("utf-8"))
