"""Errors say what, where, and what would be right."""

import ast

import pytest

from daybook.errors import cause_of
from daybook.journal import errors
from daybook.journal.errors import ArchiveError, Corruption, JournalError, Locked, NewerFormat
from tests.meta import tree


def test_every_error_is_a_journal_error_and_drawn_in_the_tree() -> None:
    # Compiled modules have no docstring.
    source = (tree.ROOT / "src" / "daybook" / "errors.py").read_text("utf-8")
    drawn = ast.get_docstring(ast.parse(source)) or ""
    kinds = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, JournalError)
    ]
    assert len(kinds) == 9
    for kind in kinds:
        assert kind.__name__ in drawn


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Locked("/data", 42), ["/data", "process 42", "Stop that process"]),
        (Locked("/data", 0), ["another process"]),
        (ArchiveError("s3://b/1.seg", "it is odd"), ["s3://b/1.seg: it is odd"]),
        (NewerFormat("a.seg", 3, 1, ""), ["a.seg", "3", "up to 1", "release"]),
        (NewerFormat("a.seg", 3, 1, "Daybook 9.1.0 or later"), ["a.seg", "3", "Daybook 9.1.0"]),
        (
            Corruption("a.seg", 4096, 7, "it is odd"),
            ["a.seg", "4096", "LSN 7", "it is odd", "journal verify"],
        ),
    ],
)
def test_texts(error: JournalError, says: list[str]) -> None:
    for words in says:
        assert words in str(error)


def test_what_an_error_came_from() -> None:
    error, handled = JournalError("it failed"), KeyError("handled")
    assert cause_of(error) is None
    error.__context__ = handled
    assert cause_of(error) is handled, "what compiled code leaves"
    error.__cause__ = OSError("named")
    assert str(cause_of(error)) == "named"
    error.__cause__ = None
    assert cause_of(error) is None, "raised from None"
