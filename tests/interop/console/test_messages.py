"""The page Messages: what its filter finds, and what is said where it finds none."""

import re
from collections.abc import Callable
from html import unescape

import pytest

from tests.interop.console.using import send
from tests.interop.using import Wire, subscribed
from tests.support.console import Browser
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def test_a_filter_that_fits_none_says_what_filters_see(broker: BrokerProcess, visit: Visit) -> None:
    send(broker, "it's", "a text to find", "--header", "of=x")
    browser = visit("ada")
    fits = browser.get("/b/data/messages", queue="it's", filter="of = 'x'")
    assert "move what fits" in fits.words
    assert "not bodies" not in fits.words
    shown = browser.get("/b/data/messages", queue="it's", filter="body LIKE '%text%'")
    assert "0 of the 1 messages looked at fit." in shown.words
    assert "A filter sees headers and properties, not bodies" in shown.words
    assert '<a href="/b/data/docs/filters">docs/filters.md</a>' in shown.text
    assert "what fits" not in shown.words
    assert browser.get("/b/data/docs/filters").status == 200
    link = re.search(r'<a href="([^"]*)">SQL</a> finds', shown.text)
    assert link
    assert " 1 row." in browser.get(unescape(link[1])).words


def test_the_story_of_a_message_that_is_gone_leads_to_its_body(
    broker: BrokerProcess, visit: Visit
) -> None:
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada", **{"client-id": "till-3"})
        wire.send("SEND", b"the body of a gone one", destination="gone", receipt="sent")
        wire.expect("RECEIPT")
        subscribed(wire, "gone", ack="auto")
        number = wire.expect("MESSAGE").headers["message-id"]
    browser = visit("ada")
    asked = browser.get("/b/data/story", message="order=4711")
    assert "There is no message with the header order=4711" in asked.words
    story = wait_for(
        lambda: (
            (told := browser.get("/b/data/story", message=number))
            and "Now in no queue" in told.words
            and told
        ),
        "the end",
    )
    assert story.words.count(", client id 'till-3', from ") >= 2, "its sender, and its consumer"
    link = re.search(r'href="([^"]*)">its headers and body<', story.text)
    assert link
    shown = browser.get(unescape(link[1]))
    assert "the body of a gone one" in shown.words
    assert "as it was after event" in shown.words
