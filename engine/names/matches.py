"""Which matches cover an address, the most specific first: of address settings and permissions.

Matches are patterns (`engine.names.patterns`), names, or names that are marked as literal
(`Syntax.literal`). A match may be for one virtual host alone (`HOST::MATCH`, also for the default
one): for names on that host such matches come before all others, because who runs the host decides
about it. Must never know what belongs to a match.
"""

from collections.abc import Iterable
from typing import Final

from daybook.engine.names.names import DIVIDER, host_and_name
from daybook.engine.names.patterns import Path, PatternTrie, covers, full_path_of, overlap, path_of
from daybook.engine.names.syntax import DEFAULT, Syntax

_Rank = tuple[bool, int, list[bool], str]


def _specificity(match: str, syntax: Syntax) -> _Rank:
    """Sort key among matches that cover one address, the most specific first.

    Without `#` before with `#`. Both with `#`: the longer string. Then word by word, a word before
    a `*`. Artemis leaves the order open where two matches with `#` are of equal length; the words
    decide here, and finally the alphabet, so that it never depends on the order of a file.
    """
    words = match.split(syntax.delimiter)
    any_words = words[-1] == syntax.any_words
    length = len(match) if any_words else 0
    return any_words, -length, [word == syntax.one_word for word in words], match


def _on(host: str, matches: list[str]) -> list[str]:
    """Return matches as they were given, for one host alone."""
    return [f"{host}{DIVIDER}{match}" for match in matches]


class Covering:
    """A set of matches, which does not change."""

    def __init__(self, matches: Iterable[str], syntax: Syntax = DEFAULT) -> None:
        of_hosts: dict[str, list[str]] = {}
        of_all = []
        for match in matches:
            host, divider, rest = match.partition(DIVIDER)
            if divider:
                of_hosts.setdefault(host, []).append(rest)
            else:
                of_all.append(match)
        self._of_hosts: Final = {host: Covering(own, syntax) for host, own in of_hosts.items()}
        self._matches: Final = frozenset(of_all)
        self._syntax: Final = syntax
        self._by_pattern: Final[PatternTrie[str]] = PatternTrie(syntax)
        self._literal: Final[dict[str, str]] = {}
        self._sorted: list[tuple[str, Path]] | None = None
        self._ranks: Final[dict[str, _Rank]] = {}
        for match in self._matches:
            name = syntax.literal(match)
            if name is None:
                self._by_pattern.add(match, match)
                self._ranks[match] = _specificity(match, syntax)
            else:
                self._literal[name] = match

    def of(self, address: str) -> list[str]:
        """Return the matches that cover an address, those of its host first, the most specific
        first."""
        host, name = host_and_name(address)
        own = self._of_hosts.get(host)
        covering = self._of_name(name)
        return covering if own is None else [*_on(host, own._of_name(name)), *covering]

    def first(self, name: str) -> str | None:
        """Return the first of the matches for all hosts that cover a name on its host; None if none
        does."""
        if name in self._matches and self._syntax.literal(name) is None:
            return name
        if name in self._literal:
            return self._literal[name]
        covering = self._by_pattern.matching(name)
        if len(covering) > 1:
            return min(covering, key=self._ranks.__getitem__)
        return covering[0] if covering else None

    def _of_name(self, address: str) -> list[str]:
        """Do the same with the name of an address on its host."""
        covering = sorted(self._by_pattern.matching(address), key=self._ranks.__getitem__)
        if address in self._literal:
            covering.insert(0, self._literal[address])
        if address in self._matches and self._syntax.literal(address) is None:
            # An exact match comes first even if the name itself looks like a wildcard.
            covering.remove(address)
            covering.insert(0, address)
        return covering

    def within(self, pattern: str) -> tuple[list[str], bool]:
        """Return the matches that are the first of `of` for some name that a pattern matches.

        The pattern is the name of a wildcard address. There may be more than these, never fewer.
        Also return whether there certainly is one for each such name. The work grows with the
        number of matches.
        """
        host, name = host_and_name(pattern)
        own = self._of_hosts.get(host)
        if own is None:
            return self._within(name)
        found, is_complete = own.within(name)
        found = _on(host, found)
        if is_complete:
            return found, True
        others, is_complete = self._within(name)
        return found + others, is_complete

    def _within(self, pattern: str) -> tuple[list[str], bool]:
        """Do the same with a pattern without its host."""
        path = full_path_of(pattern, self._syntax)
        found = [
            match
            for name, match in self._literal.items()
            if covers(path, (list(name.split(self._syntax.delimiter)), False))
        ]
        for match, its in self._in_order():
            if overlap(its, path):
                found.append(match)
                if covers(its, path):
                    # A less specific match comes first for none of these names.
                    return found, True
        return found, False

    def _in_order(self) -> list[tuple[str, Path]]:
        """Return the patterns, the most specific first, parsed; sorted when first asked."""
        if self._sorted is None:
            patterns = sorted(self._ranks, key=self._ranks.__getitem__)
            self._sorted = [(match, path_of(match, self._syntax)) for match in patterns]
        return self._sorted
