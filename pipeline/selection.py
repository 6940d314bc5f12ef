"""Selections of events, and how to write them as options.

A selection is exact: the decoder gives exactly the events that it describes, and footers only save
work. Must never know files or Arrow.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Final

import msgspec

from daybook.engine.facts.events import BY_NAME
from daybook.errors import DaybookError
from daybook.times import parse_time


class SelectionError(DaybookError, ValueError):
    """An option is invalid; the text says which one, and what is valid."""


class Selection(msgspec.Struct, frozen=True):
    """A selection of events; an empty tuple, None and the whole span mean no filter.

    `kinds`, `queues` and `addresses` are names; `messages` are ids and select events about the
    message or about a copy of it. LSNs and times (microseconds since 1970 UTC) are inclusive at
    both ends.
    """

    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()
    from_lsn: int = 1
    to_lsn: int | None = None
    since: int | None = None
    until: int | None = None

    @property
    def needs_names(self) -> bool:
        """Whether names must be turned into ids."""
        return bool(self.queues or self.addresses)


EVERYTHING: Final = Selection()
OPTIONS: Final = ("kinds", "queues", "addresses", "message", "lsn", "time")
"""Names of the options that `from_options` reads."""


def from_options(options: Mapping[str, str]) -> Selection:
    """Read a selection from options; lists are separated by commas, spans are `FROM..TO`, and times
    are written as on the command line.

    Raises SelectionError.
    """
    from_lsn, to_lsn = _span("lsn", options.get("lsn", ""), _lsn)
    of_now = partial(_time, now=datetime.now(UTC))
    since, until = _span("time", options.get("time", ""), of_now)
    return Selection(
        kinds=parse_kinds(_listed(options.get("kinds", ""))),
        queues=_listed(options.get("queues", "")),
        addresses=_listed(options.get("addresses", "")),
        messages=tuple(_message(text) for text in _listed(options.get("message", ""))),
        from_lsn=from_lsn if from_lsn is not None else 1,
        to_lsn=to_lsn,
        since=since,
        until=until,
    )


def parse_kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the right spelling of kinds, given in any case; raises SelectionError."""
    spelled = {name.lower(): name for name in BY_NAME}
    found = []
    for name in names:
        kind = spelled.get(name.lower())
        if kind is None:
            close = get_close_matches(name.lower(), spelled, n=1)
            hint = f"did you mean {spelled[close[0]]}?" if close else f"kinds: {', '.join(BY_NAME)}"
            raise SelectionError(f"there is no kind of event '{name}'; {hint}")
        found.append(kind)
    return tuple(found)


def _time(text: str, now: datetime) -> int:
    """Return microseconds since 1970 UTC. Raises SelectionError."""
    try:
        return parse_time(text, now)
    except ValueError as error:
        raise SelectionError(str(error)) from error


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _lsn(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise SelectionError(f"'{text}' is not an LSN; write a whole number from 1 on")
    return int(text)


def _message(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise SelectionError(
            f"'{text}' is not the id of a message; it is the LSN of the message's Routed event"
        )
    return int(text)


def _span(name: str, text: str, parse: Callable[[str], int]) -> tuple[int | None, int | None]:
    """Parse `FROM..TO`, either of which may be omitted; a single value is both."""
    if not text:
        return None, None
    first, dots, last = (part.strip() for part in text.partition(".."))
    begin = parse(first) if first else None
    if not dots:
        return begin, begin
    end = parse(last) if last else None
    if begin is not None and end is not None and begin > end:
        raise SelectionError(f"{name} '{text}' ends before it begins; write FROM..TO")
    return begin, end
