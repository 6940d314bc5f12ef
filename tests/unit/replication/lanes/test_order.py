"""Which lanes get a block at once, and when the others get it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.places import Place
from daybook.replication.lanes import order as order_module
from daybook.replication.lanes.lanes import _send
from daybook.replication.lanes.order import LaneOrder
from daybook.replication.messages import Blocks
from daybook.replication.wire import LANE_BYTES_MAX, FrameReader


class FakeLane:
    """A lane that keeps what is sent, and ends with the next block if it `breaks`."""

    def __init__(self, breaks: Callable[[], object] = lambda: None) -> None:
        self.blocks: list[Blocks] = []
        self._reader = FrameReader()
        self._reader.trust()
        self._breaks = breaks

    def send(self, frame: bytes, end: Place) -> None:
        messages: list[object] = []
        while frame:
            buffer = self._reader.buffer()
            size = min(len(buffer), len(frame))
            buffer[:size] = frame[:size]
            messages += self._reader.received(size)
            frame = frame[size:]
        [message] = messages
        assert isinstance(message, Blocks)
        assert message.place.offset + len(message.data) == end.offset
        self.blocks.append(message)
        self._breaks()

    @property
    def bytes(self) -> bytes:
        return b"".join(each.data for each in self.blocks)


def order_of(names: str, in_front: int = 1) -> tuple[LaneOrder[Any], dict[str, Any]]:
    later = asyncio.get_running_loop().call_later
    order: LaneOrder[Any] = LaneOrder(in_front, _send, later)
    lanes: dict[str, Any] = {name: FakeLane() for name in names}
    for name, lane in lanes.items():
        order.add(name, lane)
    return order, lanes


def place(offset: int) -> Place:
    return Place(1, offset)


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(bounded())


def test_a_spare_lane_gets_what_follows_together_a_moment_later() -> None:
    async def scene() -> None:
        order, lanes = order_of("bc")
        for offset, data in ((0, b"one"), (3, b"two"), (6, b"three")):
            order.send(place(offset), data)
        assert [each.data for each in lanes["b"].blocks] == [b"one", b"two", b"three"]
        assert not lanes["c"].blocks
        while not lanes["c"].blocks:
            await asyncio.sleep(0.001)
        assert lanes["c"].blocks == [Blocks(place(0), b"onetwothree")]

    run(scene)


def test_what_does_not_follow_or_is_much_is_not_held_back() -> None:
    async def scene() -> None:
        order, lanes = order_of("bc")
        order.send(place(0), b"one")
        # A large block lies between them, which the node ships.
        order.send(place(100_000), b"two")
        assert lanes["c"].blocks == [Blocks(place(0), b"one")]
        for number in range(3):
            order.send(place(100_003 + number * 30_000), bytes(30_000))
        assert [len(each.data) for each in lanes["c"].blocks] == [3, 60_003]
        assert max(len(each.data) for each in lanes["c"].blocks) <= LANE_BYTES_MAX
        order.close()

    run(scene)


def test_the_one_that_answers_first_is_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "SPARE_SECONDS", 0.0)

    async def scene() -> None:
        order, lanes = order_of("bcd", in_front=2)
        order.send(place(0), b"one")
        order.acked("b", place(3))
        await asyncio.sleep(0.001)
        assert lanes["d"].bytes == b"one"
        order.acked("d", place(3))
        assert order.names == ["d", "b", "c"], "c has not answered"
        order.acked("c", place(3))
        assert order.names == ["d", "b", "c"], "two had it before"
        order.send(place(3), b"two")
        assert lanes["d"].bytes == lanes["b"].bytes == b"onetwo"
        assert lanes["c"].bytes == b"one"
        order.close()

    run(scene)


def test_where_one_in_front_ends_the_next_one_has_everything() -> None:
    async def scene() -> None:
        order, lanes = order_of("bc")
        order.send(place(0), b"one")
        assert order.remove("b")
        assert not order.remove("b")
        assert lanes["c"].bytes == b"one"
        order.send(place(3), b"two")
        assert lanes["c"].bytes == b"onetwo"
        assert len(order) == 1

    run(scene)


def test_a_spare_lane_that_ends_while_it_is_written_to_is_left() -> None:
    async def scene() -> None:
        order, lanes = order_of("bd")
        order.add("c", FakeLane(lambda: order.remove("c")))
        order.send(place(0), b"one")
        order.remove("b")
        assert order.names == ["d"]
        assert lanes["d"].bytes == b"one"
        assert lanes["b"].bytes == b"one"

    run(scene)


def test_one_that_ends_as_it_moves_to_the_front_is_left() -> None:
    async def scene() -> None:
        order, lanes = order_of("b")
        order.add("c", FakeLane(lambda: order.remove("c")))
        order.send(place(0), b"one")
        order.acked("c", place(3))
        assert order.names == ["b"]
        order.acked("c", place(3))
        order.send(place(3), b"two")
        assert lanes["b"].bytes == b"onetwo"

    run(scene)


ACTS = st.lists(
    st.tuples(st.sampled_from(["send", "skip", "ack", "remove", "add"]), st.integers(0, 4)),
    max_size=60,
)


@given(ACTS, st.integers(1, 3))
def test_every_lane_gets_every_block_while_it_is_open(
    acts: list[tuple[str, int]], in_front: int
) -> None:
    async def scene() -> None:
        order, lanes = order_of("abc", in_front)
        begun = dict.fromkeys(lanes, 0)
        end, sent = 0, dict[int, int]()
        for act, number in acts:
            name = "abcde"[number]
            if act == "send":
                order.send(place(end), bytes([number]))
                sent[end] = number
                end += 1
            elif act == "skip":
                end += 10
            elif act == "ack" and name in order.names:
                had = lanes[name].blocks
                order.acked(name, place(had[-1].place.offset + len(had[-1].data) if had else 0))
            elif act == "remove":
                order.remove(name)
            elif act == "add" and name not in order.names:
                lanes[name], begun[name] = FakeLane(), end
                order.add(name, lanes[name])
        order.close()
        order._give_spare()
        for name in order.names:
            got = {
                each.place.offset + index: value
                for each in lanes[name].blocks
                for index, value in enumerate(each.data)
            }
            wanted = {offset: value for offset, value in sent.items() if offset >= begun[name]}
            assert wanted.items() <= got.items() <= sent.items()

    run(scene)
