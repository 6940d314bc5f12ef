"""Headers about deaths, for tests that are about other headers."""

from collections.abc import Mapping
from typing import TypeVar

from daybook.engine.facts.own_headers import DEATH_HEADERS
from daybook.engine.messages.headers import as_dict

V = TypeVar("V")


def without_deaths(properties: Mapping[str, V]) -> dict[str, V]:
    """The properties of a message but those that say how it died."""
    return {name: value for name, value in properties.items() if name not in DEATH_HEADERS}


def other_headers(headers: bytes) -> dict[str, str]:
    """The headers of a message but those that say how it died."""
    return without_deaths(as_dict(headers))
