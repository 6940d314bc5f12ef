"""Which entry the name of an address has, and which entries are refused."""

import random
import time

import pytest

from daybook.engine.facts.definitions import DISTRIBUTIONS
from daybook.engine.settings.distributions import (
    ANY_MAX,
    BALANCED,
    CLOSEST,
    MULTICAST,
    STORED,
    UNAVAILABLE,
    DistributionEntry,
    DistributionError,
    Distributions,
    normal_form,
)


def patterns(*texts: str) -> Distributions:
    return Distributions([DistributionEntry(pattern=text) for text in texts])


def winner(found: Distributions, name: str) -> str:
    """The pattern or prefix that a name has, empty for the default."""
    entry = found.find(name)
    return (entry.pattern or entry.prefix) if entry in found.entries else ""


@pytest.mark.parametrize(
    ("first", "second", "name", "wins"),
    [
        ("a/b", "a/b/#", "a/b", "a/b"),
        ("a/*", "a/#", "a/b", "a/*"),
        ("a/#", "*/b/c", "a/b/c", "a/#"),
        ("a/*/c", "a/b/#", "a/b/c", "a/b/#"),
        ("#/c", "#", "a/b/c", "#/c"),
        ("a/#/c", "a/#", "a/b/c", "a/#/c"),
        ("a/*/*", "a/#/c", "a/b/c", "a/*/*"),
        ("*/b", "#/b", "a/b", "*/b"),
        ("a/b", "a/*", "a/b", "a/b"),
        ("*/b", "a/*", "a/b", "a/*"),
        ("a/*/c", "a/#/c", "a/b/c", "a/*/c"),
        ("#/c", "#/b/c", "a/b/c", "#/b/c"),
        ("a/b/*", "a/b/c/#", "a/b/c", "a/b/c/#"),
        ("#/b/#", "*/#", "a/b/c", "*/#"),
    ],
)
def test_tokens_decide_from_the_left_whatever_the_order_of_the_entries(
    first: str, second: str, name: str, wins: str
) -> None:
    assert winner(patterns(first, second), name) == wins
    assert winner(patterns(second, first), name) == wins


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("news/*", ["news/europe", "news/usa"], ["news", "news/usa/sports"]),
        ("news/#", ["news", "news/europe", "news/usa/sports"], ["europe", "usa"]),
        (
            "news/europe/#",
            ["news/europe", "news/europe/sports", "news/europe/politics/fr"],
            ["news/usa", "europe"],
        ),
        (
            "news/*/sports",
            ["news/europe/sports", "news/usa/sports"],
            ["news", "news/europe/fr/sports"],
        ),
        ("#/*", ["a", "a/b"], ["", "/"]),
        ("a*", ["a*"], ["ab"]),
        ("a.b/c", ["a/b.c", "a.b.c", "/a/b/c", "..a.b.c", "a.b.c/"], ["a.b", "a..b.c"]),
        ("/a", ["a", "/a", ".a"], ["a/a"]),
        ("a/#/z", ["a/z", "a/b/z", "a/z/z"], ["a", "a/z/b"]),
    ],
)
def test_a_pattern_matches_names_token_by_token(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    found = patterns(pattern)
    assert [winner(found, name) for name in matching] == [pattern] * len(matching)
    assert [winner(found, name) for name in others] == [""] * len(others)


def test_a_prefix_matches_itself_and_what_follows_a_separator() -> None:
    found = Distributions([DistributionEntry(prefix="my_address")])
    for name in ("my_address", "my_address.1", "my_address/1", "my_address.1/2"):
        assert winner(found, name) == "my_address"
    for name in ("my_address1", "other", "other.my_address"):
        assert winner(found, name) == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a/b", "a.b"), ("#/*", "*/#"), ("#/#", "#"), ("a/#/*/#/*/#", "a/*/*/#"), ("/a", "a"),
        ("#/#/*/b", "*/#/b"),
    ],
)  # fmt: skip
def test_a_pattern_may_be_there_once_however_it_is_written(first: str, second: str) -> None:
    with pytest.raises(
        DistributionError, match=r"is the same pattern as .*; remove one of"
    ) as caught:
        patterns("x", first, second)
    assert (caught.value.index, caught.value.field) == (2, "pattern")


