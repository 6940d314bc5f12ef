"""The command that a page shows gives its answer, also of a past moment, and without a broker."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.using import connected, daybook, events, publish
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Shown
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LISTS: Final = ("queues", "addresses", "connections", "consumers", "diverts")


class Shop(NamedTuple):
    """A broker, a browser of its console, and the moment at which it had all that pages show."""

    broker: BrokerProcess
    browser: Browser
    at: int


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A broker whose queues had messages, dead letters and a consumer, and have none any more."""
    path = tmp_path_factory.mktemp("shop")
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(path / "data"))
        broker.start()
        daybook(broker, "settings", "set", "orders", "max-delivery-attempts=1")
        daybook(broker, "divert", "create", "aside", "--address", "orders",
                "--forwarding-addresses", "other")  # fmt: skip
        with connected(broker) as wire:
            for _ in range(5):
                publish(wire, "/queue/orders", b"first")
        url = f"stomp://127.0.0.1:{broker.port}"
        words = [DAYBOOK, "receive", "orders", "--reject", "--count", "2", "--url", url]
        assert nursery.run(words, capture_output=True, check=False).returncode == 0
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SUBSCRIBE", id="s", destination="orders", ack="client")
            wire.expect("MESSAGE")
            wait_for(lambda: len(events(broker, "DeadLettered")) == 2, "two dead letters")
            died = events(broker, "DeadLettered")[-1]["lsn"]

            def delivered() -> list[int]:
                found = [each["lsn"] for each in events(broker, "Delivered")]
                return [each for each in found if each > died][2:]

            [at] = wait_for(delivered, "the third delivery")
        for queue in ("orders", "DLQ"):
            wait_for(lambda each=queue: _purged(broker, each), "the end of the consumer")
        console = stack.enter_context(ConsoleProcess(path, "--data", str(broker.data)))
        browser = Browser(console)
        browser.get(console.link)
        yield Shop(broker, browser, at)


def _purged(broker: BrokerProcess, queue: str) -> bool:
    daybook(broker, "queue", "purge", queue)
    rows = json.loads(daybook(broker, "queue", "list", "--json"))
    return not any(each["queue"] == queue and each["in_flight"] for each in rows)


def figures(shown: Shown) -> dict[str, str]:
    """Return the figures of a page, by their titles."""
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", shown.text)
    plain = [[unescape(re.sub("<[^>]*>", "", part)) for part in pair] for pair in found]
    return {title: text.replace(",", "") for title, text in plain}


