"""The overview: its figures, the charts of the last hour, and the documentation about problems."""

import json
import re
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path

import pytest

from daybook.server.monitoring.rates import FULL_SECONDS_LEAST
from tests.interop.console.test_pages import answer_of
from tests.interop.console.using import send
from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]
PAGE = "/b/data"


def status_of(broker: BrokerProcess) -> dict[str, int]:
    told: dict[str, int] = json.loads(daybook(broker, "status", "--json"))
    return told


def test_the_figures_of_a_broker_that_works(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("rea")
    before = status_of(broker)["messages_delivered"]
    for body in ("first", "second"):
        send(broker, "busy", body)
    send(broker, "DLQ", "dead")
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada")
        wire.send("SUBSCRIBE", id="s", destination="busy", ack="client")
        wire.expect("MESSAGE")
        wire.expect("MESSAGE")
        assert status_of(broker)["messages_delivered"] == before + 2
        waiting = status_of(broker)["dead_letters_waiting"]
        assert waiting >= 1
        figures = (
            "oldest message ready, in ", "not indexed yet", "sync to disk, last",
            "sync to disk, average", "sync to disk, longest",
            "disk free", "The disk: ", "uptime, since ", "user ada",
            "in per second", "out per second", "acknowledged per second",
            f"dead letters waiting {waiting} messages dead lettered",
        )  # fmt: skip

        def is_whole() -> bool:
            words = browser.get(PAGE).words
            return all(each in words for each in figures)

        wait_for(is_whole, "all figures")
    assert status_of(broker)["messages_delivered"] == before + 2
    daybook(broker, "queue", "purge", "DLQ")


def test_the_last_hour_has_the_deliveries(broker: BrokerProcess, visit: Visit) -> None:
    browser = visit("rea")
    page = browser.get(PAGE)
    assert 'data-series="in,out,acknowledged,dead_lettered"' in page.text
    told = json.loads(browser.get(f"{PAGE}/hour").text)
    assert len(told["out"]) == len(told["time"])
    found = re.search(r'<code id="minutes">([^<]*)</code>', page.text)
    assert found, page.words
    [answer] = answer_of(shlex.split(unescape(found[1])))
    assert sum(each["delivered"] for each in answer["steps"]) >= 0
    assert {"added", "acknowledged", "dead_lettered"} <= answer["steps"][-1].keys()


def test_the_overview_shows_the_command_that_measures_its_rates(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("rea")

    def command() -> list[str]:
        found = re.search(r'<code id="command-2">([^<]*)</code>', browser.get(PAGE).text)
        return shlex.split(unescape(found[1])) if found else []

    words = wait_for(command, "a sample")
    place = words.index("--rates") + 1
    assert float(words[place]) >= FULL_SECONDS_LEAST
    words[place] = "2"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(answer_of, words)
        while not asked.done():
            send(broker, "measured", "x")
        told = asked.result()
    assert told["in_per_second"] > 0
    assert told["acknowledged_per_second"] == 0
    assert told["disk_full_in_seconds"] is None
    assert told["disk_forecast"] == "when it is full is not known before 50 s of figures"
    measured = daybook(broker, "status", "--rates", "1")
    assert "in per second" in measured
    assert "disk forecast" in measured
    refused = nursery.run(
        [DAYBOOK, *words[1:], "--at", "1"], capture_output=True, check=False, text=True
    )
    assert "--rates measures a running broker" in refused.stderr


def test_the_console_shows_the_documentation_to_users(
    console: ConsoleProcess, visit: Visit
) -> None:
    browser = visit("nil")
    shown = browser.get(f"{PAGE}/docs/operations")
    assert shown.status == 200
    assert '<h2 id="when-the-disk-is-full">When the disk is full</h2>' in shown.text
    listed = browser.get(f"{PAGE}/docs")
    assert f'href="{PAGE}/docs/filters"' in listed.text
    assert f'href="{PAGE}/docs"' in shown.text
    form = visit("ada").get(f"{PAGE}/do/queue/move")
    assert f'(<a href="{PAGE}/docs/filters">docs/filters.md</a>)' in form.text
    for name in ("secret", "operations.md", "%2e%2e", "..%2F..%2Fetc%2Fpasswd", "%2e%2e/README"):
        assert browser.get(f"{PAGE}/docs/{name}").status == 404
    asked = Browser(console).get(f"{PAGE}/docs/operations")
    assert "When the disk is full" not in asked.text
    assert "Log in" in asked.words


def test_a_crash_before_the_start_is_said(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        daybook(broker, "queue", "create", "orders")
        with ConsoleProcess(tmp_path, "--data", str(broker.data)) as console:
            browser = Browser(console)
            browser.get(console.link)
            wait_for(lambda: "No problems" in browser.get(PAGE).words, "a sample")
            assert "started again" not in browser.get(PAGE).words
            broker.kill()
            broker.start()
            wait_for(lambda: "it started again at" in browser.get(PAGE).words, "the crash")
            shown = browser.get(PAGE)
            assert "No problems." in shown.words
            assert re.search(
                r"The broker was killed, or its machine failed, after [-0-9]+ [0-9:]+ UTC",
                shown.words,
            )
            link = re.search(r'href="(/b/data/compare[^"]*)"', shown.text)
            assert link
            changed = browser.get(unescape(link[1])).words
            assert "BrokerStarted after a crash" in changed
            broker.stop()
            broker.start()
            wait_for(lambda: "it started again at" not in browser.get(PAGE).words, "a clean start")
