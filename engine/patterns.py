"""Patterns over names, and a trie that finds the patterns that match a name (ADR 35).

Names are words divided by `.`. In a pattern `*` stands for exactly one word, and `#` as the last
word for any number of them, also none. Invariants: a trie has nodes for the patterns in it and no
others; the work for a name depends on its words and on the patterns that begin like it, never on
how many patterns or names there are. Must never know what the patterns belong to.
"""

from typing import Final, Generic, TypeVar

DELIMITER: Final = "."
ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"

_V = TypeVar("_V")


def has_wildcard(name: str) -> bool:
    """Whether a name contains a wildcard, if only a misplaced one."""
    return ONE_WORD in name or ANY_WORDS in name


def wrong_with(pattern: str) -> str | None:
    """Return what is wrong with a pattern, in words that follow it; None if nothing is."""
    words = pattern.split(DELIMITER)
    for position, word in enumerate(words):
        if word == ANY_WORDS and position < len(words) - 1:
            return "has '#' in the middle; '#' may only be its last word"
        if word not in (ONE_WORD, ANY_WORDS) and has_wildcard(word):
            return f"has {word!r}; a wildcard must be a word of its own"
    return None


class _Node(Generic[_V]):
    """A node of the trie: its successors by the next word, and the values that end here.

    `any_word` is the successor by `*`. `here` are values of patterns whose last word led here,
    `below` those with a `#` after it.
    """

    __slots__ = ("any_word", "below", "here", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node[_V]] = {}
        self.any_word: _Node[_V] | None = None
        self.here: list[_V] = []
        self.below: list[_V] = []

    def follow(self, word: str) -> "_Node[_V] | None":
        """Return the successor by a word of a pattern."""
        return self.any_word if word == ONE_WORD else self.next.get(word)

    def extend(self, word: str) -> "_Node[_V]":
        """Make the successor by a word of a pattern."""
        node: _Node[_V] = _Node()
        if word == ONE_WORD:
            self.any_word = node
        else:
            self.next[word] = node
        return node

    def cut(self, word: str) -> None:
        """Remove the successor by a word of a pattern."""
        if word == ONE_WORD:
            self.any_word = None
        else:
            del self.next[word]

    def is_empty(self) -> bool:
        """Whether no pattern ends here or below."""
        return not (self.next or self.any_word or self.here or self.below)


def _path(pattern: str) -> tuple[list[str], bool]:
    """Return the words that lead to the node of a pattern, and whether a `#` comes after them."""
    words = pattern.split(DELIMITER)
    has_below = words[-1] == ANY_WORDS
    if has_below:
        words.pop()
    return words, has_below


class PatternTrie(Generic[_V]):
    """Values by pattern. `matching` gives the values of all patterns that match a name."""

    __slots__ = ("_root", "nodes", "visited")

    def __init__(self) -> None:
        self._root: _Node[_V] = _Node()
        # How many nodes there are below the root, and how many of them the last `matching` visited.
        self.nodes = 0
        self.visited = 0

    def add(self, pattern: str, value: _V) -> None:
        """Add the value of a pattern. A word that breaks the rules is matched literally."""
        words, has_below = _path(pattern)
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
        words, has_below = _path(pattern)
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
        places = [self._root]
        visited = 0
        for word in name.split(DELIMITER):
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
