"""The pages as the generator of the site wants them, in a folder laid out like the source tree.

The pages are not changed but for links that a site cannot follow: README.md is its first page,
examples and shipped files become pages that show them, and names of other sources lose their link.
Three things are added: a list of the decisions, tabs where a page has the same in several languages
(between `<!-- tabs -->` and `<!-- end of tabs -->`), and the library that draws diagrams.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from release.site import navigation

ROOT: Final = Path(__file__).resolve().parents[2]
FRONT: Final = "index.md"
DECISIONS: Final = "docs/adr/index.md"
SHOWN: Final = ("docs/examples/", "etc/", "LICENSE")
"""Sources that become pages of the site if a page links to them."""
LANGUAGES: Final = {
    ".cjs": "javascript", ".go": "go", ".html": "html", ".java": "java", ".json": "json",
    ".py": "python", ".toml": "toml", ".xml": "xml", ".yaml": "yaml",
}  # fmt: skip
ASSETS: Final = Path(__file__).with_name("assets")
VENDOR: Final = ASSETS / "vendor"
(DIAGRAMS,) = (path.name for path in VENDOR.glob("mermaid-*.js"))

_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2\s*?$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_TABS: Final = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
_TAB: Final = re.compile(
    r"^\*\*([^*\n]+)\*\*\n(.*?)(?=^\*\*[^*\n]+\*\*$|\Z)", re.MULTILINE | re.DOTALL
)
_EXAMPLE: Final = re.compile(r"^\[`?([^\]`]+)`?\]\((examples/[\w.]+)\)$", re.MULTILINE)
_TITLE: Final = re.compile(r"^# (.+)$", re.MULTILINE)


class Stage:
    """A folder with everything that the generator reads."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root: Final = root
        self.folder: Final = folder
        self.shown: set[str] = set()
        """Sources that pages link to, and which are pages therefore."""

    def fill(self) -> None:
        """Write all pages, and copy images and assets."""
        shutil.rmtree(self.folder, ignore_errors=True)
        pages = [*self.root.glob("*.md"), *(self.root / "docs").rglob("*.md")]
        for page in pages:
            name = page.relative_to(self.root).as_posix()
            text = page.read_text("utf-8")
            if name == "README.md":
                name, text = FRONT, front(text)
            self.write(name, self.page(name, text))
        self.write(DECISIONS, decisions(self.root))
        for name in sorted(self.shown):
            self.write(f"{name}.md", source(self.root / name))
        shutil.copytree(self.root / "docs" / "images", self.folder / "docs" / "images")
        shutil.copytree(ASSETS, self.folder / "assets")

    def write(self, name: str, text: str) -> None:
        """Write a page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def page(self, name: str, text: str) -> str:
        """Return a page as it is on the site."""
        folder = Path(name).parent
        text = _TABS.sub(lambda found: self.tabs(found[1], folder), text)
        kept: list[str] = []

        def keep(found: re.Match[str]) -> str:
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"

        text = _CODE.sub(keep, _FENCE.sub(keep, text))
        text = _LINK.sub(lambda found: self.link(found, folder), text)
        while "\0" in text:  # code within the text of a link was kept first
            text = re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text)
        if "```mermaid" in text:
            up = os.path.relpath("assets/vendor", folder)
            text += f'\n<script src="{up}/{DIAGRAMS}"></script>\n'
        return text

    def link(self, found: re.Match[str], folder: Path) -> str:
        """Return a link as it is on the site, or its text if the site does not have the target."""
        mark, text, target = found.groups()
        path, anchor, heading = target.partition("#")
        if mark or not path or re.match(r"[a-z][a-z0-9+.-]*:", target):
            return found[0]
        name = os.path.normpath(folder / path)
        if name == "README.md":
            name = FRONT
        elif name == "docs/adr":
            name = DECISIONS
        elif name.startswith(SHOWN) and (self.root / name).is_file():
            self.shown.add(name)
            name += ".md"
        elif not name.endswith(".md"):
            return text
        return f"[{text}]({os.path.relpath(name, folder)}{anchor}{heading})"

    def tabs(self, text: str, folder: Path) -> str:
        """Return tabs; one that is a link to an example has the example itself."""

        def embedded(found: re.Match[str]) -> str:
            path = self.root / folder / found[2]
            return f"{found[0]}\n\n{fenced(path)}"

        made = []
        for title, body in _TAB.findall(text):
            lines = _EXAMPLE.sub(embedded, body.strip()).splitlines()
            made.append(f'=== "{title}"\n\n' + "".join(f"    {line}\n" for line in lines))
        return "\n".join(made)


def fenced(path: Path) -> str:
    """Return a source as a block of code."""
    language = LANGUAGES.get(path.suffix, "text")
    return f"````{language}\n{path.read_text('utf-8').rstrip()}\n````"


def source(path: Path) -> str:
    """Return the page that shows a source."""
    return f"# {path.name}\n\n{fenced(path)}\n"


def front(readme: str) -> str:
    """Return the first page: README.md with the documentation as cards below its first screen."""
    before, _, after = navigation.parts(readme)
    head, following, rest = before.partition("\n## ")
    cards = "\n".join(card(section) for section in navigation.sections(readme))
    grid = f'\n<div class="grid cards" markdown>\n\n{cards}\n</div>\n'
    return f"---\nhide: [navigation]\n---\n{head}{grid}{following}{rest}{after}"


def card(section: navigation.Section) -> str:
    """Return a card of the first page: the sentence of a section, and links to its pages."""
    links = " · ".join(f"[{entry.title}]({entry.path})" for entry in section.entries)
    return f"-   **{section.title}**\n\n    {section.sentence}\n\n    {links}\n"


def title(page: Path) -> str:
    """Return the title of a page."""
    found = _TITLE.search(page.read_text("utf-8"))
    assert found, page
    return found[1]


def decisions(root: Path) -> str:
    """Return the page that lists the decisions."""
    paths = sorted((root / "docs" / "adr").glob("*.md"))
    lines = [f"- [{title(path)}]({path.name})" for path in paths]
    head = "# Decisions\n\nWhy Daybook is built as it is: context, decision, consequences.\n\n"
    return head + "\n".join(lines) + "\n"
