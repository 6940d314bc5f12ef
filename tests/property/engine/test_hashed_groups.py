"""Groups by consistent hashing: one consumer at a time, in order, and to the end."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.events import GROUPED
from daybook.engine.facts.formats import LINES
from tests.support.paged_world import PagedWorld
from tests.support.topology import create_queue
from tests.support.world import World

FILTERS = ("", "", "", "kind=x", "not kind=x")
NUMBERS = st.integers(0, 11)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("send", "send", "send", "attach", "detach", "ack", "ack", "nack")),
        NUMBERS,
        NUMBERS,
    ),
    max_size=60,
)


class Run:
    """A queue with hashing, and what was sent to it."""

    def __init__(self, world: World, *, is_choosy: bool) -> None:
        self.world = world
        self.is_choosy = is_choosy
        world.ok(create_queue("q", "q", group_hashing=True))
        self.consumers: list[int] = []
        self.sent: dict[str, list[int]] = defaultdict(list)
        # What was delivered first, and nobody rejected or left since, by group.
        self.taken: dict[str, list[int]] = defaultdict(list)
        self.group: dict[int, str] = {}
        self.returned: set[int] = set()
        # Who got the latest message of each group since consumers came or left.
        self.last: dict[str, int] = {}

    def step(self, what: str, x: int, y: int) -> None:
        world = self.world
        if what == "send":
            group = f"g{x}"
            headers = {"JMSXGroupID": group, "kind": "xyz"[y % 3]}
            message = world.send("q", b"", headers=headers, format=LINES | GROUPED)
            self.sent[group].append(message)
            self.group[message] = group
        elif what == "attach" and len(self.consumers) < 6:
            chosen = FILTERS[y % 5] if self.is_choosy else ""
            credit = {"credit_messages": 1 + x, "credit_bytes": 0}
            priority = 1 if self.is_choosy and x % 4 == 3 else 0
            number = world.attach(world.connect(), "q", filter=chosen, priority=priority, **credit)
            self.consumers.append(number)
            self.last.clear()
        elif what == "detach" and self.consumers:
            number = self.consumers.pop(x % len(self.consumers))
            self.returned.update(world.state.consumers[number].unacked)
            world.detach(number)
            self.last.clear()
        elif what in ("ack", "nack") and self.consumers:
            number = self.consumers[x % len(self.consumers)]
            flying = list(world.state.consumers[number].unacked)
            if flying:
                message = flying[y % len(flying)]
                if what == "nack":
                    self.returned.add(message)
                (world.ack if what == "ack" else world.nack)(number, message)
        self.look()

    def look(self) -> None:
        """Check the groups of each consumer."""
        holders: dict[str, set[int]] = defaultdict(set)
        for number in self.consumers:
            for message in self.world.state.consumers[number].unacked:
                holders[self.group[message]].add(number)
        for group, found in holders.items():
            assert len(found) == 1, f"{group} is with {found}"
        for delivery in self.world.taken():
            message, consumer = delivery.message, delivery.consumer
            if not self.is_choosy:
                assert self.last.setdefault(self.group[message], consumer) == consumer
            if message not in self.returned:
                taken = self.taken[self.group[message]]
                # With filters, what one consumer has no credit for does not delay the others.
                assert self.is_choosy or not taken or taken[-1] < message
                taken.append(message)

    def finish(self) -> None:
        """With one more consumer that wants everything, everything is delivered."""
        world = self.world
        self.step("attach", 11, 0)
        if not self.consumers:
            return
        left = [None]
        while left:
            left = []
            for number in self.consumers:
                for message in list(world.state.consumers[number].unacked):
                    world.ack(number, message)
                    left.append(None)
                    self.look()
        queue = world.state.queue_by_name["q"]
        wanted = [world.state.consumers[each].matcher for each in self.consumers]
        assert not queue.ready_count or None not in wanted
        assert not queue.in_flight_count
        assert world.state.groups.flying == 0
        world.check()


@pytest.mark.parametrize("is_choosy", [False, True])
@given(steps=STEPS)
def test_one_consumer_at_a_time_in_order_and_to_the_end(
    is_choosy: bool, steps: list[tuple[str, int, int]]
) -> None:
    journals = []
    for world in (World(), PagedWorld(window=1, lag=2)):
        run = Run(world, is_choosy=is_choosy)
        for step in steps:
            run.step(*step)
        run.finish()
        journals.append(world.journal)
    # In memory and paged, it decides alike.
    assert journals[0] == journals[1]
