"""Every page in a real browser, while orders come and go: nothing for axe to find, in light and
dark, in a wide window and on a telephone; nothing wider than its window; no error of a script or of
the policy, and no request that fails. Needs Chromium, which `make test` installs where it may.

Axe looks at each page in two of the four ways, and at each second of those that are made alike in
one; `make pages` (DAYBOOK_MANY=1) lets it look at all of them, in every way.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.interop.console.pages import catalogue
from tests.interop.console.pages.shop import Shop, opened
from tests.interop.console.test_chromium import Page

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]

DESKTOP: Final = {"width": 1280, "height": 900}
TELEPHONE: Final = {"width": 360, "height": 740}
WALL: Final = {"width": 3840, "height": 2160}
WAYS: Final = (("light", DESKTOP), ("light", TELEPHONE), ("dark", DESKTOP), ("dark", TELEPHONE))
IS_WHOLE: Final = "DAYBOOK_MANY" in os.environ
AXE: Final = """
async (rules) => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const how = rules.length
    ? { runOnly: { type: "rule", values: rules } }
    : { runOnly: tags, rules: { "target-size": { enabled: true } } };
  const told = await axe.run({ ...how, resultTypes: ["violations"] });
  return told.violations.flatMap((each) => each.nodes.map((node) =>
    `${each.id}: ${node.html.slice(0, 200)} (${node.any.map((any) => any.message).join("; ")})`));
}
"""
CHANGED: Final = "([part, before]) => document.querySelector(part).innerText !== before"
STOPS: Final = """
() => {
  const every = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  return [...document.querySelectorAll(every)].filter((each) =>
    each.type !== "hidden" && !each.disabled && each.checkVisibility({ visibilityProperty: true }));
}
"""
FOCUSED: Final = f"""
() => {{
  const each = document.activeElement;
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  const isThere = box.width > 0 && box.height > 0 && box.right > 0 && box.left < innerWidth
    && box.bottom > 0 && box.top < innerHeight;
  const isMarked = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [({STOPS})().indexOf(each), each.textContent.trim(), isThere && isMarked];
}}
"""
OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules of axe that see a difference between light and dark."""


class Looked(NamedTuple):
    """The pages that were looked at, and the findings on them."""

    pages: list[str]
    findings: list[str]
    widths: list[str]
    complaints: list[str]


