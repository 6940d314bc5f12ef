"""Links of a built site that lead nowhere, and what it would fetch from elsewhere."""

import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_FETCHED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_HINTS: Final = {"canonical", "prev", "next", "alternate"}
"""Kinds of `<link>` from which a browser fetches nothing."""


class Page(HTMLParser):
    """The anchors of a page, its links, and the addresses that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: Final[set[str]] = set()
        self.links: Final[list[str]] = []
        self.loaded: Final[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        having = {name: value or "" for name, value in attrs}
        self.anchors.update(having[name] for name in ("id", "name") if name in having)
        if tag == "a" and "href" in having:
            self.links.append(having["href"])
        elif having.get("rel") not in _HINTS and (address := having.get(_FETCHED.get(tag, ""))):
            self.loaded.append(address)


def read(site: Path) -> dict[Path, Page]:
    """Return the pages of a site."""
    return {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def broken(site: Path) -> Iterator[str]:
    """Find links to pages, files and headings that the site does not have."""
    pages = read(site)
    for path, page in pages.items():
        if path.name == "404.html":  # its links are relative to any place
            continue
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = path
            if address.path:
                target = Path(os.path.normpath(path.parent / unquote(address.path)))
            where = path.relative_to(site)
            anchor = unquote(address.fragment)
            if not target.is_file():
                yield f"{where}: {link} leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{where}: {link} names a heading that is not there"


def foreign(site: Path) -> Iterator[str]:
    """Find what a browser would load from another place when it shows a page of the site."""
    for path, page in read(site).items():
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{path.relative_to(site)}: loads {address}"
