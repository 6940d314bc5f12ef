"""A key of address settings, and checks of values that several keys share.

Must never know which keys there are.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

Value: TypeAlias = str | int | bool | float

NO_LIMIT: Final = -1
LIMIT_MAX: Final = (1 << 53) - 1
DELAY_MAX: Final = 3650 * 86_400 * 1000
"""Milliseconds: ten years."""


class Key(msgspec.Struct, frozen=True):
    """A row of the table: name, type, default, meaning, and a check that returns the fault.

    `is_size` means a number of bytes and `is_time` one of milliseconds; in a file each may be a
    text with a unit. `is_address` means the name of an address, or an empty text.
    """

    name: str
    type: type
    default: Value
    doc: str
    check: Callable[[Value], str | None] | None = None
    is_size: bool = False
    is_time: bool = False
    is_address: bool = False


def check_delay(value: Value) -> str | None:
    """Return the fault in a number of milliseconds, None if it has none."""
    if not isinstance(value, int) or not 0 <= value <= DELAY_MAX:
        return f"it must be from 0 to {DELAY_MAX} milliseconds"
    return None


def check_limit(value: Value) -> str | None:
    """Return the fault in a number that may be -1 for no limit, None if it has none."""
    if not isinstance(value, int) or not NO_LIMIT <= value <= LIMIT_MAX:
        return "it must be 0 or more, or -1 for no limit"
    return None
