"""Ids are understood as they are printed."""

import click
import pytest

from daybook.tools.terminal.numbers import NUMBER


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("1234567", 1234567), ("1,234,567", 1234567), ("1_000", 1000)]
)
def test_with_separators_and_without(text: str, number: int) -> None:
    assert NUMBER.convert(text, None, None) == number


@pytest.mark.parametrize("text", ["0", "-1", "1,23", "1,2345", ",123", "1,234_567", "x", ""])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(click.BadParameter):
        NUMBER.convert(text, None, None)
