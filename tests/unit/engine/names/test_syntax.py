"""The characters of names and patterns, and what they mean for settings, names and bindings."""

import pytest

from daybook.engine.commands import ChangeSettings, CreateAddress
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.names.patterns import PatternTrie
from daybook.engine.names.syntax import DEFAULT, Syntax, syntax_of, wrong_with_characters
from daybook.engine.settings.settings import Settings, problems
from tests.support.topology import create_queue
from tests.support.world import World

CUSTOM = Syntax(",", "@", "$")
"""The example of the seed."""

EXAMPLES = (
    ("#", ("news", "news.europe", "a.b.c"), ()),
    (
        "news.europe.#",
        ("news.europe", "news.europe.sport", "news.europe.politics.fr"),
        ("news.usa", "europe"),
    ),
    ("news.*", ("news.europe", "news.usa"), ("news.europe.sport", "news", "news.")),
    ("news.*.sport", ("news.europe.sport", "news.usa.sport"), ("news.europe.fr.sport",)),
    ("my", ("my",), ("myqueue",)),
)


def translated(text: str, syntax: Syntax) -> str:
    for old, new in zip(".#*", (syntax.delimiter, syntax.any_words, syntax.one_word), strict=True):
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("syntax", [DEFAULT, CUSTOM, Syntax("/", "#", "+")])
@pytest.mark.parametrize(("pattern", "matched", "others"), EXAMPLES)
def test_the_table_of_examples(
    syntax: Syntax, pattern: str, matched: tuple[str, ...], others: tuple[str, ...]
) -> None:
    pattern = translated(pattern, syntax)
    trie: PatternTrie[str] = PatternTrie(syntax)
    trie.add(pattern, pattern)
    settings = Settings({pattern: {"max-delivery-attempts": 77}}, syntax)
    for name in matched:
        name = translated(name, syntax)
        assert trie.matching(name) == [pattern], name
        assert settings.resolve(name).max_delivery_attempts == 77
    for name in others:
        name = translated(name, syntax)
        assert trie.matching(name) == [], name
        assert settings.resolve(name).max_delivery_attempts == 10


@pytest.mark.parametrize(
    "syntax",
    [
        DEFAULT,
        CUSTOM,
        Syntax(routed=False),
        Syntax(markers="()"),
        Syntax(",", "@", "$", False, "<>"),
    ],
)
def test_a_syntax_is_the_same_from_its_text(syntax: Syntax) -> None:
    assert syntax_of(syntax.text) == syntax
    names = syntax_of(syntax.of_names)
    assert names.routed == syntax.routed
    assert not syntax.routed or names.one_word == syntax.one_word


def test_a_text_that_is_no_syntax() -> None:
    with pytest.raises(ValueError, match="is not the syntax"):
        syntax_of(".#")


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        (Syntax(delimiter=""), "delimiter is ''"),
        (Syntax(delimiter="a"), "delimiter is 'a'"),
        (Syntax(any_words="--"), "any-words is '--'"),
        (Syntax(one_word="?"), "single-word is '?'"),
        (Syntax(one_word="-"), "single-word is '-'"),
        (Syntax(one_word="#"), "three different characters"),
        (Syntax(markers="("), "two characters"),
        (Syntax(markers="(("), "two characters"),
        (Syntax(markers="(#"), "other characters"),
    ],
)
def test_characters_that_cannot_work(syntax: Syntax, text: str) -> None:
    assert text in str(wrong_with_characters(syntax))


def test_characters_that_work() -> None:
    for syntax in (DEFAULT, CUSTOM, Syntax("/", ">", "+", markers="()")):
        assert wrong_with_characters(syntax) is None


def test_a_literal_match_is_for_one_name_and_beats_patterns() -> None:
    settings = Settings(
        {
            "(orders.#)": {"max-delivery-attempts": 5},
            "orders.#": {"max-delivery-attempts": 3, "expiry-delay": 9},
            "(a)": {"expiry-delay": 1},
        },
        Syntax(markers="()"),
    )
    assert settings.resolve("orders.eu").max_delivery_attempts == 3
    assert settings.resolve("a").expiry_delay == 1
    found = settings.resolve("orders.#")
    assert (found.max_delivery_attempts, found.expiry_delay) == (3, 9)
    without = Settings({"(orders.#)": {"max-delivery-attempts": 5}}, Syntax(markers="()"))
    assert without.resolve("orders.#").max_delivery_attempts == 5
    assert without.resolve("orders.eu").max_delivery_attempts == 10


def test_matches_follow_their_syntax() -> None:
    assert problems({"a,@": {}, "$": {}, "(x": {}}, CUSTOM) == []
    (found,) = problems({"@,a": {}}, CUSTOM)
    assert "'@' in the middle" in found
    assert problems({"(a.#.b)": {}}, Syntax(markers="()")) == []


def names(world: World) -> list[bool]:
    return [address.is_wildcard for address in world.state.addresses.values()]


def test_queues_are_bound_by_the_syntax_in_force(world: World) -> None:
    world.ok(ChangeSettings({}, syntax=CUSTOM.text))
    world.ok(create_queue("q", "news,$", MULTICAST))
    world.ok(create_queue("all", "news,@", MULTICAST))
    world.send("news,europe", b"1")
    world.send("news,europe,fr", b"2")
    world.send("news", b"3")
    world.send("news.europe", b"4")
    assert world.ready("q") == [b"1"]
    assert world.ready("all") == [b"1", b"2", b"3"]
    assert "'$' is reserved" in world.refused(create_queue("a$b", "a", MULTICAST)).text
    world.restart()
    world.send("news,usa", b"5")
    assert world.ready("q") == [b"1", b"5"]


def test_a_pattern_keeps_its_syntax(world: World) -> None:
    world.ok(create_queue("old", "news.*", MULTICAST))
    world.ok(ChangeSettings({}, syntax=CUSTOM.text))
    world.ok(create_queue("new", "news,$", MULTICAST))
    world.send("news.europe", b"1")
    world.send("news,europe", b"2")
    assert (world.ready("old"), world.ready("new")) == ([b"1"], [b"2"])
    world.restart()
    world.send("news.usa", b"3")
    assert world.ready("old") == [b"1", b"3"]
    assert names(world)[:2] == [True, True]


def test_without_routing_a_name_with_wildcards_is_a_name(world: World) -> None:
    world.ok(
        ChangeSettings({"a.#": {"max-delivery-attempts": 3}}, syntax=Syntax(routed=False).text)
    )
    world.send("a.*", b"1")
    world.send("a.b", b"2")
    assert world.ready("a.*") == [b"1"]
    assert world.state.settings.resolve("a.b").max_delivery_attempts == 3
    world.restart()
    assert not any(names(world))
    world.ok(ChangeSettings({}, syntax=""))
    assert not any(names(world))
    world.refused(CreateAddress("b.*"))


def test_the_syntax_is_in_the_journal_only_where_it_differs(world: World) -> None:
    world.ok(ChangeSettings({"#": {}}))
    world.send("a")
    for name in ("AddressCreated", "SettingsChanged"):
        assert all(b"syntax" not in each.detail for each in world.events_named(name))
    world.ok(ChangeSettings({"#": {}}, syntax=CUSTOM.text))
    assert world.events_named("SettingsChanged")[-1].decoded.syntax == ",@$"
    lsn = world.broker.lsn
    world.ok(ChangeSettings({"#": {}}, syntax=CUSTOM.text))
    assert world.broker.lsn == lsn
