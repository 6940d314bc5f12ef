"""The kinds of values: accepted ones, and the errors for all others."""

import pytest

from daybook.engine.settings.setting_keys import KEYS
from daybook.server.config_keys import kinds, options
from daybook.server.config_keys.kinds import (
    Invalid,
    Kind,
    choice,
    choices,
    count,
    duration,
    size,
    split_listen,
)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (count(1, 5), 5, 5),
        (size(0, 2**40), 17, 17),
        (size(0, 2**40), "17", 17),
        (size(0, 2**40), "17 B", 17),
        (size(0, 2**40), "1_000", 1000),
        (size(0, 2**40), "3KiB", 3 * 2**10),
        (size(0, 2**40), " 3 MiB ", 3 * 2**20),
        (size(0, 2**40), "3GiB", 3 * 2**30),
        (size(0, 2**40), "3KB", 3000),
        (size(0, 2**40), "3MB", 3_000_000),
        (size(0, 2**40), "3GB", 3_000_000_000),
        (duration(-1), -1, -1),
        (duration(0), "250ms", 250),
        (duration(0), "250", 250),
        (duration(0), "2s", 2000),
        (duration(0), "2m", 120_000),
        (duration(0), "2h", 7_200_000),
        (duration(0), "400d", 400 * 86_400_000),
        (duration(0), "2w", 14 * 86_400_000),
        (duration(0), "365000d", 365_000 * 86_400_000),
        (choice("a", "b"), "b", "b"),
        (choices("a", "b"), ["b", "a", "b"], ("b", "a")),
        (kinds.FLAG, False, False),
        (kinds.TEXTS, ["x", "x"], ("x", "x")),
        (kinds.ADDRESS_OR_EMPTY, "", ""),
        (kinds.LISTEN, "h:1", "h:1"),
    ],
)
def test_what_is_taken(kind: Kind, given: object, value: object) -> None:
    taken = kind.parse(given)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (count(1, 5), 0),
        (count(1, 5), 6),
        (count(1, 5), 2.0),
        (count(0, 5), True),
        (size(10, 20), 9),
        (size(10, 20), 21),
        (size(0, 20), "-1"),
        (size(0, 20), "1kib"),
        (size(0, 20), "1.5KiB"),
        (size(0, 20), ""),
        (size(0, 20), True),
        (size(0, 20), "\u0661"),
        (duration(0), -1),
        (duration(0), "1y"),
        (duration(0), "367h0"),
        (duration(0), 365_001 * 24 * 3_600_000),
        (choice("a"), "A"),
        (choice("a"), ["a"]),
        (choices("a"), []),
        (choices("a"), ["a", ["a"]]),
        (choices("a"), "a"),
        (kinds.FLAG, 1),
        (kinds.TEXTS, [""]),
        (kinds.TEXTS, [1]),
        (kinds.ADDRESS, ""),
        (kinds.NAME, "a\nb"),
        (kinds.PATH, ""),
        (kinds.LISTEN, "h:1:2"),
    ],
)
def test_what_is_refused_is_told_what_it_must_be(kind: Kind, given: object) -> None:
    with pytest.raises(Invalid, match=r"^it must .{4,}"):
        kind.parse(given)


def test_listen_is_divided_into_host_and_port() -> None:
    assert split_listen("localhost:0") == ("localhost", 0)
    assert split_listen("[fe80::1%eth0]:65535") == ("fe80::1%eth0", 65535)


def test_keys_differ_and_are_spelled_with_hyphens() -> None:
    for table in (*options.SECTIONS.values(), *options.ARRAYS.values(), KEYS):
        names = [row.name for row in table]
        assert len(set(names)) == len(names)
        for row in table:
            assert row.name == row.name.lower()
            assert "_" not in row.name
            assert row.doc.endswith(".")
