"""Patterns of LIKE: `%` for any characters, `_` for one. Must never know a message."""

from collections.abc import Callable
from typing import Final, TypeAlias

_ANY: Final = ""
"""Stands for `_` among the characters of a piece."""

_Piece: TypeAlias = str | tuple[str, ...]
"""What stands between two `%`: a string, or its characters where some of them are `_`."""


def compile_like(pattern: str, escape: str) -> Callable[[str], bool]:
    """Return a function that says whether a string fits a pattern.

    It takes the pieces between `%` from left to right, each where it first fits, so its time is at
    most the product of both lengths: no pattern makes it try combinations. Raises ValueError if an
    escape stands before nothing that it could escape.
    """
    pieces = [_compact(piece) for piece in _pieces(pattern, escape)]
    if len(pieces) == 1:
        whole = pieces[0]
        return lambda text: len(text) == len(whole) and _fits_at(text, 0, whole)
    first, *middle, last = pieces

    def fits(text: str) -> bool:
        place, end = len(first), len(text) - len(last)
        if end < place or not _fits_at(text, 0, first) or not _fits_at(text, end, last):
            return False
        for piece in middle:
            place = _find(text, place, end, piece)
            if place < 0:
                return False
        return True

    return fits


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
    return tuple(piece) if _ANY in piece else "".join(piece)


def _find(text: str, start: int, end: int, piece: _Piece) -> int:
    """Return where a piece that first fits between two places ends, -1 if it does not fit."""
    if isinstance(piece, str):
        found = text.find(piece, start, end)
        return found + len(piece) if found >= 0 else -1
    for place in range(start, end - len(piece) + 1):
        if _fits_at(text, place, piece):
            return place + len(piece)
    return -1


def _fits_at(text: str, place: int, piece: _Piece) -> bool:
    if isinstance(piece, str):
        return text.startswith(piece, place)
    part = text[place : place + len(piece)]
    return all(wanted in (_ANY, given) for wanted, given in zip(piece, part, strict=True))
