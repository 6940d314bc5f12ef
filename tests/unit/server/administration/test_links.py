"""The list of links: pages over connections, in slices, with what the engine knows of consumers."""

from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import Attach, OpenConnection
from daybook.engine.state.state import State
from daybook.protocols.port import RECEIVES, SENDS, LinkCounts, LinkRow
from daybook.server.administration import connections
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
        slices = connections.listing_links(state, offset, sessions.get, **given)
        while True:
            try:
                looked.append(next(slices))
            except StopIteration as end:
                page = end.value
                break
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


def test_connections_tell_how_many_sessions_and_links_they_have() -> None:
    state, sessions = crowd(2)
    (row,) = connections.at_once(connections.listing_connections(state, 0, sessions.get))[
        "connections"
    ]
    assert (row["sessions"], row["links"], row["client_id"]) == (1, 2, "c0")
    assert row["protocol"] == "AMQP 1.0"
    (gone,) = connections.connections(state, 0)["connections"]
    assert (gone["sessions"], gone["links"]) == (0, 0)
