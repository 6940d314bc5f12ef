"""The bindings on the page of an address, and pages with several commands, each of which can be
copied.
"""

import json
import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from html import unescape
from pathlib import Path

import pytest

from tests.interop.console.test_pages import answer_of
from tests.interop.console.using import history_without_broker
from tests.interop.using import daybook
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Shown
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def commands_on(shown: Shown) -> list[str]:
    """Return all commands of a page, each of which can be copied."""
    found = re.findall(r'<code id="([^"]*command[^"]*)">([^<]*)</code>', shown.text)
    assert all(f'data-copy="{name}"' in shown.text for name, _ in found)
    return [unescape(text) for _, text in found]


def test_an_address_shows_how_its_queues_are_bound(broker: BrokerProcess, visit: Visit) -> None:
    for name, *more in (("bound.all",), ("bound.eu", "--filter", "region = 'eu'")):
        daybook(broker, "queue", "create", name, "--address", "bound",
                "--routing-type", "multicast", *more)  # fmt: skip
    shown = visit("ada").get("/b/data/address", address="bound")
    assert "bound.all multicast bound.eu multicast region = 'eu'" in shown.words
    settings, show = commands_on(shown)
    assert "settings show" in settings
    [told] = answer_of(shlex.split(show))
    assert told["bindings"] == [
        {"queue": "bound.all", "routing_type": "multicast", "filter": ""},
        {"queue": "bound.eu", "routing_type": "multicast", "filter": "region = 'eu'"},
    ]
    text = daybook(broker, "address", "show", "bound")
    assert "bound.all (multicast)" in text
    assert "bound.eu (multicast, region = 'eu')" in text
    [listed] = [
        each
        for each in json.loads(daybook(broker, "address", "list", "--json"))
        if each["address"] == "bound"
    ]
    assert "bindings" not in listed
    queue = visit("ada").get("/b/data/queue", queue="bound.eu")
    assert any("journal growth" in each for each in commands_on(queue))


def test_an_address_shows_the_queues_of_wildcard_addresses(
    broker: BrokerProcess, visit: Visit
) -> None:
    daybook(broker, "queue", "create", "wild.audit", "--address", "wild.#",
            "--routing-type", "multicast")  # fmt: skip
    daybook(broker, "queue", "create", "wild.eu")
    shown = visit("ada").get("/b/data/address", address="wild.eu")
    assert "wild.audit wild.# multicast" in shown.words
    [told] = answer_of(shlex.split(commands_on(shown)[-1]))
    assert told["wildcard_bindings"] == [
        {"address": "wild.#", "queue": "wild.audit", "routing_type": "multicast", "filter": ""}
    ]
    assert "wild.audit (multicast, at wild.#)" in daybook(broker, "address", "show", "wild.eu")
    then = visit("ada").get("/b/data/address", address="wild.eu", at=shown_lsn(broker))
    assert "wild.audit wild.# multicast" in then.words
    assert (
        "Queues of wildcard addresses"
        not in visit("ada").get("/b/data/address", address="wild.#").words
    )


def shown_lsn(broker: BrokerProcess) -> int:
    return int(json.loads(daybook(broker, "status", "--json"))["durable_lsn"])


def test_the_page_of_brokers_has_a_command_for_each(tmp_path: Path, cleaned: ExitStack) -> None:
    data = history_without_broker(tmp_path)
    config = tmp_path / "console.toml"
    config.write_text(
        f'[[broker]]\nname = "near"\ndata = "{data}"\n'
        '[[broker]]\nname = "far"\nurl = "control://127.0.0.1:1"\n'
    )
    console = cleaned.enter_context(ConsoleProcess(tmp_path, "--config", str(config)))
    browser = Browser(console)
    browser.get(console.link)
    near, far = commands_on(browser.get("/"))
    assert near == f"daybook health --data {data}"
    assert far == "daybook health --url control://127.0.0.1:1"
    done = nursery.run(
        [DAYBOOK, *shlex.split(near)[1:]], capture_output=True, check=False, text=True
    )
    assert "no broker runs" in done.stdout
