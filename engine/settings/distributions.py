"""The distributions of addresses: for each name, the entry whose prefix or pattern fits it best.

Names and patterns are split into tokens at `.` and `/`, which are the same here; separators before
the first token mean nothing, nor does one after the last. In a pattern `*` stands for one token and
`#` for any number of tokens, also none. A prefix is a pattern with `#` behind it. Where several
patterns match, the tokens decide from the left: the token itself comes before `*`, and `*` before
`#`. This is the order of Apache Qpid Dispatch, so its configurations mean the same here. Neither
the order of the entries nor the number of their tokens matters. Must never know which addresses
exist, nor the characters of wildcard addresses (`engine.names.syntax`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from daybook.engine.facts.definitions import (
    BALANCED,
    CLOSEST,
    DISTRIBUTIONS,
    MULTICAST,
    SHARDINGS,
    STORED,
    UNAVAILABLE,
    Distribution,
    DistributionEntry,
    Waypoint,
)
from daybook.engine.names import names
from daybook.engine.names.names import plain
from daybook.engine.settings.pattern_bits import ANY, ONE, PatternBits

__all__ = [
    "BALANCED",
    "CLOSEST",
    "MULTICAST",
    "STORED",
    "UNAVAILABLE",
    "DistributionEntry",
    "DistributionError",
    "Distributions",
    "faults_of",
    "faults_of_waypoints",
    "normal_form",
    "same_pattern",
    "shown_pattern",
]

SEPARATORS: Final = "./"
PRIORITY_MAX: Final = 9
TOKENS_MAX: Final = 32
ANY_MAX: Final = 4
"""Tokens of a pattern, and how many of them may be `#`: each costs time for every token of a
name."""
VISITS_MAX: Final = 2_000
"""How many places of the tree are visited for a name before all patterns are compared at once."""

_BETWEEN: Final = re.compile(r"[./]")


class DistributionError(ValueError):
    """An entry has a fault: its position and field, and as the text, the fault and the remedy."""

    def __init__(self, index: int, field: str, text: str) -> None:
        super().__init__(text)
        self.index: Final = index
        self.field: Final = field


def tokens_of(name: str) -> list[str]:
    """Return the tokens of a name."""
    tokens = _BETWEEN.split(name.lstrip(SEPARATORS))
    if not tokens[-1]:
        tokens.pop()
    return tokens


def normal_form(entry: DistributionEntry) -> tuple[str, ...]:
    """Return the tokens of the pattern of an entry, so that equal patterns have equal tokens: in a
    run of wildcards each `*` comes first, and one `#` is left."""
    tokens = tokens_of(entry.pattern or entry.prefix)
    normal: list[str] = []
    ends_in_any = False
    for token in tokens if entry.pattern else (*tokens, ANY):
        if token == ANY:
            ends_in_any = True
            continue
        if ends_in_any and token != ONE:
            normal.append(ANY)
            ends_in_any = False
        normal.append(token)
    return (*normal, ANY) if ends_in_any else tuple(normal)


def faults_of(entry: DistributionEntry) -> Iterator[tuple[str, str]]:
    """Yield (field, fault and remedy) for each fault of one entry."""
    if entry.prefix and entry.pattern:
        yield "pattern", "it has a prefix and a pattern; remove one of them"
    elif not entry.prefix and not entry.pattern:
        yield "prefix", 'it has neither prefix nor pattern, like prefix = "orders"; give one'
    for field in ("prefix", "pattern"):
        text = getattr(entry, field)
        wrong = _wrong_with(text) if text else None
        if wrong:
            yield field, f"{field} is {text!r}; {wrong}"
    if entry.distribution not in DISTRIBUTIONS:
        listed = ", ".join(DISTRIBUTIONS)
        yield "distribution", f"distribution is {entry.distribution!r}; it must be one of {listed}"
    if entry.priority is not None and not 0 <= entry.priority <= PRIORITY_MAX:
        must = f"it must be from 0 to {PRIORITY_MAX}, or left out"
        yield "priority", f"priority is {entry.priority}; {must}"
    yield from _contradictions(entry)


def _wrong_with(text: str) -> str | None:
    """Return the fault in a prefix or pattern and the remedy, None if it has none."""
    tokens = _BETWEEN.split(text.lstrip(SEPARATORS))
    if names.length(text) > names.NAME_BYTES_MAX:
        return f"it has {names.length(text):,} bytes, and {names.NAME_BYTES_MAX:,} are the most"
    if names.DIVIDER in text:
        return f"no name has '{names.DIVIDER}', so it would match none; write a name without it"
    if text != text.strip() or not text.isprintable():
        return "it must not begin or end with a space nor hold control characters"
    if not all(tokens):
        return "it has an empty token; write one separator ('.' or '/') between two tokens"
    if len(tokens) > TOKENS_MAX:
        return f"it has {len(tokens):,} tokens, and {TOKENS_MAX} are the most"
    if tokens.count(ANY) > ANY_MAX:
        return f"it has {tokens.count(ANY)} '{ANY}', and {ANY_MAX} are the most"
    return None


def _contradictions(entry: DistributionEntry) -> Iterator[tuple[str, str]]:
    if entry.waypoint and entry.distribution != BALANCED:
        yield (
            "waypoint",
            "waypoint says that a queue of this broker stores the messages, and the queue"
            f" distributes them, not the address; remove distribution = {entry.distribution!r}",
        )
    if not entry.enable_fallback:
        return
    if entry.waypoint or entry.distribution == STORED:
        what = "with waypoint" if entry.waypoint else f"where the distribution is {STORED}"
        yield (
            "enable_fallback",
            f"enable-fallback is of no use {what}: a queue stores all messages anyway; remove it",
        )
    elif entry.distribution == UNAVAILABLE:
        yield (
            "enable_fallback",
            f"enable-fallback is of no use where the distribution is {UNAVAILABLE}: nobody may send"
            " a message; remove it",
        )


def faults_of_waypoints(waypoints: Sequence[Waypoint]) -> Iterator[str]:
    """Yield each fault of addresses with auto-links, and its remedy."""
    seen: set[str] = set()
    for each in waypoints:
        if not each.name or each.name in seen:
            yield f"'{each.name}' is there twice; say once what its auto-links are together"
        seen.add(each.name)
        if each.shard_by not in SHARDINGS:
            listed = ", ".join(SHARDINGS)
            yield f"shard-by of '{each.name}' is {each.shard_by!r}; it must be one of {listed}"
        names_of_all = (*each.shards, each.local)
        if len(set(names_of_all)) < len(names_of_all) or "" in names_of_all:
            yield f"the shards of '{each.name}' have names twice, or none; give each one its own"


class _Node:
    """A place in the tree of patterns: the places that follow, and the entry that ends here."""

    __slots__ = ("any", "entry", "is_any", "one", "tokens")

    def __init__(self, *, is_any: bool = False) -> None:
        self.is_any: Final = is_any
        self.tokens: Final[dict[str, _Node]] = {}
        self.one: _Node | None = None
        self.any: _Node | None = None
        self.entry: DistributionEntry | None = None

    def grown(self, token: str) -> "_Node":
        """Return the place after a token of a pattern."""
        if token == ONE:
            self.one = self.one or _Node()
            return self.one
        if token == ANY:
            self.any = self.any or _Node(is_any=True)
            return self.any
        return self.tokens.setdefault(token, _Node())


class Distributions:
    """All distributions in force. Immutable: a new configuration is a new object."""

    def __init__(
        self,
        entries: Sequence[DistributionEntry] = (),
        default: str = STORED,
        waypoints: Sequence[Waypoint] = (),
    ) -> None:
        """Accept entries, the distribution of all names that none of them matches, and the
        addresses that have auto-links. Raises DistributionError for the first that is wrong, or the
        same pattern or name as one before it."""
        self.entries: Final = tuple(entries)
        self.default: Final = default
        self.waypoints: Final = tuple(waypoints)
        self._waypoints: Final = {each.name: each for each in self.waypoints}
        self._default: Final = DistributionEntry(pattern=ANY, distribution=default)
        self._root: Final = _Node()
        # Made when it is first needed.
        self._bits: PatternBits | None = None
        for field, text in faults_of(self._default):
            raise DistributionError(-1, field, text)
        for index, entry in enumerate(self.entries):
            self._add(index, entry)
        for fault in faults_of_waypoints(self.waypoints):
            raise DistributionError(-1, "waypoints", fault)
        self.is_used: Final = bool(self.waypoints) or any(
            not each.is_stored for each in (*self.entries, self._default)
        )

    def _add(self, index: int, entry: DistributionEntry) -> None:
        for field, text in faults_of(entry):
            raise DistributionError(index, field, text)
        node = self._root
        for token in normal_form(entry):
            node = node.grown(token)
        if node.entry is not None:
            field, text = same_pattern(entry, node.entry)
            raise DistributionError(index, field, f"{text}; remove one of them")
        node.entry = entry

    def of(self, name: str) -> Distribution:
        """Return what the table says of a full name."""
        entry = self.find(plain(name))
        return Distribution(
            entry.prefix, entry.pattern, entry.distribution, entry.priority, entry.waypoint,
            entry.enable_fallback, self._waypoints.get(name),
        )  # fmt: skip

    def find(self, name: str) -> DistributionEntry:
        """Return the entry for a name on its virtual host; one with the default if none matches.

        Each place in the tree is visited once for each token of the name. Where that is much,
        because patterns and name were made to agree, all patterns are compared at once.
        """
        tokens = tokens_of(name)
        end = len(tokens)
        seen: set[tuple[_Node, int]] = set()
        # The next one to try is last.
        untried = [(self._root, 0)]
        while untried:
            place = untried.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) == VISITS_MAX:
                return self._find_at_once(tokens)
            node, at = place
            if at == end and node.entry is not None:
                return node.entry
            if node.is_any and at < end:
                untried.append((node, at + 1))
            if node.any is not None:
                untried.append((node.any, at))
            if at < end:
                if node.one is not None:
                    untried.append((node.one, at + 1))
                child = node.tokens.get(tokens[at])
                if child is not None:
                    untried.append((child, at + 1))
        return self._default

    def _find_at_once(self, tokens: Sequence[str]) -> DistributionEntry:
        if self._bits is None:
            self._bits = PatternBits([normal_form(each) for each in self.entries])
        found = self._bits.find(tokens)
        return self.entries[found] if found >= 0 else self._default


def same_pattern(entry: DistributionEntry, earlier: DistributionEntry) -> tuple[str, str]:
    """Return (field, text) for an entry whose pattern an earlier entry has."""
    field, shown = shown_pattern(entry)
    return field, f"{shown} is the same pattern as {shown_pattern(earlier)[1]}"


def shown_pattern(entry: DistributionEntry) -> tuple[str, str]:
    """Return the field that has the prefix or pattern of an entry, and both as a text."""
    field = "pattern" if entry.pattern else "prefix"
    return field, f"{field} {getattr(entry, field)!r}"
