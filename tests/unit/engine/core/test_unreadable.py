"""An unreadable message stops only its queue, which waits; all others continue."""

import pytest

from daybook.engine.commands import (
    CreateQueue,
    DeleteQueue,
    DeliverDue,
    DeliverScheduled,
    ExpireDue,
    RetryHeld,
)
from daybook.engine.core import unreadable
from daybook.engine.core.residency import page_out
from daybook.engine.core.unreadable import REST_US
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import ContentError, Loaded, Queue
from daybook.engine.queues.window import Window
from daybook.engine.refusals import Code
from tests.support.models.memory_store import MemoryStore
from tests.support.world import World

MANY = 1 << 40


class DamagedStore(MemoryStore):
    """Content of some queues cannot be read."""

    bad: str = ""
    tried = 0
    unread: frozenset[int] | set[int] = frozenset()
    filled = 0

    def load(self, queue: Queue, priority: int, after: int, window: Window) -> Loaded:
        self.tried += 1
        if queue.name == self.bad:
            raise ContentError("segment 7 is damaged")
        return super().load(queue, priority, after, window)

    def fill(self, messages: list[Message]) -> None:
        held = self.state.queue_by_name[self.bad].entries if self.bad else {}
        self.filled += 1
        if any(message.id in held or message.id in self.unread for message in messages):
            raise ContentError("segment 7 is damaged")
        super().fill(messages)


@pytest.fixture
def world() -> World:
    """Two queues whose messages are in the store only; `damaged` cannot be read."""
    world = World()
    store = DamagedStore(world.journal)
    world.state.attach_store(store)
    for number in range(3):
        world.send("damaged", b"%d" % number)
        world.send("sound", b"%d" % number)
    store.advance(len(world.journal))
    for name in ("damaged", "sound"):
        page_out(world.queue(name), store.indexed_lsn, 0, 0)
    store.bad = "damaged"
    return world


def store_of(world: World) -> DamagedStore:
    store = world.state.store
    assert isinstance(store, DamagedStore)
    return store


def test_others_go_on_and_it_is_told_once(world: World) -> None:
    peer = world.connect()
    for name in ("damaged", "sound"):
        world.attach(peer, name, credit_messages=10)
    assert world.taken_bodies() == [b"0", b"1", b"2"]
    assert unreadable.describe(world.broker) == [
        {"queue": "damaged", "why": "segment 7 is damaged"}
    ]
    for _ in range(3):
        world.sleep(REST_US / 1_000_000)
        world.broker.look_again(world.now)
        world.turn()
    waits = [text for text in world.broker.notices if "segment 7" in text]
    assert len(waits) == 1
    assert not world.taken()


def test_it_is_not_read_over_and_over(world: World) -> None:
    peer = world.connect()
    world.attach(peer, "damaged", credit_messages=10)
    tried = store_of(world).tried
    for number in range(20):
        world.send("damaged", b"more %d" % number)
        world.broker.look_again(world.now)
        world.turn()
    assert store_of(world).tried == tried


def test_it_goes_on_by_itself_when_it_can_be_read_again(world: World) -> None:
    peer = world.connect()
    world.attach(peer, "damaged", credit_messages=10)
    assert not world.taken()
    store_of(world).bad = ""
    world.sleep(REST_US / 1_000_000)
    world.broker.look_again(world.now)
    world.turn()
    assert world.taken_bodies() == [b"0", b"1", b"2"]
    assert world.broker.notices[-1] == "queue 'damaged' can be read again"
    assert unreadable.describe(world.broker) == []


def test_a_queue_that_nobody_asks_for_is_told_of_until_it_can_be_read(world: World) -> None:
    consumer = world.attach(world.connect(), "damaged", credit_messages=10)
    world.turn()
    world.detach(consumer)
    for bad in ("damaged", "damaged", ""):
        assert [each["queue"] for each in unreadable.describe(world.broker)] == ["damaged"]
        store_of(world).bad = bad
        world.sleep(REST_US / 1_000_000)
        world.broker.look_again(world.now)
    assert unreadable.describe(world.broker) == []


