"""Numbers on the command line: ids and LSNs as commands print them, seconds, and rates."""

import math
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


class Seconds(click.FloatRange):
    """Seconds from 0 to a limit."""

    def __init__(self, most: float) -> None:
        super().__init__(0, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a number of seconds. Raises click.BadParameter."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            # It is neither below nor above any limit.
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class Rate(click.FloatRange):
    """So many a second: a number above zero that is finite."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a number. Raises click.BadParameter."""
        rate = super().convert(value, param, ctx)
        if not math.isfinite(rate):
            self.fail(f"{value} is not a number of messages a second", param, ctx)
        return rate


YEARS_100: Final = 100 * 365 * 86400
"""Seconds: clocks without a battery begin in 1970, and no clock is wrong by more than this."""
NUMBER: Final = Number()
RATE: Final = Rate()
