"""Parsing times that users write: `14:05`, `2026-11-20T14:05`, `10m` (ago)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_AGO: Final = re.compile(r"(\d+)(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, now: datetime) -> int:
    """Microseconds since 1970; without a zone the text means UTC. ValueError with a sentence."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        when = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    else:
        when = _parse_point(text.strip(), now)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return int((when - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def _parse_point(text: str, now: datetime) -> datetime:
    for candidate in (text, f"{now:%Y-%m-%d}T{text}"):
        try:
            return datetime.fromisoformat(candidate)
        except ValueError:
            continue
    raise ValueError(
        f"'{text}' is not a time; write it like 2026-11-20T14:05, 14:05:30 (today) or 10m (ago); "
        "times without a zone are UTC"
    )


def time_option(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of options with times."""
    if value is None:
        return None
    try:
        return parse_time(value, datetime.now(UTC))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), ctx, param) from error