def test_a_prefix_and_the_pattern_that_it_means_are_the_same() -> None:
    entries = [DistributionEntry(pattern="a/#"), DistributionEntry(prefix="a")]
    with pytest.raises(
        DistributionError,
        match=r"^prefix 'a' is the same pattern as pattern 'a/#'; remove one of them",
    ):
        Distributions(entries)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (DistributionEntry(), 'it has neither prefix nor pattern, like prefix = "orders"; give'),
        (DistributionEntry("a", "a"), "it has a prefix and a pattern; remove one of them"),
        (DistributionEntry("a..b"), "prefix is 'a..b'; it has an empty token; write one separator"),
        (DistributionEntry("a/"), "prefix is 'a/'; it has an empty token"),
        (DistributionEntry("/"), "prefix is '/'; it has an empty token"),
        (DistributionEntry("", " a"), "pattern is ' a'; it must not begin or end with a space"),
        (DistributionEntry("", "a\nb"), "it must not begin or end with a space nor hold control"),
        (DistributionEntry("eu::a"), "prefix is 'eu::a'; no name has '::', so it would match none"),
        (DistributionEntry(".".join("a" * 33)), "it has 33 tokens, and 32 are the most"),
        (DistributionEntry("", "/".join(["#/a"] * 5)), "it has 5 '#', and 4 are the most"),
        (DistributionEntry("a" * 4097), "it has 4,097 bytes, and 4,096 are the most"),
        (
            DistributionEntry("a", distribution="nearest"),
            "distribution is 'nearest'; it must be one of balanced, closest, multicast, unavail",
        ),
        (
            DistributionEntry("a", priority=10),
            "priority is 10; it must be from 0 to 9, or left out",
        ),
        (
            DistributionEntry("a", priority=-1),
            "priority is -1; it must be from 0 to 9, or left out",
        ),
        (
            DistributionEntry("a", distribution=MULTICAST, waypoint=True),
            "waypoint says that a queue of this broker stores the messages, and the queue distribu",
        ),
        (
            DistributionEntry("a", waypoint=True, enable_fallback=True),
            "enable-fallback is of no use with waypoint: a queue stores all messages anyway",
        ),
        (
            DistributionEntry("a", distribution=STORED, enable_fallback=True),
            "enable-fallback is of no use where the distribution is stored: a queue stores all",
        ),
        (
            DistributionEntry("a", distribution=UNAVAILABLE, enable_fallback=True),
            "enable-fallback is of no use where the distribution is unavailable: nobody may send",
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_what_would_be_right(
    entry: DistributionEntry, said: str
) -> None:
    with pytest.raises(DistributionError) as caught:
        Distributions([DistributionEntry("good"), entry])
    assert said in str(caught.value)
    assert caught.value.index == 1
    assert caught.value.field in DistributionEntry.__struct_fields__


def test_a_wrong_default_is_refused() -> None:
    with pytest.raises(DistributionError, match="'near'; it must be one of") as caught:
        Distributions([], "near")
    assert caught.value.index == -1


def test_a_name_without_an_entry_has_the_default() -> None:
    entry = DistributionEntry("a", distribution=CLOSEST, priority=9)
    for default in DISTRIBUTIONS:
        found = Distributions([entry], default)
        assert found.find("a.b") is entry
        assert found.find("b").distribution == default
        assert (found.entries, found.default) == ((entry,), default)


@pytest.mark.parametrize(
    ("entries", "default", "is_used"),
    [
        ([], STORED, False),
        ([], BALANCED, True),
        ([DistributionEntry("a", waypoint=True)], STORED, False),
        ([DistributionEntry("a", distribution=STORED)], STORED, False),
        ([DistributionEntry("a", distribution=STORED)], UNAVAILABLE, True),
        ([DistributionEntry("a", distribution=UNAVAILABLE)], STORED, True),
        ([DistributionEntry("a", enable_fallback=True)], STORED, True),
    ],
)
def test_distributions_are_used_where_any_name_is_not_stored(
    entries: list[DistributionEntry], default: str, is_used: bool
) -> None:
    assert Distributions(entries, default).is_used is is_used


def test_patterns_that_were_made_to_agree_take_no_longer_than_their_tokens_times_the_names() -> (
    None
):
    made = ["/".join(["#/a"] * ANY_MAX + ["a"] * count + ["b"]) for count in range(20)]
    found = patterns(*made, "#")
    began = time.process_time()
    assert winner(found, "/".join(["a"] * 2048)) == "#"
    assert time.process_time() - began < 2
    assert winner(found, "/".join(["a"] * 2048 + ["b"])) in made


def test_many_patterns_that_agree_with_each_place_of_a_long_name_take_milliseconds() -> None:
    """A walk over the tree alone took 18 seconds for a name of half the length."""
    draw = random.Random(1)
    bodies = {"".join(draw.choices("a*", k=24)) for _ in range(300)}
    made = {
        normal_form(DistributionEntry(pattern=text)): text
        for each in sorted(bodies)
        for text in ["/".join(["#", *each[:8], "#", *each[8:16], "#", *each[16:], "#", "z"])]
    }
    found = patterns(*made.values())
    began = time.process_time()
    assert not winner(found, "/".join(["a"] * 2048))
    assert winner(found, "/".join(["a"] * 2047 + ["z"]))
    assert time.process_time() - began < 1
