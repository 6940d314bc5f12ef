"""Patterns over names, and a trie that finds the patterns that match a name (ADR 35).

Names are words divided by the delimiter of a syntax (`engine.names.syntax`), by default `.`. In a
pattern `*` stands for exactly one word, and `#` for any number of them, also none; a syntax may
have other characters for them. The patterns of wildcard addresses may have `#` before other words,
and words that match in part (`engine.names.words`); for matches of settings such words mean
themselves. Invariants: a trie has nodes for the patterns in it and no others; the work for a name
depends on its words, on the patterns that begin like it and on the words that match in part, whose
number is bounded where patterns are accepted. A pattern matches names of its own virtual host only:
the host is a first word that no wildcard stands for. Must never know what the patterns belong to.
"""

from typing import Final, Generic, TypeAlias, TypeVar

from daybook.engine.names.names import DIVIDER
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.names.words import Part, Regex, is_part, part_of, words_of

_V = TypeVar("_V")

ANY: Final = Part("")
"""In a path: any number of words, with others after them."""

MIDDLE_WORDS_MAX: Final = 32
"""How many words a name may have so that a pattern matches it that has `#` before other words."""

Word: TypeAlias = str | Part | None
Path: TypeAlias = tuple[list[Word], bool]
"""A pattern as words, None for the wildcard for one word, and whether any words come after them."""


class _Node(Generic[_V]):
    """A node of the trie: its successors by the next word, and the values that end here.

    `any_word` is the successor by a wildcard for one word, `parts` those by words that match in
    part, `loop` the one by any number of words, which `loops`. `here` are values of patterns whose
    last word led here, `below` those with any words after it.
    """

    __slots__ = ("any_word", "below", "here", "loop", "loops", "next", "parts")

    def __init__(self, *, loops: bool = False) -> None:
        self.next: dict[str, _Node[_V]] = {}
        self.any_word: _Node[_V] | None = None
        self.parts: dict[str, tuple[Part, _Node[_V]]] | None = None
        self.loop: _Node[_V] | None = None
        self.loops: Final = loops
        self.here: list[_V] = []
        self.below: list[_V] = []

    def follow(self, word: Word) -> "_Node[_V] | None":
        """Return the successor by a word of a pattern; None is the wildcard for one word."""
        if word is None:
            return self.any_word
        if isinstance(word, str):
            return self.next.get(word)
        if word is ANY:
            return self.loop
        found = self.parts.get(word.text) if self.parts is not None else None
        return found[1] if found is not None else None

    def extend(self, word: Word) -> "_Node[_V]":
        """Make the successor by a word of a pattern."""
        node: _Node[_V] = _Node(loops=word is ANY)
        if word is None:
            self.any_word = node
        elif isinstance(word, str):
            self.next[word] = node
        elif word is ANY:
            self.loop = node
        else:
            if self.parts is None:
                self.parts = {}
            self.parts[word.text] = word, node
        return node

    def cut(self, word: Word) -> None:
        """Remove the successor by a word of a pattern."""
        if word is None:
            self.any_word = None
        elif isinstance(word, str):
            del self.next[word]
        elif word is ANY:
            self.loop = None
        else:
            assert self.parts is not None, "a successor by such a word was found"
            del self.parts[word.text]
            if not self.parts:
                self.parts = None

    def is_empty(self) -> bool:
        """Whether no pattern ends here or below."""
        return not (
            self.next or self.any_word or self.parts or self.loop or self.here or self.below
        )


def path_of(pattern: str, syntax: Syntax) -> Path:
    """Return the words that lead to the node of a pattern that is a match of settings, and whether
    any words come after them.

    None is the wildcard for one word.
    """
    host, name = _host_and_rest(pattern)
    words = words_of(name, syntax.delimiter)
    has_below = words[-1] == syntax.any_words
    if has_below:
        words.pop()
    path: list[Word] = [None if word == syntax.one_word else word for word in words]
    return [host, *path] if host else path, has_below


def _host_and_rest(full: str) -> tuple[str, str]:
    """Return the first word of a full name that is a virtual host, empty if there is none, and the
    rest."""
    host, divider, name = full.partition(DIVIDER)
    return (host + DIVIDER, name) if divider else ("", full)


def _host_of(words: list[Word]) -> str:
    """Return the virtual host of a path, empty for that whose names are spelled without it."""
    first = words[0] if words else None
    return first if isinstance(first, str) and first.endswith(DIVIDER) else ""


