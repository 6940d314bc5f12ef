"""The laws of the patterns of wildcard addresses, with parts of words and regular expressions."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.names.patterns import PatternTrie, covers, full_path_of, overlap
from daybook.engine.names.syntax import DEFAULT
from daybook.engine.names.words import divided, without_regexes, words_of, wrong_with_words
from tests.support.models.patterns import matches_in_full

WORDS = ("a", "b", "ab", "*", "#", "a*", "*b", "a*b", "{a+}", "{[ab]}*", "b{a|b}", "*a*")
patterns = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(".".join)
names = st.lists(st.sampled_from(("a", "b", "aa", "ab", "ba", "")), min_size=1, max_size=5).map(
    ".".join
)
ALL_NAMES = [".".join(words) for n in range(1, 4) for words in product(("a", "b", "ab"), repeat=n)]


@given(st.lists(patterns, max_size=12), names)
def test_the_trie_agrees_with_asking_each_pattern(given_patterns: list[str], name: str) -> None:
    trie: PatternTrie[int] = PatternTrie(is_full=True)
    for number, pattern in enumerate(given_patterns):
        wrong = wrong_with_words(pattern, DEFAULT)
        assert wrong is None or "after '#'" in wrong
        trie.add(pattern, number)
    expected = [
        number for number, pattern in enumerate(given_patterns) if matches_in_full(pattern, name)
    ]
    assert sorted(trie.matching(name)) == expected


@given(st.lists(st.tuples(st.booleans(), patterns), max_size=20), names)
def test_what_was_removed_leaves_nothing_behind(steps: list[tuple[bool, str]], name: str) -> None:
    trie: PatternTrie[int] = PatternTrie(is_full=True)
    kept: list[tuple[int, str]] = []
    for number, (is_added, pattern) in enumerate(steps):
        if is_added:
            trie.add(pattern, number)
            kept.append((number, pattern))
        elif kept:
            oldest, known = kept.pop(0)
            trie.remove(known, oldest)
    found = [n for n, pattern in kept if matches_in_full(pattern, name)]
    assert sorted(trie.matching(name)) == found
    while kept:
        number, pattern = kept.pop()
        trie.remove(pattern, number)
    assert (trie.nodes, trie.parts, trie.regexes) == (0, 0, 0)
    assert trie.matching(name) == []


@given(patterns, patterns)
def test_patterns_that_have_a_name_in_common_overlap(one: str, other: str) -> None:
    first, second = full_path_of(one, DEFAULT), full_path_of(other, DEFAULT)
    common = [n for n in ALL_NAMES if matches_in_full(one, n) and matches_in_full(other, n)]
    assert overlap(first, second) == overlap(second, first)
    if common:
        assert overlap(first, second), common


@given(patterns, patterns)
def test_what_covers_a_pattern_matches_all_of_its_names(one: str, other: str) -> None:
    first, second = full_path_of(one, DEFAULT), full_path_of(other, DEFAULT)
    assert covers(first, first)
    if covers(first, second):
        assert overlap(first, second)
        for name in ALL_NAMES:
            assert matches_in_full(one, name) or not matches_in_full(other, name), name


@given(st.text(st.sampled_from("ab.*{}\\"), max_size=12))
def test_dividing_a_pattern_loses_nothing(pattern: str) -> None:
    assert ".".join(words_of(pattern, ".")) == pattern
    assert ".".join(divided(pattern, ".")) == pattern
    assert "{" not in without_regexes(pattern)
    # Whatever it is, it is right or says what is wrong, and is matched without an error.
    trie: PatternTrie[str] = PatternTrie(is_full=True)
    wrong_with_words(pattern, DEFAULT)
    trie.add(pattern, pattern)
    trie.matching("a.b")
    trie.remove(pattern, pattern)
    assert trie.nodes == 0
