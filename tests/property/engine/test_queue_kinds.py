"""Kinds of queues in one: rings, last values and readers, with everything that moves messages."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.settlements import FAILED, RELEASED
from daybook.engine.messages.content import view_of
from daybook.engine.queues.entry import IN_FLIGHT, Entry
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.paging.fold import fold
from daybook.paging.tables import last_values
from tests.property.paging.test_index_fold import fold_in_batches
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

OPERATIONS = (
    "send", "send", "send", "send", "send", "send", "attach", "attach", "ack", "ack", "nack",
    "release", "detach", "lose", "purge", "sleep", "restart", "abort", "commit", "size", "credit",
    "switch",
)  # fmt: skip

kinds = st.fixed_dictionaries(
    {
        "ring_size": st.sampled_from((-1, -1, 0, 1, 3)),
        "last_value_key": st.sampled_from(("", "k", "k")),
        "non_destructive": st.sampled_from((False, False, True)),
        "exclusive": st.sampled_from((False, False, True)),
    }
)
stories = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.booleans()), max_size=60
)
delays = st.sampled_from((0, 40))


class Player:
    """Plays a story on one world, and looks at the laws after each turn."""

    def __init__(self, world: World, kind: dict[str, Any], delay: int) -> None:
        self.world = world
        self.kind = kind
        settings = {"redelivery_delay": delay, "max_delivery_attempts": 3, "expiry_address": "late"}
        world.settings(q=settings)
        world.ok(create_queue("q", "q", **kind))
        self.begin()

    def begin(self) -> None:
        self.connection = self.world.connect()
        self.consumers: list[int] = []

    def play(self, story: list[tuple[str, int, bool]]) -> None:
        for operation, number, is_last in story:
            self.world.now += 7_000
            getattr(self, operation)(number)
            if is_last:
                self.turn()
        self.turn()

    def turn(self) -> None:
        world = self.world
        world.turn()
        world.ok(c.DeliverDue(100))
        world.ok(c.ExpireDue(100))
        queue = world.queue("q")
        assert check(world.state) == []
        if self.kind["ring_size"] >= 0:
            assert queue.ready_count <= self.kind["ring_size"]
        if self.kind["last_value_key"]:
            # What its sender scheduled is no value yet.
            waiting = [e for e in world.entries("q") if e.state != IN_FLIGHT and not e.due]
            keys = [key for e in waiting if (key := self.key(e)) is not None]
            assert len(keys) == len(set(keys))

    def key(self, entry: Entry) -> Any:
        return view_of(entry.message).get("k")

    def send(self, number: int) -> None:
        headers = b"k:%d\n" % (number % 3) if number < 9 else b""
        expires = self.world.now // 1000 + 30 if number == 4 else 0
        priority = 7 if number == 2 else 4
        command = c.Send(
            0, "q", headers, b"%d" % number, priority=priority, persistent=number != 5,
            expires=expires, due=self.world.now // 1000 + 40 if number in (3, 8) else 0,
        )  # fmt: skip
        self.world.handle(command)

    def attach(self, number: int) -> None:
        command = c.Attach(
            self.connection, "q", credit_messages=number, acknowledges=number != 7,
            filter="k=1" if number == 5 else "",
        )  # fmt: skip
        answer = self.world.handle(command)
        assert isinstance(answer, int)
        self.consumers.append(answer)

    def settle(self, number: int, outcome: int = 0, transaction: str | None = None) -> None:
        self.world.turn()
        if not self.consumers:
            return
        consumer = self.consumers[number % len(self.consumers)]
        found = self.world.state.consumers[consumer]
        messages = [*found.unacked, *found.shown]
        if messages:
            message = messages[number % len(messages)]
            self.world.handle(c.Settle(consumer, message, number % 2 == 0, transaction, outcome))

    def ack(self, number: int) -> None:
        self.settle(number)

    def nack(self, number: int) -> None:
        self.settle(number, FAILED)

    def release(self, number: int) -> None:
        self.settle(number, RELEASED)

    def abort(self, number: int) -> None:
        self.world.handle(c.Begin(self.connection, "t"))
        self.settle(number, transaction="t")
        self.world.handle(c.Rollback(self.connection, "t"))

    def commit(self, number: int) -> None:
        self.world.handle(c.Begin(self.connection, "t"))
        self.settle(number, transaction="t")
        for each in (number, number + 1):
            self.world.handle(
                c.Send(self.connection, "q", b"k:%d\n" % (each % 3), b"t", transaction="t")
            )
        self.world.handle(c.Commit(self.connection, "t"))

    def detach(self, number: int) -> None:
        if self.consumers:
            self.world.handle(c.Detach(self.consumers.pop(number % len(self.consumers))))

    def lose(self, number: int) -> None:
        reason = (reasons.DISCONNECTED, reasons.CLOSED)[number % 2]
        self.world.handle(c.CloseConnection(self.connection, reason))
        self.begin()

    def purge(self, number: int) -> None:
        self.world.handle(c.PurgeQueue("q", limit=number))

    def sleep(self, number: int) -> None:
        self.world.now += number * 10_000

    def restart(self, number: int) -> None:
        self.world.restart(number)
        self.begin()

    def size(self, number: int) -> None:
        """Only larger: a smaller ring keeps what it has for a while."""
        if 0 <= self.kind["ring_size"] < number:
            self.kind = {**self.kind, "ring_size": number}
            self.world.handle(c.UpdateQueue("q", {"ring_size": number}))

    def switch(self, number: int) -> None:
        change = {"non_destructive": number % 2 == 0, "exclusive": number % 3 == 0}
        self.world.handle(c.UpdateQueue("q", change))

    def credit(self, number: int) -> None:
        if self.consumers:
            consumer = self.consumers[number % len(self.consumers)]
            self.world.handle(c.Credit(consumer, number))


@given(kind=kinds, story=stories, delay=delays)
def test_the_laws_hold_and_a_fold_equals_it(
    kind: dict[str, Any], story: list[tuple[str, int, bool]], delay: int
) -> None:
    player = Player(World(), kind, delay)
    player.play(story)
    player.world.check()


@given(
    kind=kinds,
    story=stories,
    delay=delays,
    window=st.integers(0, 3),
    lag=st.sampled_from((0, 4, 99)),
)
def test_paged_it_is_the_same(
    kind: dict[str, Any],
    story: list[tuple[str, int, bool]],
    delay: int,
    window: int,
    lag: int,
) -> None:
    whole = Player(World(), kind, delay)
    whole.play(story)
    paged = Player(PagedWorld(window, lag), kind, delay)
    paged.play(story)
    assert paged.world.journal == whole.world.journal
    assert paged.world.deliveries == whole.world.deliveries
    assert digest(paged.world.state) == digest(whole.world.state)


@given(kind=kinds, story=stories, delay=delays, sizes=st.lists(st.integers(1, 4), min_size=1))
def test_its_index_is_what_apply_makes(
    kind: dict[str, Any], story: list[tuple[str, int, bool]], delay: int, sizes: list[int]
) -> None:
    player = Player(World(), kind, delay)
    player.play(story)
    journal = player.world.journal
    with (
        TemporaryDirectory() as directory,
        patch.object(fold, "PLAIN_MIN", 1),
        patch.object(last_values, "ROWS_MIN", 1),
    ):
        cuts = list(range(3, len(journal), 5))
        fold_in_batches(Path(directory) / "index", journal, cuts, sizes)
