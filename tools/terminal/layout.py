"""Computes the widths of the columns of a table on a terminal; pure arithmetic on texts.

Widths are counted in the cells of a terminal, of which some characters take two. This module must
never print.
"""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, chop_cells

SPACING: Final = 2
NARROW_SPACING: Final = 1
TEXT_LEAST: Final = 12
"""Columns of texts are not made narrower than this to give space to others."""

LINES_MOST: Final = 4
"""The most lines of a cell; from a longer text the middle is left out."""


def fit(
    headings: Sequence[str], texts: Sequence[Sequence[str]], numeric: Sequence[bool], room: int
) -> list[int] | None:
    """Return widths of the columns with which the table fits into `room`, None if it cannot.

    Numbers keep their width. If the table is too wide, first headings are broken into one word a
    line, then texts are folded.
    """
    cells = [max((cell_len(row[at]) for row in texts), default=0) for at in range(len(headings))]
    whole = [max(cell_len(text), width) for text, width in zip(headings, cells, strict=True)]
    if sum(whole) + SPACING * (len(whole) - 1) <= room:
        return whole
    words = [max(map(cell_len, text.split()), default=0) for text in headings]
    wanted = list(map(max, words, cells))
    widths = [
        width if number else min(width, max(word, TEXT_LEAST))
        for width, word, number in zip(wanted, words, numeric, strict=True)
    ]
    spare = room - sum(widths) - NARROW_SPACING * (len(widths) - 1)
    if spare < 0:
        return None
    while spare and widths != wanted:
        # The narrowest of the columns that need space gets it, so that they grow alike.
        _, at = min((widths[at], at) for at in range(len(widths)) if widths[at] < wanted[at])
        widths[at] += 1
        spare -= 1
    return widths


def shortened(text: str, width: int) -> str:
    """Return the text in at most so many cells; a longer text loses its middle."""
    if cell_len(text) <= width:
        return text
    head = chop_cells(text, max((width - 1) // 2, 1))[0]
    tail = chop_cells(text[::-1], max(width // 2, 1))[0][::-1]
    return f"{head}\N{HORIZONTAL ELLIPSIS}{tail}"


def folded(text: str, width: int) -> list[str]:
    """Return the text in lines of a width, at most LINES_MOST."""
    return chop_cells(shortened(text, width * LINES_MOST - LINES_MOST), width) or [""]
