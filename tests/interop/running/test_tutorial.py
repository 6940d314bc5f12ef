"""`docs/tutorial.md` as a reader would follow it, with its program in each language.

`python -m tests.interop.running.test_tutorial` puts the outputs into the page.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.amqp.test_examples import EXAMPLES, go_program
from tests.interop.amqp.test_jms import maven
from tests.interop.using import daybook, queues
from tests.meta import tree
from tests.support.brokers.console import PORT, commands_of, rewritten, staged, without_numbers
from tests.support.process import BrokerProcess
from tests.support.suite.java import QUICK

pytestmark = pytest.mark.interop

PAGE: Final = tree.ROOT / "docs" / "tutorial.md"
SETTINGS: Final = ("max-delivery-attempts=3", "redelivery-delay=2s", "dead-letter-address=failed")
FETCHING: Final = ["-f", "orders.pom.xml", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
RUN_SECONDS: Final = 120.0


def followed(page: str, folder: Path) -> list[str]:
    """Return the outputs of the commands of the page."""
    for example in EXAMPLES.glob("orders.*"):
        shutil.copy(example, folder)
    with_port = re.sub(
        r"^\$ python orders\.py [a-z ]+$", rf"\g<0> {PORT}", page, flags=re.MULTILINE
    )
    return staged(with_port, folder)


def shown(command: str) -> str:
    """Return the output that the page shows of a command."""
    (found,) = [each for each in commands_of(PAGE.read_text("utf-8")) if each.command == command]
    return found.output


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    commands = commands_of(page)
    outputs = followed(page, tmp_path)
    assert len(outputs) == len(commands) > 10
    for each, output in zip(commands, outputs, strict=True):
        assert without_numbers(output) == without_numbers(each.output), each.command


def test_the_page_names_the_settings_of_these_tests() -> None:
    assert f"daybook settings set orders {' '.join(SETTINGS)}\n" in PAGE.read_text("utf-8")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[BrokerProcess]:
    """The broker of the page."""
    with BrokerProcess(tmp_path / "data", listen=("amqp+stomp://127.0.0.1:0",)) as process:
        process.start()
        daybook(process, "queue", "create", "orders")
        daybook(process, "settings", "set", "orders", *SETTINGS)
        yield process


def sells(broker: BrokerProcess, *program: object, folder: Path | None = None) -> None:
    """Follow the page with a program, which must print what that of the page prints."""

    def run(*words: str) -> str:
        command = [*program, *words, broker.port]
        done = subprocess.run(
            [str(word) for word in command], cwd=folder, capture_output=True, check=False,
            text=True, timeout=RUN_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("send") == shown("python orders.py send")
    assert run("work") == shown("python orders.py work")
    assert queues(broker)["failed"]["ready"] == 1
    daybook(broker, "queue", "retry", "failed")
    assert run("work", "guests") == shown("python orders.py work guests")
    found = queues(broker)["orders"]
    assert (found["acknowledged"], found["dead_lettered"], found["ready"]) == (5, 1, 0)


def test_with_node(shop: BrokerProcess, packages: Path) -> None:
    shutil.copy(EXAMPLES / "orders.cjs", packages)
    sells(shop, "node", "orders.cjs", folder=packages)


def test_with_go(shop: BrokerProcess, tmp_path: Path) -> None:
    sells(shop, go_program("orders.go", tmp_path / "go"))


def test_with_java(shop: BrokerProcess, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "orders.pom.xml", tmp_path)
    assert f"`mvn {' '.join(FETCHING)}`" in PAGE.read_text("utf-8")
    maven(tmp_path, *FETCHING)
    sells(shop, "java", *QUICK, "-cp", tmp_path / "lib" / "*", EXAMPLES / "Orders.java")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(rewritten(text, followed(text, Path(directory))), "utf-8")
