"""Patterns: the names that they match, errors in them, and the cost of a look."""

import pytest

from daybook.engine.names.patterns import (
    MIDDLE_WORDS_MAX,
    PatternTrie,
    covers,
    full_path_of,
    overlap,
    path_of,
)
from daybook.engine.names.syntax import DEFAULT


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


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.b.c", False),
        ("#.b", "b", True),
        ("#.a.#.b.#", "x.a.y.b.z", True),
        ("#.a.#.b.#", "b.a", False),
        ("#.#.b", "b", True),
        ("I*", "IBM", True),
        ("I*", "I", True),
        ("I*", "aI", False),
        ("*M", "IBM", True),
        ("I*M", "IM", True),
        ("IM*M", "IM", False),
        ("a*a*a", "aa", False),
        ("a*b*c", "a-c-b-c", True),
        ("*{[0-9]}", "IBM7", True),
        ("*{[0-9]}", "7", True),
        ("*{[0-9]}", "7x", False),
        ("x.{.*}", "x.", False),
        ("{a|b}c", "bc", True),
        ("{a|b}c", "a", False),
        ("a+b{c}", "a+bc", True),
        ("a+b{c}", "aabc", False),
        ("{(?i)ibm}", "IBM", True),
        ("{a*}", "a" * 255, True),
        ("{a*}", "a" * 256, False),
        ("a*", "a" * 256, True),
        ("{a.c}", "a.c", False),
        ("{[0-9]{2,3}}", "12", True),
        ("{\\}}", "}", True),
        # A name that is no longer allowed matches nothing: a journal may have it.
        ("{[}", "[", False),
    ],
)
def test_full_patterns(pattern: str, name: str, matches: bool) -> None:
    trie: PatternTrie[str] = PatternTrie(is_full=True)
    trie.add(pattern, "found")
    assert list(trie.matching(name)) == ["found"] * matches


def test_any_number_of_words_before_others_is_for_names_that_are_not_too_long() -> None:
    trie: PatternTrie[str] = PatternTrie(is_full=True)
    for pattern in ("#.b", "a.#", "{a}.#"):
        trie.add(pattern, pattern)
    longest = ".".join("a" * (MIDDLE_WORDS_MAX - 1))
    assert sorted(trie.matching(f"{longest}.b")) == ["#.b", "a.#", "{a}.#"]
    assert sorted(trie.matching(f"{longest}.a.b")) == ["a.#", "{a}.#"]


def test_many_ways_to_match_are_looked_at_once() -> None:
    trie: PatternTrie[int] = PatternTrie(is_full=True)
    trie.add("#." + "a.#." * 15 + "b", 1)
    assert trie.matching(".".join("a" * MIDDLE_WORDS_MAX)) == []
    assert trie.visited < 33 * MIDDLE_WORDS_MAX


@pytest.mark.parametrize("name", ["a" * 4_096, "ab" * 2_048, ".".join("a" * 2_048)])
def test_no_expression_takes_long(name: str) -> None:
    trie: PatternTrie[int] = PatternTrie(is_full=True)
    for number, regex in enumerate(("(a*)*b", "(a|b)*a(a|b){20}", "((a?){15}){15}")):
        trie.add(f"{{{regex}}}", number)
        trie.add(f"#.{{{regex}}}", number)
    for _ in range(100):
        trie.matching(name)


@pytest.mark.parametrize(
    ("wide", "pattern", "is_covered", "overlaps"),
    [
        ("a.#", "a.b*", True, True),
        ("a.*", "a.{b}", True, True),
        ("a.*", "a.#.b", False, True),
        ("a.b", "a.b*", False, True),
        ("a.c", "a.b*", False, False),
        ("#", "#.{a}", True, True),
        ("a.b.#", "#.c", False, True),
        ("a.b", "#.c", False, False),
        ("a.b.c", "a.#.c", False, True),
    ],
)
def test_matches_and_full_patterns(
    wide: str, pattern: str, is_covered: bool, overlaps: bool
) -> None:
    one, other = path_of(wide, DEFAULT), full_path_of(pattern, DEFAULT)
    assert covers(one, other) is is_covered
    assert overlap(one, other) is overlaps


@pytest.mark.parametrize("match", ["a.{b}", "{b", "b}"])
def test_matches_of_settings_take_no_regular_expressions(match: str) -> None:
    assert "a match takes no regular expressions" in str(DEFAULT.wrong_with(match))


def test_full_patterns_are_for_their_own_host() -> None:
    trie: PatternTrie[str] = PatternTrie(is_full=True)
    for pattern in ("#.b", "shop::#.b", "shop::a*", "shop::{[ab]}.#"):
        trie.add(pattern, pattern)
    assert trie.matching("a.b") == ["#.b"]
    assert sorted(trie.matching("shop::a.b")) == ["shop::#.b", "shop::{[ab]}.#"]
    assert sorted(trie.matching("shop::a")) == ["shop::a*", "shop::{[ab]}.#"]
    assert trie.matching("other::a.b") == []
    one, other = full_path_of("#.b", DEFAULT), full_path_of("shop::a.#", DEFAULT)
    assert not overlap(one, other)
    assert not covers(full_path_of("#", DEFAULT), other)
    assert covers(full_path_of("shop::#", DEFAULT), other)
