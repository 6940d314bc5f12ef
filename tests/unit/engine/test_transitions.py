"""Every input in every place, carried out by a broker, does what the table of transitions says."""

from collections.abc import Callable

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.life import GONE, IN_FLIGHT, ON_HOLD, ON_SCHEDULE, READY
from daybook.engine.facts.settlements import ACCEPTED, FAILED, REJECTED, RELEASED
from tests.support.models.transitions import (
    ACCEPT,
    COME,
    DELAYED_FAIL,
    DELETE,
    DELIVER,
    EXPIRE,
    FAIL,
    HURRY,
    INPUTS,
    LAST_FAIL,
    LEAVE,
    LOSE,
    MOVE,
    PLACES,
    PURGE,
    REJECT,
    RELEASE,
    START,
    STUCK_FAIL,
    TRANSITIONS,
    UNHOLD,
    WAY,
    transition,
)
from tests.support.topology import create_queue
from tests.support.world import World

QUEUE = "orders"
LIVES_MS = 60_000
DELAY_MS = 10_000


class Scene:
    """A queue with one message in a place, and the means to give it any input."""

    def __init__(self, place: str) -> None:
        self.world = World()
        self.connection = self.world.connect()
        # Held messages are to be dead-lettered without a place; none may expire first.
        may_expire = place in (READY, IN_FLIGHT, ON_SCHEDULE)
        expires = self.world.now // 1000 + LIVES_MS if may_expire else 0
        self.settle_rules(attempts=1 if place == ON_HOLD else 10, way=place != ON_HOLD)
        self.message = self.world.send(QUEUE, b"it", expires=expires)
        self.consumer = 0
        getattr(self, "_" + place.replace(" ", "_"))()
        assert self.place() == place

    def settle_rules(self, *, attempts: int, way: bool, delay: int = 0) -> None:
        target = {"dead_letter_address": "dead"} if way else {}
        rules = {"max_delivery_attempts": attempts, "redelivery_delay": delay}
        self.world.settings(all={**rules, **target})

    def take(self) -> None:
        self.consumer = self.world.attach(self.connection, QUEUE)

    def _ready(self) -> None:
        """It is."""

    def _in_flight(self) -> None:
        self.take()

    def _held(self) -> None:
        self.take()
        self.world.nack(self.consumer, self.message)
        self.world.detach(self.consumer)

    def _scheduled(self) -> None:
        self.take()
        self.settle_rules(attempts=10, way=True, delay=DELAY_MS)
        self.world.nack(self.consumer, self.message)
        self.settle_rules(attempts=10, way=True)
        self.world.detach(self.consumer)

    def _gone(self) -> None:
        self.take()
        self.world.ack(self.consumer, self.message)

    def place(self) -> str:
        queue = self.world.state.queue_by_name.get(QUEUE)
        entry = queue.find(self.message) if queue is not None else None
        return entry.place if entry is not None else GONE

    def give(self, command: c.Command) -> None:
        """Carry a command out, which may be refused."""
        self.world.handle(command)
        self.world.turn()

    def settle(self, outcome: int) -> None:
        self.give(c.Settle(self.consumer, self.message, outcome=outcome))

    def said(self, lsn: int) -> tuple[int, ...]:
        """Kinds of the events about this entry after an LSN."""
        about = [e for e in self.world.journal[lsn:] if e.row[events.MESSAGE] == self.message]
        return tuple(each.row[events.KIND] for each in about)


def fail(scene: Scene, *, attempts: int, way: bool, delay: int = 0) -> None:
    scene.settle_rules(attempts=attempts, way=way, delay=delay)
    # The consumer must not take it again.
    scene.give(c.Credit(scene.consumer, -1_000_000, -1_000_000))
    scene.settle(FAILED)


def without_another(scene: Scene, step: Callable[[], None]) -> None:
    """So that what comes back is not delivered again at once."""
    scene.give(c.Credit(scene.consumer, -1_000_000, -1_000_000))
    step()


def expire(scene: Scene) -> None:
    scene.world.sleep(2 * LIVES_MS / 1000)
    scene.give(c.ExpireDue())


def move(scene: Scene) -> None:
    scene.give(create_queue("target", "target"))
    scene.give(c.ActOnMessages(QUEUE, "move", target="target"))


def come(scene: Scene) -> None:
    scene.world.sleep(DELAY_MS / 1000)
    scene.give(c.DeliverDue())


def find_a_way(scene: Scene) -> None:
    scene.settle_rules(attempts=1, way=True)
    scene.world.retry()


def leave(scene: Scene) -> None:
    if scene.consumer in scene.world.state.consumers:
        scene.world.detach(scene.consumer)


GIVE: dict[str, Callable[[Scene], None]] = {
    DELIVER: lambda s: s.take(),
    ACCEPT: lambda s: s.settle(ACCEPTED),
    RELEASE: lambda s: without_another(s, lambda: s.settle(RELEASED)),
    REJECT: lambda s: s.settle(REJECTED),
    FAIL: lambda s: fail(s, attempts=10, way=True),
    LAST_FAIL: lambda s: fail(s, attempts=1, way=True),
    STUCK_FAIL: lambda s: fail(s, attempts=1, way=False),
    DELAYED_FAIL: lambda s: fail(s, attempts=10, way=True, delay=DELAY_MS),
    LEAVE: leave,
    LOSE: lambda s: s.give(c.CloseConnection(s.connection, reasons.DISCONNECTED)),
    EXPIRE: expire,
    COME: come,
    PURGE: lambda s: s.give(c.PurgeQueue(QUEUE)),
    MOVE: move,
    DELETE: lambda s: s.give(c.DeleteQueue(QUEUE, force=True)),
    UNHOLD: lambda s: s.give(c.ReleaseHeld(QUEUE)),
    HURRY: lambda s: s.give(c.DeliverScheduled(QUEUE)),
    WAY: find_a_way,
    START: lambda s: s.world.restart(),
}


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("place", PLACES)
def test_every_input_in_every_place(place: str, given: str) -> None:
    scene = Scene(place)
    before = scene.world.broker.lsn
    GIVE[given](scene)
    expected = transition(place, given)
    assert (scene.place(), scene.said(before)) == (expected.after, expected.kinds)
    scene.world.check()


def test_the_table_agrees_with_the_table_of_events() -> None:
    for (place, given), (after, kinds) in TRANSITIONS.items():
        assert (place in PLACES, after in PLACES, given in INPUTS) == (True, True, True)
        at = place
        for kind in kinds:
            life = events.BY_NUMBER[kind].life
            assert life is not None
            assert at in life.before
            at = life.after
        assert at == after or not kinds


@pytest.mark.parametrize(
    ("outcome", "count", "kind"),
    [(RELEASED, 0, "given-back"), (FAILED, 1, "nack")],
)
def test_what_an_outcome_means_for_the_count(outcome: int, count: int, kind: str) -> None:
    scene = Scene(IN_FLIGHT)
    without_another(scene, lambda: scene.settle(outcome))
    assert scene.world.counts(QUEUE) == {b"it": count}
    (returned,) = scene.world.events_named("Returned")
    assert reasons.REASONS[returned.row[events.REASON]][0] == kind
    # That it was delivered before is a fact of its own.
    assert scene.world.entries(QUEUE)[0].redelivered


def test_an_outcome_that_does_not_exist_is_refused() -> None:
    scene = Scene(IN_FLIGHT)
    refusal = scene.world.refused(c.Settle(scene.consumer, scene.message, outcome=9))
    assert refusal.text == "there is no outcome 9"
