"""Finding a queue by QUEUE or ADDRESS::QUEUE."""

import pytest

from daybook.engine.core.queue_names import find_queue, split
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.refusals import Code, Refusal
from tests.support.topology import create_queue
from tests.support.world import World


def test_a_name_may_say_the_address() -> None:
    assert split("q") == ("", "q")
    assert split("a::q") == ("a", "q")


@pytest.mark.parametrize("name", ["q", "a::q"])
def test_a_queue_is_found(world: World, name: str) -> None:
    world.ok(create_queue("q", "a", ANYCAST))
    assert find_queue(world.state, name) is world.queue("q")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p", "there is no queue 'p'; check the name, or create the queue"),
        ("a::p", "there is no queue 'p'; check the name, or create the queue"),
        ("b::q", "queue 'q' is on address 'a', not on 'b'"),
    ],
)
def test_a_queue_is_not_found(world: World, name: str, text: str) -> None:
    world.ok(create_queue("q", "a", ANYCAST))
    assert find_queue(world.state, name) == Refusal(Code.NOT_FOUND, text)
