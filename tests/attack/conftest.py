"""Brokers and honest clients for the tests of attacks, gone at the end."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bench.load.honest import Honest
from tests.attack.honest import Beside
from tests.support.process import BrokerProcess, started_by

SCALE = int(os.environ.get("DAYBOOK_ATTACK", "1"))


OWN_INTERPRETER: Final = ("test_descriptors", "test_memory")
"""Modules about descriptors and memory: a forked broker has what it was forked from."""


CLOCK_SAYS: Final = "beside the attack; alone"
"""The words of `Beside` for a round that took too long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try again where the clock alone judges. A machine that others use stands still now and then,
    and a broker that an attack harms does so each time."""
    for item in items:
        if "beside" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=CLOCK_SAYS))


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Say how the brokers of a module are started."""
    yield from started_by(request.module, OWN_INTERPRETER)


@pytest.fixture(scope="session")
def scale() -> int:
    """How many times as long or as large an attack is to be; `make attack` sets it."""
    return SCALE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A started broker with the configuration as it comes, killed at the end. Its port is for both
    protocols."""
    with BrokerProcess(tmp_path / "data", listen=("amqp+stomp://127.0.0.1:0",)) as process:
        yield process.start()


@pytest.fixture
def beside(broker: BrokerProcess) -> Iterator[Beside]:
    """An honest client of that broker, and what is compared at the end of an attack."""
    with Honest(broker.port) as honest:
        yield Beside(broker, honest)
