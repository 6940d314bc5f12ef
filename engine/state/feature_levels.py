"""The feature level that events and states need, by the table in `daybook.levels` (ADR 79).

A release that does not know the level of a journal refuses it. The level of an event follows from
its bytes, so code that emits events need not know levels. Must never know segments.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from daybook.engine.facts.definitions import Detail
from daybook.engine.facts.details import AddressDetail, QueueDetail, SettingsDetail
from daybook.engine.facts.events import (
    BY_NAME,
    COLUMNS,
    DIVERT_CREATED,
    EVENT_TYPES,
    FLAGS,
    KIND,
    LENGTHS_OFFSET,
    ROW_BYTES,
    SETTINGS_CHANGED,
    decode_detail,
)
from daybook.engine.state.state import State
from daybook.levels import FEATURES, LEVEL_MIN, LEVEL_USED

_LENGTH_BYTES: Final = 4
_KIND_OFFSET: Final = COLUMNS[KIND].offset
_FLAGS_OFFSET: Final = COLUMNS[FLAGS].offset


def _by_byte(levels: Callable[[int], Iterator[int]]) -> bytes:
    return bytes(max(levels(value), default=LEVEL_MIN) for value in range(256))


def _of_kind(kind: int) -> Iterator[int]:
    return (
        feature.level
        for feature in FEATURES
        if any(BY_NAME[name].number == kind for name in feature.kinds)
    )


def _of_flags(flags: int) -> Iterator[int]:
    return (feature.level for feature in FEATURES if feature.flags & flags)


KINDS: Final = _by_byte(_of_kind)
"""The level of each kind."""
_FLAG_LEVELS: Final = _by_byte(_of_flags)
_FIELDS: Final = {name: each.level for each in FEATURES for name in each.fields}
_KEYS: Final = {key: each.level for each in FEATURES for key in each.settings}


def _fields_of(detail: type[Detail]) -> tuple[tuple[str, object, int], ...]:
    """Return the fields of a detail that need a level: name, default and level."""
    return tuple(
        (field.name, _default(field), _FIELDS[f"{detail.__name__}.{field.name}"])
        for field in msgspec.structs.fields(detail)
        if f"{detail.__name__}.{field.name}" in _FIELDS
    )


def _default(field: Any) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


_OF_DETAILS: Final = {
    entry.number: _fields_of(entry.detail)
    for entry in EVENT_TYPES
    if entry.detail is not None and (_fields_of(entry.detail) or entry.detail is SettingsDetail)
}
"""By kind, for the kinds whose details may need a level."""


def level_of(rows: Sequence[bytes], details: Sequence[bytes], known: int = LEVEL_MIN) -> int:
    """Return the level that packed events need, at least `known`, that of the journal before.

    `details` are the non-empty details, in the order of the rows.
    """
    if known >= LEVEL_USED:
        return known
    joined = b"".join(rows)
    kinds = joined[_KIND_OFFSET::ROW_BYTES]
    flags = joined[_FLAGS_OFFSET::ROW_BYTES]
    level = max(known, max(kinds.translate(KINDS)), max(flags.translate(_FLAG_LEVELS)))
    if not details or level >= LEVEL_USED:
        return level
    lengths = memoryview(joined).cast("I")[
        LENGTHS_OFFSET // _LENGTH_BYTES :: ROW_BYTES // _LENGTH_BYTES
    ]
    whole, start = b"".join(details), 0
    different = set()
    for kind, length in zip(kinds, lengths.tolist(), strict=True):
        if length and kind in _OF_DETAILS:
            different.add((kind, whole[start : start + length]))
        start += length
    return max(level, *(_of_detail(kind, detail) for kind, detail in different), LEVEL_MIN)


def _of_detail(kind: int, encoded: bytes) -> int:
    detail = decode_detail(kind, encoded)
    level = _of_fields(_OF_DETAILS[kind], detail)
    if kind == SETTINGS_CHANGED:
        settings = cast(SettingsDetail, detail)
        level = max(level, _of_keys(settings.settings), _of_keys(settings.live))
    return level


def _of_fields(fields: Iterable[tuple[str, object, int]], value: object) -> int:
    return max(
        (level for name, default, level in fields if getattr(value, name, default) != default),
        default=LEVEL_MIN,
    )


def _of_keys(matches: dict[str, dict[str, Any]]) -> int:
    keys = {key for values in matches.values() for key in values}
    return max((_KEYS.get(key, LEVEL_MIN) for key in keys), default=LEVEL_MIN)


def level_of_state(state: State) -> int:
    """Return the level that a state needs, of a journal from before there were levels."""
    of_queues, of_addresses = _fields_of(QueueDetail), _fields_of(AddressDetail)
    return max(
        KINDS[DIVERT_CREATED] if state.diverts else LEVEL_MIN,
        _of_keys(state.settings.to_dict()),
        _of_keys(state.settings.live_to_dict()),
        *(_of_fields(of_queues, queue.definition) for queue in state.queues.values()),
        *(_of_fields(of_addresses, each.definition) for each in state.addresses.values()),
        LEVEL_MIN,
    )
