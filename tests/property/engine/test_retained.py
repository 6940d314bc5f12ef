"""Whenever a queue is created: it has the last retained message of each address that it matches,
and all messages after its creation.

In slices of any size, while messages are sent, over restarts, paged and not.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.names.names import RETAINED_PLACE
from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from tests.property.paging.test_index_fold import fold_in_batches
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World, fold

ADDRESSES = ("a.x", "a.y", "b.x")
PLACES = {"a.x": ("a.x",), "b.x": ("b.x",), "a.*": ("a.x", "a.y"), "#": ADDRESSES}

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("keep", "keep", "keep", "send", "forget", "create", "create", "slice", "restart")
        ),
        st.integers(0, 11),
    ),
    max_size=30,
)


class Player:
    """Sends and creates queues; knows what each of them must have."""

    def __init__(self, world: World, *, has_history: bool = False) -> None:
        self.world = world
        self.kept: dict[str, int] = {}
        # By queue: its place, what it must have, and what it may have beyond: messages that were
        # replaced or forgotten while its recall was under way.
        self.expected: dict[str, tuple[str, set[int], set[int]]] = {}
        if has_history:
            world.settings(b__x={"retroactive_message_count": 1})
        self.has_history = has_history
        self.last = 0
        for name in ADDRESSES:
            world.ok(c.CreateAddress(name, (MULTICAST,)))

    def play(self, story: list[tuple[str, int]]) -> None:
        for operation, number in story:
            self.world.now += 5_000
            getattr(self, operation)(number)
            self.world.turn()
            assert check(self.world.state) == []
        self.drain()

    def _send(self, number: int, retain: int) -> tuple[str, int]:
        address = ADDRESSES[number % 3]
        self.world.turn()
        before = len(self.world.journal)
        self.world.broker.budget.allow(4)
        command = c.Send(
            0, address, b"", b"%d" % number, MULTICAST, priority=number % 10, retain=retain
        )
        assert isinstance(self.world.handle(command), int)
        self.world.turn()
        sent = [each.lsn for each in self.world.journal[before:] if each.name == "Routed"]
        for place, must, _ in self.expected.values():
            if address in PLACES[place]:
                must.update(sent)
        if self.has_history and address == "b.x":
            (self.last,) = sent
        return address, sent[0] if sent else 0

    def _loses(self, address: str) -> None:
        """Queues that were still to get the message may have it or not."""
        gone = self.kept.pop(address, 0)
        for name, (_, must, may) in self.expected.items():
            if gone in must and self.world.queue(name).recall is not None:
                must.discard(gone)
                may.add(gone)

    def keep(self, number: int) -> None:
        address = ADDRESSES[number % 3]
        self._loses(address)
        _, self.kept[address] = self._send(number, c.RETAIN_SET)

    def send(self, number: int) -> None:
        self._send(number, 0)

    def forget(self, number: int) -> None:
        address = ADDRESSES[number % 3]
        self._loses(address)
        if number < 6:
            self._send(number, c.RETAIN_REMOVE)
        else:
            self.world.ok(c.ForgetRetained(address))

    def create(self, number: int) -> None:
        name = f"q{len(self.expected)}"
        place = tuple(PLACES)[number % 4]
        self.world.broker.budget.allow(number // 2)
        self.world.ok(create_queue(name, place, MULTICAST))
        must = {self.kept[each] for each in PLACES[place] if each in self.kept}
        if self.last and "b.x" in PLACES[place]:
            must.add(self.last)
        self.expected[name] = (place, must, self._not_left_yet(place) - must)

    def _not_left_yet(self, place: str) -> set[int]:
        """What a history has though it is too long: as long as an earlier queue reads it, and until
        a later slice of work."""
        histories = [each for each in self.world.state.histories.values() if not each.retains]
        if "b.x" not in PLACES[place]:
            return set()
        return {number for each in histories for number in each.entries}

    def slice(self, number: int) -> None:
        self.world.broker.budget.allow(1 + number // 2)
        if self.world.broker.has_more:
            self.world.broker.go_on(self.world.now)

    def restart(self, number: int) -> None:
        self.world.restart()

    def drain(self) -> None:
        world = self.world
        while world.broker.has_more:
            world.broker.budget.allow(3)
            world.broker.go_on(world.now)
            world.turn()
        world.broker.budget.allow(1 << 62)
        world.turn()
        assert world.state.recalling == {}
        for name, (_, must, may) in self.expected.items():
            found = [entry.message.id for entry in world.entries(name)]
            assert found == sorted(set(found)), name
            assert must <= set(found) <= must | may, name
        if RETAINED_PLACE in world.state.queue_by_name:
            found = [entry.message.id for entry in world.entries(RETAINED_PLACE)]
            assert found == sorted(self.kept.values())
        world.check()


@given(story=steps, has_history=st.booleans())
def test_a_new_queue_has_the_retained_messages_and_all_after(
    story: list[tuple[str, int]], has_history: bool
) -> None:
    Player(World(), has_history=has_history).play(story)


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
