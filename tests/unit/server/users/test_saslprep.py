"""SASLprep against the examples of RFC 4013, section 3."""

import pytest

from daybook.server.users.saslprep import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("", ""),
        ("\u0627", "\u0627"),
        # Control characters, a letter of another direction, and what Unicode 3.2 did not have.
        ("\u0007", None),
        ("\u0627\u0031", None),
        ("\u0627a\u0627", None),
        ("\U0001f600", None),
        ("\ud800", None),
    ],
)
def test_a_text_has_one_form(text: str, prepared: str | None) -> None:
    assert saslprep(text) == prepared
