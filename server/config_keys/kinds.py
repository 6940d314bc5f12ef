"""Types of configuration values: their names in the documentation, and their parsers.

Must never know which keys there are, nor where a value was written.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from daybook.engine.facts.definitions import NUMBER_MOST, Attribute
from daybook.protocols.port import Count, Duration, Flag, Range, Size, Text, Value

SIZE_UNITS: Final = {
    "": 1, "B": 1,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
    "KB": 1000, "MB": 1000**2, "GB": 1000**3,
}  # fmt: skip
DURATION_UNITS_MS: Final = {
    "": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000,
    "d": 24 * 3_600_000, "w": 7 * 24 * 3_600_000,
}  # fmt: skip
DURATION_MOST_DAYS: Final = 365_000
"""A thousand years: more than anybody needs, and small enough for every clock."""

_NUMBER_UNIT: Final = re.compile(r"(-?[0-9][0-9_]*)\s*([A-Za-z]*)")


class Invalid(Exception):
    """A value is not valid for its key; the text says which values are."""


def must_be(wanted: str) -> Invalid:
    """Return the error for a value that is not `wanted`."""
    return Invalid(f"it must be {wanted}")


class Kind(msgspec.Struct, frozen=True):
    """A type of value: its name in the documentation, and its parser.

    `parse` converts a TOML value or raises Invalid. `text` means that a flag's text is the value
    itself.
    """

    name: str
    parse: Callable[[object], Value]
    text: bool = False


def _number(value: object, units: dict[str, int]) -> int | None:
    """A whole number, or one with a unit; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    found = _NUMBER_UNIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        return None
    return int(found[1]) * units[found[2]]


def _show_size(size: int) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % SIZE_UNITS[unit] == 0:
            return f"{size // SIZE_UNITS[unit]}{unit}"
    return str(size)


def count(least: int, most: int) -> Kind:
    """A whole number within bounds."""

    def parse(value: object) -> Value:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise must_be(f"a whole number from {least} to {most}")
        return value

    return Kind("number", parse)


def one_of(*numbers: int) -> Kind:
    """One of these whole numbers."""
    listed = " or ".join(map(str, numbers))

    def parse(value: object) -> Value:
        if isinstance(value, bool) or not isinstance(value, int) or value not in numbers:
            raise must_be(listed)
        return value

    return Kind("number", parse)


def kind_of(attribute: Attribute) -> Kind:
    """Return the type of an attribute of queues."""
    if attribute.kind is bool:
        return FLAG
    if attribute.kind is int:
        return count(attribute.least, NUMBER_MOST)
    if attribute.kind is tuple:
        return TEXTS
    return choice(*attribute.choices) if attribute.choices else text("a text", ".*")


def size(least: int, most: int) -> Kind:
    """A number of bytes, with a unit or without."""

    def parse(value: object) -> Value:
        found = _number(value, SIZE_UNITS)
        if found is None or not least <= found <= most:
            raise must_be(
                f'a size from {_show_size(least)} to {_show_size(most)}, like 65536, "64KiB", '
                '"16MiB" or "1GiB"'
            )
        return found

    return Kind("size", parse)


def _or_auto(of_size: Kind) -> Kind:
    """A number of bytes, or "auto", which is 0."""

    def parse(value: object) -> Value:
        if value == "auto":
            return 0
        try:
            return of_size.parse(value)
        except Invalid as error:
            raise must_be(f'"auto", or {error}'.replace("it must be ", "")) from None

    return Kind("size", parse)


def size_of(*sizes: int) -> Kind:
    """One of a few sizes in bytes, with or without a unit."""
    listed = ", ".join(_show_size(each) for each in sizes)

    def parse(value: object) -> Value:
        found = _number(value, SIZE_UNITS)
        if found is None or found not in sizes:
            raise must_be(f"one of these sizes: {listed}")
        return found

    return Kind("size", parse)


def part_or_size(least: int, most: int) -> Kind:
    """A part of something in per cent, as a text like "50%", or a number of bytes."""
    of_size = size(least, most)

    def parse(value: object) -> Value:
        if isinstance(value, str):
            found = re.fullmatch(r"([1-9][0-9]?|100)\s*%", value.strip())
            if found is not None:
                return f"{found[1]}%"
        try:
            return of_size.parse(value)
        except Invalid as wrong:
            raise Invalid(f'{wrong}, or a part from "1%" to "100%"') from None

    return Kind("size or part", parse)


def bytes_of(value: object) -> object:
    """A text with a unit of size as a number of bytes; anything else as it is."""
    found = _number(value, SIZE_UNITS) if isinstance(value, str) else None
    return value if found is None else found


def milliseconds_of(value: object) -> object:
    """A text with a unit of time as a number of milliseconds; anything else as it is."""
    found = _number(value, DURATION_UNITS_MS) if isinstance(value, str) else None
    return value if found is None else found


