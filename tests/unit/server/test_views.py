"""Lists and sums of very many objects: work in each slice, and the same answers as at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import Send
from daybook.engine.state import State
from daybook.server import views
from daybook.server.control import ControlServer
from tests.support.topology import create_queue
from tests.unit.server.test_control import FakeHub

MANY = 3 * views.SLICE + 7


@pytest.fixture(scope="module")
def state() -> State:
    """Many queues, in no order: a part of them on one address, and some messages."""
    broker = Broker(State())
    for number in range(MANY):
        name = f"q{number * 7919 % MANY:05}"
        if number % 3:
            broker.handle(create_queue(name, "topic", "multicast"), 1)
        else:
            broker.handle(create_queue(name, name), 1)
    for target in ("topic", "q00000"):
        assert isinstance(broker.handle(Send(0, target, b"", b"body"), 1), int)
    return broker.state


def work(slices: views.Slices[dict[str, Any]]) -> tuple[list[int], dict[str, Any]]:
    """What each slice looked at, and the result."""
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


def test_status_counts_in_slices(state: State) -> None:
    looked, found = work(views.counting(state))
    assert max(looked) <= views.SLICE
    assert sum(looked) == MANY + len(state.addresses)
    queues = state.queues.values()
    assert found["queues"] == MANY
    assert found["messages_ready"] == sum(queue.ready_count for queue in queues) > MANY // 2
    assert views.counts(state).items() <= found.items()


@pytest.mark.parametrize("offset", [0, 1, 999, 1000, 2500, MANY - 1, MANY, 10 * MANY])
def test_a_page_of_queues_is_the_same_and_no_slice_is_long(state: State, offset: int) -> None:
    looked, page = work(views.listing_queues(state, offset=offset))
    assert max(looked) <= views.SLICE
    names = sorted(state.queue_by_name)[offset : offset + views.LIST_PAGE_MAX]
    assert [row["queue"] for row in page["queues"]] == names
    assert page["next_offset"] == (offset + 1000 if offset + 1000 < MANY else None)
    assert page == views.queues(state, offset=offset)


def test_pages_of_addresses_are_the_same_and_no_slice_is_long(state: State) -> None:
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        looked, page = work(views.listing_addresses(state, offset=offset))
        assert max(looked) <= views.SLICE + views.ROW
        assert page == views.addresses(state, offset=offset)
        rows += page["addresses"]
        offset = page["next_offset"]
    assert [row["address"] for row in rows] == sorted(state.address_by_name)
    topic = next(row for row in rows if row["address"] == "topic")
    assert topic["messages"] == topic["queue_count"] == MANY - (MANY + 2) // 3


def test_what_is_deleted_between_two_slices_is_left_out() -> None:
    broker = Broker(State())
    for number in range(views.SLICE + 1):
        broker.handle(create_queue(f"q{number:05}", f"q{number:05}"), 1)
    slices = views.listing_queues(broker.state)
    next(slices)
    del broker.state.queues[broker.state.queue_by_name["q00000"].id]
    _, page = work(slices)
    assert page["queues"][0]["queue"] == "q00001"
    assert page["next_offset"] == views.LIST_PAGE_MAX


def test_others_have_turns_between_slices_however_many_ask(tmp_path: Path, state: State) -> None:
    """A turn has one slice at most: those who ask wait for each other."""

    async def scenario() -> None:
        hub = FakeHub()
        hub.broker.state = state
        server = ControlServer(hub, tmp_path / "socket")
        asked = [
            asyncio.ensure_future(server.answer(b'{"do": "%b"}' % what, "me"))
            for what in (b"status", b"queues", b"addresses")
        ]
        turns = 0
        while not all(each.done() for each in asked):
            await asyncio.sleep(0)
            turns += 1
        answers = [json.loads(each.result())["result"] for each in asked]
        slices = [
            work(views.counting(state)),
            work(views.listing_queues(state)),
            work(views.listing_addresses(state)),
        ]
        assert turns >= sum(len(looked) for looked, _ in slices)
        assert answers[0]["queues"] == MANY
        assert answers[1:] == [json.loads(json.dumps(page)) for _, page in slices[1:]]

    asyncio.run(scenario())
