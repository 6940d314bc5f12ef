"""The values of address settings as people write them: numbers, texts with units, TOML; and those
of addresses without any.

Must never know where a value was written.
"""

from typing import Final

from daybook.engine.settings.setting_key import Value
from daybook.engine.settings.setting_keys import BY_NAME
from daybook.server.config_keys import kinds
from daybook.server.config_keys.config_source import literal

DEFAULT_SETTINGS: Final[dict[str, Value]] = {
    "dead-letter-address": "DLQ",
    "expiry-address": "ExpiryQueue",
    "max-delivery-attempts": 10,
}
"""The settings of every address, unless the file has a match "#"."""


def from_text(key: str, text: str) -> object:
    """Return the value of a key from a text; a wrong one is returned as it is."""
    row = BY_NAME.get(key)
    is_text = row is not None and row.type is str and not text.startswith('"')
    return in_units(key, text if is_text else literal(text))


def in_units(key: str, value: object) -> object:
    """Return the value of a key in bytes or milliseconds, if it is a size or a time."""
    row = BY_NAME.get(key)
    if row is not None and row.is_size:
        return kinds.bytes_of(value)
    if row is not None and row.is_time:
        return kinds.milliseconds_of(value)
    return value
