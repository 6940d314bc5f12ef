"""A broker with users of different rights, and a console beside it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.security.test_permissions import give_users
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import BrokerProcess

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
RULES: Final = """
[[security-setting]]
match = "#"
manage = ["operators"]
browse = ["readers"]
send = ["*"]
consume = ["*"]
create-address = ["*"]
create-durable-queue = ["*"]

[[security-setting]]
match = "orders.#"
manage = ["operators", "sales"]
browse = ["readers"]
send = ["*"]
consume = ["*"]
create-address = ["*"]
create-durable-queue = ["*"]

[[security-setting]]
match = "books::books.day"
manage = ["operators"]
browse = ["readers", "clerks"]
send = ["*"]
"""
USERS: Final = {
    "ada": ("operators",), "rea": ("readers",), "sam": ("sales",), "uno": ("clerks",), "nil": (),
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the users ada (operator), rea (reader), sam (manages orders.#), uno
    (may browse one queue) and nil."""
    path = tmp_path_factory.mktemp("console")
    with BrokerProcess(path / "data", config=RULES) as made:
        give_users(made, USERS)
        yield made.start()


@pytest.fixture(scope="module")
def console(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console for the broker."""
    with ConsoleProcess(tmp_path_factory.mktemp("beside"), "--data", str(broker.data)) as made:
        yield made
        assert "Traceback" not in made.log_text()


@pytest.fixture
def visit(console: ConsoleProcess) -> Callable[[str], Browser]:
    """Return a browser of a user that logged in."""

    def begin(login: str) -> Browser:
        browser = Browser(console)
        shown = browser.log_in(login, login)
        assert not shown.error, shown.words
        return browser

    return begin


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is missing; install it (Debian: apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def cleaned() -> Iterator[ExitStack]:
    """A stack that is closed at the end of the test."""
    with ExitStack() as stack:
        yield stack


def data_name(path: Path) -> str:
    """Return the name of a broker in the console of its data directory."""
    return path.name
