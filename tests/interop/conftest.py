"""Brokers for these tests: processes of their own, gone at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import BrokerProcess

NO_LIMIT = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A started broker on an empty directory, killed at the end."""
    with BrokerProcess(tmp_path / "data", config=NO_LIMIT) as process:
        yield process.start()


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A started broker for all tests of a module; each uses destinations of its own."""
    directory = tmp_path_factory.mktemp("shared") / "data"
    with BrokerProcess(directory, config=NO_LIMIT) as process:
        yield process.start()
        # Whatever the tests did to it, it stops cleanly.
        assert process.stop() == 0, process.log_text()
