"""Address settings: keys, matches, the merge, and the errors."""

import pytest

from daybook.engine.settings.setting_keys import KEYS
from daybook.engine.settings.settings import (
    CACHED_ADDRESSES_MAX,
    Settings,
    check,
    problems,
    warnings,
)


def test_without_settings_the_defaults_of_the_table_are_in_force() -> None:
    resolved = Settings({}).resolve("orders")
    for key in KEYS:
        assert getattr(resolved, key.name.replace("-", "_")) == key.default
    assert resolved.max_delivery_attempts == 10
    assert resolved.dead_letter_address == ""


def test_every_key_is_decided_on_its_own() -> None:
    merged = Settings(
        {
            "#": {
                "dead-letter-address": "DLQ",
                "expiry-address": "EXP",
                "max-delivery-attempts": 7,
            },
            "orders.#": {"max-delivery-attempts": 3, "expiry-address": ""},
            "orders.eu": {"auto-create-queues": False},
        }
    )
    resolved = merged.resolve("orders.eu")
    assert resolved.dead_letter_address == "DLQ"
    assert resolved.expiry_address == ""
    assert resolved.max_delivery_attempts == 3
    assert resolved.auto_create_queues is False
    explained = merged.explain("orders.eu")
    assert [key for key, _, _ in explained] == [key.name for key in KEYS]
    assert explained[:14] == [
        ("max-delivery-attempts", 3, "orders.#"),
        ("redelivery-delay", 0, ""),
        ("redelivery-delay-multiplier", 1.0, ""),
        ("redelivery-collision-avoidance-factor", 0.0, ""),
        ("max-redelivery-delay", -1, ""),
        ("dead-letter-address", "DLQ", "#"),
        ("dead-letter-policy", "HOLD", ""),
        ("expiry-address", "", "orders.#"),
        ("no-expiry", False, ""),
        ("expiry-delay", -1, ""),
        ("min-expiry-delay", -1, ""),
        ("max-expiry-delay", -1, ""),
        ("auto-create-addresses", True, ""),
        ("auto-create-queues", False, "orders.eu"),
    ]
    assert ("auto-delete-queues", True, "") in explained


@pytest.mark.parametrize(
    ("address", "winner", "loser"),
    [
        ("a.b.c", "a.b.c", "a.b.*"),  # exact before wildcard
        ("a.b.c", "a.b.*", "a.b.#"),  # * before #
        ("a.b.c", "*.*.*", "a.b.c.#"),  # any match without # before any with it
        ("a.b.c", "a.b.#", "a.#"),  # both #: the longer
        ("a.b.c", "*.*.*.#", "a.b.#"),  # ... by characters, not by words
        ("a.b.c", "a.*.*", "*.b.c"),  # both *: the first word that differs
        ("a.b.c", "a.b.*", "a.*.c"),
        ("a.b.c", "a.b.#", "a.*.#"),  # both # and of one length: word before *
    ],
)
def test_the_more_specific_match_wins(address: str, winner: str, loser: str) -> None:
    for order in ((winner, loser), (loser, winner)):
        matches = {match: {"dead-letter-address": match} for match in order}
        assert Settings.from_dict(matches).resolve(address).dead_letter_address == winner


def test_an_exact_match_wins_even_if_the_name_looks_like_a_wildcard() -> None:
    merged = Settings({"a.*": {"max-delivery-attempts": 1}, "a.#": {"max-delivery-attempts": 2}})
    assert merged.resolve("a.#").max_delivery_attempts == 2


def test_a_value_equal_to_the_default_is_still_set() -> None:
    merged = Settings({"#": {"max-delivery-attempts": 3}, "a": {"max-delivery-attempts": 10}})
    assert merged.explain("a")[0] == ("max-delivery-attempts", 10, "a")


@pytest.mark.parametrize(
    ("match", "key", "value", "words"),
    [
        ("", "expiry-address", "X", ["empty", "'#' matches every address"]),
        ("a.#.b", "expiry-address", "X", ["'a.#.b'", "last word"]),
        ("a.b#", "expiry-address", "X", ["'b#'", "word of its own"]),
        ("a*.b", "expiry-address", "X", ["'a*'", "word of its own"]),
        (" a", "expiry-address", "X", ["' a'", "space"]),
        ("a", "max-delivery-atempts", 3, ["did you mean 'max-delivery-attempts'?"]),
        ("a", "zzz", 3, ["unknown address setting 'zzz'", "max-delivery-attempts"]),
        ("a", "max-delivery-attempts", "3", ["'3'", "a whole number"]),
        ("a", "max-delivery-attempts", True, ["True", "a whole number"]),
        ("a", "max-delivery-attempts", 65_536, ["65536", "1 to 65535", "-1"]),
        ("a", "max-delivery-attempts", -2, ["-2", "-1 for no limit"]),
        ("a", "auto-create-queues", 1, ["1", "true or false"]),
        ("a", "max-size-bytes", -2, ["-2", "0 or more", "-1 for no limit"]),
        ("a", "max-size-messages", 1 << 53, ["0 or more", "-1 for no limit"]),
        ("a", "address-full-policy", "page", ["'page'", "PAGE, DROP, BLOCK, FAIL"]),
        ("a", "page-full-policy", "PAGE", ["'PAGE'", "DROP, FAIL"]),
        ("a", "page-size-bytes", 0, ["0", "4096 or more"]),
        ("a", "max-read-page-messages", 0, ["1 or more, or -1"]),
        ("a", "prefetch-page-bytes", -2, ["1 or more, or -1"]),
        ("a", "dead-letter-address", 1, ["a string"]),
        ("a", "dead-letter-address", "a::b", ["'a::b'", "divides address and queue"]),
        ("a", "dead-letter-address", "a.#", ["reserved for wildcards"]),
        ("a", "expiry-address", "a\n", ["control characters"]),
    ],
)
def test_what_is_wrong_is_said(match: str, key: str, value: object, words: list[str]) -> None:
    text = check(match, key, value)
    assert text is not None
    for word in words:
        assert word in text


