"""Patterns over names, and a trie that finds the patterns that match a name (ADR 35).

Names are words divided by the delimiter of a syntax (`engine.syntax`), by default `.`. In a pattern
`*` stands for exactly one word, and `#` as the last word for any number of them, also none; a
syntax may have other characters for them. Invariants: a trie has nodes for the patterns in it and
no others; the work for a name depends on its words and on the patterns that begin like it, never
on how many patterns or names there are. A pattern matches names of its own virtual host only: the
host is a first word that no wildcard stands for. Must never know what the patterns belong to.
"""

from typing import Final, Generic, TypeAlias, TypeVar

from daybook.engine.names import DIVIDER
from daybook.engine.syntax import DEFAULT, Syntax

_V = TypeVar("_V")

Path: TypeAlias = tuple[list[str | None], bool]
"""A pattern as words, None for the wildcard for one word, and whether any words come after them."""


class _Node(Generic[_V]):
    """A node of the trie: its successors by the next word, and the values that end here.

    `any_word` is the successor by a wildcard for one word. `here` are values of patterns whose last
    word led here, `below` those with any words after it.
    """

    __slots__ = ("any_word", "below", "here", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node[_V]] = {}
        self.any_word: _Node[_V] | None = None
        self.here: list[_V] = []
        self.below: list[_V] = []

    def follow(self, word: str | None) -> "_Node[_V] | None":
        """Return the successor by a word of a pattern; None is the wildcard for one word."""
        return self.any_word if word is None else self.next.get(word)

    def extend(self, word: str | None) -> "_Node[_V]":
        """Make the successor by a word of a pattern."""
        node: _Node[_V] = _Node()
        if word is None:
            self.any_word = node
        else:
            self.next[word] = node
        return node

    def cut(self, word: str | None) -> None:
        """Remove the successor by a word of a pattern."""
        if word is None:
            self.any_word = None
        else:
            del self.next[word]

    def is_empty(self) -> bool:
        """Whether no pattern ends here or below."""
        return not (self.next or self.any_word or self.here or self.below)


def path_of(pattern: str, syntax: Syntax) -> Path:
    """Return the words that lead to the node of a pattern, and whether any words come after them.

    None is the wildcard for one word.
    """
    host, divider, name = pattern.rpartition(DIVIDER)
    words = name.split(syntax.delimiter)
    has_below = words[-1] == syntax.any_words
    if has_below:
        words.pop()
    path = [None if word == syntax.one_word else word for word in words]
    return [host + DIVIDER, *path] if divider else path, has_below


def _host_of(words: list[str | None]) -> str:
    """Return the virtual host of a path, empty for that whose names are spelled without it."""
    first = words[0] if words else None
    return first if first is not None and first.endswith(DIVIDER) else ""


def overlap(one: Path, other: Path) -> bool:
    """Whether any name matches both of two patterns."""
    words, has_below = one
    others, other_below = other
    if _host_of(words) != _host_of(others):
        return False
    for word, its in zip(words, others, strict=False):
        if not (word == its or (word is None and its) or (its is None and word)):
            return False
    if len(words) == len(others):
        return True
    return has_below if len(words) < len(others) else other_below


def covers(wide: Path, pattern: Path) -> bool:
    """Whether every name that matches `pattern` matches `wide` too."""
    words, has_below = wide
    others, other_below = pattern
    if _host_of(words) != _host_of(others):
        return False
    if len(others) < len(words) or (not has_below and (other_below or len(others) > len(words))):
        return False
    return all(
        word == its or (word is None and its != "")
        for word, its in zip(words, others, strict=False)
    )


class PatternTrie(Generic[_V]):
    """Values by pattern. `matching` gives the values of all patterns that match a name."""

    __slots__ = ("_delimiter", "_root", "_syntax", "nodes", "visited")

    def __init__(self, syntax: Syntax = DEFAULT) -> None:
        self._syntax: Final = syntax
        self._delimiter: Final = syntax.delimiter
        self._root: _Node[_V] = _Node()
        # How many nodes there are below the root, and how many of them the last `matching` visited.
        self.nodes = 0
        self.visited = 0

    def add(self, pattern: str, value: _V) -> None:
        """Add the value of a pattern. A word that breaks the rules is matched literally."""
        words, has_below = path_of(pattern, self._syntax)
        node = self._root
        for word in words:
            following = node.follow(word)
            if following is None:
                following = node.extend(word)
                self.nodes += 1
            node = following
        (node.below if has_below else node.here).append(value)

    def remove(self, pattern: str, value: _V) -> None:
        """Remove a value that was added for a pattern. Raises ValueError if it was not."""
        words, has_below = path_of(pattern, self._syntax)
        passed = [self._root]
        for word in words:
            following = passed[-1].follow(word)
            if following is None:
                raise ValueError(f"the pattern {pattern!r} is not in the trie")
            passed.append(following)
        (passed[-1].below if has_below else passed[-1].here).remove(value)
        while words and passed[-1].is_empty():
            passed.pop()
            passed[-1].cut(words.pop())
            self.nodes -= 1

    def matching(self, name: str) -> list[_V]:
        """Return the values of all patterns that match a name, in no particular order.

        `a.#` matches `a` too; `*` never matches an empty word.
        """
        found: list[_V] = []
        root = self._root
        if DIVIDER in name:
            host, _, name = name.partition(DIVIDER)
            on_host = root.next.get(host + DIVIDER)
            if on_host is None:
                self.visited = 0
                return found
            root = on_host
        places = [root]
        visited = 0
        for word in name.split(self._delimiter):
            following: list[_Node[_V]] = []
            for node in places:
                if node.below:
                    found += node.below
                named = node.next.get(word)
                if named is not None:
                    following.append(named)
                any_word = node.any_word
                if any_word is not None and word:
                    following.append(any_word)
            places = following
            visited += len(places)
            if not places:
                break
        for node in places:
            found += node.below
            found += node.here
        self.visited = visited
        return found
