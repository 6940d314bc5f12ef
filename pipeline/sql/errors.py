"""Errors of SQL queries, in words, with line and character."""

import re
from typing import Final

from daybook.errors import DaybookError

_PLACE: Final = re.compile(r"^LINE (\d+): (.*)\n( *)(\^+)", re.MULTILINE)
_SHOWN_PLACE: Final = re.compile(r"^line (\d+): (.*)\n( *)\^", re.MULTILINE)
_CLOSED_OFF: Final = "file system operations are disabled by configuration"
_CANDIDATES: Final = re.compile(r"\n\tCandidate functions:\n(?:\t.*\n?)*")
_CUT: Final = "..."
_UNREAD: Final = "Parser Error"


class SqlError(DaybookError):
    """A query that cannot be run; `text` says why, and where it is wrong. `options` are those of
    the command line that do what was wanted."""

    def __init__(self, text: str, *, options: str = "") -> None:
        super().__init__(text + options)
        self.text: Final = text


def explained(error: Exception, lines_before: int = 0) -> str:
    """Shorten DuckDB's message to what is useful; subtracts `lines_before` from line numbers."""
    text = _CANDIDATES.sub("\n", str(error)).replace(_CLOSED_OFF, "queries can read only history")

    def moved(found: re.Match[str]) -> str:
        line, before = int(found[1]) - lines_before, len(found[3]) - len(f"LINE {found[1]}: ")
        return shown_place(line, found[2], before, len(found[4]))

    text = _PLACE.sub(moved, text)
    return text.replace("\nline ", "\n\nline ").replace("\n\n\n", "\n\n").strip()


def shown_place(line: int, text: str, before: int, length: int) -> str:
    """Return a line of a query with a mark under a part of it, `before` characters from its
    beginning."""
    head = f"line {line}: "
    return f"{head}{text}\n{' ' * (len(head) + before)}{'^' * length}"


def place_of(text: str) -> tuple[int, int] | None:
    """Return line and character that an error names; the character is 0 in lines that were cut."""
    found = _SHOWN_PLACE.search(text)
    if found is None:
        return None
    is_cut = found[2].startswith(_CUT)
    return int(found[1]), 0 if is_cut else len(found[3]) - len(f"line {found[1]}: ") + 1


def heading_of(text: str) -> str:
    """Return what is to be said above the error of a query."""
    is_unread = text.startswith(_UNREAD)
    return "this is not SQL that can be read" if is_unread else "the query has no answer"
