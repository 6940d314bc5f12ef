"""The laws of the spelling of names: what a client reads, it can send to."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.names import wrong_with
from daybook.engine.syntax import DEFAULT, Syntax
from daybook.protocols.stomp.errors import StompError
from daybook.protocols.stomp.spelling import Spelling, Symbols

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


@given(st.sampled_from(SPELLINGS), texts)
def test_the_name_of_what_is_shown_is_the_name(spelling: Spelling, name: str) -> None:
    if wrong_with(name, spelling.syntax) is None:
        shown = spelling.shown(name)
        assert spelling.name_of(shown) == name
        assert spelling.divided(shown) == [shown] or not spelling.encodes


@given(st.sampled_from(SPELLINGS), texts)
def test_what_a_client_writes_means_one_name_or_is_an_error(spelling: Spelling, text: str) -> None:
    with suppress(StompError):
        name = spelling.name_of(text)
        if wrong_with(name, spelling.syntax) is None:
            assert spelling.name_of(spelling.shown(name)) == name


@given(texts)
def test_without_options_names_mean_themselves(text: str) -> None:
    assert Spelling(Symbols()).name_of(text) == text == Spelling(Symbols()).shown(text)
    assert Spelling(Symbols(), DEFAULT, encodes=False).is_plain
