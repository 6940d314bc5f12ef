"""Diverts: which of them take messages of an address, and what their copies look like (ADR 47).

A divert is a binding whose target is not a queue but other addresses. This module finds the diverts
of an address (a trie, as for settings), says where copies of a message go, and changes properties
of copies. Must never know queues, or how a copy is routed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.facts.details import Origin
from daybook.engine.facts.values import Value
from daybook.engine.limits.budget import Budget
from daybook.engine.messages.content import codec_of
from daybook.engine.messages.message import Filter
from daybook.engine.messages.origins import OF_EVERY_COPY, shown
from daybook.engine.names.patterns import PatternTrie
from daybook.engine.names.syntax import syntax_of

STRIP: Final = "strip"
KEEP: Final = "pass"

COPIES_MAX: Final = 1000
"""How many copies of one message all diverts together may make."""
REMEMBERED_MAX: Final = 10_000
"""For how many addresses the diverts are remembered."""
VISITED_SHIFT: Final = 3


class Divert:
    """A divert, with its filter once it was compiled."""

    __slots__ = ("definition", "matcher")

    def __init__(self, definition: DivertDefinition) -> None:
        self.definition: Final = definition
        self.matcher: Filter | None = None

    @property
    def name(self) -> str:
        """Its name, unique among diverts."""
        return self.definition.name

    def routing_type(self, sent: str | None) -> str | None:
        """Return the routing type of a copy; `sent` is what the sender asked for."""
        wanted = self.definition.routing_type
        if wanted == KEEP:
            return sent
        return None if wanted == STRIP else wanted

    def headers(self, flags: int, headers: bytes, origin: Origin) -> bytes:
        """Return the headers of a copy of a message that was there before."""
        codec = codec_of(flags)
        definition = self.definition
        added: dict[str, Value] = {}
        removed = list(OF_EVERY_COPY)
        for name in definition.remove_properties:
            if codec.first(headers, name) is not None:
                removed.append(name)
        for pair in definition.rename_properties:
            old, _, new = pair.partition("=")
            value = codec.first(headers, old)
            if value is not None:
                removed.append(old)
                added[new] = value
        for pair in definition.add_properties:
            name, _, text = pair.partition("=")
            added[name] = text
        added |= shown(origin)
        return codec.copied(headers, removed, added)


class Diverts:
    """All diverts. Derived from the state, and no part of it.

    `count` is how many there are, so that routing need not ask where there are none.
    """

    def __init__(self, definitions: dict[str, DivertDefinition], budget: Budget) -> None:
        self.count = 0
        self._budget: Final = budget
        self._all: dict[str, Divert] = {}
        # By the syntax of their addresses, as wildcard addresses (`engine.state.wildcards`).
        self._tries: dict[str, PatternTrie[Divert]] = {}
        self._remembered: dict[str, tuple[Divert, ...]] = {}
        for definition in definitions.values():
            self.add(definition)

    def add(self, definition: DivertDefinition) -> None:
        """Add a divert."""
        divert = self._all[definition.name] = Divert(definition)
        trie = self._tries.get(definition.syntax)
        if trie is None:
            trie = PatternTrie(syntax_of(definition.syntax), is_full=True)
            self._tries[definition.syntax] = trie
        trie.add(definition.address, divert)
        self._change()

    def remove(self, name: str) -> None:
        """Remove a divert."""
        divert = self._all.pop(name)
        definition = divert.definition
        self._tries[definition.syntax].remove(definition.address, divert)
        self._change()

    def follow(self, definitions: dict[str, DivertDefinition]) -> None:
        """Become the diverts of these definitions, when some came or went."""
        for name, divert in list(self._all.items()):
            if definitions.get(name) is not divert.definition:
                self.remove(name)
        for name, definition in definitions.items():
            if name not in self._all:
                self.add(definition)

    def _change(self) -> None:
        self.count = len(self._all)
        self._remembered.clear()

    def of(self, address: str) -> tuple[Divert, ...]:
        """Return the diverts of an address, in the order of their names."""
        if not self.count:
            return ()
        found = self._remembered.get(address)
        if found is None:
            matching: list[Divert] = []
            for trie in self._tries.values():
                matching += trie.matching(address)
                self._budget.spent += trie.visited >> VISITED_SHIFT
            found = tuple(sorted(matching, key=lambda divert: divert.name))
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[address] = found
        return found

    def reached(self, diverts: tuple[Divert, ...]) -> Iterator[str]:
        """Iterate over the addresses that copies can reach, each once, whatever filters say."""
        seen: set[str] = set()
        left = [target for divert in diverts for target in divert.definition.forwarding_addresses]
        while left:
            target = left.pop()
            if target not in seen:
                seen.add(target)
                yield target
                left += [
                    each
                    for divert in self.of(target)
                    for each in divert.definition.forwarding_addresses
                ]

    def too_many(self) -> str | None:
        """Return the name of a divert whose copies come back to it, or are too many; else None."""
        counts: dict[str, int] = {}
        # Those with wildcards are taken to match every address: whether two patterns have a name in
        # common is not worth the trouble.
        with_wildcards = 0
        by_address: Counter[str] = Counter()
        for name in sorted(self._all):
            definition = self._all[name].definition
            count = self._copies(self._all[name], counts, [])
            if syntax_of(definition.syntax).is_pattern(definition.address):
                with_wildcards += count
                most = max(by_address.values(), default=0)
            else:
                by_address[definition.address] += count
                most = by_address[definition.address]
            if most + with_wildcards > COPIES_MAX:
                return name
        return None

    def _copies(self, divert: Divert, counts: dict[str, int], path: list[str]) -> int:
        """Return how many copies a divert makes with those behind it; too many if in a circle."""
        known = counts.get(divert.name)
        if known is not None:
            return known
        if divert.name in path or len(path) > COPIES_MAX:
            return COPIES_MAX + 1
        path.append(divert.name)
        count = 0
        for target in divert.definition.forwarding_addresses:
            count += 1
            for following in self.of(target):
                count += self._copies(following, counts, path)
                if count > COPIES_MAX:
                    break
        path.pop()
        counts[divert.name] = count = min(count, COPIES_MAX + 1)
        return count