def duration(least_ms: int) -> Kind:
    """A number of milliseconds, or a text with a unit; at most a thousand years."""
    most_ms = DURATION_MOST_DAYS * DURATION_UNITS_MS["d"]

    def parse(value: object) -> Value:
        found = _number(value, DURATION_UNITS_MS)
        if found is None or not least_ms <= found <= most_ms:
            raise must_be(
                f"a duration from {least_ms} ms to {DURATION_MOST_DAYS} days: milliseconds, or a "
                'text like "250ms", "30s", "5m", "1h", "30d" or "4w"'
            )
        return found

    return Kind("duration", parse)


def choice(*words: str, former: Mapping[str, str] | None = None) -> Kind:
    """One of these words; `former` has words of earlier releases, and what to write instead."""
    listed = ", ".join(f'"{word}"' for word in words)
    instead = former or {}

    def parse(value: object) -> Value:
        if isinstance(value, str) and value in instead:
            raise Invalid(instead[value])
        if not isinstance(value, str) or value not in words:
            raise must_be(f"one of {listed}" if len(words) > 1 else listed)
        return value

    return Kind(" or ".join(f'"{word}"' for word in words), parse, text=True)


def choices(*words: str) -> Kind:
    """A list of one or more of these words."""
    listed = ", ".join(f'"{word}"' for word in words)

    def parse(value: object) -> Value:
        if not isinstance(value, list) or not value or not all(word in words for word in value):
            raise must_be(f"a list of one or more of {listed}")
        return tuple(dict.fromkeys(value))

    return Kind("list of " + " and ".join(f'"{word}"' for word in words), parse)


def text(wanted: str, pattern: str) -> Kind:
    """A string that matches a pattern; `wanted` describes it."""
    compiled = re.compile(pattern)

    def parse(value: object) -> Value:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise must_be(wanted)
        return value

    return Kind("string", parse, text=True)


def _parse_flag(value: object) -> Value:
    if not isinstance(value, bool):
        raise must_be("true or false")
    return value


def _parse_texts(value: object) -> Value:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise must_be('a list of strings, like ["one", "two"]')
    if "" in value:
        raise must_be("a list without empty strings")
    return tuple(value)


def _parse_address_or_empty(value: object) -> Value:
    return "" if value == "" else _parse_address(value)


def _parse_address(value: object) -> Value:
    if not isinstance(value, str) or not value:
        raise must_be('the name of an address, like "orders"')
    return value


def split_listen(value: object) -> tuple[str, int]:
    """Divide "HOST:PORT" or "[IPV6]:PORT". Raises Invalid."""
    found = (
        re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s\[\]:/]+)):([0-9]{1,5})", value)
        if isinstance(value, str)
        else None
    )
    if found is None or int(found[3]) > 65_535:
        raise must_be('"HOST:PORT", like "127.0.0.1:61613", "0.0.0.0:61613" or "[::1]:61613"')
    return found[1] or found[2], int(found[3])


def _parse_listen(value: object) -> Value:
    split_listen(value)
    assert isinstance(value, str)
    return value


def split_url(value: object) -> tuple[str, str, int]:
    """Divide "SCHEME://HOST:PORT"; port 0 for none. Raises Invalid."""
    wanted = (
        'SCHEME://HOST:PORT, like "amqp://east.example.org:5672", without anything behind it; login'
        " and passcode have keys of their own"
    )
    found = (
        re.fullmatch(
            r"([a-z]+)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s\[\]:/@?#]+))(?::([0-9]{1,5}))?/?", value
        )
        if isinstance(value, str)
        else None
    )
    if found is None or int(found[4] or 1) not in range(1, 65_536):
        raise must_be(wanted)
    return found[1], found[2] or found[3], int(found[4] or 0)


def _parse_url(value: object) -> Value:
    split_url(value)
    assert isinstance(value, str)
    return value


FLAG: Final = Kind("true or false", _parse_flag)
TEXTS: Final = Kind("list of strings", _parse_texts)
ADDRESS: Final = Kind("string", _parse_address, text=True)
ADDRESS_OR_EMPTY: Final = Kind("string", _parse_address_or_empty, text=True)
LISTEN: Final = Kind("string", _parse_listen, text=True)
URL: Final = Kind("string", _parse_url, text=True)
NAME: Final = text('a name without spaces, like "broker-1"', r"[^\s\x00-\x1f\x7f]+")
CHARACTER: Final = text("one character", r".")
PATH: Final = text("the path of a file or folder", r"[^\x00]+")
PATH_OR_EMPTY: Final = text("the path of a file", r"[^\x00]*")
GIB: Final = SIZE_UNITS["GiB"]


def kind_within(wanted: Range) -> Kind:
    """The type of an option that a protocol describes."""
    if isinstance(wanted, Count):
        return count(wanted.least, wanted.most)
    if isinstance(wanted, Size):
        of_size = size(wanted.least, wanted.most)
        return _or_auto(of_size) if wanted.may_be_auto else of_size
    if isinstance(wanted, Duration):
        return duration(wanted.least_ms)
    if isinstance(wanted, Text):
        return text(wanted.wanted, wanted.pattern)
    return FLAG if isinstance(wanted, Flag) else TEXTS
