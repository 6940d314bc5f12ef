"""The libraries below the nodes, or a reason to skip."""

from pathlib import Path
from typing import Final

import pytest

from bench.machine.preload import NoCompiler, compile_library
from tests.crash.machines.cluster import Libraries

CLOCK: Final = Path(__file__).with_name("stepped_clock.c")


@pytest.fixture(scope="session")
def libraries(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """The black box, and the clock."""
    try:
        return Libraries(library, compile_library(CLOCK, tmp_path_factory.mktemp("clock")))
    except NoCompiler as error:
        pytest.skip(str(error))
