"""How many kills, and from which seed: DAYBOOK_KILLS=200 DAYBOOK_SEED=7 pytest tests/crash."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.machine.preload import NoCompiler, compile_library
from tests.crash.power import SOURCE
from tests.support.process import started_by
from tests.support.suite.chance import seed_of


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a nursery fork the brokers, but for those that are loaded with a library below them."""
    yield from started_by(request.module, ())


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The black box, or a reason to skip."""
    try:
        return compile_library(SOURCE, tmp_path_factory.mktemp("blackbox"))
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def kills() -> int:
    """How often to kill; few by default, so that the tests stay bounded."""
    return int(os.environ.get("DAYBOOK_KILLS", "4"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the test, printed, or the one asked for."""
    chosen = seed_of(request.node.nodeid)
    print(f"DAYBOOK_SEED={chosen}")
    return chosen
