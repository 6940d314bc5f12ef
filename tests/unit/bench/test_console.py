"""Each page of the console is measured, over worlds that are made for it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
import pytest
from click.testing import CliRunner

from bench.console import beside, pages, worlds
from bench.console.__main__ import Report, main
from daybook.console.menu import GROUPS
from daybook.console.pages import lists
from daybook.console.visits import Page
from daybook.server.administration.views import ADDRESS_ORDERS, QUEUE_ORDERS

SMALL = (
    "--queues",
    "300",
    "--messages",
    "1200",
    "--deaths",
    "1000",
    "--events",
    "20000",
    "--trips",
    "5",
)


class Nowhere:
    """A site without a console."""

    def path(self, page: str, query: Mapping[str, str | int] = {}) -> str:
        return pages.path_of(pages.BROKER + page, query)

    def find(self, path: str, mark: str) -> str:
        return "1"

    def last(self) -> int:
        return 1000


def measured() -> set[str]:
    """The paths that are measured with many queues."""
    return {urlsplit(each.path).path for each in pages.queue_asks(Nowhere(), 1000)}


def test_every_page_that_the_console_has_is_measured_with_many_queues() -> None:
    # A page is asked for in `bench.console.pages`, or `UNASKED` there says why not.
    assert measured() == pages.every_page()


def test_a_new_page_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    page: Page = lists.queue_page
    monkeypatch.setattr(lists, "PAGES", (*lists.PAGES, ("/new", page, ["GET"])))
    assert pages.every_page() - measured() == {f"{pages.BROKER}/new"}


def test_what_is_not_measured_is_there() -> None:
    lists_there = {f"{pages.BROKER}/list/{each.tag}" for each in lists.every_list()}
    assert pages.UNASKED.keys() <= pages.routes_for_get() | lists_there


def test_pages_in_the_menu_are_measured() -> None:
    paths = {f"{pages.BROKER}/{item.path}".rstrip("/") for _, items in GROUPS for item in items}
    assert paths - measured() <= pages.UNASKED.keys()


def test_no_two_pages_have_the_same_name() -> None:
    names = [each.name for each in pages.queue_asks(Nowhere(), 1000)]
    assert len(set(names)) == len(names)


def test_all_pages_of_all_worlds_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # One that ends with a limit of the console would take half a minute.
    wrong = {"wrong": "SELECT nothing FROM events"}
    monkeypatch.setattr(beside, "QUERIES", {"right": pages.COUNTS_BY_KIND} | wrong)
    # Whether they are quick enough depends on who else is on the machine.
    result = CliRunner().invoke(main, [*SMALL, "--rounds", "1", "--json"])
    assert result.stdout, result.output
    found = msgspec.json.decode(result.stdout, type=Report)
    figures = {(each.world, each.page): each for each in found.figures}
    for orders, what in ((QUEUE_ORDERS, "queues"), (ADDRESS_ORDERS, "addresses")):
        assert {("queues", f"{what} by {order}") for order in orders} <= figures.keys()
    for page in ("messages, the last ones", "messages, few fit", "dead letters by error"):
        assert figures["messages", page].size > 1000
    for page in ("time machine", "story at 50.0 %", "queues at 95.0 %", "two moments"):
        assert figures["history", page].first_s > 0
    assert {each.world for each in found.beside} == {"queues", "messages", "queries"}
    [long] = found.long
    assert long.start_s > 0
    right, refused = long.queries
    assert right.ended == "answered"
    assert "nothing" in refused.ended
    assert right.beside.count > refused.beside.count > 0
    for each in long.queries:
        assert each.events >= 20_000
        assert each.most_bytes >= each.largest_bytes > 10 << 20


def test_frames_are_all_sent_whatever_their_number() -> None:
    assert len(list(worlds.queue_frames(200))) > 200
    rare = [each for each in worlds.large_frames(2 * worlds.RARE) if b"\nrare:yes\n" in each]
    assert len(rare) == 2
