"""Troubles that the console explains: findings of checks, paused queues, messages that stay with a
consumer.
"""

import json
from collections.abc import Callable

import pytest

from daybook.console.pages.lists import RATED, RATED_MAX
from daybook.history.reports.report import VERIFY, Report
from daybook.history.reports.report_files import keep
from daybook.journal.data_directory import REPORTS
from daybook.server.administration.units import CREDIT
from tests.interop.console.using import send
from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support.console import Browser
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def test_what_the_last_check_found_is_a_warning(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    newest = 4_000_000_000_000_000
    found = Report(
        VERIFY, newest, newest, "ada", "journal verify --data d", ok=False, result="1 fault, wrong"
    )
    kept = keep(broker.data, found)
    said = "the verification of 2096-10-02 07:06:40 UTC: 1 fault, wrong"
    try:
        assert f"warning: {said}" in daybook(broker, "health")
        assert said in daybook(broker, "status", "--json")
        wait_for(lambda: said in browser.get("/b/data").words, "the warning")
    finally:
        (broker.data / REPORTS / f"{kept.name}.json").unlink()
    wait_for(lambda: said not in browser.get("/b/data").words, "its end")


def test_who_paused_a_queue_is_one_step_away(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    send(broker, "resting", "x")
    page = browser.get("/b/data/queue", queue="resting")
    assert "by whom" not in page.words
    browser.do("/b/data/do/queue/pause", queue="resting")
    wait_for(
        lambda: "Since when, and by whom" in browser.get("/b/data/queue", queue="resting").words,
        "the link",
    )
    events = browser.get("/b/data/events", queue="resting", kind="QueuePaused")
    assert "resting" in events.words
    assert "ada" in events.words
    browser.do("/b/data/do/queue/resume", queue="resting")


def test_who_holds_a_message_is_on_the_page_of_the_queue_and_first_in_the_list(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    with Wire(broker.port) as holding, Wire(broker.port) as idle:
        for wire in (idle, holding):
            wire.connect(login="ada", passcode="ada")
        idle.send("SUBSCRIBE", id="s", destination="nothing", ack="client", receipt="r")
        idle.expect("RECEIPT")
        holding.send("SUBSCRIBE", id="s", destination="slow", ack="client")
        send(broker, "slow", "x")
        holding.expect("MESSAGE")
        (row,) = json.loads(daybook(broker, "queue", "consumers", "slow", "--json"))
        page = browser.get("/b/data/queue", queue="slow")
        assert "oldest in flight since" in page.words
        assert f"story?message={row['oldest_in_flight']}" in page.text
        assert CREDIT in page.words
        assert RATED in page.words
        assert RATED in browser.get("/b/data/list/consumers").words

        def settled_per_second() -> str:
            shown = browser.get("/b/data/queue", queue="slow").text
            cells = shown.partition("<h2>Consumers</h2>")[2].partition("<tbody>")[2].split("<td")
            return cells[8].partition(">")[2].partition("<")[0].strip()

        wait_for(lambda: settled_per_second() == "0.0", "a rate")
        assert RATED not in browser.get("/b/data/queue", queue="slow").words
        listed = browser.get("/b/data/list/consumers", search="slow")
        assert "settled per second" in listed.words
        assert RATED not in listed.words
        assert CREDIT in listed.words
        assert CREDIT in " ".join(daybook(broker, "consumer", "list", "--help").split())
        order = {"sort": "oldest_in_flight", "descending": "true"}
        rows = browser.get("/b/data/list/consumers", **order).words
        assert rows.index("slow") < rows.index("nothing")


def test_a_queue_with_more_consumers_than_have_rates_has_its_page(
    broker: BrokerProcess, visit: Visit
) -> None:
    count = RATED_MAX + 2
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada")
        for number in range(count):
            wire.send("SUBSCRIBE", id=str(number), destination="crowded", receipt=str(number))
            wire.expect("RECEIPT")
        shown = visit("ada").get("/b/data/queue", queue="crowded")
        assert shown.status == 200, shown.words
        rows = shown.text.partition("<h2>Consumers</h2>")[2].partition("</table>")[0]
        assert rows.count("<tr>") == count + 1