def status_of(words: list[str]) -> dict[str, Any]:
    """Return the answer of `daybook status`, whose exit code is about problems."""
    done = nursery.run([DAYBOOK, *words[1:], "--json"], capture_output=True, check=False, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check_overview(shown: Shown) -> dict[str, Any]:
    """Check the figures of the overview against its command."""
    told = status_of(command_on(shown))
    seen = figures(shown)
    for key in ("queues", "addresses", "connections", "consumers", "messages_ready"):
        assert seen[key.replace("_", " ")] == str(told[key]), key
    return told


def test_the_overview_of_a_moment(shop: Shop) -> None:
    told = check_overview(shop.browser.get("/b/data", at=shop.at))
    assert told["consumers"] == 1
    assert told["messages_ready"] + told["messages_in_flight"] == 5 + 3 + 2


@pytest.mark.parametrize("tag", LISTS)
def test_lists_of_a_moment(shop: Shop, tag: str) -> None:
    shown = shop.browser.get(f"/b/data/list/{tag}", at=shop.at)
    rows = answer_of(command_on(shown))
    assert rows
    assert shown.text.count("<tr>") == len(rows) + 1
    for row in rows:
        assert str(next(iter(row.values()))) in shown.words


def test_a_moment_behind_the_end_is_said_to_be_that(shop: Shop) -> None:
    browser, never = shop.browser, 10**12
    for page in ("", "/list/queues", "/queue?queue=orders", "/past"):
        path = f"/b/data{page}{'&' if '?' in page else '?'}at="
        shown = browser.get(f"{path}{never}")
        last = re.search(
            rf"as it was after event (\d+), the last one of the journal: it has no event {never}",
            shown.words,
        )
        assert last, page
        assert int(last[1]) > shop.at
        assert "the last one of the journal" not in browser.get(f"{path}{shop.at}").words
    assert answer_of(command_on(browser.get("/b/data/list/queues", at=never)))
    assert f"it has no event {never}" in browser.get("/b/data/go", lsn=never).words


def test_a_list_of_a_moment_that_is_searched_and_sorted(shop: Shop) -> None:
    asked = {"search": "o", "sort": "ready", "descending": "true", "at": str(shop.at)}
    shown = shop.browser.get("/b/data/list/queues", **asked)
    rows = answer_of(command_on(shown))
    names = re.findall(r'/queue\?queue=(\w+)&amp;at=\d+">', shown.text)
    assert names == [each["queue"] for each in rows]
    assert rows[0]["ready"] >= rows[-1]["ready"]
    assert len(rows) < len(answer_of(command_on(shop.browser.get("/b/data/list/queues"))))


def test_objects_and_messages_of_a_moment(shop: Shop) -> None:
    browser, at = shop.browser, shop.at
    queue = browser.get("/b/data/queue", queue="orders", at=at)
    [row] = answer_of(command_on(queue))
    for key in ("messages", "ready", "in_flight", "consumers", "added", "dead_lettered"):
        assert figures(queue)[key.replace("_", " ")] == str(row[key]), key
    assert (row["messages"], row["dead_lettered"]) == (3, 2)
    assert row["in_flight"] == 3
    [consumer] = row["consumer_list"]
    assert consumer["in_flight"] == 3
    table = re.search(r'aria-label="Consumers">(.*?)</table>', queue.text, re.DOTALL)
    assert table
    assert re.search(rf">\s*{consumer['consumer']}\s*</td>", table[1])
    assert "list/links" not in table[1], "which only a running broker knows"
    assert "per second" not in table[1]
    assert "credit" not in table[1]
    assert 'aria-label="Consumers"' not in browser.get("/b/data/queue", queue="orders").text
    address = browser.get("/b/data/address", address="orders", at=at)
    keys = {each["key"]: each["value"] for each in answer_of(command_on(address))["settings"]}
    assert keys["max-delivery-attempts"] == 1
    messages = browser.get("/b/data/messages", queue="orders", at=at)
    told = answer_of(command_on(messages))
    shown = re.findall(r"/message\?queue=orders&amp;message=(\d+)", messages.text)
    assert shown == [str(each["message"]) for each in told["messages"]]
    assert len(shown) == 3
    consumer = told["messages"][0]["consumer"]
    assert f'/b/data/events?from={consumer}&amp;at={at}">consumer {consumer}</a>' in messages.text
    message = browser.get("/b/data/message", queue="orders", message=shown[0], at=at)
    assert answer_of(command_on(message))["body"] == "first"
    deaths = browser.get("/b/data/dead-letters", queue="DLQ", by="queue", at=at)
    [group] = answer_of(command_on(deaths))["groups"]
    assert (group["queue"], group["messages"]) == ("orders", 2)
    assert re.search(r"orders 2 \d{4}-", deaths.words)


def test_the_command_of_a_queue_shows_what_its_page_does(shop: Shop) -> None:
    with Wire(shop.broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="orders", ack="client", selector="n = 1")
        wait_for(
            lambda: "n = 1" in shop.browser.get("/b/data/queue", queue="orders").text, "a consumer"
        )
        page = shop.browser.get("/b/data/queue", queue="orders")
        text = daybook(shop.broker, "queue", "show", "orders")
        [told] = json.loads(daybook(shop.broker, "queue", "show", "orders", "--json"))
    names = {*re.findall(r"<d[t]>([^<]+)</dt>", page.text)}
    shown = {line.partition(":")[0] for line in text.splitlines()}
    # Numbers of the page with other names, and rates.
    others = {"oldest ready, since", "in memory", "paged to disk"}
    assert {each for each in names - others if "per second" not in each} <= shown
    assert {"resident", "paged"} <= shown
    assert [each["filter"] for each in told["consumer_list"]] == ["n = 1"]
    assert [each["divert"] for each in told["diverts"]] == ["aside"]
    keys = {each["key"]: each["value"] for each in told["settings"]}
    assert keys["max-delivery-attempts"] == 1
    assert len(re.findall("n = 1|aside +other|max-delivery-attempts +1", text)) == 3
    past = daybook(shop.broker, "queue", "show", "orders", "--at", str(shop.at))
    assert "messages: 3" in past.splitlines()
    assert "\nconsumers\n" in past


def test_the_last_hour_begins_before_the_console(shop: Shop) -> None:
    at_once = shop.browser.get("/b/data")
    assert "The rates before are those of each minute in the journal" in at_once.words
    told = json.loads(shop.browser.get("/b/data/hour").text)
    begun = told["time"][-1] - told["time"][0]
    assert 55 * 60 < begun < 62 * 60
    all_of_them = len(events(shop.broker, "Routed", "DeadLettered"))
    counted = sum(_count(told, name) for name in ("in", "dead_lettered"))
    assert counted == pytest.approx(all_of_them, abs=1), "the minutes have all messages"


def _count(told: dict[str, Any], name: str) -> float:
    """Return how many messages the rates of minutes stand for, but those of the console's own."""
    total = 0.0
    minutes = [each for each, level in enumerate(told["backlog"]) if level is None]
    for place in minutes:
        middle = told["time"][place]
        begin = middle // 60 * 60
        total += told[name][place] * 2 * (middle - begin)
    return total


def test_a_moment_is_of_the_journal(shop: Shop) -> None:
    words = [DAYBOOK, "queue", "list", "--at", str(shop.at)]
    both = [*words, "--url", "control://localhost:1"]
    done = nursery.run(both, capture_output=True, check=False, text=True)
    assert (done.returncode, "reads the journal of --data" in done.stderr) == (2, True)
    later = [*words[:-1], str(10**12), "--data", str(shop.broker.data)]
    done = nursery.run(later, capture_output=True, check=False, text=True)
    assert (done.returncode, f"before event {10**12}" in done.stderr) == (1, True)
    users = [DAYBOOK, "session", "list", "--at", "5", "--data", str(shop.broker.data)]
    done = nursery.run(users, capture_output=True, check=False, text=True)
    assert "No such option '--at'" in done.stderr, "the journal has no sessions"


def test_clients_of_a_broker_that_was_killed(tmp_path: Path, cleaned: ExitStack) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    broker.start()
    with connected(broker) as wire:
        publish(wire, "/queue/left")
        broker.kill()
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    shown = browser.get("/b/data/list/connections")
    [row] = answer_of(command_on(shown))
    assert f">{row['connection']}<" in shown.text
    assert row["peer"] in shown.words


def test_pages_without_a_broker(tmp_path: Path, cleaned: ExitStack) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    broker.start()
    with connected(broker) as wire:
        for _ in range(3):
            publish(wire, "/queue/left")
    assert broker.stop() == 0
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    overview = browser.get("/b/data")
    done = nursery.run(
        [DAYBOOK, *command_on(overview)[1:]], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (3, "no broker runs")
    assert "no broker runs" in overview.error
    [row] = answer_of(command_on(browser.get("/b/data/list/queues", search="left")))
    assert (row["queue"], row["ready"]) == ("left", 3)
    messages = browser.get("/b/data/messages", queue="left")
    told = answer_of(command_on(messages))["messages"]
    assert re.findall(r";message=(\d+)", messages.text) == [str(each["message"]) for each in told]
    kinds = answer_of(command_on(browser.get("/b/data/events", kind="Routed")))
    story = browser.get("/b/data/story", message=kinds[0]["lsn"])
    *steps, end = answer_of(command_on(story))
    assert [f"event={each['lsn']}" for each in steps] or end
    assert story.text.count('class="kind-') == len(steps)
