"""Laws of distributions: the tree finds what a plain statement of the rule finds."""

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.settings.distributions import (
    ANY_MAX,
    DistributionEntry,
    DistributionError,
    Distributions,
)
from daybook.engine.settings.pattern_bits import PatternBits

tokens = st.sampled_from(["a", "b", "c"])
names = st.lists(tokens, max_size=6).map("/".join)
patterns = (
    st.lists(tokens | st.sampled_from("*#"), min_size=1, max_size=6)
    .filter(lambda words: words.count("#") <= ANY_MAX)
    .map("/".join)
)
LITERAL, ONE, ANY, FURTHER = 1, 2, 3, 4
"""What a step of a match is, the better one first; the end of a pattern is better than any."""


def plain_normal_form(pattern: str) -> str:
    """The pattern after each rewriting that the rule has, as long as one applies."""
    words = pattern.split("/")
    while True:
        for at, pair in enumerate(pairwise(words)):
            if pair in (("#", "*"), ("#", "#")):
                words[at : at + 2] = ["*", "#"] if pair[1] == "*" else ["#"]
                break
        else:
            return "/".join(words)


def steps(pattern: list[str], name: list[str]) -> Iterator[tuple[int, ...]]:
    """Each way in which a pattern matches a name: its steps from the left."""
    if not pattern:
        if not name:
            yield ()
    elif pattern[0] == "#":
        for taken in range(len(name) + 1):
            for rest in steps(pattern[1:], name[taken:]):
                yield (ANY, *([FURTHER] * taken), *rest)
    elif name and pattern[0] in ("*", name[0]):
        for rest in steps(pattern[1:], name[1:]):
            yield (ONE if pattern[0] == "*" else LITERAL, *rest)


def best(listed: list[str], name: str) -> str:
    """The pattern with the best way to match, by its first step that differs; empty if none
    does."""
    ways = [
        (way, pattern)
        for pattern in listed
        for way in steps(plain_normal_form(pattern).split("/"), name.split("/") if name else [])
    ]
    return min(ways)[1] if ways else ""


@given(st.lists(patterns, max_size=8, unique_by=plain_normal_form), st.lists(names, max_size=5))
def test_the_tree_finds_what_the_rule_says(listed: list[str], asked: list[str]) -> None:
    found = Distributions([DistributionEntry(pattern=pattern, priority=3) for pattern in listed])
    for name in asked:
        assert found.find(name).pattern == (best(listed, name) or "#")
        assert (found.find(name).priority == 3) == bool(best(listed, name))


@given(st.lists(patterns, max_size=8, unique_by=plain_normal_form), st.lists(names, max_size=5))
def test_all_patterns_at_once_find_the_same(listed: list[str], asked: list[str]) -> None:
    found = PatternBits([tuple(plain_normal_form(each).split("/")) for each in listed])
    for name in asked:
        number = found.find(name.split("/") if name else [])
        assert (listed[number] if number >= 0 else "") == best(listed, name)


@given(patterns, patterns)
def test_patterns_are_the_same_if_their_normal_forms_are(one: str, other: str) -> None:
    try:
        Distributions([DistributionEntry(pattern=one), DistributionEntry(pattern=other)])
        differ = True
    except DistributionError:
        differ = False
    assert differ == (plain_normal_form(one) != plain_normal_form(other))
