"""Checks of the Markdown pages: links lead somewhere, files that are named exist."""

import re
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|md|toml|service|sh))(?::\w+)?`")

TEST = re.compile(r"`(test_\w+)::(test_\w+)`")


def slug(heading: str) -> str:
    """Return the anchor that Markdown viewers give a heading."""
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page."""
    return {slug(text) for text in HEADING.findall(FENCE.sub("", page.read_text("utf-8")))}


def broken_links(page: Path) -> Iterator[str]:
    """Find links to files or headings that do not exist; addresses of other sites are not tried."""
    text = CODE.sub("", FENCE.sub("", page.read_text("utf-8")))
    for link in LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page}: [{link}] leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{page}: [{link}] names a heading that {target.name} does not have"


def missing_files(root: Path, page: Path) -> Iterator[str]:
    """Find files that the page names in code style and that are not in the tree."""
    for name in FILE.findall(FENCE.sub("", page.read_text("utf-8"))):
        if not (root / name).exists() and not (page.parent / name).exists():
            yield f"{page}: names `{name}`, which is not there"


def missing_tests(root: Path, page: Path) -> Iterator[str]:
    """Find tests that the page names by their module, and that are not in the tree."""
    named = TEST.findall(FENCE.sub("", page.read_text("utf-8")))
    if not named:
        return
    texts: dict[str, str] = {}
    for path in (root / "tests").rglob("test_*.py"):
        texts[path.stem] = texts.get(path.stem, "") + path.read_text("utf-8")
    for module, test in named:
        if f"def {test}(" not in texts.get(module, ""):
            yield f"{page}: names {module}::{test}, which is not there"
