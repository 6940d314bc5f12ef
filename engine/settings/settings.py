"""Address settings: the merge of matches by specificity, and the origin of each value.

Settings belong to matches over address names: patterns (`engine.names.patterns`), spelled as in
Artemis. Each key of an address is decided separately, by the most specific match that sets it. This
module must never know where settings come from (a file, a command, the journal), and does no I/O.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import product
from typing import Any, Final, NamedTuple

import msgspec

from daybook.engine.names import names
from daybook.engine.names.matches import Covering
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.settings.retroactive_keys import RETROACTIVE_KEYS
from daybook.engine.settings.setting_key import LIMIT_MAX, NO_LIMIT, Value
from daybook.engine.settings.setting_keys import BY_NAME, KEYS, PAGE, TYPE_NAMES, Matches, fits

CACHED_ADDRESSES_MAX: Final = 10_000
DEAD_ENDS: Final = (("dead_letter", "dead_letter_address"), ("expiry", "expiry_address"))
"""How the fields begin that say which queues are created at which address."""
CUT_MARK: Final = "~"
"""Stands before the digest in the name of such a queue that would be too long."""
AFFIXES: Final = ("prefix", "suffix")
OF_INTERNAL: Final[dict[str, Any]] = {
    "address_full_policy": PAGE,
    "page_limit_bytes": NO_LIMIT,
    "page_limit_messages": NO_LIMIT,
    "default_ring_size": NO_LIMIT,
    "retroactive_message_count": 0,
    "retroactive_max_age": 0,
    "retroactive_bytes": 0,
}
"""What addresses of the broker itself have, whatever the matches say: they page, and refuse
nothing."""
NO_MATCHES: Final[Mapping[str, Mapping[str, Value]]] = {}


class AddressSettings(msgspec.Struct, frozen=True):
    """The settings in force for one address: a field for every key, all of them resolved."""

    max_delivery_attempts: int
    redelivery_delay: int
    redelivery_delay_multiplier: float
    redelivery_collision_avoidance_factor: float
    max_redelivery_delay: int
    dead_letter_address: str
    dead_letter_policy: str
    expiry_address: str
    no_expiry: bool
    expiry_delay: int
    min_expiry_delay: int
    max_expiry_delay: int
    auto_create_addresses: bool
    auto_create_queues: bool
    default_address_routing_type: str
    default_queue_routing_type: str
    auto_delete_queues: bool
    auto_delete_created_queues: bool
    auto_delete_queues_delay: int
    auto_delete_queues_message_count: int
    auto_delete_queues_skip_usage_check: bool
    auto_delete_addresses: bool
    auto_delete_addresses_delay: int
    auto_delete_addresses_skip_usage_check: bool
    config_delete_queues: str
    config_delete_addresses: str
    config_delete_diverts: str
    auto_create_dead_letter_resources: bool
    dead_letter_queue_prefix: str
    dead_letter_queue_suffix: str
    auto_create_expiry_resources: bool
    expiry_queue_prefix: str
    expiry_queue_suffix: str
    send_to_dla_on_no_route: bool
    default_max_consumers: int
    default_exclusive_queue: bool
    default_non_destructive: bool
    default_ring_size: int
    default_last_value_queue: bool
    default_last_value_key: str
    default_consumers_before_dispatch: int
    default_delay_before_dispatch: int
    default_purge_on_no_consumers: bool
    default_group_rebalance: bool
    default_group_rebalance_pause_dispatch: bool
    default_group_buckets: int
    default_group_hashing: bool
    default_group_first_key: str
    retroactive_message_count: int
    retroactive_max_age: int
    retroactive_bytes: int
    max_size_bytes: int
    max_size_messages: int
    address_full_policy: str
    page_size_bytes: int
    page_limit_bytes: int
    page_limit_messages: int
    page_full_policy: str
    max_read_page_messages: int
    max_read_page_bytes: int
    prefetch_page_messages: int
    prefetch_page_bytes: int
    id_cache_size: int
    slow_consumer_threshold: int
    slow_consumer_policy: str
    slow_consumer_check_period: int

    def has_max_size(self) -> bool:
        """Whether the address can be full by a limit of its own."""
        return self.max_size_bytes >= 0 or self.max_size_messages >= 0

    def is_retroactive(self) -> bool:
        """Whether the address keeps messages for queues to come."""
        kept = self.retroactive_message_count, self.retroactive_max_age, self.retroactive_bytes
        return any(kept)

    def has_page_limit(self) -> bool:
        """Whether there is a size at which the address accepts no more although it pages."""
        return bool(self.page_full_policy) and (
            self.page_limit_bytes >= 0 or self.page_limit_messages >= 0
        )

    def read_at_a_time(self) -> tuple[int, int]:
        """Return how many messages, and bytes, of a queue are read back at a time."""
        messages = self.max_read_page_messages if self.max_read_page_messages > 0 else LIMIT_MAX
        size = self.max_read_page_bytes
        return messages, size if size > 0 else 2 * self.page_size_bytes

    def kept_at_head(self) -> tuple[int, int]:
        """Return how many messages, and bytes, of a queue stay in memory while it pages."""
        messages, size = self.read_at_a_time()
        if self.prefetch_page_messages > 0:
            messages = self.prefetch_page_messages
        return messages, self.prefetch_page_bytes if self.prefetch_page_bytes > 0 else size


assert AddressSettings.__struct_fields__ == tuple(key.name.replace("-", "_") for key in KEYS)


def check_match(match: str, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in a match and the remedy, None if it has none."""
    host, match = names.host_and_name(match) if names.DIVIDER in match else ("", match)
    wrong = names.wrong_with_host(host) if host else None
    if wrong:
        return f"the virtual host of match {match!r} is wrong: {wrong}"
    if not match:
        return f"the match is empty; '{syntax.any_words}' matches every address"
    if match != match.strip() or not match.isprintable():
        return f"the match {match!r} must not begin or end with a space nor hold control characters"
    wrong = syntax.wrong_with(match) if syntax.literal(match) is None else None
    return f"the match {match!r} {wrong}" if wrong else None


