"""What all tests share: how long hypothesis searches, and that none leaves anything to the next.

`HYPOTHESIS_PROFILE=night` searches for hours, `ci` reports how to repeat a failure, `dev` (the
default) is quick. No profile has a deadline: tests never depend on how fast the machine is.
"""

import faulthandler
import gc
import os
import random
import signal
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support import nursery
from tests.support.suite.chance import beginning, seed_of
from tests.support.suite.checked_replace import checked_replace

# Each worker imports all tests, and nearly nothing of that is garbage: looking for it takes a third
# as long as the imports.
gc.disable()

# Before the first module of the broker is imported.
msgspec.structs.replace = checked_replace

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, print_blob=True)
settings.register_profile(
    "night",
    deadline=None,
    max_examples=10_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))

# Nothing here multiplies matrices; threads for that are a quarter of the start of each process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs like that; tests that interrupt programs would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONG_FIRST: Final = ("pipeline", "crash", "soak", "attack", "interop", "property", "simulation")
"""Folders with tests that take long: begun last, a single file would keep one processor busy while
the others have nothing left to do."""
_SCHEDULER: Final = pytest.StashKey[Any]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test that says itself how long it may take, as a campaign of hours does, not end before
    that with all others: `pytest-timeout` ends it."""
    own = item.get_closest_marker("timeout")
    if own is not None and own.args[0] > float(item.config.getini("faulthandler_timeout")):
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis draw what the other tests draw from (`tests.support.suite.chance`)."""
    if config.option.hypothesis_seed is None and "HYPOTHESIS_PROFILE" not in os.environ:
        config.option.hypothesis_seed = seed_of("hypothesis")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one worker, as `tests.support.suite.scheduling` says."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.suite.scheduling import Files  # noqa: PLC0415 (only where xdist runs)

    config.stash[_SCHEDULER] = Files(config, log)
    return config.stash[_SCHEDULER]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the tests that an interrupted run was at: they may be why it was interrupted."""
    scheduler: Any = config.stash.get(_SCHEDULER, None)
    for node in scheduler.nodes if scheduler is not None else ():
        if test := scheduler.running(node):
            terminalreporter.write_line(f"was running: {test}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders with long tests first, and keep the order within them."""
    ranks = {name: number for number, name in enumerate(_LONG_FIRST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.split("/")[1], len(ranks)))


def pytest_collection_finish() -> None:
    """Let the nursery fork who looks at an index, which starting takes a quarter of a second. And
    set aside what was imported and collected: no later collection of garbage looks at it."""
    nursery.replace_looks(nursery.run)
    gc.freeze()
    gc.enable()


_IS_SAFE: Final = "PYTHONSAFEPATH" in os.environ
"""Before any fixture, however wide its scope."""


@pytest.fixture(autouse=True)
def _leave_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A session of Spark changes the environment, a broker in this process its logging, and every
    test what is drawn next."""
    random.seed(f"{beginning()} {request.node.nodeid}")
    yield
    structlog.reset_defaults()
    if not _IS_SAFE:
        os.environ.pop("PYTHONSAFEPATH", None)
