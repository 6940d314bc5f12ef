"""Pages in a real browser: no script error, nothing refused by the policy, and figures that renew
themselves. Needs Chromium, which `make test` installs where it may. `pages` has what holds for all.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.interop.console.using import history_without_broker, make_hang, send
from tests.interop.hardships.test_full_at_start import fill_up
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.interop

TEXT_MS: Final = 30_000
"""How long a page may take, on a machine that is busy with other tests."""

NOTE_TEXTS: Final = """
window.texts = [];
const plain = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, ...more) {
  const left = this.textAlign === "right" ? x - this.measureText(text).width : 0;
  window.texts.push([text, left]);
  return plain.call(this, text, x, ...more);
};
"""
"""Notes what a chart writes, and where labels of its y axis begin."""


class Page:
    """A page of the browser, which notes what scripts and policies complain about."""

    def __init__(self, chromium: Any, console: ConsoleProcess, **how: Any) -> None:
        self.context = chromium.new_context(**how)
        self.context.set_default_timeout(TEXT_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.url = console.url

    def go(self, path: str) -> Any:
        """Load a page."""
        self.page.goto(self.url + path, wait_until="load")
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


class Watched(NamedTuple):
    """A broker, its console, and the overview in the browser of the operator."""

    broker: BrokerProcess
    console: ConsoleProcess
    page: Page

    @property
    def shown(self) -> Any:
        """The tab of the browser."""
        return self.page.page


@contextmanager
def watching(chromium: Any, path: Path, **how: Any) -> Iterator[Watched]:
    """Watch a broker of its own, which the test may harm; `how` it is started."""
    with BrokerProcess(path / "files", **how) as broker:
        broker.start()
        with ConsoleProcess(path, "--data", str(broker.data)) as console:
            page = Page(chromium, console)
            page.go(console.link).wait_for_selector("text=No problems")
            yield Watched(broker, console, page)
            page.context.close()


@pytest.fixture
def watched(chromium: Any, tmp_path: Path) -> Iterator[Watched]:
    """A broker that the browser watches."""
    with watching(chromium, tmp_path, data=tmp_path / "data") as made:
        yield made


def test_back_from_what_was_done_is_the_question(page: Page, broker: BrokerProcess) -> None:
    send(broker, "backward", "x")
    shown = page.go("/b/data/do/queue/pause?queue=backward")
    shown.click("text=Go on")
    shown.click("text=Pause queue backward")
    shown.wait_for_selector("h1:text-is('Done')")
    shown.go_back()
    shown.wait_for_selector("button:text-is('Pause queue backward')")
    shown.go_back()
    shown.wait_for_selector("text=Go on")
    assert not page.complaints


def test_a_table_with_more_behind_its_edge_shows_that(page: Page, broker: BrokerProcess) -> None:
    send(broker, "edge", "x")
    page.page.set_viewport_size({"width": 700, "height": 700})
    shown = page.go("/b/data/list/queues")
    shown.wait_for_selector(".scroll.more")
    shown.locator(".scroll").first.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    shown.wait_for_selector(".scroll:not(.more)")
    shown.set_viewport_size({"width": 3840, "height": 700})
    page.go("/b/data/list/queues")
    assert shown.locator(".scroll.more").count() == 0


def _in_view(shown: Any, selector: str) -> bool:
    """Whether the whole of an element is in the window, and nothing that scrolls cuts it off."""
    found: bool = shown.locator(selector).first.evaluate(
        "each => { const box = each.getBoundingClientRect();"
        " const frame = each.closest('.scroll').getBoundingClientRect();"
        " return box.width > 0 && box.left >= frame.left && box.right <= frame.right + 1; }"
    )
    return found


def test_what_matters_is_in_view_however_long_names_are(
    chromium: Any, console: ConsoleProcess, broker: BrokerProcess
) -> None:
    browser = Browser(console)
    browser.log_in("ada", "ada")
    browser.do("/b/data/do/settings/set", match="cut", values="max-delivery-attempts=1")
    send(broker, "cut." + "long-name." * 20 + "z" * 60, "x")
    send(broker, "cut", "x")
    url = f"stomp://ada:ada@127.0.0.1:{broker.port}"
    nursery.run([DAYBOOK, "receive", "cut", "--reject", "--count", "1", "--url", url], check=True)
    for width in (360, 1280):
        page = Page(chromium, console, viewport={"width": width, "height": 800})
        page.log_in("ada")
        shown = page.go("/b/data/dead-letters?queue=DLQ&by=error")
        for act in ("messages", "retry", "move", "remove"):
            assert _in_view(shown, f"td.acts >> a:text-is('{act}')"), (width, act)
        shown = page.go("/b/data/list/queues?search=cut.long")
        headings = ("ready",) if width < 400 else ("ready", "bytes", "oldest ready")
        for heading in headings:
            assert _in_view(shown, f"th:has-text('{heading}')"), (width, heading)
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


def test_lists_renew_themselves_until_they_are_told_not_to(
    broker: BrokerProcess, page: Page
) -> None:
    shown = page.go("/b/data/list/queues?search=lively")
    assert "There are none" in shown.inner_text("[data-live=rows]")
    send(broker, "lively", "x")
    shown.wait_for_selector("[data-live=rows] >> text=lively")
    page.go("/b/data/queue?queue=lively")
    send(broker, "lively", "x", "--count", "2")
    shown.wait_for_selector("dl.figures div:has(dt:text-is('messages')) >> text=3")
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.click("[data-renewal]")
    assert shown.get_attribute("[data-renewal]", "aria-pressed") == "false"
    shown.wait_for_timeout(6000)
    assert asked == []
    page.go("/b/data/queue?queue=lively")
    assert shown.get_attribute("[data-renewal]", "aria-pressed") == "false"
    shown.click("[data-renewal]")
    # A page that is not seen asks for nothing.
    shown.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked.clear()
    shown.wait_for_timeout(6000)
    assert asked == []
    assert not page.complaints


def test_a_refused_page_shows_the_answer_when_there_is_one(
    broker: BrokerProcess, page: Page
) -> None:
    send(broker, "later", "x")
    broker.send_signal(signal.SIGSTOP)
    try:
        shown = page.go("/b/data/queue?queue=later")
        assert "did not answer" in shown.inner_text("[data-refused]")
    finally:
        broker.send_signal(signal.SIGCONT)
    shown.wait_for_selector("h1:text-is('later')")
    # A question that is wrong stays so, as do rights and names.
    for path in ("queue?queue=later&span=year", "queue?queue=never", "list/nothing"):
        shown = page.go(f"/b/data/{path}")
        assert not shown.query_selector("[data-refused], [data-renewal]"), path


def test_the_menu_needs_no_scripts(chromium: Any, console: ConsoleProcess) -> None:
    page = Page(chromium, console, java_script_enabled=False)
    page.log_in("ada")
    for width, is_open in ((1280, True), (360, False)):
        page.page.set_viewport_size({"width": width, "height": 740})
        shown = page.go("/b/data")
        assert shown.is_visible("#side nav") == is_open
        assert shown.is_visible("#side summary") != is_open
    shown.click("#side summary")
    assert shown.is_visible("#side nav")
    page.context.close()


def test_a_page_says_that_its_session_is_over_and_leads_to_the_login(
    chromium: Any, console: ConsoleProcess
) -> None:
    page = Page(chromium, console)
    page.log_in("ada")
    other = page.context.new_page()
    other.goto(console.url + "/b/data")
    other.wait_for_selector(".chart canvas")
    shown = page.go("/b/data/list/queues?search=one")
    last = page.context.new_page()
    last.goto(console.url + "/b/data/list/hosts")
    last.click("text=Log out")
    for each in (shown, other):
        each.wait_for_selector("text=your session is over")
    assert shown.get_attribute("[data-renewal]", "aria-pressed") == "true"
    shown.click("text=Log in again")
    shown.fill("input[name=login]", "ada")
    shown.fill("input[name=passcode]", "ada")
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/b/data/list/queues?search=one")
    page.context.close()


def test_an_answer_has_a_table_and_a_chart(page: Page) -> None:
    shown = page.go("/b/data/sql")
    shown.fill("#question", "SELECT kind, count(*) AS n FROM events GROUP BY ALL")
    shown.click("text=Ask")
    shown.wait_for_selector("[data-chart=bars] canvas")
    assert shown.is_visible("#answer >> text=ConnectionOpened")
    shown.fill(
        "#question",
        "SELECT date_trunc('second', time) AS at, count(*) AS n, NULL::INT AS none FROM events"
        " GROUP BY ALL UNION ALL SELECT NULL, 5, 6",
    )
    shown.select_option("select[name=chart]", "bars")
    shown.click("text=Ask")
    shown.wait_for_url("**chart=bars**")
    shown.wait_for_selector("[data-chart=bars] canvas")
    shown.click("text=Which addresses got the most messages?")
    shown.wait_for_selector("#answer")
    with shown.expect_download() as begun:
        shown.click("text=All rows as CSV")
    assert begun.value.suggested_filename == "answer.csv"
    assert "address,messages,bytes" in begun.value.path().read_text("utf-8")
    assert not page.complaints


def test_charts_have_room_for_their_labels_and_lines(page: Page) -> None:
    shown = page.go("/b/data")
    shown.wait_for_selector(".chart canvas")
    room = "([low, high]) => roomy(null, low, high)"
    for low, high in ((0, 7), (4, 4), (0, 0), (None, None), (10, 4_000_000)):
        least, most = shown.evaluate(room, [low, high])
        assert least == 0, (low, high)
        assert most > (high or 0), "a line is not drawn at the edge"
    least, most = shown.evaluate(room, [-5, -2])
    assert least < -5
    assert most >= 0
    shown.add_init_script(NOTE_TEXTS)
    page.go("/b/data/sql?q=SELECT+unnest([1,2,3])+AS+a,+4000000+AS+n&chart=lines")
    shown.wait_for_selector("[data-chart] canvas")
    texts = dict(shown.evaluate("window.texts"))
    assert texts["4M"] >= 0
    assert all(left >= 0 for left in texts.values()), f"labels are cut: {texts}"
    page.go("/b/data/sql?q=SELECT+'a.long.one'||range+AS+queue,+range+AS+n+FROM+range(20)")
    shown.wait_for_selector("[data-chart=bars] canvas")
    texts = dict(shown.evaluate("window.texts"))
    assert {f"a.long.one{number}" for number in range(20)} <= set(texts)
    page.go(
        "/b/data/sql?q=SELECT+range//15+AS+hour,+'q'||range%2515+AS+queue,+range+AS+n"
        "+FROM+range(30)&chart=bars"
    )
    shown.wait_for_selector("[data-chart=bars] canvas")
    assert shown.locator(".u-legend .u-label").all_inner_texts()[-1] == "others"
    assert not page.complaints


def test_the_slider_goes_by_time_and_by_the_keyboard(page: Page) -> None:
    shown = page.go("/b/data/past")
    shown.focus("#moment")
    last = int(shown.input_value("#moment"))
    shown.keyboard.press("Home")
    first = int(shown.input_value("#moment"))
    said = shown.inner_text("#moment-shown")
    assert first < last
    step = int(shown.get_attribute("#moment", "step") or "")
    marks = shown.eval_on_selector_all("#marks option", "all => all.map((each) => each.value)")
    assert marks
    assert not any((int(each) - first) % step for each in marks), "a browser draws no others"
    assert shown.get_attribute("#moment", "aria-valuetext") == said
    for _ in range(5):
        shown.keyboard.press("ArrowRight")
    middle = int(shown.input_value("#moment"))
    assert first < middle < last
    shown.keyboard.press("Enter")
    shown.wait_for_url("**/past?at=*")
    assert said[:10] in shown.inner_text("p.good")
    shown.click("text=Event after")
    shown.wait_for_url("**/past?at=*")
    assert not page.complaints


def test_a_page_says_that_the_broker_is_gone_and_goes_on(watched: Watched) -> None:
    watched.broker.cut_power()
    watched.shown.wait_for_selector("text=no broker runs")
    watched.broker.start()
    watched.shown.wait_for_selector("text=No problems")


def test_a_page_that_needs_a_login_does_not_say_that_it_goes_on(watched: Watched) -> None:
    shown = watched.shown
    watched.broker.cut_power()
    shown.wait_for_selector("text=no broker runs")
    shown.wait_for_selector("[data-goes-on]")
    other = watched.page.context.new_page()
    other.goto(watched.console.url + "/b/data")
    other.click("text=Log out")
    shown.wait_for_selector("text=your session is over")
    assert shown.is_visible("text=no broker runs")
    assert not shown.is_visible("[data-goes-on]")


def test_a_page_says_that_the_broker_hangs_and_goes_on(watched: Watched, chromium: Any) -> None:
    console, shown = watched.console, watched.shown
    other = Page(chromium, console)
    other.log_in("guest")
    other.page.wait_for_selector("text=No problems")
    watched.broker.send_signal(signal.SIGSTOP)
    try:
        for each in (shown, other.page):
            each.wait_for_selector("text=the broker did not answer")
        third = Page(chromium, console)
        for path in ("/b/data", "/b/data/list/queues", "/b/data/do/queue/create"):
            assert third.go(path).url.startswith(console.url)
        again = Page(chromium, console)
        again.context.add_cookies(watched.page.context.cookies())
        for path in ("/b/data/list/queues", "/b/data/queue?queue=x"):
            again.go(path).wait_for_selector("text=did not answer")
        again.go("/b/data/past").wait_for_selector("text=BrokerStarted")
    finally:
        watched.broker.send_signal(signal.SIGCONT)
    for each in (shown, other.page):
        each.wait_for_selector("text=No problems")
        assert not each.locator("[data-live=state] >> p").count()


def test_many_tabs_leave_connections_to_the_one_that_is_seen(page: Page) -> None:
    # A browser has six connections to a console.
    page.context.add_init_script(
        "Object.defineProperty(document, 'hidden', { get: () => !window.isSeen });"
        "window.see = (seen) => { window.isSeen = seen;"
        " document.dispatchEvent(new Event('visibilitychange')); };"
    )
    tabs = [page.context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto(f"{page.url}/b/data", wait_until="load")
        # It is seen for a while.
        tab.evaluate("window.see(true)")
        tab.wait_for_function("document.querySelector('[data-age]').dataset.age < 60")
        tab.evaluate("window.see(false)")
    with tabs[0].expect_response(lambda answer: answer.url.endswith("/live")):
        tabs[0].evaluate("window.see(true)")
    shown = tabs[0].locator("[data-age]").first
    shown.wait_for(state="attached")
    before = shown.evaluate("each => each.parentElement.textContent")
    tabs[0].wait_for_function(
        "before => !document.querySelector('[data-age]').parentElement.textContent.startsWith("
        "before.slice(0, 25))", arg=before,
    )  # fmt: skip


def test_a_list_says_that_the_broker_hangs_and_that_it_is_gone(watched: Watched) -> None:
    shown = watched.page.go("/b/data/list/connections")
    shown.wait_for_selector("text=As of")
    watched.broker.send_signal(signal.SIGSTOP)
    shown.wait_for_selector("[data-live=state] >> text=did not answer")
    shown.wait_for_selector("[data-live=age].wrong >> text=s ago")
    watched.broker.cut_power()
    # The pause between looks may have grown.
    shown.wait_for_selector("[data-live=state] >> text=No broker runs", timeout=3 * TEXT_MS)
    shown.wait_for_selector("[data-live=age]:not(.wrong) >> text=s ago")
    watched.broker.start()
    shown.wait_for_selector("[data-live=state]:not(:has(p))", state="attached")
    watched.console.process.kill()
    shown.wait_for_selector("[data-live=state] >> text=the console does not answer")


def test_a_list_without_a_broker_notices_that_it_is_back(watched: Watched) -> None:
    watched.broker.cut_power()
    shown = watched.page.go("/b/data/list/queues")
    shown.wait_for_selector("[data-live=state] >> text=No broker runs")
    watched.broker.start()
    shown.wait_for_selector("[data-live=state]:not(:has(p))", state="attached")


def test_a_page_says_that_the_disk_is_full_and_goes_on(
    chromium: Any, tmp_path: Path, disk: Path
) -> None:
    settings = ("min-disk-free=4MiB", "journal.segment-bytes=1MiB", "disk-scan-period=1s")
    with watching(chromium, tmp_path, data=disk / "data", settings=settings) as watched:
        full = fill_up(disk)
        watched.shown.wait_for_selector("text=the disk is full")
        # The console writes nothing, so all of its pages are there.
        for path in ("/b/data/list/queues", "/b/data/past"):
            watched.page.go(path).wait_for_selector("#command")
        full.unlink()
        watched.page.go("/b/data").wait_for_selector("text=No problems")


def test_figures_say_that_they_grow_old(watched: Watched) -> None:
    watched.shown.wait_for_selector("text=s ago")
    watched.console.process.kill()
    watched.shown.wait_for_selector("p.wrong >> text=s ago", timeout=2 * TEXT_MS)


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


def test_a_check_shows_its_progress_and_its_end_by_itself(
    chromium: Any, tmp_path: Path, cleaned: ExitStack
) -> None:
    data = history_without_broker(tmp_path)
    with ConsoleProcess(tmp_path, "--data", str(data)) as console:
        page = Page(chromium, console)
        page.go(console.link)
        make_hang(cleaned, data, number=2)
        looking = page.go("/b/data/integrity")
        doing = page.context.new_page()
        doing.goto(f"{console.url}/b/data/integrity")
        doing.click("button:text-is('Verify')")
        looking.wait_for_selector("progress")
        looking.wait_for_function("document.querySelector('progress').value > 0")
        assert "read and folded" in looking.inner_text("#done")
        doing.click("text=Cancel the check")
        looking.wait_for_selector("text=cancelled by operator")
        assert looking.is_visible("text=Check now")
        assert not page.complaints
        page.context.close()


def test_the_end_of_a_check_renews_what_the_page_says(chromium: Any, tmp_path: Path) -> None:
    data = history_without_broker(tmp_path)
    with ConsoleProcess(tmp_path, "--data", str(data)) as console:
        page = Page(chromium, console)
        page.go(console.link)
        looking = page.go("/b/data/integrity")
        assert "No report says yet" in looking.inner_text("#content")
        looking.fill("#verify-from", "7")
        doing = page.context.new_page()
        doing.goto(f"{console.url}/b/data/integrity")
        doing.click("button:text-is('Verify')")
        looking.wait_for_selector("text=Last verification")
        looking.wait_for_selector("[aria-label=Reports] >> text=intact")
        assert "No report says yet" not in looking.inner_text("#content")
        assert looking.input_value("#verify-from") == "7", "forms stay as they are"
        assert not page.complaints
        page.context.close()
