"""Ids and LSNs on the command line: numbers as commands print them, with or without separators."""

import re
from typing import Any, Final

import click

_SEPARATED: Final = re.compile(r"\d{1,3}(,\d{3})+|\d{1,3}(_\d{3})+", re.ASCII)


class Number(click.IntRange):
    """A whole number from 1 on; `1,234,567` means 1234567, as tables show it."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a number. Raises click.BadParameter."""
        if isinstance(value, str) and _SEPARATED.fullmatch(value):
            value = value.replace(",", "").replace("_", "")
        return super().convert(value, param, ctx)


NUMBER: Final = Number()
