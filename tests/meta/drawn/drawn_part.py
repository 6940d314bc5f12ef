"""A part of a page that is drawn from the code, between two marks."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Drawn(NamedTuple):
    """A named part of a page, and what draws it."""

    page: Path
    name: str
    draw: Callable[[], str]

    @property
    def _marks(self) -> tuple[str, str]:
        return f"<!-- {self.name}: drawn by make map -->", f"<!-- end of {self.name} -->"

    def is_current(self) -> bool:
        """Return whether the page has the part, once, as it is drawn now."""
        page = self.page.read_text("utf-8")
        begin, end = self._marks
        part = page.partition(begin)[2].partition(end)[0]
        return page.count(begin) == page.count(end) == 1 and part == self.draw()

    def redraw(self) -> None:
        """Put the part on the page as it is drawn now."""
        begin, end = self._marks
        before, _, rest = self.page.read_text("utf-8").partition(begin)
        _, _, behind = rest.partition(end)
        assert behind, f"{self.page} lacks {begin} or {end}"
        self.page.write_text(before + begin + self.draw() + end + behind, "utf-8")
