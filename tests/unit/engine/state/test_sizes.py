"""Sizes by differences: the content of a queue is counted once, unless its address pages."""

from daybook.engine.messages.message import Message
from daybook.engine.state.sizes import Sizes, size_of
from daybook.engine.state.state import State
from tests.support.topology import new_address, new_queue
from tests.support.world import World


def made(count: int) -> tuple[World, Sizes]:
    """A world with so many messages of 10 bytes in a queue `a`, and in `b` one."""
    world = World()
    for _ in range(count):
        world.send("a", bytes(10))
    world.send("b", bytes(10))
    return world, Sizes()


def test_a_queue_counts_for_what_it_holds_now() -> None:
    world, sizes = made(2)
    queue = world.queue("a")
    for _ in range(2):
        sizes.count(queue)
        assert (sizes.bytes, sizes.messages) == (queue.bytes, 2)
    world.send("a", bytes(10))
    sizes.count(queue)
    assert (sizes.bytes, sizes.messages) == (queue.bytes, 3)
    sizes.forget(queue)
    sizes.forget(queue)
    assert (sizes.bytes, sizes.messages) == (0, 0)


def test_an_address_that_pages_counts_for_nothing() -> None:
    world, sizes = made(2)
    sizes.count_all(world.state, {})
    assert sizes.messages == 3
    address = world.queue("a").address
    address.paging = True
    sizes.count_address(address)
    assert (sizes.bytes, sizes.messages) == (world.queue("b").bytes, 1)
    address.paging = False
    sizes.count_address(address)
    assert sizes.messages == 3
    sizes.count_all(State(), {})
    assert (sizes.bytes, sizes.messages) == (0, 0)


def test_a_message_in_two_queues_counts_twice() -> None:
    address = new_address(1, "news")
    message = Message(1, 1, 4, 1, 0, b"", bytes(100))
    for number, kind in ((1, "multicast"), (2, "multicast"), (3, "anycast")):
        queue = new_queue(number, f"q{number}", address, routing_type=kind)
        address.bind(queue)
        if number > 1:
            queue.bytes = message.size
    assert size_of(address) == (2 * message.size, 0)