@pytest.mark.parametrize("match", ["#", "*", "a", "a.*.b", "a.*.#", "*.#", "a.b.#"])
def test_what_is_right_is_accepted(match: str) -> None:
    for key in KEYS:
        assert check(match, key.name, key.default) is None
    assert check(match, "max-delivery-attempts", -1) is None
    assert check(match, "expiry-address", "") is None


def test_problems_lists_all_of_them() -> None:
    found = problems({"a.#.b": {"zzz": 1}, "ok": {"max-delivery-attempts": "x"}})
    assert len(found) == 3
    assert "match 'ok'" in found[2]
    assert problems({"#": {"dead-letter-address": "DLQ"}}) == []


def test_the_dict_form_is_a_copy() -> None:
    given = {"a": {"max-delivery-attempts": 3}}
    made = Settings.from_dict(given)
    given["a"]["max-delivery-attempts"] = 4
    made.to_dict()["a"]["max-delivery-attempts"] = 5
    assert made.to_dict() == {"a": {"max-delivery-attempts": 3}}
    assert made.resolve("a").max_delivery_attempts == 3


def test_keys_of_a_newer_version_are_kept_and_not_used() -> None:
    made = Settings({"a": {"from-the-future": 3}})
    assert made.resolve("a") == Settings({}).resolve("a")
    assert made.to_dict() == {"a": {"from-the-future": 3}}


def test_the_memory_of_resolved_addresses_is_bounded() -> None:
    made = Settings({"b": {"max-delivery-attempts": 3}})
    for number in range(CACHED_ADDRESSES_MAX + 2):
        made.resolve(f"a.{number}")
    assert len(made._resolved) <= CACHED_ADDRESSES_MAX
    assert made.resolve("a.0").max_delivery_attempts == 10
    assert made.resolve("b").max_delivery_attempts == 3


def test_a_page_limit_needs_a_policy_from_any_match_that_covers_it() -> None:
    limit = {"orders.#": {"page-limit-bytes": 5_000_000}}
    (found,) = problems(limit)
    assert found == (
        "match 'orders.#': page-limit-bytes is set without a page-full-policy; "
        "it must be DROP or FAIL"
    )
    assert problems(limit | {"#": {"page-full-policy": "FAIL"}}) == []
    assert problems(limit | {"other": {"page-full-policy": "FAIL"}}) == [found]
    assert problems({"a": {"page-limit-bytes": -1}}) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"address-full-policy": "BLOCK"}, "BLOCK without max-size-bytes or max-size-messages"),
        ({"page-full-policy": "DROP"}, "of no use without page-limit-bytes"),
        (
            {
                "address-full-policy": "FAIL", "max-size-messages": 1,
                "page-full-policy": "DROP", "page-limit-messages": 2,
            },
            "a page-limit is of no use with address-full-policy FAIL",
        ),
        (
            {"max-size-bytes": 100, "page-limit-bytes": 100, "page-full-policy": "DROP"},
            "page-limit-bytes is not above max-size-bytes",
        ),
    ],
)  # fmt: skip
def test_what_is_probably_not_meant_is_said(values: dict[str, str | int], words: str) -> None:
    (found,) = warnings({"#": values})
    assert words in found
    assert problems({"#": values}) == []


def test_there_is_no_warning_where_another_match_completes_it() -> None:
    assert warnings({"a": {"address-full-policy": "BLOCK"}, "#": {"max-size-messages": 9}}) == []
    assert warnings({"a": {"address-full-policy": "PAGE"}, "#": {"max-size-messages": 0}}) == []


def test_how_much_comes_back_and_how_much_stays() -> None:
    default = Settings({}).resolve("a")
    assert default.read_at_a_time()[1] == default.kept_at_head()[1] == 2 * default.page_size_bytes
    assert default.read_at_a_time()[0] > 1 << 50
    some = Settings(
        {"#": {"max-read-page-messages": 5, "max-read-page-bytes": 700, "prefetch-page-bytes": 9}}
    ).resolve("a")
    assert some.read_at_a_time() == (5, 700)
    assert some.kept_at_head() == (5, 9)
    other = Settings({"#": {"page-size-bytes": 5000, "prefetch-page-messages": 3}}).resolve("a")
    assert other.kept_at_head() == (3, 10_000)
    assert other.has_max_size() is other.has_page_limit() is False
