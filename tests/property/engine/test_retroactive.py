"""Whenever a queue is created: it has the last n messages that pass its filter, and all after.

In slices of any size, while messages are sent, over restarts, paged and not.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.messages.headers import build
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from tests.property.paging.test_index_fold import fold_in_batches
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World, fold

KEPT = 5
FILTERS = ("", "", "kind=big", "not kind=big")
HISTORY = "$.artemis.internal.news.queue.multicast.retro"

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("send", "send", "send", "many", "create", "slice", "slice", "restart", "purge")
        ),
        st.integers(0, 11),
    ),
    max_size=30,
)


class Player:
    """Sends and creates queues; knows what each of them must have."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[tuple[int, str]] = []
        self.kept: list[tuple[int, str]] = []
        self.expected: dict[str, tuple[str, list[int]]] = {}
        world.settings(news={"retroactive_message_count": KEPT})
        world.ok(c.CreateAddress("news", (MULTICAST,)))

    def play(self, story: list[tuple[str, int]]) -> None:
        for operation, number in story:
            self.world.now += 5_000
            getattr(self, operation)(number)
            self.world.turn()
            assert check(self.world.state) == []
        self.drain()

    def send(self, number: int) -> None:
        kind = "big" if number % 2 else "small"
        priority = (4, 4, 4, 9, 0)[number % 5]
        self.world.broker.budget.allow(4)
        answer = self.world.handle(
            c.Send(
                0, "news", build([("kind", kind)]), b"%d" % number,
                routing_type=MULTICAST, priority=priority,
                due=self.world.now // 1000 + 20 if number == 7 else 0,
            )
        )  # fmt: skip
        assert isinstance(answer, int)
        routed = [e for e in self._new_events() if e.name == "Routed"]
        (event,) = routed
        self.sent.append((event.lsn, kind))
        self.kept = [*self.kept, (event.lsn, kind)][-KEPT:]
        for name, (wanted, ids) in self.expected.items():
            if self._wants(wanted, kind):
                self.expected[name][1].append(event.lsn)
                assert event.lsn not in ids[:-1]

    def _new_events(self) -> list[Any]:
        before = len(self.world.journal)
        self.world.turn()
        return self.world.journal[before:]

    def many(self, number: int) -> None:
        for each in range(number):
            self.send(each)

    @staticmethod
    def _wants(wanted: str, kind: str) -> bool:
        return not wanted or ("not" in wanted) == (kind != "big")

    def create(self, number: int) -> None:
        name = f"q{len(self.expected)}"
        wanted = FILTERS[number % 4]
        self.world.broker.budget.allow(number // 2)
        self.world.ok(create_queue(name, "news", MULTICAST, filter=wanted))
        ids = [lsn for lsn, kind in self.kept if self._wants(wanted, kind)]
        self.expected[name] = (wanted, ids)

    def slice(self, number: int) -> None:
        self.world.broker.budget.allow(1 + number // 2)
        if self.world.broker.has_more:
            self.world.broker.go_on(self.world.now)

    def restart(self, number: int) -> None:
        self.world.restart()

    def purge(self, number: int) -> None:
        """The rest of the history is gone; queues keep their messages and get new ones."""
        queue = self.world.state.queue_by_name.get(HISTORY)
        if number > 3 or queue is None:
            return
        self.world.broker.budget.allow(1 << 62)
        self.world.ok(c.PurgeQueue(HISTORY, limit=10_000))
        self.kept = []
        for name, (_, ids) in self.expected.items():
            recall = self.world.queue(name).recall
            if recall is not None:
                there = {entry.message.id for entry in self.world.entries(name)}
                ids[:] = [lsn for lsn in ids if lsn in there or lsn > recall.until]

    def drain(self) -> None:
        world = self.world
        while world.broker.has_more:
            world.broker.budget.allow(3)
            world.broker.go_on(world.now)
            world.turn()
        world.broker.budget.allow(1 << 62)
        world.turn()
        assert world.state.recalling == {}
        for name, (_, ids) in self.expected.items():
            assert [entry.message.id for entry in world.entries(name)] == ids, name
        history = world.state.queue_by_name.get(HISTORY)
        if history is not None:
            assert [each.message.id for each in world.entries(HISTORY)] == [i for i, _ in self.kept]
        world.check()


@given(story=steps)
def test_a_new_queue_has_the_last_messages_and_all_after(story: list[tuple[str, int]]) -> None:
    Player(World()).play(story)


@example(story=[("many", 11), ("create", 8), ("slice", 0), ("restart", 0)], window=2, lag=1)
@given(story=steps, window=st.integers(0, 3), lag=st.integers(0, 12))
def test_also_where_almost_nothing_is_in_memory(
    story: list[tuple[str, int]], window: int, lag: int
) -> None:
    world = PagedWorld(window, lag)
    Player(world).play(story)
    assert digest(world.state) == digest(fold(world.journal))


@given(story=steps, cuts=st.lists(st.integers(1, 400), max_size=12), sizes=st.lists(
    st.integers(1, 4), min_size=1, max_size=12))  # fmt: skip
def test_the_index_has_the_same(
    story: list[tuple[str, int]], cuts: list[int], sizes: list[int]
) -> None:
    world = World()
    Player(world).play(story)
    with TemporaryDirectory() as folder:
        fold_in_batches(Path(folder), world.journal, cuts, sizes)
