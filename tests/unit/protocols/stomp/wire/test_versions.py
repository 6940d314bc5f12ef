"""All differences between the versions in header lines."""

import pytest

from daybook.engine.messages import headers
from daybook.protocols.stomp.wire.errors import UndefinedEscape
from daybook.protocols.stomp.wire.versions import (
    V10,
    V11,
    V12,
    canonical,
    escape,
    express,
    unescape,
)

DEFINED = {
    V10: {},
    V11: {b"\\": b"\\", b"n": b"\n", b"c": b":"},
    V12: {b"\\": b"\\", b"n": b"\n", b"c": b":", b"r": b"\r"},
}


@pytest.mark.parametrize("version", [V11, V12])
@pytest.mark.parametrize("second", range(256))
def test_every_escape(version: int, second: int) -> None:
    text = b"a\\" + bytes([second])
    meaning = DEFINED[version].get(bytes([second]))
    if meaning is None:
        with pytest.raises(UndefinedEscape) as caught:
            unescape(text, version)
        assert "only" in caught.value.advice
    else:
        assert unescape(text, version) == b"a" + meaning


@pytest.mark.parametrize("second", range(256))
def test_no_escapes_in_1_0(second: int) -> None:
    text = b"a\\" + bytes([second]) + b"b"
    assert unescape(text, V10) == text


@pytest.mark.parametrize("version", [V11, V12])
def test_a_backslash_at_the_end_is_undefined(version: int) -> None:
    with pytest.raises(UndefinedEscape):
        unescape(b"a\\", version)


@pytest.mark.parametrize("version", [V11, V12])
def test_escaped_backslash_before_a_letter(version: int) -> None:
    assert unescape(b"\\\\n\\\\r", version) == b"\\n\\r"


@pytest.mark.parametrize("version", [V11, V12])
def test_escape_is_undone_by_unescape(version: int) -> None:
    text = b"a:b\\c\nd\\n" + (b"\r" if version == V12 else b"")
    assert unescape(escape(text, version), version) == text


def test_escape_in_1_0_makes_one_line() -> None:
    assert escape(b"a:b\\c\nd", V10) == b"a:b\\c d"


def test_canonical() -> None:
    assert canonical(b"a:b\\n", V10) == b"a:b\\\\n"
    assert canonical(b"a:b\rc", V10) == b"a:b\\rc"
    assert canonical(b"a:b\\n\rc", V11) == b"a:b\\n\\rc"
    assert canonical(b"a:b\\r\\c", V12) == b"a:b\\r\\c"


BLOCK = headers.build([("a", "1"), ("b", "x\ny"), ("c", "x\\y"), ("d:e", "z"), ("f", "x\ry")])


def test_express_for_1_2_is_the_block() -> None:
    assert express(BLOCK, V12) is BLOCK


def test_express_for_1_1_leaves_the_carriage_return_raw() -> None:
    assert express(BLOCK, V11) == b"a:1\nb:x\\ny\nc:x\\\\y\nd\\ce:z\nf:x\ry\n"


def test_express_for_1_0_leaves_out_what_no_line_can_hold() -> None:
    assert express(BLOCK, V10) == b"a:1\nc:x\\y\nf:x\ry\n"


@pytest.mark.parametrize("version", [V10, V11, V12])
def test_what_a_version_sends_it_gets_back(version: int) -> None:
    for line in (b"a:b", b"a:b:c", b"a:\\\\", b"a: b ", b"a:"):
        assert express(canonical(line, version) + b"\n", version) in (
            line + b"\n",
            line.replace(b"b:c", b"b\\cc") + b"\n",
        )
