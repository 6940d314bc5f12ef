"""The rules of permissions: which rule decides, and what it grants to whom."""

import pytest

from daybook.engine.names.syntax import Syntax
from daybook.engine.settings.permissions import (
    CONSUME,
    MATCHES_MAX,
    PERMISSIONS,
    REMEMBERED_MAX,
    SEND,
    Permissions,
    Right,
    wrong_with_match,
    wrong_with_who,
)

ROLES = {"alice": frozenset({"sales"}), "bob": frozenset({"staff", "sales"})}


def test_without_rules_everything_is_allowed() -> None:
    assert Permissions({}).explain("anybody", SEND, "a.b") == Right(SEND, True, (), "")


def test_an_address_without_a_rule_is_closed() -> None:
    rules = Permissions({"a": {SEND: ("*",)}}, ROLES)
    assert rules.allows("alice", SEND, "a")
    assert not rules.allows("alice", SEND, "b")
    assert rules.explain("alice", SEND, "b") == Right(SEND, False, (), "")


def test_the_most_specific_rule_alone_applies() -> None:
    rules = Permissions(
        {
            "#": {permission: ("*",) for permission in PERMISSIONS},
            "a.#": {SEND: ("sales",)},
            "a.*": {CONSUME: ("staff",)},
            "a.b": {},
        },
        ROLES,
    )
    assert rules.allows("alice", CONSUME, "x")
    assert rules.explain("alice", SEND, "a.b.c") == Right(SEND, True, ("a.#",), "sales")
    assert not rules.allows("alice", CONSUME, "a.b.c")
    assert not rules.allows("bob", SEND, "a.x")
    assert rules.allows("bob", CONSUME, "a.x")
    assert not rules.allows("bob", CONSUME, "a.b")


def test_a_rule_names_roles_users_and_everybody() -> None:
    rules = Permissions({"#": {SEND: ("staff", "user:carol"), CONSUME: ("*",)}}, ROLES)
    assert rules.explain("bob", SEND, "a").by == "staff"
    assert rules.explain("carol", SEND, "a").by == "user:carol"
    assert rules.explain("nobody", CONSUME, "a").by == "*"
    # The name of a user is not that of a role.
    assert not Permissions({"#": {SEND: ("alice",)}}).allows("alice", SEND, "a")


def test_where_a_user_has_a_permission() -> None:
    granted = {"a.#": {SEND: ("sales",)}, "a.b": {}, "c": {SEND: ("user:bob",)}}
    many = {f"d.{number}": {CONSUME: ("*",)} for number in range(MATCHES_MAX + 1)}
    rules = Permissions(granted | many, ROLES, of_hosts={"east": {"e": {SEND: ("sales",)}}})
    assert rules.matches_of("alice", SEND) == ("a.#", "east::e")
    assert rules.matches_of("bob", SEND) == ("a.#", "c", "east::e")
    assert rules.matches_of("carol", SEND) == ()
    assert len(rules.matches_of("carol", CONSUME)) == MATCHES_MAX
    assert not rules.grants_somewhere("carol", SEND)
    assert rules.grants_somewhere("carol", CONSUME)


def test_a_rule_for_one_queue() -> None:
    rules = Permissions({"a": {CONSUME: ("staff",)}, "a::q": {CONSUME: ("sales",)}}, ROLES)
    assert rules.explain("alice", CONSUME, "a", "q") == Right(CONSUME, True, ("a::q",), "sales")
    assert not rules.allows("alice", CONSUME, "a", "other")
    assert not rules.allows("alice", CONSUME, "a")
    # Nothing is a pattern there.
    assert not Permissions({"a::*": {CONSUME: ("*",)}}).allows("bob", CONSUME, "a", "q")


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ({"#": ("sales",)}, True),
        ({"a.#": ("sales",)}, True),
        ({"#": ("sales",), "a.secret": ()}, False),
        ({"#": ("sales",), "a.*": ()}, False),
        ({"#": ("sales",), "a.x.#": ()}, False),
        ({"#": (), "a.#": ("sales",)}, True),
        ({"#": ("sales",), "b.secret": ()}, True),
        ({"a.secret": ("sales",)}, False),
        ({"a.*": ("sales",)}, False),
        ({"#": ("sales",), "(a.#)": ()}, True),
        ({"#": ("sales",), "*.secret": ()}, False),
    ],
)
def test_wildcards_are_allowed_where_each_of_their_names_is(
    rules: dict[str, tuple[str, ...]], allowed: bool
) -> None:
    given = {match: {CONSUME: who} for match, who in rules.items()}
    assert Permissions(given, ROLES).allows("alice", CONSUME, "a.#") is allowed


def test_a_literal_match_is_for_one_name() -> None:
    syntax = Syntax(markers="()")
    given = {"#": {CONSUME: ("sales",)}, "(a.#)": {}}
    rules = Permissions(given, ROLES, syntax)
    # As a pattern it covers the name that is marked.
    assert not rules.allows("alice", CONSUME, "a.#")
    assert rules.allows("alice", CONSUME, "b.#")
    assert rules.allows("alice", CONSUME, "a.b")


def test_other_characters() -> None:
    syntax = Syntax("/", ">", "+")
    rules = Permissions({">": {SEND: ("*",)}, "a/+": {}}, ROLES, syntax)
    assert not rules.allows("alice", SEND, "a/b")
    assert rules.allows("alice", SEND, "a.b")
    assert not rules.allows("alice", SEND, "a/>")


def test_what_is_remembered_is_bounded() -> None:
    rules = Permissions({"#": {SEND: ("*",)}})
    for number in range(REMEMBERED_MAX + 10):
        assert rules.allows("alice", SEND, f"a{number}")
    assert len(rules._remembered) <= REMEMBERED_MAX


@pytest.mark.parametrize(
    "match", ["", " a", "a.#.b", "a*", "a::", "::q", "a::b::c", "a::q\n", "a::q "]
)
def test_matches_that_are_wrong(match: str) -> None:
    assert wrong_with_match(match)


def test_matches_that_are_right() -> None:
    assert [wrong_with_match(match) for match in ("#", "a.*", "a", "a.#::q", "a::q")] == [None] * 5


@pytest.mark.parametrize("who", ["", "user:", " a", "a ", "a\n", "x" * 300])
def test_names_that_are_wrong(who: str) -> None:
    assert wrong_with_who(who)
    assert wrong_with_who("user:alice") is None
    assert wrong_with_who("*") is None
