"""The order of a queue: levels, tombstones, and the way back."""

from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import GONE, IN_FLIGHT, Entry
from daybook.engine.queues.level import COMPACT_TOMBSTONES_MIN
from daybook.engine.queues.queue import Queue
from daybook.engine.state.invariants import _order
from tests.support.topology import new_address, new_queue


def empty_queue() -> Queue:
    return new_queue(1, "q", new_address(1, "a"))


def put(queue: Queue, number: int, priority: int = 4) -> Entry:
    entry = Entry(Message(number, 1, priority, 1, 0, b"", b""))
    queue.entries[number] = entry
    queue.put(entry)
    return entry


def ids(queue: Queue) -> list[int]:
    return [entry.message.id for entry in queue.ready()]


def test_an_empty_queue_has_no_head() -> None:
    queue = empty_queue()
    assert queue.head() is None
    entry = put(queue, 1)
    queue.withdraw(entry, GONE)
    assert queue.head() is None
    assert queue.occupied == 0


def test_the_head_is_the_oldest_of_the_highest_priority() -> None:
    queue = empty_queue()
    for number, priority in ((1, 0), (2, 9), (3, 4), (4, 9)):
        put(queue, number, priority)
    order = []
    while (entry := queue.head()) is not None:
        order.append(entry.message.id)
        queue.withdraw(entry, IN_FLIGHT)
    assert order == [2, 4, 3, 1]


def test_what_leaves_the_middle_leaves_a_tombstone_and_comes_back_to_it() -> None:
    queue = empty_queue()
    entries = [put(queue, number) for number in range(1, 6)]
    queue.withdraw(entries[2], IN_FLIGHT)
    assert (queue.level(4).tombstones, queue.ready_count, ids(queue)) == (1, 4, [1, 2, 4, 5])
    queue.put_back(entries[2])
    assert (queue.level(4).tombstones, ids(queue)) == (0, [1, 2, 3, 4, 5])


def test_many_tombstones_are_cleared_away_and_everything_finds_its_place() -> None:
    queue = empty_queue()
    entries = [put(queue, number) for number in range(1, 4 * COMPACT_TOMBSTONES_MIN)]
    taken = entries[1:-1]
    for entry in taken:
        queue.withdraw(entry, IN_FLIGHT)
    assert queue.level(4).tombstones <= COMPACT_TOMBSTONES_MIN
    for entry in taken[::2] + taken[1::2]:
        queue.put_back(entry)
    assert ids(queue) == list(range(1, 4 * COMPACT_TOMBSTONES_MIN))
    assert queue.level(4).tombstones == 0


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=200),
    st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=300),
)
def test_any_way_out_and_back_keeps_the_order(
    priorities: list[int], moves: list[tuple[bool, int]]
) -> None:
    queue = empty_queue()
    out: list[Entry] = []
    for number, priority in enumerate(priorities, 1):
        put(queue, number, priority)
    for back, position in moves:
        if back and out:
            queue.put_back(out.pop(position % len(out)))
        elif queue.ready_count:
            entry = list(queue.ready())[position % queue.ready_count]
            queue.withdraw(entry, IN_FLIGHT)
            out.append(entry)
        if position % 3 == 0:
            queue.head()
    gone = {entry.message.id for entry in out}
    expected = sorted(
        (number for number in queue.entries if number not in gone),
        key=lambda number: (-priorities[number - 1], number),
    )
    assert ids(queue) == expected
    assert list(_order(queue)) == []
    head = queue.head()
    assert (head.message.id if head is not None else None) == next(iter(expected), None)


def test_a_message_weighs_its_parts_and_a_little_more() -> None:
    message = Message(1, 1, 4, 0, 0, b"12345", b"1234567")
    assert message.size == 12 + 128
    assert not message.persistent


def test_thousands_that_come_back_in_any_order_find_their_places_together() -> None:
    """Four consumers that leave at once, each with every fourth message."""
    queue = empty_queue()
    entries = [put(queue, number, priority=number % 2) for number in range(1, 401)]
    for entry in entries:
        queue.withdraw(entry, IN_FLIGHT)
    late = [put(queue, number, priority=1) for number in (401, 402)]
    for start in range(4):
        for entry in reversed(entries[start::4]):
            queue.put_back(entry)
    odd, even = list(range(1, 401, 2)), list(range(2, 401, 2))
    assert ids(queue) == [*odd, 401, 402, *even]
    queue.withdraw(late[0], GONE)
    assert ids(queue) == [*odd, 402, *even]


def test_what_came_back_and_goes_before_anybody_looked() -> None:
    queue = empty_queue()
    entries = [put(queue, number) for number in (1, 2, 3)]
    for entry in entries:
        queue.withdraw(entry, IN_FLIGHT)
    queue.put_back(entries[1])
    queue.put_back(entries[0])
    queue.withdraw(entries[1], GONE)
    assert (ids(queue), queue.ready_count) == ([1], 1)