class Looker:
    """Looks at the pages of a browser, in each theme and width."""

    def __init__(self, page: Page, axe: str) -> None:
        self._page: Final = page
        self._axe: Final = axe
        self._failed: list[str] = []
        self.looked: Final = Looked([], [], [], [])
        page.page.on("requestfailed", self._note_failure)
        page.page.on("response", self._note_answer)

    def _note_failure(self, request: Any) -> None:
        # The next page ends requests of the one before.
        if request.failure != "net::ERR_ABORTED":
            self._failed.append(f"{request.url}: {request.failure}")

    def _note_answer(self, answer: Any) -> None:
        if answer.status >= 400 and not answer.request.is_navigation_request():
            self._failed.append(f"{answer.url}: {answer.status}")

    def go(self, path: str, status: int = 200, *, is_one_of_many: bool = False) -> None:
        """Look at the page of a path."""
        shown = self._page.page.goto(self._page.url + path, wait_until="load")
        if (shown.status, shown.url) != (status, self._page.url + path):
            text = self._page.page.inner_text("main, .login")
            self.looked.complaints.append(f"{path}: {shown.status}: {text[:300]}")
        self.look(path, is_one_of_many=is_one_of_many)

    def look(self, name: str, *, is_one_of_many: bool = False) -> None:
        """Look at the page that is shown; many of them are made alike."""
        page = self._page.page
        turn = len(self.looked.pages)
        chosen = (WAYS[turn % 2], WAYS[3 - turn % 2])
        if is_one_of_many:
            chosen = (WAYS[turn // 2 % 4],) if turn % 2 else ()
        chosen = WAYS if IS_WHOLE else chosen
        if chosen:
            page.evaluate(self._axe)
        for theme, size in chosen:
            # Else axe would see colours on their way from one theme to the other.
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.set_viewport_size(size)
            place = f"{name} ({theme}, {size['width']})"
            rules = OF_COLOURS if theme == "dark" and not is_one_of_many else []
            found = page.evaluate(AXE, rules)
            self.looked.findings.extend(f"{place}: {each}" for each in found)
        for size in (TELEPHONE, WALL) if turn % 4 == 0 else (TELEPHONE,):
            page.set_viewport_size(size)
            needed = page.evaluate("document.documentElement.scrollWidth")
            if needed > size["width"]:
                self.looked.widths.append(f"{name}: {needed}")
        page.set_viewport_size(DESKTOP)
        self.looked.pages.append(name)
        said = [each for each in self._page.complaints if "the server responded with" not in each]
        self.looked.complaints.extend(f"{name}: {each}" for each in (*said, *self._failed))
        self._page.complaints.clear()
        self._failed.clear()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture(scope="module")
def looked(chromium: Any, shop: Shop, packages: Path) -> Looked:
    """The findings on all pages; each is loaded once."""
    axe = (packages / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
    page = Page(chromium, shop.console)
    looker = Looker(page, axe)
    _every(page, looker, shop)
    for tour in TOURS:
        tour(page, looker)
    page.context.close()
    return looker.looked


def _every(page: Page, looker: Looker, shop: Shop) -> None:
    """All pages that have a path."""
    looker.go("/login")
    page.go(shop.console.link)
    for path in catalogue.paths():
        looker.go("/b/shop" + path.format(**shop.names), catalogue.STATUSES.get(path, 200))
    for path in (*catalogue.lists(), *catalogue.forms()):
        looker.go("/b/shop" + path.format(**shop.names), is_one_of_many=True)
    for path, status in catalogue.OTHERS.items():
        looker.go(path, status)


def _change(page: Page, looker: Looker) -> None:
    """A form that is wrong, a confirmation, and what was done."""
    shown = page.go("/b/shop/do/settings/set?match=letters")
    shown.fill("[name=values]", "max-delivery-attempts")
    shown.click("text=Go on")
    looker.look("a form that is wrong")
    shown.fill("[name=values]", "max-delivery-attempts=5")
    shown.click("text=Go on")
    looker.look("a confirmation")
    shown.click("text=Do it")
    shown.wait_for_selector("h1:text-is('Done')")
    looker.look("what was done")


def _purge(page: Page, looker: Looker) -> None:
    """A confirmation with a warning."""
    page.go("/b/shop/do/address/delete?address=letters").click("text=Go on")
    page.page.wait_for_selector("text=The broker will refuse")
    looker.look("a confirmation of what will be refused")


def _lead(page: Page, looker: Looker) -> None:
    page.go("/b/node-a/cluster").click("text=Let it lead >> nth=0")
    page.page.wait_for_selector("text=stops cleanly")
    looker.look("a confirmation of a hand-over")


def _check(page: Page, looker: Looker) -> None:
    page.go("/b/down/integrity").click("button:text-is('Verify')")
    page.page.wait_for_selector("#job >> text=The report")
    looker.look("a check that has ended")


def _nobody(page: Page, looker: Looker) -> None:
    """A login that is refused, and pages for a user without rights."""
    page.context.clear_cookies()
    shown = page.go("/login?broker=shop")
    for passcode in ("wrong", "nil"):
        shown.fill("input[name=login]", "nil")
        shown.fill("input[name=passcode]", passcode)
        with shown.expect_navigation():
            shown.keyboard.press("Enter")
        looker.look(f"after a login with {passcode}")
    for path in ("/list/queues", "/past"):
        looker.go(f"/b/shop{path}", 403)


TOURS: Final[tuple[Callable[[Page, Looker], None], ...]] = (
    _change, _purge, _lead, _check, _nobody,
)  # fmt: skip
"""Pages that are reached by forms. The last one logs out."""


def test_no_page_is_forgotten() -> None:
    routes = catalogue.routes()
    known = {*catalogue.EXAMPLES, "/list/{tag}", "/do/{group}/{name}"}
    assert known | catalogue.PARTS | catalogue.BY_FORMS == routes
    seen = {
        each.partition("?")[0]
        for each in (*catalogue.paths(), *catalogue.lists(), *catalogue.BY_FORMS)
    }
    assert catalogue.menu_paths() <= seen


def test_axe_finds_nothing_on_any_page(looked: Looked) -> None:
    assert not looked.findings, "\n".join(looked.findings)
    assert len(looked.pages) > len(catalogue.routes())


def test_no_page_is_wider_than_its_window(looked: Looked) -> None:
    assert not looked.widths, "\n".join(looked.widths)


def test_no_page_has_an_error(looked: Looked) -> None:
    assert not looked.complaints, "\n".join(looked.complaints)


def test_live_parts_change_while_orders_come(chromium: Any, shop: Shop) -> None:
    page = Page(chromium, shop.console)
    page.log_in("ada")
    for path, part in (
        ("", "#figures dl"), ("/list/queues?search=orders", "[data-live=rows]"),
        ("/queue?queue=orders.eu", "[data-live=counts]"), ("/list/consumers", "[data-live=rows]"),
    ):  # fmt: skip
        shown = page.go(f"/b/shop{path}")
        before = shown.inner_text(part)
        shown.wait_for_function(CHANGED, arg=[part, before])
        assert not page.complaints, path
    page.context.close()


@pytest.mark.parametrize("size", [DESKTOP, TELEPHONE], ids=["desktop", "telephone"])
def test_the_keyboard_reaches_everything_and_the_focus_is_seen(
    chromium: Any, shop: Shop, size: dict[str, int]
) -> None:
    page = Page(chromium, shop.console, viewport=size)
    page.log_in("ada")
    for path in ("", "/messages?queue=letters", "/sql", "/do/queue/create", "/past"):
        shown = page.go(f"/b/shop{path}")
        stops = shown.evaluate(f"({STOPS})().length")
        assert stops > 10
        reached: set[int] = set()
        for _ in range(2 * stops):
            shown.keyboard.press("Tab")
            number, text, is_seen = shown.evaluate(FOCUSED)
            if number in reached or number < 0:
                break
            assert is_seen, (path, text)
            assert reached or text == "Skip to the content", path
            reached.add(number)
        assert reached >= set(range(stops)), (path, set(range(stops)) - reached)
    page.context.close()


def test_the_focus_stays_where_it_was_when_figures_change(chromium: Any, shop: Shop) -> None:
    page = Page(chromium, shop.console)
    page.log_in("ada")
    shown = page.go("/b/shop")
    shown.focus("#figures a >> nth=-1")
    place = shown.evaluate(FOCUSED)
    assert place[0] >= 0
    for _ in range(2):
        shown.wait_for_function(CHANGED, arg=["#figures dl", shown.inner_text("#figures dl")])
        assert shown.evaluate(FOCUSED)[0] == place[0]
    page.context.close()
