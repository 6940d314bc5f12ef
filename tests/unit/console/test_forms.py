"""What people write into forms, as a request."""

import pytest

from daybook.console.pages.forms import request_in
from daybook.server.administration.ways import way_of


def asked(attribute: str, value: str) -> object:
    found = way_of("queue create")
    assert found is not None
    given = [("name", "q"), ("address", "q"), (attribute, value)]
    return request_in(found, given)["definition"][attribute]


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("1,000", 1000), ("-0", 0), (" 7 ", 7)])
def test_whole_numbers_as_people_write_them(text: str, number: int) -> None:
    assert asked("max_consumers", text) == number


@pytest.mark.parametrize(
    "text", ["\uff11\uff12", "1_000", "\u0663", "1 0", "1.5", "x", "9" * 20, "-", "0x1"]
)
def test_what_is_no_whole_number_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="max-consumers must be a whole number, and is"):
        asked("max_consumers", text)