def full_path_of(pattern: str, syntax: Syntax) -> Path:
    """Return the same of the name of a wildcard address, with the words that match in part.

    What breaks the rules matches nothing.
    """
    host, name = _host_and_rest(pattern)
    path: list[Word] = []
    for word in words_of(name, syntax.delimiter):
        if word == syntax.any_words:
            if not path or path[-1] is not ANY:
                path.append(ANY)
        elif word == syntax.one_word:
            path.append(None)
        elif is_part(word, syntax):
            path.append(_part(word, syntax))
        else:
            path.append(word)
    has_below = bool(path) and path[-1] is ANY
    if has_below:
        path.pop()
    return [host, *path] if host else path, has_below


def _part(word: str, syntax: Syntax) -> Part:
    try:
        return part_of(word, syntax.one_word)
    except ValueError:
        return Part(word)


def overlap(one: Path, other: Path) -> bool:
    """Whether any name matches both of two patterns; also true where that takes a closer look."""
    words, has_below = one
    others, other_below = other
    if _host_of(words) != _host_of(others):
        return False
    for word, its in zip(words, others, strict=False):
        if word is ANY or its is ANY:
            return _overlap_with_loops(_whole(one), _whole(other))
        if not _meet(word, its):
            return False
    if ANY in words or ANY in others:
        return _overlap_with_loops(_whole(one), _whole(other))
    if len(words) == len(others):
        return True
    return has_below if len(words) < len(others) else other_below


def _overlap_with_loops(first: list[Word], second: list[Word]) -> bool:
    """Do the same with any number of words anywhere, in steps of one word of each of them."""
    # Whether what is left of both has a name in common, by where the rest of the second begins.
    ahead = [False] * (len(second) + 1)
    for place in range(len(first), -1, -1):
        row = [False] * (len(second) + 1)
        is_over = place == len(first)
        for its in range(len(second), -1, -1):
            its_over = its == len(second)
            if is_over and its_over:
                row[its] = True
            elif not is_over and first[place] is ANY:
                row[its] = ahead[its] or (not its_over and row[its + 1])
            elif not its_over and second[its] is ANY:
                row[its] = row[its + 1] or (not is_over and ahead[its])
            elif not is_over and not its_over:
                row[its] = ahead[its + 1] and _meet(first[place], second[its])
        ahead = row
    return ahead[0]


def covers(wide: Path, pattern: Path) -> bool:
    """Whether every name that matches `pattern` matches `wide` too; also false where that takes a
    closer look."""
    words, has_below = wide
    others, other_below = pattern
    if _host_of(words) != _host_of(others):
        return False
    if ANY in words or ANY in others:
        return _covers_with_loops(_whole(wide), _whole(pattern))
    if len(others) < len(words) or (not has_below and (other_below or len(others) > len(words))):
        return False
    return all(_contains(word, its) for word, its in zip(words, others, strict=False))


def _covers_with_loops(first: list[Word], second: list[Word]) -> bool:
    """Do the same with any number of words anywhere, in steps of one word of each of them."""
    # Whether the rest of the first covers that of the second, by where the latter begins.
    ahead = [False] * (len(second) + 1)
    for place in range(len(first), -1, -1):
        row = [False] * (len(second) + 1)
        is_over = place == len(first)
        row[len(second)] = is_over or (first[place] is ANY and ahead[len(second)])
        for its in range(len(second) - 1, -1, -1):
            if is_over:
                continue
            if first[place] is ANY:
                row[its] = ahead[its] or row[its + 1]
            elif second[its] is not ANY:
                row[its] = ahead[its + 1] and _contains(first[place], second[its])
        ahead = row
    return ahead[0]


def _whole(path: Path) -> list[Word]:
    words, has_below = path
    return [*words, ANY] if has_below else words


def _meet(word: Word, other: Word) -> bool:
    """Whether two words of patterns, neither of which is any number, may match the same word."""
    if isinstance(word, str):
        return word == other if isinstance(other, str) else _admits(other, word)
    return not isinstance(other, str) or _admits(word, other)


def _admits(pattern: Word, word: str) -> bool:
    """Whether a wildcard or a partial word of a pattern matches a word, which must not be empty."""
    return bool(word) and (not isinstance(pattern, Part) or pattern.matches(word))


