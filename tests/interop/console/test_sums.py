"""A large queue of dead letters is added up in a real browser, part by part, while its page shows
the sums so far."""

from typing import Any

import pytest

from daybook.server.administration.deaths import LOOKED_AT_MAX
from tests.interop.console.test_chromium import Page
from tests.interop.console.using import send
from tests.support.console import ConsoleProcess
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def test_the_whole_queue_is_added_up(
    chromium: Any, console: ConsoleProcess, broker: BrokerProcess
) -> None:
    send(broker, "buried", "x", "--count", str(2 * LOOKED_AT_MAX + 7))
    page = Page(chromium, console)
    page.log_in("ada")
    shown = page.go("/b/data/dead-letters?queue=buried")
    shown.click("text=Add up the whole queue")
    shown.wait_for_selector("text=These are all 20,007 messages, added up.")
    assert "20,007" in shown.inner_text("td.number")
    assert not shown.query_selector("text=the others are being added")
    assert not shown.query_selector("nav[aria-label='Parts of the queue']")
    assert page.complaints == []
    page.context.close()
