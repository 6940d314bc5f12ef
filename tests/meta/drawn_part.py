"""A part of a page that is drawn from the code, between two marks."""

from pathlib import Path


def part(page: str, begin: str, end: str) -> str:
    """Return what a page has between the marks."""
    return page.partition(begin)[2].partition(end)[0]


def redraw(path: Path, begin: str, end: str, drawing: str) -> None:
    """Put a drawing between the marks of a page."""
    page = path.read_text("utf-8")
    path.write_text(
        page.replace(begin + part(page, begin, end) + end, begin + drawing + end), "utf-8"
    )
