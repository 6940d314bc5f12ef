"""What changed: the old and the new value of each attribute and setting, and who changed it."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from html import unescape
from pathlib import Path

import pytest

from bench.console import worlds
from bench.load.wire import Endpoint
from daybook.console.jobs.history import DIFFERENCES_MAX
from daybook.engine.facts.own_headers import DEATH_TIME
from daybook.texts import moment
from tests.interop.console.test_pages import answer_of, command_on
from tests.interop.console.using import send
from tests.interop.using import connected, daybook, events, journal, publish
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def test_changes_have_the_old_and_the_new_value(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("ada")
    daybook(broker, "queue", "create", "shifting", "--max-consumers", "3")
    created = wait_for(lambda: events(broker, "QueueCreated"), "the queue")[-1]["lsn"]
    browser.do("/b/data/do/queue/update", queue="shifting", max_consumers="5", exclusive="yes")
    browser.do("/b/data/do/queue/update", queue="shifting", max_consumers="6")
    for attempts in (4, 7):
        given = f"max-delivery-attempts={attempts}"
        browser.do("/b/data/do/settings/set", match="shifting", values=given)
    by = r"ada from [0-9.:]+"
    lines = (
        rf"QueueUpdated queue 'shifting', max consumers 3 -> 5, exclusive no -> yes: .*{by}",
        rf"QueueUpdated queue 'shifting', max consumers 5 -> 6: .*{by}",
        rf"SettingsChanged shifting at run time: max-delivery-attempts \(not set\) -> 4: .*{by}",
        rf"SettingsChanged shifting at run time: max-delivery-attempts 4 -> 7: .*{by}",
    )

    def settings() -> list[int]:
        found = [each["lsn"] for each in events(broker, "SettingsChanged")]
        return [each for each in found if each > created][1:]

    last = wait_for(settings, "the settings")[-1] + 1
    changed = browser.get("/b/data/compare", before=created, after=last)
    [told] = answer_of(command_on(changed))
    for line in lines:
        assert re.search(line, changed.words), changed.words
        assert any(re.search(line, f"{each['kind']} {each['text']} {each['by']}")
                   for each in told["changes"]), line  # fmt: skip
    shown = [
        browser.get("/b/data/events", kind=kind).words
        for kind in ("QueueUpdated", "SettingsChanged")
    ]
    story = journal(broker, "inspect", "--from", str(created))
    for line in lines:
        assert re.search(line, " ".join(shown))
        assert re.search(line, " ".join(story.split()))


def test_a_client_that_creates_a_queue_is_named(broker: BrokerProcess, visit: Visit) -> None:
    before = events(broker)[-1]["lsn"]
    send(broker, "somebodys", "x")
    created = wait_for(lambda: [each for each in events(broker, "QueueCreated")
                                if each["queue_name"] == "somebodys"], "it")  # fmt: skip
    changed = visit("ada").get("/b/data/compare", before=before, after=created[0]["lsn"])
    found = answer_of(command_on(changed))[0]["changes"]
    assert all(re.match(r"ada from 127.0.0.1:\d+ by STOMP", each["by"]) for each in found)


def test_traffic_is_shown_before_changes(broker: BrokerProcess, visit: Visit) -> None:
    before = events(broker)[-1]["lsn"]
    send(broker, "travelled", "x")
    wait_for(lambda: events(broker)[-1]["lsn"] > before + 1, "the message")
    changed = visit("ada").get("/b/data/compare", before=before, after=events(broker)[-1]["lsn"])
    headings = re.findall("<h2>(.*?)</h2>", changed.text)
    assert headings.index("Traffic") < headings.index("Changes on the way")


def test_the_origin_of_a_copy_is_readable(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "readable", "x")
    daybook(broker, "queue", "create", "read")
    daybook(broker, "queue", "move", "readable", "read")
    moved = wait_for(lambda: [each for each in events(broker, "Routed") if each["related"]
                              and each["queue_name"] == "read"], "the copy")[-1]  # fmt: skip
    story = visit("ada").get("/b/data/story", message=moved["lsn"])
    origin = rf"origin \(reason 'administration', message {moved['related']}, address 'readable'"
    assert re.search(origin, story.words), story.words
    assert '{"' not in story.words


def test_a_command_shows_the_moment_of_a_filter(visit: Visit) -> None:
    chosen = f"{DEATH_TIME} >= 1795953008853"
    shown = visit("ada").get("/b/data/messages", queue="readable", filter=chosen)
    assert f"1795953008853 is {moment(1795953008853000)} UTC" in shown.words


def test_of_very_many_differences_the_first_are_shown(broker: BrokerProcess, visit: Visit) -> None:
    before = events(broker)[-1]["lsn"]
    endpoint = Endpoint(broker.port, "ada", "ada", "/", "credit")
    made = DIFFERENCES_MAX + 5
    worlds.send(endpoint, (worlds.frame(f"lots.{each}", each) for each in range(made)))
    changed = visit("ada").get("/b/data/compare", before=before, after=events(broker)[-1]["lsn"])
    assert "10 more differences: the command line shows all" in changed.words
    assert "5 more queues: the command line shows all" in changed.words
    [told] = answer_of(command_on(changed))
    assert len(told["queues"]["new"]) == len(told["traffic"]) == made


def test_a_crash_leads_to_the_messages_that_it_moved(tmp_path: Path, cleaned: ExitStack) -> None:
    broker = cleaned.enter_context(BrokerProcess(tmp_path / "data"))
    broker.start()
    with connected(broker) as wire:
        for _ in range(3):
            publish(wire, "shipping")
        wire.send("SUBSCRIBE", id="s", destination="shipping", ack="client")
        for _ in range(3):
            wire.expect("MESSAGE")
        wait_for(lambda: len(events(broker, "Delivered")) == 3, "the deliveries")
        broker.kill()
    broker.start()
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--data", str(broker.data)))
    browser = Browser(console)
    browser.get(console.link)
    start = events(broker, "BrokerStarted")[-1]["lsn"]
    marked = browser.get("/b/data/past")
    [link] = re.findall(r'href="([^"]*)" aria-label="What changed by the crash', marked.text)
    changed = browser.get(unescape(link))
    assert f"From event {start - 1} (" in changed.words
    assert "shipping ready 0 3" in changed.words
    assert "shipping in flight 3 0" in changed.words
    then = re.findall(r'href="([^"]*)" aria-label="3, queue shipping before"', changed.text)[0]
    assert f"at={start - 1}" in unescape(then)
    assert "shipping" in browser.get(unescape(then)).words
    at = browser.get("/b/data/past", at=start)
    assert f'name="at" value="{start - 1}"' in at.text
    assert f'name="moment" value="{start}"' in at.text
