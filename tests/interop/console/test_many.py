"""Pages over very many queues and messages, in a real browser: shown, searched, sorted, paged.

`make pages` (DAYBOOK_MANY=1) makes 100,000 queues and a million messages of it, in some minutes.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

from bench.console import worlds
from bench.load.wire import Endpoint
from tests.interop.console.conftest import CHROMIUM
from tests.interop.console.test_chromium import Page
from tests.support.console import ConsoleProcess
from tests.support.process import BrokerProcess

sync_api = pytest.importorskip("playwright.sync_api")
IS_WHOLE: Final = "DAYBOOK_MANY" in os.environ
pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600 if IS_WHOLE else 300)]

QUEUES: Final = 100_000 if IS_WHOLE else 10_000
MESSAGES: Final = 1_000_000 if IS_WHOLE else 20_000
RARE: Final = 20_000 - 10
"""Behind all messages that a page looks at at first."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of the operator of a broker that has much."""
    if CHROMIUM is None:
        pytest.skip("Chromium is missing; install it (Debian: apt install chromium)")
    path = tmp_path_factory.mktemp("many")
    config = "[broker]\nmax-queues-per-user = 0\n"
    with (
        BrokerProcess(path / "data", config=config) as broker,
        sync_api.sync_playwright() as playwright,
    ):
        broker.start()
        endpoint = Endpoint(broker.port, "guest", "guest", "/", "credit")
        worlds.send(endpoint, worlds.queue_frames(QUEUES))
        worlds.send(endpoint, worlds.large_frames(MESSAGES, rare=RARE))
        with ConsoleProcess(path, "--data", str(broker.data)) as console:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            made = Page(browser, console)
            made.go(console.link)
            yield made
            browser.close()


def names(shown: Any, place: str = "tbody tr td:first-child") -> list[str]:
    """The first column of the table."""
    found: list[str] = shown.locator(place).all_inner_texts()
    return [each.strip() for each in found]


def messages(shown: Any) -> list[str]:
    """The ids of the messages on a page."""
    return [each for each in names(shown, "tbody td a") if each.isdecimal()]


def test_many_queues_are_paged_searched_and_sorted(page: Page) -> None:
    shown = page.go("/b/data/list/queues")
    first = names(shown)
    assert len(first) == 100
    assert f"{QUEUES + 1:,}" in shown.inner_text("main")
    with shown.expect_navigation():
        shown.click("nav.pages >> text=Next")
    assert not set(names(shown)) & set(first)
    shown = page.go(f"/b/data/list/queues?offset={QUEUES - 50}")
    assert len(names(shown)) == 51
    shown = page.go("/b/data/list/queues")
    shown.fill("input[name=search]", f"client-{QUEUES - 1:06d}")
    with shown.expect_navigation():
        shown.keyboard.press("Enter")
    assert names(shown) == [f"orders.49.client-{QUEUES - 1:06d}"]
    shown = page.go("/b/data/list/queues?sort=messages&descending=true")
    assert names(shown)[:2] == ["large", "orders.00.client-000000"]
    assert not page.complaints


def test_many_messages_are_paged_and_filtered(page: Page) -> None:
    shown = page.go("/b/data/messages?queue=large")
    first = messages(shown)
    assert len(first) == 50
    shown = page.go(f"/b/data/messages?queue=large&offset={MESSAGES - 30}")
    last = messages(shown)
    assert len(last) == 30
    assert not set(first) & set(last)
    with shown.expect_navigation():
        shown.click(f"tbody a >> text='{last[-1]}'")
    assert f'"order":{MESSAGES - 1}' in shown.inner_text("main").replace(" ", "")
    shown = page.go("/b/data/messages?queue=large&filter=rare+%3D+%27yes%27")
    assert not messages(shown)
    with shown.expect_navigation():
        shown.click("text=look further")
    assert len(messages(shown)) == 1
    assert not page.complaints
