"""The keys of address settings about the history that an address keeps for queues to come.

Part of the table in `engine.settings.setting_keys`; must never know the other parts.
"""

from typing import Final

from daybook.engine.settings.setting_key import LIMIT_MAX, Key, Value, check_delay


def _check_count(value: Value) -> str | None:
    if not isinstance(value, int) or not 0 <= value <= LIMIT_MAX:
        return "it must be 0 or more"
    return None


RETROACTIVE_KEYS: Final = (
    Key(
        "retroactive-message-count",
        int,
        0,
        "How many of its last messages an address keeps, in the order in which they were sent, for"
        " queues that are created later. 0: no limit if one of the next two keys is set, else it"
        " keeps none.",
        _check_count,
    ),
    Key(
        "retroactive-max-age",
        int,
        0,
        "Milliseconds for which it keeps them, or up to a fiftieth less; 0: likewise.",
        check_delay,
        is_time=True,
    ),
    Key(
        "retroactive-bytes",
        int,
        0,
        "How much it keeps: headers and bodies, and 128 bytes for each message; 0: likewise.",
        _check_count,
        is_size=True,
    ),
)
