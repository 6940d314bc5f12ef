"""The law of patterns: the trie finds exactly those that match, whatever was added before."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.patterns import PatternTrie, wrong_with
from tests.support.patterns import matches

texts = st.text(st.sampled_from("ab.*#"), max_size=8)
patterns = texts.filter(lambda text: bool(text) and wrong_with(text) is None)
names = st.text(st.sampled_from("ab."), max_size=8)


@given(st.lists(patterns, max_size=12), names)
def test_the_trie_agrees_with_asking_each_pattern(given_patterns: list[str], name: str) -> None:
    trie: PatternTrie[int] = PatternTrie()
    for number, pattern in enumerate(given_patterns):
        trie.add(pattern, number)
    expected = [number for number, pattern in enumerate(given_patterns) if matches(pattern, name)]
    assert sorted(trie.matching(name)) == expected


@given(patterns)
def test_a_pattern_matches_itself_once(pattern: str) -> None:
    trie: PatternTrie[str] = PatternTrie()
    trie.add(pattern, pattern)
    assert list(trie.matching(pattern)) == [pattern]
