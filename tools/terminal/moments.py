"""Moments on the command line: an LSN, or a time."""

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import click

from daybook.times import is_event, parse_time
from daybook.tools.terminal.numbers import NUMBER


class Moment(NamedTuple):
    """An event that a user asked for, by its LSN or by a time; `time` is None for an LSN."""

    lsn: int
    time: int | None = None


class MomentType(click.ParamType[Moment]):
    """An LSN, or a time as `parse_time` takes it."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a moment; a time has the LSN 0 until the journal is known. Raises
        click.BadParameter."""
        if isinstance(value, Moment):
            return value
        if is_event(value):
            return Moment(NUMBER.convert(value, param, ctx))
        try:
            return Moment(0, parse_time(value, datetime.now(UTC)))
        except ValueError as error:
            raise click.BadParameter(f"{error}; or give an LSN, like 4711", param=param) from error


MOMENT: Final = MomentType()
