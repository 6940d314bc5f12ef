"""Patterns over names, and a trie that finds the patterns that match a name (ADR 35).

Names are words divided by `.`. In a pattern `*` stands for exactly one word, and `#` as the last
word for any number of them, also none. Invariant: the work for a name depends on its words and on
the patterns that begin like it, never on how many patterns or names there are. Must never know
what the patterns belong to.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

DELIMITER: Final = "."
ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"

_V = TypeVar("_V")


def wrong_with(pattern: str) -> str | None:
    """Return what is wrong with a pattern, in words that follow it; None if nothing is."""
    words = pattern.split(DELIMITER)
    for position, word in enumerate(words):
        if word == ANY_WORDS and position < len(words) - 1:
            return "has '#' in the middle; '#' may only be its last word"
        if word not in (ONE_WORD, ANY_WORDS) and (ONE_WORD in word or ANY_WORDS in word):
            return f"has {word!r}; a wildcard must be a word of its own"
    return None


class _Node(Generic[_V]):
    """A node of the trie: its successors by the next word, and the values that end here.

    `here` are values of patterns whose last word led here, `below` those with a `#` after it.
    """

    __slots__ = ("below", "here", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node[_V]] = {}
        self.here: list[_V] = []
        self.below: list[_V] = []


class PatternTrie(Generic[_V]):
    """Values by pattern. `matching` gives the values of all patterns that match a name."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Node[_V] = _Node()

    def add(self, pattern: str, value: _V) -> None:
        """Add the value of a pattern. A word that breaks the rules is matched literally."""
        words = pattern.split(DELIMITER)
        has_below = words[-1] == ANY_WORDS
        if has_below:
            words.pop()
        node = self._root
        for word in words:
            following = node.next.get(word)
            if following is None:
                following = node.next[word] = _Node()
            node = following
        (node.below if has_below else node.here).append(value)

    def matching(self, name: str) -> Iterator[_V]:
        """Iterate over the values of all patterns that match a name, in no particular order.

        `a.#` matches `a` too; `*` never matches an empty word.
        """
        places = [self._root]
        for word in name.split(DELIMITER):
            following: list[_Node[_V]] = []
            for node in places:
                yield from node.below
                found = node.next.get(word)
                if found is not None:
                    following.append(found)
                found = node.next.get(ONE_WORD) if word and word != ONE_WORD else None
                if found is not None:
                    following.append(found)
            places = following
        for node in places:
            yield from node.below
            yield from node.here
