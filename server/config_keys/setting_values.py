"""The values of address settings as people write them: numbers, texts with units, TOML.

Must never know where a value was written.
"""

from daybook.engine.settings.setting_keys import BY_NAME
from daybook.server.config_keys import kinds
from daybook.server.config_keys.config_source import literal


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
