"""Lists and sums of very many objects: work in each slice, and the same answers as at once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import (
    Attach,
    ChangeSettings,
    CloseConnection,
    Command,
    CreateDivert,
    OpenConnection,
    RecordRequest,
    Send,
)
from daybook.engine.facts.definitions import DivertDefinition
from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from daybook.engine.facts.reasons import ADMINISTRATION
from daybook.engine.messages.headers import build
from daybook.engine.state.state import State
from daybook.server.administration import connections, views
from daybook.server.administration.control import ControlServer
from daybook.server.administration.overview import overview
from daybook.server.administration.views import listing_diverts, listing_groups
from daybook.server.process import ordered_lists
from daybook.server.process.ordered_lists import Order
from daybook.server.process.ranks import in_rank
from daybook.server.process.seen import Seen
from daybook.server.process.slices import ROW, SLICE, Slices, at_once
from tests.support.topology import create_queue
from tests.support.world import World
from tests.support.worlds.second_format import MAPS, encode_typed, installed, pack
from tests.unit.server.administration.test_control import FakeHub

MANY = 3 * SLICE + 7


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
    broker.go_on(1)
    return broker.state


def work(slices: Slices[Any]) -> tuple[list[int], Any]:
    """The objects that each slice looked at, and the result."""
    looked = []
    while True:
        try:
            looked.append(next(slices))
        except StopIteration as end:
            return looked, end.value


def test_status_counts_in_slices(state: State) -> None:
    looked, found = work(views.counting(state))
    assert max(looked) <= SLICE
    assert sum(looked) == MANY + len(state.addresses)
    queues = state.queues.values()
    assert found["queues"] == MANY
    assert found["messages_ready"] == sum(queue.ready_count for queue in queues) > MANY // 2
    assert views.counts(state).items() <= found.items()


@pytest.mark.parametrize("offset", [0, 1, 999, 1000, 2500, MANY - 1, MANY, 10 * MANY])
def test_a_page_of_queues_is_the_same_and_no_slice_is_long(state: State, offset: int) -> None:
    looked, page = work(views.listing_queues(Seen(state.queues), offset=offset))
    assert max(looked) <= SLICE
    names = sorted(state.queue_by_name)[offset : offset + views.LIST_PAGE_MAX]
    assert [row["queue"] for row in page["queues"]] == names
    assert page["next_offset"] == (offset + 1000 if offset + 1000 < MANY else None)
    assert page == at_once(views.listing_queues(Seen(state.queues), offset=offset))


def test_pages_of_addresses_are_the_same_and_no_slice_is_long(state: State) -> None:
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        looked, page = work(
            views.listing_addresses(state, Seen(state.addresses), Seen(state.queues), offset=offset)
        )
        assert max(looked) <= SLICE + ROW
        assert page == views.addresses(state, offset=offset)
        rows += page["addresses"]
        offset = page["next_offset"]
    assert [row["address"] for row in rows] == sorted(state.address_by_name)
    topic = next(row for row in rows if row["address"] == "topic")
    assert topic["messages"] == topic["queue_count"] == MANY - (MANY + 2) // 3


def test_everything_at_a_moment_is_put_in_order_once(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counting(values: list[Any], begin: int, end: int) -> Slices[list[Any]]:
        asked.append(len(values))
        return in_rank(values, begin, end)

    monkeypatch.setattr(ordered_lists, "in_rank", counting)
    found = overview(state, 7, None)
    assert [row["queue"] for row in found["list_of_queues"]] == sorted(state.queue_by_name)
    assert [row["address"] for row in found["list_of_addresses"]] == sorted(state.address_by_name)
    assert asked == [len(state.addresses)]


def test_what_is_deleted_between_two_slices_is_left_out() -> None:
    broker = Broker(State())
    for number in range(SLICE + 1):
        broker.handle(create_queue(f"q{number:05}", f"q{number:05}"), 1)
    slices = views.listing_queues(Seen(broker.state.queues))
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
        assert all(answer.pop("cursor") for answer in answers[1:])
        slices = [
            work(views.counting(state)),
            work(views.listing_queues(Seen(state.queues))),
            work(views.listing_addresses(state, Seen(state.addresses), Seen(state.queues))),
        ]
        assert turns >= sum(len(looked) for looked, _ in slices)
        assert answers[0]["queues"] == MANY
        assert answers[1:] == [json.loads(json.dumps(page)) for _, page in slices[1:]]

    asyncio.run(scenario())


def test_deliveries_stay_counted_when_consumers_leave_between_slices() -> None:
    world = World()
    for number in range(3):
        world.send("q", b"%d" % number)
    leaving, staying = (world.connect() for _ in range(2))
    world.attach(leaving, "q", credit_messages=2, credit_bytes=0)
    assert at_once(views.counting(world.state))["messages_delivered"] == 2
    slices = views.counting_delivered(world.state)
    next(slices)
    world.close(leaving)
    world.attach(staying, "q", credit_messages=9)
    assert work(slices)[1] == 2
    told = at_once(views.counting(world.state))
    assert told["messages_delivered"] == 5
    assert "messages_delivered" not in views.without_broker(told)


def test_many_consumers_are_counted_in_slices() -> None:
    state = crowd(40, 60).state
    looked, delivered = work(views.counting_delivered(state))
    assert (len(looked), max(looked), sum(looked)) == (3, SLICE, 2400)
    assert delivered == 0


def test_dead_letters_that_wait_are_those_in_queues_of_dead_letter_addresses() -> None:
    broker = Broker(State())
    graves = {"#": {"dead-letter-address": "dead"}, "a": {"dead-letter-address": "graves"}}
    broker.handle(ChangeSettings(graves), 1)  # type: ignore[arg-type]
    for name, address in (("dead", "dead"), ("alive", "alive")):
        broker.handle(create_queue(name, address), 1)
    for number in range(SLICE + 7):
        broker.handle(create_queue(f"grave{number}", "graves", "multicast"), 1)
    for target in ("dead", "dead", "alive", "graves"):
        assert isinstance(broker.handle(Send(0, target, b"", b"body"), 1), int)
    broker.go_on(1)
    looked, told = work(views.counting(broker.state))
    assert told["dead_letters_waiting"] == 2 + SLICE + 7
    assert told["messages_ready"] == 3 + SLICE + 7
    assert max(looked) <= SLICE
    assert views.counts(broker.state)["dead_letters_waiting"] == 2 + SLICE + 7


def crowd(connections: int, consumers: int) -> Broker:
    """A broker with so many connections, and so many consumers of each."""
    broker = Broker(State())
    broker.handle(create_queue("q", "q"), 1)
    for number in range(connections):
        command = OpenConnection("stomp", f"10.0.0.1:{number}", "joe", room=1 << 40)
        opened = broker.handle(command, 1)
        assert isinstance(opened, int)
        for _ in range(consumers):
            assert isinstance(broker.handle(Attach(opened, "q", queue="q"), 1), int)
    return broker


def test_lists_of_connections_and_consumers_are_the_same_and_no_slice_is_long() -> None:
    state = crowd(40, 60).state
    for listing, whole, what in (
        (connections.listing_connections, connections.connections, "connections"),
        (connections.listing_consumers, connections.consumers, "consumers"),
    ):
        count = len(getattr(state, what))
        rows: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            looked, page = work(listing(state, offset, is_live=False))
            assert len(looked) > 1
            assert max(looked) <= SLICE
            assert page == at_once(listing(state, offset, is_live=False))
            assert page["total"] == count
            rows += page[what]
            offset = page["next_offset"]
        assert len(rows) == count
        assert rows == whole(state)


def test_connections_and_consumers_are_searched_and_sorted() -> None:
    broker = crowd(1010, 0)
    quiet, busy, *_ = broker.state.connections
    for number in range(3):
        attached = broker.handle(Attach(busy, "q", queue="q", credit_messages=number), 1)
        assert isinstance(attached, int)

    def listed(listing: Any, what: str, limit: int = 1000, **wanted: Any) -> list[int]:
        looked, page = work(listing(broker.state, 0, limit=limit, order=Order(**wanted)))
        assert max(looked) <= SLICE
        return [row[what] for row in page[what + "s"]]

    every = connections.listing_connections
    found = listed(every, "connection", limit=2, sort="consumers", descending=True)
    assert found[0] == busy
    assert listed(every, "connection", search="10.0.0.1:0") == [quiet]
    assert len(listed(every, "connection", search="JOE", limit=7)) == 7
    assert listed(every, "connection", search="nobody") == []
    last = max(broker.state.connections)
    assert listed(every, "connection", limit=1, descending=True) == [last]
    consumers = connections.listing_consumers
    ids = list(broker.state.consumers)
    assert listed(consumers, "consumer", search="q") == ids
    assert listed(consumers, "consumer", sort="credit_messages", descending=True) == ids[::-1]
    assert listed(consumers, "consumer", search="other") == []


def test_a_list_of_connections_leaves_out_who_left_meanwhile() -> None:
    state = crowd(30, 10).state
    slices = connections.listing_connections(state, 0)
    next(slices)
    gone = list(state.connections)[-1]
    del state.connections[gone]
    _, page = work(slices)
    assert gone not in [row["connection"] for row in page["connections"]]
    assert len(page["connections"]) == 29


def test_groups_and_diverts_are_listed_in_slices() -> None:
    broker = Broker(State())
    broker.handle(create_queue("q", "q", group_buckets=-1), 1)
    opened = broker.handle(OpenConnection("stomp", "peer", "joe", room=1 << 40), 1)
    assert isinstance(opened, int)
    for _ in range(2):
        consumer = Attach(opened, "q", queue="q", credit_messages=MANY, credit_bytes=1 << 40)
        assert isinstance(broker.handle(consumer, 1), int)
    for number in range(60):
        headers = build([("JMSXGroupID", str(number))])
        command = Send(0, "q", headers, b"", format=LINES | GROUPED)
        assert isinstance(broker.handle(command, 1), int)
        divert = DivertDefinition(
            name=f"d{number}", address="q", forwarding_addresses=("elsewhere",)
        )
        assert isinstance(broker.handle(CreateDivert(divert), 1), int)
    broker.dispatch(1)
    looked, page = work(listing_groups(broker.state, "q"))
    assert (len(looked) > 1, max(looked) <= SLICE, len(page["groups"])) == (True, True, 60)
    looked, page = work(listing_diverts(broker.state))
    assert (len(looked) > 1, max(looked) <= SLICE, len(page["diverts"])) == (True, True, 60)


class ClosingHub(FakeHub):
    """A hub that closes connections, and notes in which order that and records are asked for."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.asked: list[str] = []

    def close_connection(self, number: int, what: str, advice: str) -> bool:
        assert (what, advice) == (connections.BY_ADMINISTRATOR, connections.ASK_FIRST)
        self.asked.append("close")
        return self.broker.handle(CloseConnection(number, ADMINISTRATION), 1) != 0

    def request(self, command: Command, callback: Any = None) -> None:
        assert isinstance(command, RecordRequest)
        assert isinstance(self.broker.handle(command, 1), int)
        self.asked.append("record")


def test_connections_are_closed_few_at_a_time(tmp_path: Path) -> None:
    """Each slice has the event that says who asked for it."""

    async def scenario() -> None:
        hub = ClosingHub(crowd(23, 2))
        server = ControlServer(hub, tmp_path / "socket")
        request = b'{"do": "close-connections", "user": "joe"}'
        asked = asyncio.ensure_future(server.answer(request, "me"))
        turns = []
        while not asked.done():
            before = len(hub.asked)
            await asyncio.sleep(0)
            turns.append(hub.asked[before:])
        assert json.loads(asked.result())["result"] == {"closed": 23}
        assert not hub.broker.state.connections
        full = ["close"] * connections.CLOSED_AT_A_TIME + ["record"]
        assert [each for each in turns if each] == [full] * 4 + [full[2:]]

    asyncio.run(scenario())


def test_a_body_with_a_type_is_shown_as_text() -> None:
    with installed():
        world = World()
        world.ok(Send(world.connect(), "q", encode_typed({}), pack([1, "x"]), format=MAPS))
        page = at_once(views.browse(world.state, "q"))
    assert isinstance(page, dict)
    [row] = page["messages"]
    assert (row["body"], row["body_bytes"], row["truncated"]) == ('[1,"x"]', 7, False)
