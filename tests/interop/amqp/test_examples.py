"""The programs of `docs/examples` that speak AMQP 1.0, as a reader would run them; `test_jms.py`
has that of Java, whose packages it fetches.

Where a tool or its packages are missing the test is skipped, and says so; with `DAYBOOK_NODE` or
`DAYBOOK_GO` = `required`, as in continuous integration, it fails.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.interop.using import queues
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

EXAMPLES: Final = Path(__file__).parents[3] / "docs" / "examples"
GO_MODULE: Final = Path(__file__).with_name("go")
GO_REQUIRED: Final = "DAYBOOK_GO"
RUN_SECONDS: Final = 240.0
SAID: Final = [
    *(f"accepted order {number}" for number in (1, 2, 3)),
    *(f"received order {number} of alice" for number in (1, 2, 3)),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("examples") / "data"
    with BrokerProcess(data, listen=("amqp://127.0.0.1:0",)) as process:
        yield process.start()


def run(broker: BrokerProcess, address: str, *command: object, folder: Path | None = None) -> None:
    """Run an example, which must say what all of them say, and leave nothing in its queue."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, check=False, text=True,
        timeout=RUN_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID
    found = queues(broker)[address]
    assert (found["acknowledged"], found["ready"]) == (3, 0)


@pytest.mark.parametrize("name", ["amqp_proton_blocking", "amqp_proton_handler"])
def test_proton(broker: BrokerProcess, name: str) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    run(broker, name, sys.executable, EXAMPLES / f"{name}.py", url, name)


def test_rhea(broker: BrokerProcess, packages: Path) -> None:
    shutil.copy(EXAMPLES / "amqp_rhea.cjs", packages)
    words = ("amqp_rhea.cjs", "127.0.0.1", broker.port, "rhea")
    run(broker, "rhea", "node", *words, folder=packages)


def test_go_amqp(broker: BrokerProcess, tmp_path: Path) -> None:
    program = go_program("amqp_go.go", tmp_path / "go")
    run(broker, "go", program, f"amqp://guest:guest@127.0.0.1:{broker.port}", "go")


def go_program(name: str, folder: Path) -> Path:
    """Build an example in Go in a folder; return the program, or skip."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        no_go("Go is not installed (go)")
    shutil.copytree(GO_MODULE, folder)
    shutil.copy(EXAMPLES / name, folder / "main.go")
    command = [go, "build", "-o", "example", "."]
    built = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True)
    if built.returncode:
        assert "main.go:" not in built.stderr, built.stderr
        no_go(f"go cannot build the example: {built.stderr[-500:]}")
    return folder / "example"


def no_go(reason: str) -> NoReturn:
    if os.environ.get(GO_REQUIRED) == "required":
        pytest.fail(f"{reason}, and {GO_REQUIRED}=required asks for it")
    pytest.skip(f"{reason}; go-amqp is not tried")
