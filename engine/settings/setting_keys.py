"""The keys of address settings: name, type, default, meaning, and what values are right.

A new key is a row of `KEYS` and a field of `settings.AddressSettings`. Must never know matches.
"""

from typing import Final, TypeAlias

from daybook.engine.settings.lifetime_keys import DEAD_END_KEYS, LIFETIME_KEYS
from daybook.engine.settings.retroactive_keys import RETROACTIVE_KEYS
from daybook.engine.settings.setting_key import (
    DELAY_MAX,
    LIMIT_MAX,
    NO_LIMIT,
    Key,
    Value,
    check_delay,
    check_limit,
)

Matches: TypeAlias = dict[str, dict[str, Value]]
"""Settings as in commands and in the journal: match to key to value."""

ATTEMPTS_MAX: Final = 65_535
"""The delivery count of an event has 16 bits: more attempts than this could not be counted."""

PAGE: Final = "PAGE"
DROP: Final = "DROP"
BLOCK: Final = "BLOCK"
FAIL: Final = "FAIL"
FULL_POLICIES: Final = (PAGE, DROP, BLOCK, FAIL)
PAGE_FULL_POLICIES: Final = (DROP, FAIL)
NOTIFY: Final = "NOTIFY"
KILL: Final = "KILL"
SLOW_CONSUMER_POLICIES: Final = (NOTIFY, KILL)
HOLD: Final = "HOLD"
DEAD_LETTER_POLICIES: Final = (HOLD, DROP)

PAGE_SIZE_BYTES_MIN: Final = 4096

ID_CACHE_SIZE_DEFAULT: Final = 20_000
"""Part of the meaning of a journal, like a kind of event: folds of old journals rely on it."""
ID_CACHE_SIZE_MAX: Final = 10_000_000