def check_value(key: str, value: object, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in a key or its value and the remedy, None if there is none."""
    row = BY_NAME.get(key)
    if row is None:
        close = get_close_matches(key, list(BY_NAME), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(BY_NAME)}"
        return f"unknown address setting {key!r}; {hint}"
    if not fits(value, row.type) and row.is_time:
        return f'{key} is {value!r}; it must be a number of milliseconds, or a text like "30s"'
    if not fits(value, row.type):
        return f"{key} is {value!r}; it must be {TYPE_NAMES[row.type]}"
    assert isinstance(value, str | int | bool | float)
    wrong = row.check(value) if row.check is not None else None
    if row.is_address and value:
        wrong = names.wrong_with(str(value), syntax)
    return f"{key} is {value!r}; {wrong}" if wrong else None


def check(match: str, key: str, value: object) -> str | None:
    """Return the fault in one setting, as a sentence; None if it has none."""
    return check_match(match) or check_value(key, value)


def problems(matches: Mapping[str, Mapping[str, object]], syntax: Syntax = DEFAULT) -> list[str]:
    """List everything that is wrong with settings; to be called before they are put in force."""
    found = []
    for match, values in matches.items():
        wrong = check_match(match, syntax)
        if wrong:
            found.append(wrong)
        for key, value in values.items():
            wrong = check_value(key, value, syntax)
            if wrong:
                found.append(f"match {match!r}: {wrong}")
    without = [] if found else without_policy(matches, syntax)
    return found or [f"match {match!r}: {wrong}" for match, wrong in without]


def without_policy(
    matches: Mapping[str, Mapping[str, object]], syntax: Syntax = DEFAULT
) -> list[tuple[str, str]]:
    """List (match, fault) of limits that would be ignored; all values must be valid."""
    merged = Settings(matches, syntax)  # type: ignore[arg-type]
    return [
        (match, f"{key} is set without a page-full-policy; it must be DROP or FAIL")
        for match, values in matches.items()
        for key in ("page-limit-bytes", "page-limit-messages")
        if values.get(key, NO_LIMIT) != NO_LIMIT
        if not merged.resolve(match).page_full_policy
    ]


def warnings(matches: Mapping[str, Mapping[str, Value]], syntax: Syntax = DEFAULT) -> list[str]:
    """List settings that are valid but probably not what was meant, one sentence each."""
    merged = Settings(matches, syntax)
    found = []
    for match, values in matches.items():
        resolved = merged.resolve(match)
        policy = resolved.address_full_policy
        if values.get("address-full-policy", PAGE) != PAGE and not resolved.has_max_size():
            found.append(
                f"match {match!r}: address-full-policy is {policy} without max-size-bytes or"
                " max-size-messages, so only global-max-size and global-max-messages can fill it"
            )
        if values.get("page-full-policy") and not resolved.has_page_limit():
            found.append(
                f"match {match!r}: page-full-policy is of no use without page-limit-bytes or"
                " page-limit-messages"
            )
        if resolved.has_page_limit() and policy != PAGE:
            found.append(
                f"match {match!r}: a page-limit is of no use with address-full-policy {policy}"
            )
        if 0 <= resolved.page_limit_bytes <= resolved.max_size_bytes:
            found.append(
                f"match {match!r}: page-limit-bytes is not above max-size-bytes, so the address"
                " takes nothing more as soon as it pages"
            )
    return found


def copied(matches: Mapping[str, Mapping[str, Value]]) -> Matches:
    """Return a copy of settings."""
    return {match: dict(values) for match, values in matches.items()}


def merged(
    configured: Mapping[str, Mapping[str, Value]], live: Mapping[str, Mapping[str, Value]]
) -> Matches:
    """Return settings of which the live ones are in force where both have a key of one match."""
    found = copied(configured)
    for match, values in live.items():
        found.setdefault(match, {}).update(values)
    return found


def _on_host_of(address: str, settings: AddressSettings) -> AddressSettings:
    """Return settings whose addresses are on the virtual host of an address."""
    return msgspec.structs.replace(
        settings,
        **{
            field: names.beside(address, getattr(settings, field))
            for field in ("dead_letter_address", "expiry_address")
            if getattr(settings, field)
        },
    )


class _DeadEnd(NamedTuple):
    """One of DEAD_ENDS, with everything that may stand around a name there."""

    kind: str
    target: str
    prefixes: set[str]
    suffixes: set[str]


class Settings:
    """All address settings in force. Immutable: new settings are a new object."""

    def __init__(
        self,
        matches: Mapping[str, Mapping[str, Value]],
        syntax: Syntax = DEFAULT,
        live: Mapping[str, Mapping[str, Value]] = NO_MATCHES,
    ) -> None:
        """Accept settings that were checked before (`problems`); keys unknown here are kept,
        unused.

        They are not checked again, because a journal must fold even after a rule became stricter.
        `matches` are those of the configuration, `live` those that administrators set at run time;
        where both have a key of one match, the latter is in force.
        """
        self._configured: Final = copied(matches)
        self.live: Final[Mapping[str, Mapping[str, Value]]] = copied(live)
        self._matches: Final = merged(matches, live)
        # The syntax of the matches, and of the names of new addresses.
        self.syntax: Final = syntax
        self._covering: Final = Covering(self._matches, syntax)
        self._resolved: dict[str, AddressSettings] = {}
        # Addresses that the same matches cover share one object with their settings.
        self._of_layers: dict[tuple[str, ...], AddressSettings] = {}
        self.has_slow_threshold: Final = any(
            values.get("slow-consumer-threshold", NO_LIMIT) != NO_LIMIT
            for values in self._matches.values()
        )
        self.has_rings: Final = any(
            values.get("default-ring-size", NO_LIMIT) != NO_LIMIT
            for values in self._matches.values()
        )
        self.keeps_history: Final = any(
            values.get(key.name) for values in self._matches.values() for key in RETROACTIVE_KEYS
        )
        self._dead_ends: Final = [
            _DeadEnd(kind, target, *(self._values_of(f"{kind}_queue_{affix}") for affix in AFFIXES))
            for kind, target in DEAD_ENDS
            if True in self._values_of(f"auto_create_{kind}_resources")
        ]
        self._for_dead_letters: Final = frozenset(
            str(values["dead-letter-address"])
            for values in self._matches.values()
            if values.get("dead-letter-address")
        )
        self._for_expired: Final = frozenset(
            str(values["expiry-address"])
            for values in self._matches.values()
            if values.get("expiry-address")
        )
        self._targets: Final = self._for_dead_letters | self._for_expired

    def _values_of(self, field: str) -> set[Any]:
        """Return all values that a key may have for some address."""
        key = BY_NAME[field.replace("_", "-")]
        return {key.default} | {
            values[key.name] for values in self._matches.values() if key.name in values
        }

    @staticmethod
    def from_dict(
        matches: Mapping[str, Mapping[str, Value]],
        syntax: Syntax = DEFAULT,
        live: Mapping[str, Mapping[str, Value]] = NO_MATCHES,
    ) -> "Settings":
        """Build settings from the form used in commands and events."""
        return Settings(matches, syntax, live)

    def to_dict(self) -> Matches:
        """Return those of the configuration, in the form used in commands and events; the caller
        may keep it."""
        return copied(self._configured)

    def live_to_dict(self) -> Matches:
        """Return those of administrators, in the same form."""
        return copied(self.live)

    def is_live(self, match: str, key: str) -> bool:
        """Whether the value of a key of a match was set at run time."""
        return key in self.live.get(match, {})

    def is_for_dead_letters(self, address: str) -> bool:
        """Whether a match says that dead letters go to an address."""
        return names.plain(address) in self._for_dead_letters

    def is_for_expired(self, address: str) -> bool:
        """Whether a match says that expired messages go to an address."""
        return names.plain(address) in self._for_expired

    def inherits_attempts(self, address: str) -> bool:
        """Whether an address is for dead letters, and no match that is its name limits attempts
        there."""
        name = names.plain(address)
        if not self.is_for_dead_letters(address):
            return False
        own = (self._matches.get(match, {}) for match in (name, address))
        return not any("max-delivery-attempts" in values for values in own)

    def resolve(self, address: str) -> AddressSettings:
        """Return the settings in force for an address, with full names of other addresses on its
        virtual host. Cached for a bounded number of addresses."""
        found = self._resolved.get(address)
        if found is None:
            layers = tuple(self._covering.of(address))
            found = self._of_layers.get(layers)
            if found is None:
                values = [value for _, value, _ in self._explained(layers)]
                found = AddressSettings(*values)  # type: ignore[arg-type]
                if len(self._of_layers) >= CACHED_ADDRESSES_MAX:
                    self._of_layers.clear()
                self._of_layers[layers] = found
            if names.plain(address).startswith(names.INTERNAL):
                found = msgspec.structs.replace(found, **OF_INTERNAL)
            if names.DIVIDER in address:
                found = _on_host_of(address, found)
            if len(self._resolved) >= CACHED_ADDRESSES_MAX:
                self._resolved.clear()
            self._resolved[address] = found
        return found

    def kept_for(self, name: str) -> str:
        """Return the address for whose dead letters or expired messages the name of a queue is
        kept, empty if it is not."""
        full = name
        name = names.plain(full)
        for end in self._dead_ends:
            for prefix, suffix in product(end.prefixes, end.suffixes):
                origin = name[len(prefix) : len(name) - len(suffix)]
                if origin in ("", name) or f"{prefix}{origin}{suffix}" != name:
                    continue
                settings = self.resolve(names.beside(full, origin))
                made = [getattr(settings, f"{end.kind}_queue_{affix}") for affix in AFFIXES]
                target: str = getattr(settings, end.target)
                wanted = getattr(settings, f"auto_create_{end.kind}_resources")
                if wanted and target and made == [prefix, suffix]:
                    return target
        return ""

    def may_be_cut(self, name: str) -> bool:
        """Whether a name could be that of a queue for dead letters whose full name is too long."""
        name = names.plain(name)
        # Only whole characters are cut, and the longest has four bytes.
        if names.length(name) <= names.NAME_BYTES_MAX - 4 or CUT_MARK not in name:
            return False
        return any(
            name.startswith(prefix) and name.endswith(suffix)
            for end in self._dead_ends
            for prefix, suffix in product(end.prefixes, end.suffixes)
        )

    def targets(self) -> frozenset[str]:
        """Return the names of all dead letter addresses and expiry addresses."""
        return self._targets

    def explain(self, address: str) -> list[tuple[str, Value, str]]:
        """List (key, value, match it came from) in the order of KEYS; "" for a built-in default."""
        return self._explained(self._covering.of(address))

    def _explained(self, layers: Iterable[str]) -> list[tuple[str, Value, str]]:
        explained: list[tuple[str, Value, str]] = []
        for key in KEYS:
            value, origin = key.default, ""
            for match in layers:
                values = self._matches[match]
                if key.name in values:
                    value, origin = values[key.name], match
                    break
            explained.append((key.name, value, origin))
        return explained
