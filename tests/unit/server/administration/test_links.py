"""The list of links: pages over connections, in slices, with what the engine knows of consumers."""

from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import Attach, OpenConnection
from daybook.engine.state.state import State
from daybook.protocols.port import RECEIVES, SENDS, LinkCounts, LinkRow
from daybook.server.administration import connections
from daybook.server.process.ordered_lists import KeptOrders, Order
from daybook.server.process.slices import PAGE_MAX, SLICE
from tests.support.topology import create_queue


class Session:
    """A session with so many links, the first of which receives by a consumer."""

    def __init__(self, connection: int, count: int, consumer: int) -> None:
        rows = [
            LinkRow(f"{connection}.{at}", SENDS, 1, address="a", total=3) for at in range(count)
        ]
        if consumer:
            rows[0] = LinkRow("r", RECEIVES, 2, consumer, memory_bytes=9)
        self.rows = rows
        receivers = int(consumer > 0)
        self.link_counts = LinkCounts(1, count - receivers, receivers)

    def link_rows(self, first: int, count: int) -> list[LinkRow]:
        return self.rows[first : first + count]


def crowd(*counts: int) -> tuple[State, dict[int, Any]]:
    broker = Broker(State())
    broker.handle(create_queue("q", "q"), 1)
    sessions: dict[int, Any] = {}
    for at, count in enumerate(counts):
        opened = broker.handle(OpenConnection("AMQP 1.0", f"10.0.0.1:{at}", "joe", f"c{at}"), 1)
        assert isinstance(opened, int)
        consumer = broker.handle(Attach(opened, "q", queue="q"), 1) if count else 0
        assert isinstance(consumer, int)
        sessions[opened] = Session(opened, count, consumer)
    return broker.state, sessions


def pages(state: State, sessions: dict[int, Any], **given: Any) -> tuple[list[Any], list[int]]:
    rows: list[Any] = []
    looked: list[int] = []
    offset: int | None = 0
    while offset is not None:
        found, page = work(connections.listing_links(state, offset, sessions.get, **given))
        looked += found
        assert len(page["links"]) <= PAGE_MAX
        rows += page["links"]
        offset = page["next_offset"]
    return rows, looked


@pytest.mark.parametrize("counts", [(), (0,), (3, 0, 2), (1500, 10, 700), (PAGE_MAX,), (1001, 999)])
def test_pages_have_every_link_once_and_no_slice_is_long(counts: tuple[int, ...]) -> None:
    state, sessions = crowd(*counts)
    rows, looked = pages(state, sessions)
    wanted = [row.name for session in sessions.values() for row in session.rows]
    assert [row["link"] for row in rows] == wanted
    assert max(looked, default=0) <= SLICE


def test_a_row_has_what_session_and_engine_know() -> None:
    state, sessions = crowd(2)
    receiver, sender = pages(state, sessions)[0]
    assert (receiver["role"], receiver["queue"], receiver["address"]) == ("receiver", "q", "q")
    assert (receiver["session"], receiver["memory_bytes"], receiver["messages"]) == (2, 9, 0)
    assert receiver["consumer"] in state.consumers
    assert (sender["role"], sender["queue"], sender["address"]) == ("sender", None, "a")
    assert (sender["messages"], sender["consumer"], sender["client_id"]) == (3, None, "c0")


def test_those_of_one_connection_and_of_none() -> None:
    state, sessions = crowd(2, 3)
    _, second = sessions
    rows, _ = pages(state, sessions, connection=second)
    assert {row["connection"] for row in rows} == {second}
    assert len(rows) == 3
    assert pages(state, sessions, connection=99)[0] == []
    assert pages(state, {})[0] == [], "without sessions"


def test_links_are_searched_and_sorted() -> None:
    state, sessions = crowd(3, 1200, 0)
    first, second, _ = sessions
    for at, row in enumerate(sessions[second].rows):
        sessions[second].rows[at] = row._replace(total=at, memory_bytes=at % 2)

    def found(limit: int = PAGE_MAX, connection: int = 0, **wanted: Any) -> list[Any]:
        slices = connections.listing_links(
            state, 0, sessions.get, connection, limit, Order(**wanted)
        )
        looked, page = work(slices)
        assert max(looked) <= SLICE
        assert page["total"] >= len(page["links"])
        return [(row["connection"], row["link"]) for row in page["links"]]

    newest = [(second, f"{second}.{at}") for at in range(1199, 1197, -1)]
    assert found(2, sort="messages", descending=True) == newest
    assert found(1, sort="memory_bytes", descending=True) == [(first, "r")]
    assert found(search="Q") == [(first, "r"), (second, "r")], "by queue"
    assert found(search="C0") == found(connection=first) != []
    assert found(connection=first, sort="messages")[0] == (first, "r")
    assert found(search=".1199", sort="credit") == newest[:1]
    assert found(search="nothing") == []
    assert len(found(sort="connection")) == PAGE_MAX


def test_sorted_links_come_from_one_look() -> None:
    state, sessions = crowd(1500, 3)
    kept = KeptOrders()
    order = Order(sort="messages", kept=kept)
    _, page = work(connections.listing_links(state, 0, sessions.get, order=order))
    after = Order(sort="messages", kept=kept, cursor=page["cursor"])
    nobody = connections.listing_links(state, PAGE_MAX, connections.nobody, order=after)
    rest = work(nobody)[1]["links"]
    assert len(rest) == 503
    assert len({(row["connection"], row["link"]) for row in page["links"] + rest}) == 1503


def work(slices: Any) -> tuple[list[int], dict[str, Any]]:
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


def test_connections_tell_how_many_sessions_and_links_they_have() -> None:
    state, sessions = crowd(2)
    (row,) = connections.at_once(connections.listing_connections(state, 0, sessions.get))[
        "connections"
    ]
    assert (row["sessions"], row["links"], row["client_id"]) == (1, 2, "c0")
    assert row["protocol"] == "AMQP 1.0"
    (gone,) = connections.connections(state)
    assert (gone["sessions"], gone["links"], gone["transactions"]) == (None, None, None)
