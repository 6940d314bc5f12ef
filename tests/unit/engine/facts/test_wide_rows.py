"""Rows whose ids of address and queue need more than four bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.commands import CreateQueue
from daybook.engine.facts import events
from daybook.engine.facts.definitions import QueueDefinition
from daybook.engine.facts.events import ADDRESS, ID_MAX, QUEUE, ROW_STRUCT, SHORT_ID_MAX
from daybook.engine.facts.rows import (
    BARE_STRUCT,
    TAKEN_STRUCT,
    TAKER_STRUCT,
    RowHead,
    pack_wide,
    unpack_wide,
)
from tests.support.world import World
from tests.support.worlds.wide import NEAR, ids_from


@pytest.mark.parametrize("address", [0, 1, SHORT_ID_MAX, SHORT_ID_MAX + 1, ID_MAX])
@pytest.mark.parametrize("queue", [0, 1, SHORT_ID_MAX, SHORT_ID_MAX + 1, ID_MAX])
def test_every_id_comes_back(address: int, queue: int) -> None:
    row = (17, 1, 2, address, queue, 4, 5, 6, 7, 8, 9, 10)
    packed = pack_wide(row, 11, 12, 13)
    assert unpack_wide(packed) == (row, (11, 12, 13))
    if max(address, queue) <= SHORT_ID_MAX:
        assert packed == ROW_STRUCT.pack(*row, 11, 12, 13)


def test_what_no_row_can_have_is_refused() -> None:
    for place, value in (
        (ADDRESS, ID_MAX + 1),
        (QUEUE, ID_MAX + 1),
        (events.DELIVERY_COUNT, 70000),
    ):
        row = list(events.row(events.ROUTED))
        row[place] = value
        with pytest.raises(struct.error):
            pack_wide(tuple(row), 0, 0, 0)  # type: ignore[arg-type]


bytes_of_one = st.integers(0, 255)
heads = st.tuples(
    bytes_of_one, st.integers(0, 65_535), st.integers(0, 3), st.integers(0, 3), bytes_of_one,
    bytes_of_one,
)  # fmt: skip


@given(st.lists(heads, max_size=8))
def test_a_head_that_is_kept_is_that_of_the_row(several: list[tuple[int, ...]]) -> None:
    head = RowHead(7)
    for columns in several:
        row = (7, *columns, 11, 12, 13, 0, 14)
        packed = head.pack(*columns)
        who = TAKER_STRUCT.pack(12, 13, 0)
        assert TAKEN_STRUCT.pack(packed, 11, who, 14) == BARE_STRUCT.pack(*row)


def test_a_head_of_a_wide_row_is_refused_and_not_kept() -> None:
    head = RowHead(7)
    kept = head.pack(1, 2, 3, 4, 5, 6)
    for _ in range(2):
        with pytest.raises(struct.error):
            head.pack(1, 2, SHORT_ID_MAX + 1, 4, 5, 6)
        assert head.pack(1, 2, 3, 4, 5, 6) == kept


def test_the_hot_paths_write_wide_rows_too() -> None:
    """Routed, Delivered and Acknowledged write their rows themselves."""
    with ids_from():
        world = World()
        for name in "abc":
            world.ok(CreateQueue(name, QueueDefinition(name=name)))
        consumer = world.attach(world.connect(), "c", credit_messages=1)
        world.ack(consumer, world.send("c", b"one"))
        world.restart()
    written = {event.name: (event.row[ADDRESS], event.row[QUEUE]) for event in world.journal}
    for name in ("Routed", "Delivered", "Acknowledged"):
        assert written[name] == (NEAR + 2, NEAR + 2)
