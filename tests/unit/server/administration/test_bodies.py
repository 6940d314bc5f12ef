"""The forms of bodies: what fits is shown in order, and nothing of a body is obeyed."""

import json
import time

import pytest

from daybook.server.administration.bodies import DEPTH_MAX, TEXT_MAX, forms_of, text_of

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><lolz>&c;</lolz>"""
OUTSIDE = b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>'
ENTITY = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'


def names_of(data: bytes) -> list[str]:
    return [name for name, _ in forms_of(data, is_whole=True)]


def first_of(data: bytes) -> str:
    return forms_of(data, is_whole=True)[0][1]


@pytest.mark.parametrize(
    "data", [BOMB, OUTSIDE, ENTITY, b"<a>&undefined;</a>", b"<a><b></a>", b"<"]
)
def test_xml_with_a_document_type_is_text(data: bytes) -> None:
    assert names_of(data) == ["text", "hex"]


def test_xml_is_shown_in_order() -> None:
    data = b'<a x="1 &amp; 2"><!-- c --><b>a&lt;b</b>\n  <c/></a>'
    assert first_of(data) == "\n".join(
        ['<a x="1 &amp; 2">', "  <!-- c -->", "  <b>", "    a&lt;b", "  </b>", "  <c>", "  </c>",
         "</a>"]
    )  # fmt: skip
    assert names_of(b'<svg onload="alert(1)"/>')[0] == "XML"
    assert names_of(b"<html><body>unclosed") == ["text", "hex"]
    assert names_of("<a>\u20ac</a>".encode()) == ["XML", "text", "hex"]


def test_json_keeps_what_is_written() -> None:
    data = b'{"a":1.10,"a":{},"n":123456789012345678901234567890,"l":[ ],"t":"x,{]\\"","m":[1,[2]]}'
    text = first_of(data)
    assert text.split("\n")[:3] == ["{", '  "a": 1.10,', '  "a": {},']
    assert "123456789012345678901234567890" in text
    assert '  "t": "x,{]\\"",' in text.split("\n")
    assert json.loads(text) == json.loads(data)


def test_json_shows_letters_for_their_numbers() -> None:
    data = (
        rb'["\u00e4\u20ac", "\ud83d\ude00", "\\u00e4", "\u202e", "\ud83d", "\u0022\u005c",'
        rb' "\n\u0041"]'
    )
    shown = [line.strip(" ,") for line in first_of(data).split("\n")[1:-1]]
    kept = [r'"\\u00e4"', r'"\u202e"', r'"\ud83d"', r'"\u0022\u005c"']
    assert shown == ['"ä€"', '"😀"', *kept, r'"\nA"']
    assert json.loads(first_of(data)) == json.loads(data)


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b"[" * 900 + b"]" * 900, b"{1}", b"[1", b'{"a":}', b"[" + b"9" * 9999]
)
def test_json_that_is_none_or_too_deep_is_text(data: bytes) -> None:
    assert names_of(data) == ["text", "hex"]


def test_depth_and_length_are_limited() -> None:
    deep = DEPTH_MAX
    assert names_of(b"[" * deep + b"]" * deep)[0] == "JSON"
    assert names_of(b"[" * (deep + 1) + b"]" * (deep + 1)) == ["text", "hex"]
    assert names_of(b"<a>" * (deep + 1) + b"</a>" * (deep + 1)) == ["text", "hex"]
    wide = b"[" * (deep - 1) + b"1" + b",1" * 30_000 + b"]" * (deep - 1)
    assert names_of(wide) == ["text", "hex"]
    assert len(wide) < TEXT_MAX


def test_a_long_line_takes_no_long_time() -> None:
    begun = time.monotonic()
    for data in (b"x" * 10_000_000, b"<" * 1_000_000, b'{"' + b"a" * 1_000_000 + b'":1}'):
        assert "text" in [name for name, _ in forms_of(data[: 1 << 20], is_whole=True)]
    assert time.monotonic() - begun < 60


def test_what_may_be_binary_is_bytes() -> None:
    assert names_of(bytes(range(256))) == ["hex"]
    assert names_of(b"text\0with a zero") == ["hex"]
    assert names_of("\u202ea\x07".encode()) == ["text", "hex"]
    assert names_of(b"") == ["text", "hex"]


def test_a_piece_may_cut_characters_at_its_ends() -> None:
    data = "\u20ac\U0001f600".encode()
    assert text_of(data, is_whole=True) == "\u20ac\U0001f600"
    assert text_of(data[1:-1], is_whole=False) == ""
    assert text_of(data[:-2], is_whole=False) == "\u20ac"
    assert text_of(data[:-2], is_whole=True) is None
    assert text_of(data[2:], is_whole=False) == "\U0001f600"
    assert forms_of(b'{"a": 1}', is_whole=False)[0][0] == "text"
