"""Fixtures of the properties: a second format of headers, so that no law holds for one alone."""

from collections.abc import Iterator

import pytest

from tests.support.worlds.second_format import MapsCodec, installed


@pytest.fixture(autouse=True, scope="module")
def second_format() -> Iterator[MapsCodec]:
    with installed() as codec:
        yield codec
