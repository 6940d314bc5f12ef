"""Each thing that must be true is missed when it is not."""

from collections.abc import Callable

import msgspec
import pytest

from daybook.engine.queues.entry import READY, Entry
from daybook.engine.queues.queue import Queue
from daybook.engine.settings.settings import Settings
from daybook.engine.state.invariants import check
from daybook.engine.state.state import State
from tests.support.world import World, fold

NO_IDS = Settings({"#": {"id-cache-size": 0}})


@pytest.fixture
def state(world: World) -> State:
    """Three messages with ids, the first in flight; a temporary subscription."""
    connection = world.connect()
    for number in range(3):
        world.send("q", b"%d" % number, duplicate_id=str(number))
    world.attach(connection, "q", credit_messages=1, credit_bytes=0)
    world.attach(connection, "news", routing_type="multicast")
    return fold(world.journal)


def in_flight(queue: Queue) -> int:
    return next(number for number, entry in queue.entries.items() if entry.state != READY)


def lose_the_holder(state: State, queue: Queue) -> None:
    queue.entries[in_flight(queue)].consumer = None


def hold_what_is_ready(state: State, queue: Queue) -> None:
    number, entry = list(queue.entries.items())[-1]
    queue.consumers[0].unacked[number] = entry


def swap(state: State, queue: Queue) -> None:
    queue.level(4).head.line.rotate(1)


def set_to(name: str, value: object) -> Callable[[State, Queue], None]:
    def change(state: State, queue: Queue) -> None:
        setattr(queue, name, value)

    return change


def redefine(**attributes: object) -> Callable[[State, Queue], None]:
    def change(state: State, queue: Queue) -> None:
        queue.definition = msgspec.structs.replace(queue.definition, **attributes)

    return change


def redefine_address(**attributes: object) -> Callable[[State, Queue], None]:
    def change(state: State, queue: Queue) -> None:
        address = queue.address
        address.definition = msgspec.structs.replace(address.definition, **attributes)

    return change


BREAKS: dict[str, tuple[Callable[[State, Queue], object], str]] = {
    "ready": (set_to("ready_count", 7), "counts 7 ready"),
    "tombstones": (lambda s, q: setattr(q.level(4), "tombstones", 7), "tombstones"),
    "oldest": (set_to("oldest", 77), "takes 77 for its oldest"),
    "transient": (set_to("transient_count", 7), "non-persistent"),
    "occupied": (set_to("occupied", 0), "taken for empty"),
    "paused type": (redefine(routing_type="multicast"), "bound as something else"),
    "holder": (lose_the_holder, "in flight to nobody"),
    "held": (hold_what_is_ready, "not in flight to it"),
    "order": (swap, "behind a later one"),
    "lost": (lambda s, q: q.entries.popitem(), "not in the queue"),
    "unbound": (lambda s, q: q.address.anycast.clear(), "0 bindings"),
    "bound twice": (lambda s, q: q.address.anycast.append(q.binding), "2 bindings"),
    "only queue": (lambda s, q: setattr(q.address, "only_queue", None), "needs no choice"),
    "returned": (
        lambda s, q: q.level(4).head.insert(Entry(q.level(4).first().message)),
        "does not belong there",
    ),
    "name": (lambda s, q: s.queue_by_name.pop("q"), "by name"),
    "address name": (lambda s, q: s.address_by_name.pop("q"), "by name"),
    "address": (lambda s, q: s.addresses.pop(q.address.id), "does not exist"),
    "next queue": (lambda s, q: setattr(s, "next_queue", 1), "next queue"),
    "next address": (lambda s, q: setattr(s, "next_address", 1), "next address"),
    "types": (redefine_address(routing_types=()), "incomplete"),
    "consumer": (lambda s, q: q.consumers.clear(), "consumers of all queues"),
    "peer": (lambda s, q: s.connections.clear(), "is gone"),
    "count": (lambda s, q: setattr(q.entries[in_flight(q)], "delivery_count", 0), "never"),
    "ids": (lambda s, q: q.address.ids._known.clear(), "looks up other ids"),
    "too many ids": (lambda s, q: setattr(s, "settings", NO_IDS), "its limit is 0"),
    "queue id": (lambda s, q: setattr(q, "id", 77), "under the id 77"),
    "message id": (
        lambda s, q: setattr(q.head().message, "id", 77),
        "is message 77",
    ),
}


def test_a_state_that_the_journal_made_is_fine(state: State) -> None:
    assert check(state) == []
    assert check(State()) == []


@pytest.mark.parametrize("what", BREAKS)
def test_it_notices(state: State, what: str) -> None:
    change, expected = BREAKS[what]
    change(state, state.queue_by_name["q"])
    found = check(state)
    assert any(expected in sentence for sentence in found), found
