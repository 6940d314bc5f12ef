"""A row of the tables of configuration keys, and the error for an unknown key."""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from daybook.server.config_keys.kinds import Kind


class Option(msgspec.Struct, frozen=True):
    """A row of a table. `live` means that a reload applies a new value without a restart. Of one
    that `is_secret` no value is shown, not even a wrong one."""

    name: str
    kind: Kind
    default: str | int | bool | list[str] | None
    doc: str
    live: bool = False
    is_secret: bool = False

    @property
    def required(self) -> bool:
        return self.default is None


def unknown(what: str, name: str, known: Sequence[str], prefix: str = "") -> str:
    """Return the error for an unknown name, with the most similar name or all names."""
    close = get_close_matches(name, known, n=1)
    if close:
        hint = f"did you mean {prefix + close[0]!r}?"
    else:
        hint = f"there are {', '.join(prefix + one for one in known)}"
    return f"unknown {what} {prefix + name!r}; {hint}"
