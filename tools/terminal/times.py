"""Options with times that users write (`daybook.times`)."""

from datetime import UTC, datetime

import click

from daybook.times import parse_time


def time_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of options with times."""
    if value is None:
        return None
    try:
        return parse_time(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
