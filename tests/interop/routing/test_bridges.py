"""Bridges between stored queues, fallback elsewhere, and a loop of two bridges (ADR 110, 111)."""

from pathlib import Path
from typing import Final

import pytest

from tests.interop.connectors.using import wait_for_link
from tests.interop.routing.three import (
    ACCEPTED,
    Client,
    a_broker,
    auto_link,
    connector,
    links_of,
    port_of,
    running,
    wait_for_links,
)
from tests.interop.using import audited, daybook, events, journal, queues
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

FALLBACK: Final = """
[[address]]
prefix = "jobs"
enable-fallback = true
"""


def _ready(broker: BrokerProcess, name: str) -> int:
    found: int = queues(broker).get(name, {"ready": 0})["ready"]
    return found


def test_a_bridge_delivers_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    b = a_broker(tmp_path, "b")
    a = a_broker(tmp_path, "a", connector("b", port_of(b)) + auto_link("orders", "out", "b"))
    bodies = [str(at) for at in range(400)]
    with running(b, a):
        for turn, victim in enumerate((b, a, b, a)):
            wait_for_link(a, "orders-out-b")
            with Client(a) as client:
                sender = client.sender("orders")
                part = [client.begin(sender, each) for each in bodies[turn * 100 :][:100]]
                # The bridge has begun to pass on what the client has heard of.
                assert set(client.outcomes(part)) == {ACCEPTED}
            victim.kill()
            victim.start()
        wait_for(lambda: _ready(b, "orders") == 400, "all at the other broker")
        # Messages whose outcome was not heard are sent again, and are known there.
        wait_for(lambda: _ready(a, "orders") == 0, "the end of the bridge's queue")
        with Client(b) as client:
            assert sorted(client.take_all("orders", 400), key=int) == bodies
        _prove(a, b)


def _prove(a: BrokerProcess, b: BrokerProcess) -> None:
    """Each journal and both together are right, and tell the way of a message."""
    came = events(b, "Routed")[0]["detail"]["came_from"]
    number = came.split("/")[1]
    audited(a)
    audited(b)
    journal(a, "audit", "--data", str(b.data))
    # The message has the number in the data directory that is named first.
    story = journal(b, "trail", number, "--data", str(a.data))
    assert "Delivered" in story, story
    assert str(b.data) in story, story
    assert story.count("Routed") == 2, story


def test_what_nobody_receives_waits_at_the_other_broker(tmp_path: Path) -> None:
    b = a_broker(tmp_path, "b")
    links = [auto_link("jobs", way, "b", "fallback = true") for way in ("out", "in")]
    a = a_broker(tmp_path, "a", connector("b", port_of(b)) + FALLBACK + "".join(links))
    bodies = [str(at) for at in range(50)]
    with running(b, a), Client(a) as client, Client(a) as consuming:
        wait_for_links(a, "jobs-out-b-fallback", "jobs-in-b-fallback")
        sender = client.sender("jobs")
        assert set(client.outcomes([client.begin(sender, each) for each in bodies])) == {ACCEPTED}
        assert _ready(b, "jobs") == 50
        assert "jobs" not in queues(a)
        receiver = consuming.connection.create_receiver("jobs", credit=100)
        assert [consuming.take(receiver) for _ in bodies] == bodies
        # While somebody receives, messages go to it at once.
        later = client.begin(sender, "at once")
        assert consuming.take(receiver) == "at once"
        assert client.outcomes([later]) == [ACCEPTED]
        added = queues(b)["jobs"]["added"]
        assert added == 50
        audited(a)
        audited(b)


def test_two_bridges_in_a_ring_refuse_what_comes_back(tmp_path: Path) -> None:
    """The messages end where they would have turned back, as dead letters that say why."""
    a, b = a_broker(tmp_path, "a"), a_broker(tmp_path, "b")
    a.configure(connector("b", port_of(b)) + auto_link("q", "out", "b"))
    b.configure(connector("a", port_of(a)) + auto_link("q", "out", "a"))
    with running(a, b), Client(a) as client:
        wait_for_links(a, "q-out-b")
        wait_for_links(b, "q-out-a")
        sender = client.sender("q")
        heard = client.outcomes([client.begin(sender, str(at)) for at in range(5)])
        assert heard == [ACCEPTED] * 5
        wait_for(lambda: _ready(b, "DLQ") == 5, "the end of the way")
        assert (_ready(a, "q"), _ready(b, "q")) == (0, 0)
        passed = [links_of(a)["q-out-b"]["messages"], links_of(b)["q-out-a"]["messages"]]
        assert passed == [5, 5]
        assert "DLQ" not in queues(a)
        said = daybook(b, "queue", "messages", "DLQ", "--json")
        assert "loop: the message was here before, as message" in said
        audited(a)
        audited(b)
        journal(a, "audit", "--data", str(b.data))
