"""Brokers that are measured to see whether measuring works are forked by a nursery."""

import subprocess
from types import SimpleNamespace

import pytest

from bench.brokers import running
from tests.support import nursery


@pytest.fixture(autouse=True)
def _forked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a nursery fork them, unless the test asks for `own_interpreter`."""
    if "own_interpreter" not in request.fixturenames:
        starting = SimpleNamespace(
            Popen=nursery.popen,
            DEVNULL=subprocess.DEVNULL,
            TimeoutExpired=subprocess.TimeoutExpired,
        )
        monkeypatch.setattr(running, "subprocess", starting)


@pytest.fixture
def own_interpreter() -> None:
    """Start the brokers of a test as the command does; their processes have command lines."""