def test_a_queue_that_is_deleted_is_told_of_no_more(world: World) -> None:
    consumer = world.attach(world.connect(), "damaged", credit_messages=10)
    world.turn()
    world.detach(consumer)
    store_of(world).bad = ""
    world.ok(DeleteQueue("damaged", force=True))
    world.broker.look_again(world.now)
    assert unreadable.describe(world.broker) == []


def test_what_expires_and_cannot_be_read_is_moved_later(world: World) -> None:
    world.settings(damaged={"expiry-address": "late"}, sound={"expiry-address": "late"})
    store = store_of(world)
    store.bad = ""
    for name in ("damaged", "sound"):
        world.send(name, b"expires", expires=world.now // 1000 + 1000)
    store.advance(len(world.journal))
    for name in ("damaged", "sound"):
        page_out(world.queue(name), store.indexed_lsn, 0, 0)
    world.sleep(2)
    store.bad = "damaged"
    world.ok(ExpireDue())
    assert world.bodies("late") == [b"expires"]
    assert world.queue("damaged").ready_count == 4
    store.bad = ""
    world.ok(ExpireDue())
    assert world.bodies("late") == [b"expires", b"expires"]


def test_a_last_attempt_that_fails_is_held_until_it_can_be_moved(world: World) -> None:
    world.settings(damaged={"max-delivery-attempts": 1, "dead-letter-address": "dead"})
    store = store_of(world)
    store.bad = ""
    consumer = world.attach(world.connect(), "damaged", credit_messages=10)
    taken = world.taken(consumer)
    for delivery in taken:
        # As after a start, when what was in flight comes from the index.
        message = world.queue("damaged").entries[delivery.message].message
        message.headers, message.body, message.resident = b"", b"", False
    store.bad = "damaged"
    for delivery in taken:
        world.nack(consumer, delivery.message)
    assert "its content cannot be read: segment 7 is damaged" in world.broker.notices[-1]
    assert [event.name for event in world.journal[-2:]] == ["Returned", "Held"]
    # Its new address is a change, after which all that is held is looked at.
    world.ok(RetryHeld())
    assert not world.broker.retry_due
    world.sleep(REST_US / 1_000_000)
    world.broker.look_again(world.now)
    assert world.broker.retry_due
    world.ok(RetryHeld())
    assert not world.broker.retry_due
    assert world.queue("damaged").held_count == 3
    store.bad = ""
    world.sleep(REST_US / 1_000_000)
    world.broker.look_again(world.now)
    world.ok(RetryHeld())
    assert world.bodies("dead") == [b"0", b"1", b"2"]


def _schedule(world: World) -> int:
    """Put a scheduled message with a value into `values`; its content is in the store only."""
    world.ok(CreateQueue("values", QueueDefinition(name="values", last_value_key="k")))
    due = world.now // 1000 + 1000
    message = world.send("values", b"0", due=due, headers={"k": "v"})
    store = store_of(world)
    store.advance(len(world.journal))
    page_out(world.queue("values"), store.indexed_lsn, 0, 0)
    return message


def test_a_value_that_is_due_and_cannot_be_read_stays_scheduled(world: World) -> None:
    message = _schedule(world)
    store = store_of(world)
    store.unread = {message}
    world.sleep(2)
    world.ok(DeliverDue())
    assert world.queue("values").scheduled_count == 1
    notice = f"message {message} of queue 'values' is due and stays scheduled"
    assert notice in world.broker.notices[-1]
    notices, tried = len(world.broker.notices), store.filled
    for _ in range(3):
        world.ok(DeliverDue())
    assert (len(world.broker.notices), store.filled) == (notices, tried)
    assert world.refused(DeliverScheduled("values")).code is Code.NOT_FOUND
    # A newer one comes meanwhile, and is replaced when the older one is due at last.
    world.send("values", b"newer", headers={"k": "v"})
    world.sleep(REST_US / 1_000_000)
    assert world.broker.wakes(world.now)
    store.unread = set()
    world.ok(DeliverDue())
    assert world.bodies("values") == [b"0"]
    assert not world.broker.work.unread_due
    world.check()
