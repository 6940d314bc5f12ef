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

from bench.brokers.ports import free_port
from daybook.engine.settings.permissions import PERMISSIONS
from tests.interop.amqp.test_examples import EXAMPLES, run
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess
from tests.support.suite.java import QUICK, QUICK_TEXT

pytestmark = pytest.mark.interop

PROJECT: Final = Path(__file__).with_name("jms")
REQUIRED: Final = "DAYBOOK_JMS"
MESSAGES: Final = 600
BUILD_SECONDS: Final = 300.0
RUN_SECONDS: Final = 240.0
CASES: Final = (
    "queue", "types", "topic", "browser", "transacted", "recover", "durable", "shared",
    "shared-durable", "temporary", "delay", "context", "groups", "large", "many", "priorities",
    "expiry", "acknowledge", "client-id", "rights",
)  # fmt: skip
RULES: Final = "\n".join(
    ["[[security-setting]]", 'match = "locked"', "[[security-setting]]", 'match = "#"']
    + [f'{each} = ["*"]' for each in PERMISSIONS]
)


def _missing(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, and {REQUIRED}=required asks for it")
    pytest.skip(f"{reason}; JMS is not tried")


def maven(folder: Path, *words: str) -> None:
    """Run Maven in a folder, or skip where it cannot work."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        _missing("Java or Maven is not installed (java, mvn)")
    done = subprocess.run(
        ["mvn", "-q", "-B", *words], cwd=folder, capture_output=True, check=False,
        timeout=BUILD_SECONDS, text=True, env=os.environ | {"MAVEN_OPTS": QUICK_TEXT},
    )  # fmt: skip
    if done.returncode:
        _missing(f"Maven cannot do {' '.join(words)}: {done.stdout[-500:]}")


def _built(folder: Path) -> str:
    """Return the class path of the program, which is compiled in a folder."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    maven(folder, "compile", "dependency:build-classpath", "-Dmdep.outputFile=path.txt")
    return f"{folder / 'target' / 'classes'}:{(folder / 'path.txt').read_text()}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the class path of the programs."""
    return _built(tmp_path_factory.mktemp("jms") / "project")


@pytest.fixture(scope="module")
def told(path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the output of the program for each case."""
    with BrokerProcess(
        tmp_path_factory.mktemp("broker") / "data", listen=("amqp://127.0.0.1:0",), config=RULES
    ) as broker:
        broker.start()
        done = subprocess.run(
            ["java", *QUICK, "-cp", path, "Cases", f"amqp://127.0.0.1:{broker.port}"],
            capture_output=True, check=False, timeout=RUN_SECONDS, text=True,
        )  # fmt: skip
        words = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
        yield {word[1].rstrip(":"): " ".join(word) for word in words if len(word) > 1}


@pytest.mark.parametrize("case", CASES)
def test_an_application_of_jms(case: str, told: dict[str, str]) -> None:
    assert told.get(case) == f"ok {case}"


def test_an_application_with_failover_outlives_kill_9(path: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", listen=(f"amqp://127.0.0.1:{free_port()}",)) as broker:
        broker.start()
        url = f"failover:(amqp://127.0.0.1:{broker.port})?failover.reconnectDelay=50"
        command = ["java", *QUICK, "-cp", path, "Failover", url, str(MESSAGES)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            lines = _lines_of(program, broker)
        assert program.returncode == 0
        broker.stop()
        for words in (["verify"], ["audit"]):
            command = [JOURNAL, *words, "--data", str(broker.data)]
            done = nursery.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout
    sent = [int(words[1]) for words in lines if words[0] == "sent"]
    got: dict[int, list[int]] = {}
    for words in lines:
        if words[0] == "got":
            got.setdefault(int(words[1]), []).append(int(words[2]))
    assert sent == list(range(MESSAGES)) == sorted(got)
    # Whatever came twice says so.
    assert all(min(counts[1:], default=2) > 1 for counts in got.values())


def test_the_example_of_the_documentation(path: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", listen=("amqp://127.0.0.1:0",)) as broker:
        url = f"amqp://127.0.0.1:{broker.start().port}"
        run(broker, "jms", "java", *QUICK, "-cp", path, EXAMPLES / "AmqpJms.java", url, "jms")


def _lines_of(program: "subprocess.Popen[str]", broker: BrokerProcess) -> list[list[str]]:
    """Return the output of the program, while its broker is killed and started again."""
    assert program.stdout is not None
    kills = [MESSAGES // 3, 2 * MESSAGES // 3]
    lines = []
    for line in program.stdout:
        lines.append(line.split())
        if kills and lines[-1][0] == "sent" and int(lines[-1][1]) >= kills[0]:
            del kills[0]
            broker.kill()
            broker.start()
    assert not kills
    return lines
