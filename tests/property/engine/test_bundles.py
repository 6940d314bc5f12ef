"""Laws of subscriptions to several queues: they get what separate ones would together, within one
credit, and acknowledge along one order."""

import random

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST
from daybook.engine.refusals import UNFINISHED, Refusal
from tests.support.paged_world import PagedWorld
from tests.support.world import World

NAMES = ("p.a", "p.b", "p.c", "q")
sends = st.lists(
    st.tuples(st.sampled_from((*NAMES, "/t.a", "/t.b")), st.integers(1, 9), st.integers(0, 9)),
    max_size=30,
)


def send(world: World, name: str, size: int, priority: int) -> int:
    kind = MULTICAST if name.startswith("/") else ANYCAST
    body = b"x" * size
    return world.send(name.removeprefix("/"), body, routing_type=kind, priority=priority)


def parts(connection: int, **values: int) -> list[c.Attach]:
    return [
        c.Attach(connection, "p.#", routing_type=ANYCAST, **values),
        c.Attach(connection, "q", routing_type=ANYCAST),
        c.Attach(connection, "t.*", routing_type=MULTICAST),
        c.Attach(connection, "t.a", routing_type=MULTICAST),
    ]


@given(before=sends, after=sends)
def test_it_gets_what_separate_subscriptions_get_together(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    together, apart = World(), World()
    for world in (together, apart):
        for each in before:
            send(world, *each)
        connection = world.connect()
        if world is together:
            world.ok(c.AttachAll(connection, parts(connection)))
        else:
            for name in NAMES:
                world.attach(connection, name, routing_type=ANYCAST)
            for each in parts(connection)[2:]:
                world.ok(each)
        for each in after:
            send(world, *each)
        world.check()
    # By queue and topic in the order of each; what differs is the turn of the queues.
    assert got(together) == got(apart)


def got(world: World) -> dict[str, list[tuple[bytes, int]]]:
    found: dict[str, list[tuple[bytes, int]]] = {}
    for each in world.deliveries:
        name = world.state.consumers[each.consumer].queue.address.name
        found.setdefault(name, []).append((each.body, each.attempt))
    return {name: sorted(bodies) if name.startswith("t") else bodies
            for name, bodies in found.items()}  # fmt: skip


@given(
    before=sends,
    count=st.integers(0, 4),
    size=st.integers(0, 20),
    seed=st.integers(0, 1 << 32),
    paged=st.booleans(),
)
def test_never_more_than_its_credit_and_in_its_order(
    before: list[tuple[str, int, int]], count: int, size: int, seed: int, paged: bool
) -> None:
    world = PagedWorld(window=1, lag=2) if paged else World()
    draw = random.Random(seed)
    connection = world.connect()
    bundle = world.ok(
        c.AttachAll(connection, parts(connection, credit_messages=count, credit_bytes=size))
    )
    flying: list[tuple[int, int]] = []  # messages and the lengths of their bodies, in order
    sent, settled = 0, 0

    def look() -> None:
        for each in world.taken():
            # There was credit before this one: fewer messages than COUNT, or bytes left.
            assert len(flying) < count or sum(length for _, length in flying) < size
            flying.append((each.message, len(each.body)))

    for each in before:
        send(world, *each)
        sent += {"/t.a": 2}.get(each[0], 1)
        look()
        if flying and draw.random() < 0.6:
            place = draw.randrange(len(flying))
            number = flying[place][0]
            place = [message for message, _ in flying].index(number)
            cumulative = draw.random() < 0.5
            world.ack(bundle, number, cumulative=cumulative)
            gone = place + 1 if cumulative else 1
            del flying[0 if cumulative else place : place + 1]
            settled += gone
            look()
    assert [number for _, number in world.broker.bundles[bundle].order] == [
        number for number, _ in flying
    ]
    while flying:
        world.ack(bundle, flying[-1][0], cumulative=True)
        last = [number for number, _ in flying].index(flying[-1][0])
        settled += last + 1
        del flying[: last + 1]
        look()
    world.check()
    if count or size:
        assert settled == sent, "a message waits though there is credit"


@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=4),
    units=st.integers(1, 40),
    lost=st.integers(0, 200),
)
def test_what_a_kill_leaves_is_a_beginning_of_the_order(
    counts: list[int], units: int, lost: int
) -> None:
    """A cumulative acknowledgement that takes several turns, and a kill between them."""
    world = World()
    connection = world.connect()
    bundle = world.attach_all(connection, *NAMES[: len(counts)])
    for name, count in zip(NAMES, counts, strict=False):
        for _ in range(count):
            send(world, name, 1, 4)
    order = [each.message for each in world.taken()]
    begun = len(world.journal)
    answer: int | Refusal = UNFINISHED
    while answer is UNFINISHED:
        world.broker.budget.allow(units)
        answer = world.handle(c.Settle(bundle, order[-1], True))
        world.turn()
    world.lose(min(len(world.journal), begun + lost))
    left = {entry.message.id for name in NAMES[: len(counts)] for entry in world.entries(name)}
    assert left == set(order[len(order) - len(left) :])