def _contains(wide: Word, word: Word) -> bool:
    """Whether a word of a pattern matches whatever another one does."""
    if wide is None:
        return word != ""
    if isinstance(word, str):
        return word == wide if isinstance(wide, str) else bool(word) and wide.matches(word)
    return isinstance(wide, Part) and isinstance(word, Part) and wide.text == word.text


class PatternTrie(Generic[_V]):
    """Values by pattern. `matching` gives the values of all patterns that match a name.

    With `is_full` patterns are those of wildcard addresses, otherwise matches of settings.
    """

    __slots__ = (
        "_delimiter", "_is_full", "_loops", "_root", "_syntax", "nodes", "parts", "regexes",
        "visited",
    )  # fmt: skip

    def __init__(self, syntax: Syntax = DEFAULT, *, is_full: bool = False) -> None:
        self._syntax: Final = syntax
        self._is_full: Final = is_full
        self._delimiter: Final = syntax.delimiter
        self._root: _Node[_V] = _Node()
        # How many nodes there are below the root, and how many of them the last `matching` visited.
        self.nodes = 0
        self.visited = 0
        # How many of them are reached by words that match in part, by regular expressions, and by
        # any number of words.
        self.parts = 0
        self.regexes = 0
        self._loops = 0

    def add(self, pattern: str, value: _V) -> None:
        """Add the value of a pattern. A word that breaks the rules is matched literally in a match
        of settings, and matches nothing elsewhere."""
        words, has_below = self._path(pattern)
        node = self._root
        for word in words:
            following = node.follow(word)
            if following is None:
                following = node.extend(word)
                self._count(word, 1)
            node = following
        (node.below if has_below else node.here).append(value)

    def remove(self, pattern: str, value: _V) -> None:
        """Remove a value that was added for a pattern. Raises ValueError if it was not."""
        words, has_below = self._path(pattern)
        passed = [self._root]
        for word in words:
            following = passed[-1].follow(word)
            if following is None:
                raise ValueError(f"the pattern {pattern!r} is not in the trie")
            passed.append(following)
        (passed[-1].below if has_below else passed[-1].here).remove(value)
        while words and passed[-1].is_empty():
            passed.pop()
            word = words.pop()
            passed[-1].cut(word)
            self._count(word, -1)

    def _path(self, pattern: str) -> Path:
        return (
            full_path_of(pattern, self._syntax) if self._is_full else path_of(pattern, self._syntax)
        )

    def _count(self, word: Word, change: int) -> None:
        if word is ANY:
            self._loops += change
        elif isinstance(word, Part):
            self.parts += change
            if isinstance(word, Regex):
                self.regexes += change
        self.nodes += change * (word.nodes if isinstance(word, Part) else 1)

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
        words = words_of(name, self._delimiter)
        if self._loops and len(words) <= MIDDLE_WORDS_MAX:
            return self._matching_with_loops(root, words)
        places = [root]
        visited = 0
        for word in words:
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
                if node.parts is not None and word:
                    visited += len(node.parts)
                    following += [its for part, its in node.parts.values() if part.matches(word)]
            places = following
            visited += len(places)
            if not places:
                break
        for node in places:
            found += node.below
            found += node.here
        self.visited = visited
        return found

    def _matching_with_loops(self, root: _Node[_V], words: list[str]) -> list[_V]:
        """Do the same where patterns have any number of words before others.

        Several ways may lead to a node; it counts once at each word, and its values once at all.
        """
        passed: dict[_Node[_V], None] = {}
        places: dict[_Node[_V], None] = {}
        _reach(root, places)
        visited = len(places)
        for word in words:
            passed.update(places)
            following: dict[_Node[_V], None] = {}
            for node in places:
                if node.loops:
                    following[node] = None
                named = node.next.get(word)
                if named is not None:
                    _reach(named, following)
                if node.any_word is not None and word:
                    _reach(node.any_word, following)
                if node.parts is not None and word:
                    visited += len(node.parts)
                    for part, its in node.parts.values():
                        if part.matches(word):
                            _reach(its, following)
            places = following
            visited += len(places)
            if not places:
                break
        passed.update(places)
        self.visited = visited
        found = [value for node in passed for value in node.below]
        return found + [value for node in places for value in node.here]


def _reach(node: _Node[_V], places: dict[_Node[_V], None]) -> None:
    """Add a node to those reached, and the one behind it that takes no word."""
    places[node] = None
    if node.loop is not None:
        places[node.loop] = None
