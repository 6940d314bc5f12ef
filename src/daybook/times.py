"""Reading times that people write: `14:05`, `2026-11-20T14:05`, `today 09:00`, `10 minutes ago`.

The same for the command line, the console and the pipeline. Must never know what a time is for.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AGO: Final = re.compile(
    r"-?(\d{1,9})\s*(s|m|h|d|w|sec|min|(?:second|minute|hour|day|week)s?)(?:\s+ago)?"
)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS: Final = {"today": 0, "yesterday": 1}


def is_event(text: str) -> bool:
    """Whether a moment that people wrote is the number of an event, and not a time."""
    return text.replace(",", "").replace("_", "").isdigit()


def parse_time(text: str, now: datetime) -> int:
    """Return microseconds since 1970; without a zone the text means UTC. Raises ValueError with a
    sentence."""
    plain = text.strip()
    ago = _AGO.fullmatch(plain.lower())
    if plain.lower() == "now":
        when = now
    elif ago is not None:
        when = _ago_of(plain, now, **{_UNITS[ago[2][0]]: int(ago[1])})
    else:
        when = _point(plain, now)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - EPOCH) // timedelta(microseconds=1)


def _ago_of(text: str, now: datetime, **units: int) -> datetime:
    """Return the time that was so long ago."""
    try:
        return now - timedelta(**units)
    except OverflowError:
        raise ValueError(f"'{text}' is before the year 1") from None


def _point(text: str, now: datetime) -> datetime:
    """Return the time that a date, a time of day, or both name."""
    words = text.split()
    zone = (
        _zone(words.pop()) if len(words) > 1 and ("/" in words[-1] or words[-1] == "UTC") else UTC
    )
    if words and words[0].lower() in _DAYS:
        day = now.astimezone(zone) - timedelta(days=_DAYS[words[0].lower()])
        words[0] = f"{day:%Y-%m-%d}"
    plain = " ".join(words)
    for candidate in (plain, f"{now.astimezone(zone):%Y-%m-%d}T{plain}") if zone and plain else ():
        try:
            found = datetime.fromisoformat(candidate)
        except ValueError:
            continue
        return found if found.tzinfo is not None else found.replace(tzinfo=zone)
    raise ValueError(
        f"'{text[:100]}' is not a time; write it like 2026-11-20T14:05, 14:05:30, today 09:00, "
        "10m or 10 minutes ago; times without a zone (+02:00, Europe/Berlin) are UTC"
    )


def _zone(name: str) -> tzinfo | None:
    """Return a zone by its name, None if it is unknown."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 (slow to import)

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
