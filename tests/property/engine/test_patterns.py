"""The law of patterns: exactly those that match are found, whatever came and went before."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.names.patterns import PatternTrie
from daybook.engine.names.syntax import DEFAULT
from tests.support.models.patterns import matches
from tests.support.topology import create_queue
from tests.support.world import World

texts = st.text(st.sampled_from("ab.*#"), max_size=8)
patterns = texts.filter(lambda text: bool(text) and DEFAULT.wrong_with(text) is None)
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


@given(st.lists(st.tuples(st.booleans(), patterns), max_size=20), names)
def test_what_was_removed_leaves_nothing_behind(steps: list[tuple[bool, str]], name: str) -> None:
    trie: PatternTrie[int] = PatternTrie()
    kept: list[tuple[int, str]] = []
    for number, (is_added, pattern) in enumerate(steps):
        if is_added:
            trie.add(pattern, number)
            kept.append((number, pattern))
        elif kept:
            oldest, known = kept.pop(0)
            trie.remove(known, oldest)
    assert sorted(trie.matching(name)) == [n for n, pattern in kept if matches(pattern, name)]
    while kept:
        number, pattern = kept.pop()
        trie.remove(pattern, number)
    assert trie.nodes == 0
    assert trie.matching(name) == []


addresses = st.sampled_from(("a", "b", "a.b", "a.a", "a.b.c", "b.c"))
wildcards = st.sampled_from(("#", "*", "a.#", "a.*", "*.b", "a.*.c", "*.#", "*.*", "b.*"))
moves = st.one_of(
    st.tuples(st.just("bind"), st.one_of(wildcards, addresses)),
    st.tuples(st.just("unbind"), st.integers(0, 5)),
    st.tuples(st.just("send"), addresses),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.lists(moves, max_size=25))
def test_queues_of_patterns_get_what_matches(steps: list[tuple[str, object]]) -> None:
    world = World()
    bound: dict[str, str] = {}
    expected: dict[str, list[bytes]] = {}
    for number, (kind, what) in enumerate(steps):
        if kind == "bind":
            name = f"q{number}"
            world.ok(create_queue(name, str(what), MULTICAST))
            bound[name], expected[name] = str(what), []
        elif kind == "unbind" and isinstance(what, int) and bound:
            name = sorted(bound)[what % len(bound)]
            world.ok(c.DeleteQueue(name, force=True))
            del bound[name], expected[name]
        elif kind == "send":
            world.send(str(what), b"%d" % number, routing_type=MULTICAST)
            for name, pattern in bound.items():
                if matches(pattern, str(what)):
                    expected[name].append(b"%d" % number)
        elif kind == "restart":
            world.restart()
    assert {name: world.ready(name) for name in bound} == expected
    world.check()
