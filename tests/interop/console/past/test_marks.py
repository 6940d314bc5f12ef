"""The time machine over a history with more marks than a page has: all of them are reached, and the
command of the page shows the same ones.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from daybook.engine import commands
from daybook.history.reports.marks import MARKS_MAX
from daybook.journal.data_directory import LOCK
from daybook.texts import moment
from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.using import events
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Shown
from tests.support.histories import write_history
from tests.support.process import JOURNAL, BrokerProcess, wait_for
from tests.support.world import SECOND, World

pytestmark = pytest.mark.interop

CHANGES = 2 * MARKS_MAX + 50


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with marks for more than two pages."""
    world = World()
    for number in range(CHANGES):
        world.ok(commands.SetSettings("orders", {"redelivery-delay": number}))
        world.now += SECOND
    data = write_history(tmp_path_factory.mktemp("marked") / "data", world.journal)
    (data / LOCK).touch()
    return data


@pytest.fixture(scope="module")
def operator(history: Path) -> Iterator[Browser]:
    """A browser of the operator; no broker runs."""
    with ExitStack() as stack:
        console = stack.enter_context(ConsoleProcess(history.parent, "--data", str(history)))
        browser = Browser(console)
        browser.get(console.link)
        yield browser
        assert "Traceback" not in console.log_text()


def lsns_on(shown: Shown) -> list[int]:
    """Return the marks of a page, which are those of its command."""
    rows = shown.text.partition('id="list-of-marks"')[2]
    found = [int(each) for each in re.findall(r"past[?]at=\d+[^>]*>(\d+)</a>", rows)]
    [told] = answer_of(command_on(shown))
    assert found == [each["lsn"] for each in told["marks"]]
    first, last = told["marks"][-1], told["marks"][0]
    said = f"on the slider, from {moment(first['time'])} to {moment(last['time'])}"
    assert f"{len(found)} marks, here and {said}" in shown.words
    return found


def link_on(shown: Shown, text: str) -> str:
    """Return where a link leads, "" if there is none."""
    found = re.search(rf'href="([^"#]*)[^"]*">{text}</a>', shown.text)
    return unescape(found[1]) if found else ""


def test_older_and_newer_marks_are_on_other_pages(operator: Browser) -> None:
    pages = [operator.get("/b/data/past")]
    assert not link_on(pages[0], "Newer marks")
    while link := link_on(pages[-1], "Older marks"):
        pages.append(operator.get(link))
    assert "older and newer ones are on other pages" in pages[1].words
    assert len(pages) == 3
    every = [each for page in pages for each in lsns_on(page)]
    assert len(every) >= CHANGES
    assert every == sorted(set(every), reverse=True)
    for newer, page in pairwise(pages):
        back = operator.get(link_on(page, "Newer marks"))
        assert lsns_on(back) == lsns_on(newer)


def test_the_marks_before_a_moment_are_one_step_away(operator: Browser) -> None:
    every = lsns_on(operator.get("/b/data/past"))
    chosen = every[-1] - 3
    shown = operator.get("/b/data/past", at=chosen)
    upto = operator.get(link_on(shown, "Marks up to this moment"))
    assert lsns_on(upto)[0] == chosen
    assert f"This is the broker as it was after event {chosen}" in upto.words
    assert link_on(shown, "Mark before").endswith(f"at={chosen - 1}")
    assert link_on(shown, "Mark after").endswith(f"at={chosen + 1}")
    found = re.search(r'<code id="command-2">([^<]*)</code>', shown.text)
    assert found
    assert f"inspect --data {operator_data(shown)} --at {chosen}" in found[1]


def operator_data(shown: Shown) -> str:
    """Return the data directory that the command of a page names."""
    return command_on(shown)[3]


def test_the_command_goes_back_as_the_page_does(history: Path) -> None:
    done = nursery.run(
        [JOURNAL, "marks", history, "--limit", "7"], capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("redelivery-delay") == 7
    [older] = re.findall(r"there are older marks: --before (\d+)", done.stderr)
    done = nursery.run(
        [JOURNAL, "marks", history, "--before", older, "--limit", "1", "--json"],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    [mark] = json.loads(done.stdout)["marks"]
    assert mark["lsn"] == int(older) - 1
    until = moment(mark["time"]).replace(" ", "T")
    done = nursery.run(
        [JOURNAL, "marks", history, "--before", until, "--limit", "1", "--json"],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["marks"] == [mark]


def test_two_moments_are_compared_by_time_or_by_event(
    broker: BrokerProcess, visit: Callable[[str], Browser]
) -> None:
    browser = visit("ada")
    browser.do("/b/data/do/queue/create", name="compared")
    made = wait_for(lambda: events(broker, "QueueCreated"), "the proof of the event")[-1]
    page = browser.get("/b/data/past", at=2)
    assert 'name="moment"' in page.text
    asked = {"to": "compare", "at": 2}
    for text in (str(made["lsn"]), f"{made['lsn']:,}", "now", moment(made["time"])):
        shown = browser.get("/b/data/go", **asked, moment=text)
        assert "From event 2 (" in shown.words, text
        assert "queues compared created" in shown.words, text
    wrong = browser.get("/b/data/go", **asked, moment="someday")
    assert (wrong.status, "is not a time" in wrong.error) == (400, True)
    assert 'name="moment" value="someday"' in wrong.text
    assert "Event 2, " in wrong.words
