"""Applications of JMS with Qpid JMS, unchanged: its cases run in one program of Java.

Where Java, Maven or its packages are missing the tests are skipped, and say so; with
`DAYBOOK_JMS=required`, as in continuous integration, they fail.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

PROJECT: Final = Path(__file__).with_name("jms")
REQUIRED: Final = "DAYBOOK_JMS"
BUILD_SECONDS: Final = 300.0
RUN_SECONDS: Final = 240.0
CASES: Final = (
    "queue", "types", "topic", "browser", "transacted", "recover", "durable", "shared",
    "shared-durable", "temporary", "delay", "context", "groups", "large", "many",
)  # fmt: skip


def _missing(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, and {REQUIRED}=required asks for it")
    pytest.skip(f"{reason}; JMS is not tried")


def _built(folder: Path) -> str:
    """Return the class path of the program, which is compiled in a folder."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        _missing("Java or Maven is not installed (java, mvn)")
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    command = [
        "mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=path.txt",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, capture_output=True, check=False, timeout=BUILD_SECONDS, text=True
    )
    if done.returncode:
        _missing(f"Maven cannot build {PROJECT.name}: {done.stdout[-500:]}")
    return f"{folder / 'target' / 'classes'}:{(folder / 'path.txt').read_text()}"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the output of the program for each case."""
    path = _built(tmp_path_factory.mktemp("jms") / "project")
    with BrokerProcess(
        tmp_path_factory.mktemp("broker") / "data", listen=("amqp://127.0.0.1:0",)
    ) as broker:
        broker.start()
        done = subprocess.run(
            ["java", "-cp", path, "Cases", f"amqp://127.0.0.1:{broker.port}"],
            capture_output=True, check=False, timeout=RUN_SECONDS, text=True,
        )  # fmt: skip
        words = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        yield {word[1].rstrip(":"): " ".join(word) for word in words if len(word) > 1}


@pytest.mark.parametrize("case", CASES)
def test_an_application_of_jms(case: str, told: dict[str, str]) -> None:
    assert told.get(case) == f"ok {case}"
