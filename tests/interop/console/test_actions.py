"""Actions: the offers of a page, the words of a confirmation, and that one is carried out once."""

import json
from collections.abc import Callable

import pytest

from tests.interop.console.using import send
from tests.interop.using import daybook
from tests.interop.wire import Wire
from tests.support.console import Browser
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]


def test_a_connection_is_closed_from_each_row_that_names_it(
    broker: BrokerProcess, visit: Visit
) -> None:
    send(broker, "closing", "x")
    with Wire(broker.port) as wire:
        wire.connect(login="ada", passcode="ada", **{"client-id": "till-3"})
        wire.send("SUBSCRIBE", id="s", destination="closing", ack="client")
        wire.expect("MESSAGE")
        (row,) = json.loads(daybook(broker, "queue", "consumers", "closing", "--json"))
        link = f'href="/b/data/do/connection/close?ids={row["connection"]}"'
        browser, reader = visit("ada"), visit("rea")
        tags = ("connections", "links", "consumers")
        pages: dict[str, dict[str, str]] = {f"list/{tag}": {} for tag in tags}
        for path, query in {**pages, "queue": {"queue": "closing"}}.items():
            assert link in browser.get(f"/b/data/{path}", **query).text, path
            assert "do/connection/close" not in reader.get(f"/b/data/{path}", **query).text, path
        form = browser.get("/b/data/do/connection/close", ids=row["connection"])
        asked = browser.submit(form)
        assert (
            f"connection {row['connection']} of user 'ada', client id 'till-3', from {row['peer']},"
            " consumes from closing and holds 1 message."
        ) in asked.words
        assert "closed 1" in browser.submit(asked).words
