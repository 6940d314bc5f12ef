"""Patterns of LIKE: `%` for any characters, `_` for one. Must never know a message."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

_ANY: Final = ""
"""Stands for `_` among the characters of a piece."""

_Piece: TypeAlias = str | re.Pattern[str]
"""A piece between two `%`: a string, or an expression of fixed length if some of its characters are
`_`. It has no repetition, so it never backtracks.
"""


def compile_like(pattern: str, escape: str) -> Callable[[str], bool]:
    """Return a function that says whether a string fits a pattern.

    It takes the pieces between `%` from left to right, each where it first fits, so its time is at
    most the product of both lengths: no pattern makes it try combinations. Raises ValueError if an
    escape is not followed by a character that it can escape.
    """
    parts = _pieces(pattern, escape)
    pieces = [_compact(piece) for piece in parts]
    begins, ends = len(parts[0]), len(parts[-1])
    first, *middle, last = pieces[0], *pieces[1:-1], pieces[-1]
    if len(pieces) == 1:
        return lambda text: len(text) == begins and _fits_at(text, 0, first)

    def fits(text: str) -> bool:
        place, end = begins, len(text) - ends
        if end < place or not _fits_at(text, 0, first) or not _fits_at(text, end, last):
            return False
        for piece in middle:
            place = _find(text, place, end, piece)
            if place < 0:
                return False
        return True

    return fits


def steps_of(pattern: str, escape: str) -> tuple[int, int]:
    """Return how many pieces between `%` a pattern looks for, and how many of them have a `_`."""
    parts = _pieces(pattern, escape)
    return len(parts), sum(_ANY in piece for piece in parts)


def _pieces(pattern: str, escape: str) -> list[list[str]]:
    """Return the characters between the `%` of a pattern."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise ValueError(
                    f"in LIKE {pattern!r} the escape {escape!r} stands before {escaped!r}; it "
                    "escapes %, _ and itself"
                )
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY if character == "_" else character)
    return pieces


def _compact(piece: list[str]) -> _Piece:
    if _ANY not in piece:
        return "".join(piece)
    return re.compile("".join(re.escape(each) if each else "." for each in piece), re.DOTALL)


def _find(text: str, start: int, end: int, piece: _Piece) -> int:
    """Return where a piece that first fits between two places ends, -1 if it does not fit."""
    if isinstance(piece, str):
        place = text.find(piece, start, end)
        return place + len(piece) if place >= 0 else -1
    found = piece.search(text, start, end)
    return found.end() if found is not None else -1


def _fits_at(text: str, place: int, piece: _Piece) -> bool:
    if isinstance(piece, str):
        return text.startswith(piece, place)
    return piece.match(text, place) is not None
