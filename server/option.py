"""A row of the tables of configuration keys, and what to say of a key that is in none."""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from daybook.server.kinds import Kind


class Option(msgspec.Struct, frozen=True):
    """A row of a table. `live` means that a reload puts a new value in force without a restart."""

    name: str
    kind: Kind
    default: str | int | bool | list[str] | None
    doc: str
    live: bool = False

    @property
    def required(self) -> bool:
        return self.default is None


def unknown(what: str, name: str, known: Sequence[str], prefix: str = "") -> str:
    """What to say of a name that does not exist: the one that was meant, or all there are."""
    close = get_close_matches(name, known, n=1)
    if close:
        hint = f"did you mean {prefix + close[0]!r}?"
    else:
        hint = f"there are {', '.join(prefix + one for one in known)}"
    return f"unknown {what} {prefix + name!r}; {hint}"
