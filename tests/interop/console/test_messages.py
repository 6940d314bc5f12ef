"""The page Messages: what its filter finds, and what is said where it finds none."""

import re
from collections.abc import Callable
from html import unescape

import pytest

from tests.interop.console.using import send
from tests.support.console import Browser
from tests.support.process import BrokerProcess

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
