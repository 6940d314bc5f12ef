"""The distributions of a configuration: each [[address]] with a prefix or a pattern, and names that
something else in the configuration needs to be stored.

Must never know how messages are distributed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from daybook.engine.facts.definitions import DistributionEntry
from daybook.engine.names.names import plain
from daybook.engine.settings.distributions import (
    Distributions,
    faults_of,
    normal_form,
    same_pattern,
    shown_pattern,
)
from daybook.server.config_keys.config_source import Block
from daybook.server.config_keys.option import unknown
from daybook.server.config_keys.options import ADDRESS_TABLE, DISTRIBUTION_TABLE
from daybook.server.configuration.host_config import Problem

_OF_NAME: Final = dict.fromkeys(option.name for option in ADDRESS_TABLE).keys()
_OF_PATTERN: Final = dict.fromkeys(option.name for option in DISTRIBUTION_TABLE).keys()
ENDS: Final = ("dead-letter-address", "expiry-address")
"""The keys that name where messages end."""
_KINDS: Final = ("a name", "a prefix or a pattern")


class Listed(NamedTuple):
    """Something whose address stores messages: its place, key and name; `address` is that of a
    queue."""

    where: str
    what: str
    name: str
    address: str = ""


def by_kind(blocks: Sequence[Block], problem: Problem) -> tuple[list[Block], list[Block]]:
    """Return the blocks of addresses with a name, and those with a prefix or a pattern. Other keys
    are reported, and left out."""
    named: list[Block] = []
    patterned: list[Block] = []
    for block in blocks:
        has_name = "name" in block.values or not _OF_PATTERN & block.values.keys()
        own = _OF_NAME if has_name else _OF_PATTERN
        for key, given in block.values.items():
            if key not in _OF_NAME | _OF_PATTERN:
                problem(given.where, unknown("key", key, (*_OF_NAME, *_OF_PATTERN), "address."))
            elif key not in own:
                ours, theirs = _KINDS if has_name else _KINDS[::-1]
                text = f"address.{key} is for an [[address]] with {theirs}; this one has {ours}"
                problem(given.where, text)
        rest = {key: given for key, given in block.values.items() if key in own}
        (named if has_name else patterned).append(Block(block.where, rest))
    return named, patterned


def distributions_of(
    blocks: Sequence[Block],
    default: str,
    values: Callable[[Block], dict[str, Any] | None],
    problem: Problem,
) -> Distributions:
    """Return the distributions; `values` gives the values of a block by field, None if one of them
    was refused."""
    found: dict[tuple[str, ...], tuple[str, DistributionEntry]] = {}
    for block in blocks:
        row = values(block)
        if row is None:
            continue
        priority = row.pop("priority")
        entry = DistributionEntry(**row, priority=priority if priority >= 0 else None)
        faults = list(faults_of(entry))
        for field, text in faults:
            problem(_where(block, field), f"address: {text}")
        if faults:
            continue
        where, earlier = found.setdefault(normal_form(entry), (block.where, entry))
        if earlier is not entry:
            field, text = same_pattern(entry, earlier)
            problem(_where(block, field), f"address: {text} at {where}; remove one of them")
    return Distributions([entry for _, entry in found.values()], default)


def check_stored(found: Distributions, listed: Iterable[Listed], problem: Problem) -> None:
    """Ask that names are stored which something in the configuration needs to be stored."""
    for each in listed if found.is_used else ():
        if _is_stored(found, each.name):
            continue
        entry = found.find(plain(each.name))
        by = "broker.default-distribution"
        if entry in found.entries:
            by = f"[[address]] with {shown_pattern(entry)[1]}"
        problem(
            each.where,
            f"{each.what} is {each.name!r}, but messages to this address are not stored: its"
            f" distribution is {entry.distribution!r}, by {by}; store them with waypoint = true in"
            " an [[address]], or use another name",
        )


def warning(
    entries: Sequence[DistributionEntry], default: str, settings: Iterable[Mapping[str, Any]]
) -> str:
    """Return a warning if something is stored here, and its dead letters or expired messages are
    to go where nothing is; empty if not."""
    found = Distributions(entries, default)
    if not any(each.is_stored or each.enable_fallback for each in entries):
        return ""
    named = {str(each[key]) for each in settings for key in ENDS if each.get(key)}
    lost = sorted(name for name in named if not _is_stored(found, name))
    if not lost:
        return ""
    return (
        f"dead letters or expired messages are to go to {', '.join(lost)}, where messages are not"
        " stored, so they will stay in their queues, held; write an [[address]] with"
        f" pattern = {lost[0]!r} and waypoint = true"
    )


def _is_stored(found: Distributions, name: str) -> bool:
    entry = found.find(plain(name))
    return entry.is_stored or entry.enable_fallback


def _where(block: Block, field: str) -> str:
    return block.values.get(field.replace("_", "-"), block).where
