"""Which virtual host a client gets by the name that it connects to (ADR 58).

As in Apollo: the host that has the name; the first one if the client gives none; and without
virtual hosts in the configuration the default one for every name. Must never know how a protocol
asks.
"""

from collections.abc import Iterable
from typing import TypeAlias

from daybook.engine.names.names import HOST, UNKNOWN_HOST

Known: TypeAlias = tuple[tuple[str, str], ...]
"""Names that clients connect to, each with its virtual host."""


def known_of(lines: Iterable[str]) -> Known:
    """Return the names in the options of a session, each before its host."""
    return tuple((name, host) for name, _, host in (line.partition(" ") for line in lines))


def host_of(given: str | None, known: Known) -> str:
    """Return the virtual host for a name, `UNKNOWN_HOST` if no host has it."""
    if not known:
        return HOST
    if not given:
        return known[0][1]
    wanted = given.lower()
    return next((host for name, host in known if name == wanted), UNKNOWN_HOST)
