"""Pages in a real browser: no script error, nothing refused by the policy, no finding of axe, and
figures that renew themselves. Needs Chromium, which `make test` installs where it may.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.console.using import send
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import BrokerProcess, wait_for

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.interop

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser")
PATHS: Final = (
    "", "/list/queues", "/list/addresses", "/list/connections", "/list/links", "/list/consumers",
    "/queue?queue=seen", "/address?address=seen", "/messages?queue=seen", "/do/queue/create",
    "/do/queue/purge?queue=seen", "/past", "/events", "/story?message={message}",
    "/message?queue=seen&message={message}", "/compare?before=4&after=9",
    "/dead-letters?queue=seen", "/rights?user=ada&address=seen",
)  # fmt: skip
SIZES: Final = ((360, 740), (3840, 2160))
TEXT_MS: Final = 30_000
"""How long a page may take, on a machine that is busy with other tests."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    if CHROMIUM is None:
        pytest.skip("Chromium is missing; install it (Debian: apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """A page of the browser, which notes what scripts and policies complain about."""

    def __init__(self, chromium: Any, console: ConsoleProcess, **how: Any) -> None:
        self.context = chromium.new_context(**how)
        self.context.set_default_timeout(TEXT_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._url = console.url

    def go(self, path: str) -> Any:
        """Load a page."""
        self.page.goto(self._url + path, wait_until="load")
        return self.page

    def log_in(self, login: str) -> None:
        """Log in as people do."""
        self.go("/login")
        self.page.fill("input[name=login]", login)
        self.page.fill("input[name=passcode]", login)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#side, .cards")


@pytest.fixture
def page(chromium: Any, console: ConsoleProcess) -> Iterator[Page]:
    """A page of ada, an operator."""
    made = Page(chromium, console)
    made.log_in("ada")
    yield made
    made.context.close()


@pytest.fixture(scope="module")
def message(broker: BrokerProcess, console: ConsoleProcess) -> int:
    """A message that the pages show."""
    send(broker, "seen", '{"price": 12}', "--count", "3")
    browser = Browser(console)
    browser.log_in("ada", "ada")
    shown = browser.get("/b/data/messages", queue="seen").text
    found = re.search(r"message=(\d+)", shown)
    assert found
    return int(found[1])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, message: int, theme: str, packages: Path) -> None:
    axe = packages / "node_modules" / "axe-core" / "axe.min.js"
    page.page.emulate_media(color_scheme=theme)
    found, passed = [], 0
    paths = PATHS if theme == "light" else PATHS[:6:5]
    for path in ("/login", *(f"/b/data{path.format(message=message)}" for path in paths)):
        shown = page.go(path)
        # The policy allows no foreign script, so it is put into the page by the browser itself.
        shown.evaluate(axe.read_text("utf-8"))
        told = shown.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
        passed += len(told["passes"])
        found += [
            f"{path}: {each['id']}: {node['html'][:200]}"
            for each in told["violations"]
            for node in each["nodes"]
        ]
    assert not found, "\n".join(found)
    assert passed > 10 * len(paths), "axe looked at something"
    assert not page.complaints


def test_no_page_is_wider_than_its_window(
    chromium: Any, console: ConsoleProcess, message: int
) -> None:
    for width, height in SIZES:
        page = Page(chromium, console, viewport={"width": width, "height": height})
        page.log_in("ada")
        for path in PATHS if width == SIZES[0][0] else PATHS[:12:4]:
            shown = page.go("/b/data" + path.format(message=message))
            needed = shown.evaluate("document.documentElement.scrollWidth")
            assert needed <= width, (path, width, needed)
        assert not page.complaints
        page.context.close()


def test_figures_renew_themselves_and_charts_are_drawn(broker: BrokerProcess, page: Page) -> None:
    shown = page.go("/b/data")
    shown.wait_for_selector(".chart canvas")
    before = int(shown.inner_text("dl.figures >> text=messages ready >> .. >> dd").replace(",", ""))
    send(broker, "renewed", "x", "--count", "7")
    shown.wait_for_function(
        "before => [...document.querySelectorAll('dl.figures div')].some(each =>"
        " each.textContent.includes('messages ready')"
        " && Number(each.querySelector('dd').textContent.replaceAll(',', '')) >= before + 7)",
        arg=before,
    )
    assert not page.complaints


def test_a_page_says_that_the_broker_is_gone_and_goes_on(chromium: Any, tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(tmp_path / "data"))
        broker.start()
        console = stack.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
        page = Page(chromium, console)
        shown = page.go(console.link)
        shown.wait_for_selector("text=No problems")
        broker.cut_power()
        shown.wait_for_selector("text=no broker runs")
        broker.start()
        shown.wait_for_selector("text=No problems")
        page.context.close()


def test_everything_is_reached_by_the_keyboard(page: Page) -> None:
    shown = page.go("/b/data")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    shown.keyboard.press("Enter")
    seen = set()
    for _ in range(60):
        shown.keyboard.press("Tab")
        seen.add(shown.evaluate("document.activeElement.textContent.trim()"))
    assert "connections" in seen
    shown.focus("text=Queues")
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/list/queues")


def test_the_theme_is_chosen_and_kept(page: Page) -> None:
    shown = page.go("/b/data/list/queues")
    shown.click("button[name=theme]")
    shown.wait_for_selector("html[data-theme=dark]")
    page.go("/b/data").wait_for_selector("html[data-theme=dark]")
    assert shown.url.endswith("/b/data")


def test_a_command_is_copied(chromium: Any, console: ConsoleProcess, broker: BrokerProcess) -> None:
    page = Page(chromium, console)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.log_in("ada")
    shown = page.go("/b/data/list/queues")
    shown.click("button.copy")
    text = wait_for(lambda: shown.evaluate("navigator.clipboard.readText()"), "the command")
    assert text == f"daybook queue list --data {broker.data}"
    page.context.close()


def test_pages_work_without_scripts(chromium: Any, console: ConsoleProcess) -> None:
    page = Page(chromium, console, java_script_enabled=False)
    page.log_in("ada")
    shown = page.go("/b/data/list/queues")
    assert shown.is_visible("text=Time machine")
    shown.fill("input[name=search]", "seen")
    shown.keyboard.press("Enter")
    shown.wait_for_url("**search=seen**")
    page.context.close()
