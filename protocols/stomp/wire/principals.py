"""Headers that say who sent a message: the principals of a user, as Apollo has them.

A principal has a kind: `user` is the login, `role` a role of the user. `*` are all kinds, the login
first. Must never know where roles come from.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

USER: Final = "user"
ROLE: Final = "role"
ANY_KIND: Final = "*"
KINDS: Final = (ANY_KIND, USER, ROLE)
_KIND: Final = ";kind="
_SEPARATOR: Final = ";separator="


class Added(NamedTuple):
    """A header with principals of one kind. Without a separator only the first one is added."""

    header: str
    kind: str = ANY_KIND
    separator: str | None = None


def parsed(text: str) -> Added:
    """Parse `HEADER`, `HEADER;kind=KIND` and `HEADER;kind=KIND;separator=TEXT`. Raises
    ValueError."""
    rest, has_separator, separator = text.partition(_SEPARATOR)
    header, has_kind, kind = rest.partition(_KIND)
    kind = kind if has_kind else ANY_KIND
    if not header or not header.isprintable() or any(each in header for each in " :\\;"):
        raise ValueError(
            f"add-user-headers has {text!r}, where {header!r} is not the name of a header; write"
            ' "HEADER", "HEADER;kind=role" or "HEADER;kind=role;separator=,"'
        )
    if kind not in KINDS:
        raise ValueError(f"add-user-headers has {text!r}; kind must be {', '.join(KINDS)}")
    if has_separator and not (separator and separator.isprintable()):
        raise ValueError(f"add-user-headers has {text!r}, whose separator is empty")
    return Added(header, kind, separator if has_separator else None)


def value_of(added: Added, user: str, roles: Iterable[str]) -> str:
    """Return the value of a header for a user, empty if there is no principal of its kind."""
    principals = [user] if added.kind != ROLE and user else []
    if added.kind != USER:
        principals += sorted(roles)
    if added.separator is None:
        return principals[0] if principals else ""
    return added.separator.join(principals)
