"""Answers about names are remembered, but no more than there is room for."""

from daybook.engine.settings.known_names import CHARACTERS_MAX, NAMES_MAX, KnownNames


def test_an_answer_is_remembered_until_it_is_forgotten() -> None:
    known = KnownNames[int]()
    known.remember("a", 1)
    assert (known.get("a"), known.get("b")) == (1, None)
    known.clear()
    assert known.get("a") is None


def test_many_names_are_forgotten() -> None:
    known = KnownNames[int]()
    for number in range(NAMES_MAX + 1):
        known.remember(f"n{number}", number)
    assert known.get("n0") is None
    assert known.get(f"n{NAMES_MAX}") == NAMES_MAX


def test_few_long_names_are_forgotten() -> None:
    known = KnownNames[bool]()
    size = CHARACTERS_MAX // 4
    for letter in "abcde":
        known.remember(letter * size, True)
    assert known.get("d" * size) is None
    assert known.get("e" * size) is True