PERIOD_SECONDS_MAX: Final = 86_400
MULTIPLIER_MAX: Final = 1000
TYPE_NAMES: Final[dict[type, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
}


def fits(value: object, kind: type) -> bool:
    """Whether a value has the type of a key; a whole number is a number too."""
    return type(value) is kind or (kind is float and type(value) is int)


def _check_attempts(value: Value) -> str | None:
    if not isinstance(value, int) or not -1 <= value <= ATTEMPTS_MAX:
        return f"it must be from 1 to {ATTEMPTS_MAX}, or 0 or -1 for no limit"
    return None


def _check_multiplier(value: Value) -> str | None:
    if not isinstance(value, int | float) or not 1 <= value <= MULTIPLIER_MAX:
        return f"it must be from 1 to {MULTIPLIER_MAX}"
    return None


def _check_factor(value: Value) -> str | None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return "it must be from 0 to 1"
    return None


def _check_perhaps_delay(value: Value) -> str | None:
    if not isinstance(value, int) or not NO_LIMIT <= value <= DELAY_MAX:
        return f"it must be from 0 to {DELAY_MAX} milliseconds, or -1"
    return None


def _check_count(value: Value) -> str | None:
    if not isinstance(value, int) or not 0 <= value <= LIMIT_MAX:
        return "it must be 0 or more"
    return None


def _check_reading(value: Value) -> str | None:
    if not isinstance(value, int) or (value != NO_LIMIT and not 1 <= value <= LIMIT_MAX):
        return "it must be 1 or more, or -1"
    return None


def _check_page_size(value: Value) -> str | None:
    if not isinstance(value, int) or not PAGE_SIZE_BYTES_MIN <= value <= LIMIT_MAX:
        return f"it must be {PAGE_SIZE_BYTES_MIN} or more"
    return None


def _check_id_cache_size(value: Value) -> str | None:
    if not isinstance(value, int) or not 0 <= value <= ID_CACHE_SIZE_MAX:
        return f"it must be from 0 to {ID_CACHE_SIZE_MAX}"
    return None


def _check_full_policy(value: Value) -> str | None:
    return None if value in FULL_POLICIES else f"it must be one of {', '.join(FULL_POLICIES)}"


def _check_dead_letter_policy(value: Value) -> str | None:
    return None if value in DEAD_LETTER_POLICIES else "it must be HOLD or DROP"


def _check_page_full_policy(value: Value) -> str | None:
    return (
        None
        if not value or value in PAGE_FULL_POLICIES
        else 'it must be DROP, FAIL, or "" for none'
    )


def _check_period(value: Value) -> str | None:
    if not isinstance(value, int) or not 1 <= value <= PERIOD_SECONDS_MAX:
        return f"it must be from 1 to {PERIOD_SECONDS_MAX} seconds"
    return None


def _check_slow_policy(value: Value) -> str | None:
    policies = SLOW_CONSUMER_POLICIES
    return None if value in policies else f"it must be one of {', '.join(policies)}"


KEYS: Final = (
    Key(
        "max-delivery-attempts",
        int,
        10,
        "Attempts to deliver a message before it goes to the dead letter address; 0 or -1 for no"
        " limit.",
        _check_attempts,
    ),
    Key(
        "redelivery-delay",
        int,
        0,
        "Milliseconds after a failed delivery before which the message is not delivered again, to"
        " about a tenth of a second; others are. 0: at once.",
        check_delay,
        is_time=True,
    ),
    Key(
        "redelivery-delay-multiplier",
        float,
        1.0,
        "Number by which the delay is multiplied with each further failed delivery.",
        _check_multiplier,
    ),
    Key(
        "redelivery-collision-avoidance-factor",
        float,
        0.0,
        "Largest part of the delay by which it is made longer or shorter, differently for each"
        " message, so that what failed together does not come again together.",
        _check_factor,
    ),
    Key(
        "max-redelivery-delay",
        int,
        NO_LIMIT,
        "Milliseconds that the delay is never longer than; -1: ten times redelivery-delay.",
        _check_perhaps_delay,
        is_time=True,
    ),
    Key(
        "dead-letter-address",
        str,
        "",
        "Address for messages whose last allowed delivery failed; empty: dead-letter-policy says"
        " what becomes of them. A message in a dead letter address that has no other one returns"
        " after each failed delivery, and the log says so, unless max-delivery-attempts is set for"
        " exactly that address.",
        is_address=True,
    ),
    Key(
        "dead-letter-policy",
        str,
        HOLD,
        "What becomes of dead letters that have nowhere to go: no dead-letter-address, or no queue"
        " there takes them. HOLD: they stay in their queue, and are not delivered until there is a"
        " way or an administrator releases or purges them; DROP: they are dropped. The same holds"
        " for expired messages whose expiry-address takes nothing.",
        _check_dead_letter_policy,
    ),
    Key(
        "expiry-address",
        str,
        "",
        "Address for messages whose time has passed; empty: they are dropped, whatever a less"
        " specific match says.",
        is_address=True,
    ),
    Key(
        "no-expiry",
        bool,
        False,
        "Whether messages never expire, whatever their senders and the other keys say.",
    ),
    Key(
        "expiry-delay",
        int,
        NO_LIMIT,
        "Milliseconds after which a message expires whose sender set no expiry; overrides the two"
        " keys below; -1: never.",
        _check_perhaps_delay,
        is_time=True,
    ),
    Key(
        "min-expiry-delay",
        int,
        NO_LIMIT,
        "Milliseconds before which no message expires; without max-expiry-delay also those after"
        " which a message without expiry does; -1: no limit.",
        _check_perhaps_delay,
        is_time=True,
    ),
    Key(
        "max-expiry-delay",
        int,
        NO_LIMIT,
        "Milliseconds after which every message expires, if not earlier; -1: no limit.",
        _check_perhaps_delay,
        is_time=True,
    ),
    Key(
        "auto-create-addresses",
        bool,
        True,
        "Whether an address is created when somebody first sends to it or consumes from it.",
    ),
    Key(
        "auto-create-queues",
        bool,
        True,
        "Whether a queue is created when somebody first sends to it or consumes from it.",
    ),
    *LIFETIME_KEYS,
    *DEAD_END_KEYS,
    Key(
        "default-max-consumers",
        int,
        NO_LIMIT,
        "max-consumers of queues that are created by being used or subscribed to; -1: no limit.",
        check_limit,
    ),
    Key(
        "default-exclusive-queue",
        bool,
        False,
        "Whether queues that are created by being used or subscribed to are exclusive.",
    ),
    Key(
        "default-non-destructive",
        bool,
        False,
        "Whether queues are `non-destructive` that are created without saying so.",
    ),
    Key(
        "default-ring-size",
        int,
        NO_LIMIT,
        "How many messages each queue holds that has no ring-size of its own; a further one pushes"
        " out the first. -1: no limit.",
        check_limit,
    ),
    Key(
        "default-last-value-queue",
        bool,
        False,
        "Whether queues that are created without saying so are last value queues.",
    ),
    Key(
        "default-last-value-key",
        str,
        "",
        "last-value-key of queues that are created without saying so; empty: none.",
    ),
    Key(
        "default-consumers-before-dispatch",
        int,
        0,
        "consumers-before-dispatch of queues whose definition does not say it; not of those of"
        " subscriptions that end with their consumer.",
        _check_count,
    ),
    Key(
        "default-delay-before-dispatch",
        int,
        NO_LIMIT,
        "delay-before-dispatch, likewise.",
        _check_perhaps_delay,
        is_time=True,
    ),
    Key(
        "default-purge-on-no-consumers",
        bool,
        False,
        "purge-on-no-consumers of queues whose definition does not say it.",
    ),
    Key(
        "default-group-rebalance",
        bool,
        False,
        "group-rebalance of queues whose definition does not say it.",
    ),
    Key(
        "default-group-rebalance-pause-dispatch",
        bool,
        False,
        "group-rebalance-pause-dispatch, likewise.",
    ),
    Key(
        "default-group-buckets",
        int,
        NO_LIMIT,
        "group-buckets, likewise; -1: each group by itself.",
        check_limit,
    ),
    Key(
        "default-group-hashing",
        bool,
        False,
        "group-hashing, likewise.",
    ),
    Key(
        "default-group-first-key",
        str,
        "",
        "group-first-key, likewise.",
    ),
    *RETROACTIVE_KEYS,
    Key(
        "max-size-bytes",
        int,
        NO_LIMIT,
        "Size at which an address is full: headers and bodies of all messages in its queues, and"
        " 128 bytes for each; 0: always full; -1: no limit.",
        check_limit,
        is_size=True,
    ),
    Key(
        "max-size-messages",
        int,
        NO_LIMIT,
        "Messages in its queues at which an address is full, counted in each queue; 0: always full;"
        " -1: no limit.",
        check_limit,
    ),
    Key(
        "address-full-policy",
        str,
        PAGE,
        "What happens when an address, or the broker, is full. PAGE: its messages leave memory;"
        " DROP: messages sent to it are dropped without an error; BLOCK: nothing more is read from"
        " its senders until there is room; FAIL: its senders get an error.",
        _check_full_policy,
    ),
    Key(
        "page-size-bytes",
        int,
        512 * 1024,
        "Unit in which messages of an address that pages come back into memory; with many consumers"
        " the broker takes less. Artemis has 10 MiB; here each queue may hold so much, and there"
        " may be thousands.",
        _check_page_size,
        is_size=True,
    ),
    Key(
        "page-limit-bytes",
        int,
        NO_LIMIT,
        "Size at which an address that pages takes no more, by page-full-policy; -1: no limit.",
        check_limit,
        is_size=True,
    ),
    Key(
        "page-limit-messages",
        int,
        NO_LIMIT,
        "Messages in the longest queue of an address that pages at which it takes no more, by"
        " page-full-policy; -1: no limit.",
        check_limit,
    ),
    Key(
        "page-full-policy",
        str,
        "",
        "What happens when an address that pages has reached its page-limit: DROP or FAIL; needed"
        " with a page-limit, and of no use without.",
        _check_page_full_policy,
    ),
    Key(
        "max-read-page-messages",
        int,
        NO_LIMIT,
        "Messages of a queue that are read back at a time; -1: as many as max-read-page-bytes"
        " allows.",
        _check_reading,
    ),
    Key(
        "max-read-page-bytes",
        int,
        NO_LIMIT,
        "Bytes of a queue that are read back at a time, one message at least; -1: twice"
        " page-size-bytes.",
        _check_reading,
        is_size=True,
    ),
    Key(
        "prefetch-page-messages",
        int,
        NO_LIMIT,
        "Messages at the head of a queue that stay in memory while its address pages; -1: as many"
        " as are read at a time.",
        _check_reading,
    ),
    Key(
        "prefetch-page-bytes",
        int,
        NO_LIMIT,
        "Bytes at the head of a queue that stay in memory while its address pages; -1: as many as"
        " are read at a time.",
        _check_reading,
        is_size=True,
    ),
    Key(
        "id-cache-size",
        int,
        ID_CACHE_SIZE_DEFAULT,
        "Ids of messages (header _AMQ_DUPL_ID) that an address remembers, the last ones, to drop a"
        " message that comes again; 0: duplicates are not detected.",
        _check_id_cache_size,
    ),
    Key(
        "slow-consumer-threshold",
        int,
        NO_LIMIT,
        "Messages a second that a consumer must consume if it can; a slower one is treated as"
        " slow-consumer-policy says; -1: none is slow.",
        check_limit,
    ),
    Key(
        "slow-consumer-policy",
        str,
        NOTIFY,
        "What happens to a slow consumer. NOTIFY: the log and `daybook status` name it; KILL: its"
        " connection is closed with an ERROR.",
        _check_slow_policy,
    ),
    Key(
        "slow-consumer-check-period",
        int,
        5,
        "Seconds over which the rate of a consumer is measured.",
        _check_period,
    ),
)
"""The one table of address settings."""

BY_NAME: Final[dict[str, Key]] = {key.name: key for key in KEYS}
assert all(type(key.default) is key.type for key in KEYS)
