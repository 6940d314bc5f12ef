"""How one queue grew: the charts on its page, and the command that prints the same numbers."""

import json
from collections.abc import Callable

import pytest

from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.console.using import send
from tests.interop.using import daybook, events
from tests.support.console import Browser, Shown
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]
PAGE = "/b/data/queue"


def command_in(shown: Shown) -> list[str]:
    """Return the words of the command that prints the numbers of the charts."""
    return command_on(shown, r"as numbers: <code[^>]*>")


def test_the_charts_of_a_queue_are_those_of_the_command(
    broker: BrokerProcess, visit: Visit
) -> None:
    for _ in range(3):
        send(broker, "/queue/growing", "x")
    third = events(broker, "Routed")[-1]["lsn"]
    daybook(broker, "queue", "purge", "growing")
    send(broker, "/queue/growing", "x")
    browser = visit("rea")
    for at, messages, left in ((0, 1, 3), (third, 3, 0)):
        moment = {"at": at} if at else {}
        page = browser.get(PAGE, queue="growing", **moment)
        assert "Messages in the queue" in page.words
        told = json.loads(browser.get(f"{PAGE}/growth", queue="growing", **moment).text)
        [answer] = answer_of(command_in(page))
        assert [each["messages"] for each in answer["steps"]] == told["messages"][1:]
        assert (told["messages"][0], told["messages"][-1]) == (0, messages)
        assert sum(each["entered"] for each in answer["steps"]) == messages + left
        assert sum(each["left"] for each in answer["steps"]) == left
        assert "The queue was created at" in told["note"]
        assert " ".join(answer["notes"]) == told["note"]


def test_a_day_is_another_span(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "/queue/day", "x")
    browser = visit("rea")
    page = browser.get(PAGE, queue="day", span="day")
    assert command_in(page)[-4:] == ["--since", "1d", "--", "day"]
    told = json.loads(browser.get(f"{PAGE}/growth", queue="day", span="day").text)
    assert told["messages"][-1] == 1
    assert browser.get(PAGE, queue="day", span="year").status == 400
    assert browser.get(f"{PAGE}/growth", queue="day", span="year").status == 400


def test_only_users_who_see_the_history_see_how_a_queue_grew(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "/queue/orders.shown", "x")
    browser = visit("sam")
    assert "Messages in the queue" not in browser.get(PAGE, queue="orders.shown").words
    refused = browser.get(f"{PAGE}/growth", queue="orders.shown")
    assert refused.status == 403
    assert "may not see the history" in refused.words
