"""Brokers for these tests: processes of their own, gone at the end."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bench.machine.preload import NoCompiler, compile_library
from tests.crash.power import SOURCE
from tests.interop.clients import KINDS, PYTHON, Client, How
from tests.interop.npm import install
from tests.interop.using import connected
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, started_by

NO_LIMIT = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
"""


OWN_INTERPRETER: Final = ("test_idle",)
"""Modules about starts, threads or memory: their brokers are started as users start them, with
interpreters of their own. All others let a nursery fork them (`tests/support/nursery.py`), but for
single tests with the fixture `own_interpreter`."""


@pytest.fixture(scope="module", autouse=True)
def _forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Say how the brokers of a module are started."""
    yield from started_by(request.module, OWN_INTERPRETER)


@pytest.fixture
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the brokers of a test as users start them."""
    monkeypatch.setattr(BrokerProcess, "is_forked", False)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A started broker on an empty directory, killed at the end."""
    with BrokerProcess(tmp_path / "data", config=NO_LIMIT) as process:
        yield process.start()


@pytest.fixture
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A started broker with the configuration `CONFIG` of the module, killed at the end."""
    with BrokerProcess(tmp_path / "data", config=request.module.CONFIG) as process:
        yield process.start()


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    """A connection to the broker of the test, logged in."""
    with connected(broker) as found:
        yield found


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A started broker for all tests of a module; each uses destinations of its own."""
    directory = tmp_path_factory.mktemp("shared") / "data"
    with BrokerProcess(directory, config=NO_LIMIT) as process:
        yield process.start()
        # Whatever the tests did to it, it stops cleanly.
        assert process.stop() == 0, process.log_text()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The black box below a process, which also makes disks full, broken and slow, or hang."""
    try:
        return compile_library(SOURCE, tmp_path_factory.mktemp("blackbox"))
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of npm, or a reason to skip."""
    return install(tmp_path_factory.mktemp("npm"))


@pytest.fixture(params=KINDS, ids=lambda pair: f"{pair[0].__name__}-{pair[1]}")
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Connect a client of a kind and version to a broker; they are closed at the end."""
    kind, version = request.param
    folder = None if kind in PYTHON else request.getfixturevalue("packages")
    clients: list[Client] = []

    def make(broker: BrokerProcess, **how: Any) -> Client:
        clients.append(kind(How(**{"port": broker.port, "folder": folder, **how}), version))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mounted)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("nobody may mount file systems here")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)
