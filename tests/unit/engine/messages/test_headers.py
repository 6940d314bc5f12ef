"""The canonical header block: escapes, order, repeated names."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages import headers

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = texts.filter(bool)
pairs = st.lists(st.tuples(names, texts), max_size=8)


@given(pairs)
def test_parse_undoes_build(given_pairs: list[tuple[str, str]]) -> None:
    assert headers.parse(headers.build(given_pairs)) == given_pairs


@given(pairs)
def test_every_header_is_one_line(given_pairs: list[tuple[str, str]]) -> None:
    block = headers.build(given_pairs)
    assert block.count(b"\n") == len(given_pairs)
    assert b"\r" not in block


@given(pairs, names)
def test_first_agrees_with_as_dict(given_pairs: list[tuple[str, str]], name: str) -> None:
    block = headers.build(given_pairs)
    by_name = headers.as_dict(block)
    for each in [name, *by_name]:
        assert headers.first(block, each) == by_name.get(each)


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        (b"\\\\", b"\\"),
        (b"\\n", b"\n"),
        (b"\\r", b"\r"),
        (b"\\c", b":"),
        (b"\\\\n", b"\\n"),
        (b"\\\\\\n", b"\\\n"),
        (b"a\\\\\\\\c", b"a\\\\c"),
        (b"plain", b"plain"),
        (b"", b""),
    ],
)
def test_unescape(escaped: bytes, plain: bytes) -> None:
    assert headers.unescape(escaped) == plain


@pytest.mark.parametrize("escaped", [b"\\\\", b"\\n", b"\\\\\\c"])
def test_many_escapes_cost_few_calls(escaped: bytes) -> None:
    """One frame has hundreds of thousands, and others wait for it."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "c_call"

    sys.setprofile(count)
    try:
        headers.unescape(escaped * 10_000)
    finally:
        sys.setprofile(None)
    assert calls < 20


def test_escapes_between_bytes_that_are_no_text() -> None:
    assert headers.unescape(b"\xff\\\\n\\n\xff\\\\") == b"\xff\\n\n\xff\\"
    with pytest.raises(ValueError, match="undefined escape"):
        headers.unescape(b"\xff\\\\\\x")


@pytest.mark.parametrize("second", [c for c in range(256) if bytes([c]) not in b"\\nrc"])
def test_every_other_escape_is_undefined(second: int) -> None:
    with pytest.raises(ValueError, match="undefined escape"):
        headers.unescape(b"a\\" + bytes([second]))


def test_a_lone_backslash_is_undefined() -> None:
    with pytest.raises(ValueError, match="undefined escape"):
        headers.unescape(b"a\\\\\\")


def test_a_bare_colon_in_a_value_stands_for_itself() -> None:
    assert headers.parse(b"a:b:c\n") == [("a", "b:c")]


@pytest.mark.parametrize(
    ("block", "escaped"),
    [
        (b"", b""),
        (b"a:1\nb:2\n", b"a:1\nb:2\n"),
        (b"a:b:c\nd:\ne::\n", b"a:b\\cc\nd:\ne:\\c\n"),
        (b"x\\cy:1\\\\:2\n", b"x\\cy:1\\\\\\c2\n"),
    ],
)
def test_bare_colons_in_values_are_escaped(block: bytes, escaped: bytes) -> None:
    assert headers.explicit(block) == escaped
    assert headers.parse(escaped) == headers.parse(block)


@given(pairs)
def test_what_is_built_has_no_bare_colons(given_pairs: list[tuple[str, str]]) -> None:
    block = headers.build(given_pairs)
    assert block.count(b":") == block.count(b"\n")
    assert headers.explicit(block) == block


def test_the_first_of_repeated_names_counts_and_all_are_kept() -> None:
    block = b"a:1\nb:2\na:3\n"
    assert headers.first(block, "a") == "1"
    assert headers.as_dict(block) == {"a": "1", "b": "2"}
    assert headers.parse(block) == [("a", "1"), ("b", "2"), ("a", "3")]


def test_a_name_is_not_found_inside_another() -> None:
    assert headers.first(b"xa:1\nab:2\n", "a") is None


def test_without_and_replaced() -> None:
    block = b"a:1\nb:2\na:3\nab:4\n"
    assert headers.without(block, ["a"]) == b"b:2\nab:4\n"
    assert headers.replaced(block, [("a", "x\ny")]) == b"b:2\nab:4\na:x\\ny\n"
    assert headers.without(block, []) == block


def test_without_keeps_lines_that_hold_other_line_separators() -> None:
    block = "a:1\u2028b:2\nb:3\n".encode()
    assert headers.without(block, ["b"]) == "a:1\u2028b:2\n".encode()


def test_a_header_needs_a_name() -> None:
    with pytest.raises(AssertionError):
        headers.build([("", "x")])
