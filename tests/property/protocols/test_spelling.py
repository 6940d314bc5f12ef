"""The laws of the spelling of names: a client can send to each name that it reads."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.names.names import wrong_with
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.protocols.stomp.wire.errors import StompError
from daybook.protocols.stomp.wire.spelling import Spelling, Symbols

OTHERS = Symbols("/", ";", "+", "++", "<", ">")
SPELLINGS = (
    Spelling(Symbols()),
    Spelling(Symbols(), encodes=True),
    Spelling(Symbols(path_separator="/")),
    Spelling(Symbols(path_separator="/"), encodes=True),
    Spelling(OTHERS),
    Spelling(OTHERS, encodes=True),
    Spelling(Symbols(path_separator="."), Syntax("/", ">", "+"), encodes=True),
)
texts = st.text(
    st.one_of(st.sampled_from("ab./%25CcE:é *#{},;+&?<>\x01\x80"), st.characters(codec="utf-8")),
    max_size=14,
)


def can_write(spelling: Spelling, name: str) -> bool:
    """Whether clients can write a name that has their symbols as ordinary characters."""
    symbols = (
        spelling.any_child,
        spelling.any_descendant,
        spelling.regex_start,
        spelling.regex_end,
    )
    return spelling.encodes or not any(each in name for each in symbols)


@given(st.sampled_from(SPELLINGS), texts)
def test_the_name_of_what_is_shown_is_the_name(spelling: Spelling, name: str) -> None:
    if wrong_with(name, spelling.syntax) is None and can_write(spelling, name):
        shown = spelling.shown(name)
        assert spelling.name_of(shown) == name
        assert spelling.divided(shown) == [shown] or not spelling.encodes


@given(st.sampled_from(SPELLINGS), texts)
def test_what_a_client_writes_means_one_name_or_is_an_error(spelling: Spelling, text: str) -> None:
    with suppress(StompError):
        name = spelling.name_of(text)
        if wrong_with(name, spelling.syntax) is None and can_write(spelling, name):
            assert spelling.name_of(spelling.shown(name)) == name


@given(st.sampled_from(SPELLINGS), texts)
def test_what_is_encoded_once_is_shown_encoded_once(spelling: Spelling, text: str) -> None:
    """Characters that stay encoded, of any number of bytes, between others."""
    encoded = "".join(f"%{byte:02X}" for byte in text.encode())
    if spelling.encodes and wrong_with(spelling.name_of(encoded), spelling.syntax) is None:
        assert "%25" not in spelling.shown(spelling.name_of(encoded)) or "%" in text


@given(texts)
def test_without_options_names_mean_themselves(text: str) -> None:
    assert Spelling(Symbols()).name_of(text) == text == Spelling(Symbols()).shown(text)
    assert Spelling(Symbols(), DEFAULT, encodes=False).is_plain
