"""Patterns: which names they match, what is wrong with one, and what a look costs."""

import pytest

from daybook.engine.patterns import PatternTrie
from daybook.engine.syntax import DEFAULT


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("#", "anything.at.all", True),
        ("#", "", True),
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.*", "a.", False),
        ("*.b", "a.b", True),
        ("a.b.#", "a.b", True),
        ("a.b.#", "a.b.c.d", True),
        ("a.b.#", "a.bc", False),
        ("a.b.#", "a", False),
        ("a.*.#", "a.b", True),
        ("a.*.#", "a", False),
        ("a.b.#", "a.b.#", True),
        ("a.*", "a.*", True),
        ("a+b", "aab", False),
        # Words that break the rules stand for themselves: a journal may have them.
        ("a.#.b", "a.x.b", False),
        ("a.#.b", "a.#.b", True),
        ("a*", "ab", False),
    ],
)
def test_patterns_go_by_words(pattern: str, name: str, matches: bool) -> None:
    trie: PatternTrie[str] = PatternTrie()
    trie.add(pattern, "found")
    assert list(trie.matching(name)) == ["found"] * matches


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("a.#.b", "'#' in the middle"), ("a.b#", "'b#'"), ("a*.b", "'a*'"), ("a.*.#", None)],
)
def test_what_is_wrong_with_a_pattern_is_named(pattern: str, words: str | None) -> None:
    wrong = DEFAULT.wrong_with(pattern)
    assert wrong is None if words is None else words in str(wrong)


class Word(str):
    """A word that counts how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        Word.looks += 1
        return super().__hash__()


class Name(str):
    """A name of such words."""

    def split(self, *args: object) -> list[str]:  # type: ignore[override]
        return [Word(word) for word in str(self).split(".")]


def looks_with(patterns: int) -> int:
    trie: PatternTrie[int] = PatternTrie()
    for number in range(patterns):
        trie.add(f"a.b{number}.*.#", number)
    Word.looks = 0
    assert list(trie.matching(Name("a.b7.c.d"))) == [7]
    return Word.looks


def test_ten_thousand_patterns_take_no_more_looks_than_ten() -> None:
    assert looks_with(10_000) == looks_with(10) < 10
