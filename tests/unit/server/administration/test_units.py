"""Every number that a command prints says what it counts."""

import pytest

from daybook.engine.settings.setting_keys import KEYS
from daybook.server.administration import units
from daybook.texts import counted


@pytest.mark.parametrize("name", [each.name for each in KEYS if each.type is int])
def test_every_number_among_the_settings_has_a_unit(name: str) -> None:
    assert units.unit_of_setting(name, 7)
    assert units.unit_of_setting(name, -1) == "", "-1 stands for something else"


def test_other_settings_have_none() -> None:
    assert units.unit_of_setting("no-expiry", True) == ""
    assert units.unit_of_setting("dead-letter-address", "DLQ") == ""
    assert units.unit_of_setting("redelivery-delay-multiplier", 2.0) == ""


@pytest.mark.parametrize(("number", "text"), [(0, "0 bytes"), (1, "1 byte"), (2000, "2,000 bytes")])
def test_what_is_counted(number: int, text: str) -> None:
    assert counted(number, "byte") == text


def test_headings() -> None:
    assert units.heading("memory_held") == "memory held bytes"
    assert units.heading("in_flight") == "in flight"
