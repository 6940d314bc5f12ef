"""Full addresses in tests: filling them, and checking the outcome."""

from typing import Any

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.messages.message import MESSAGE_OVERHEAD_BYTES
from daybook.engine.refusals import Code, Refusal
from tests.support.world import World

BODY = b"x" * 100
SIZE = 100 + MESSAGE_OVERHEAD_BYTES


def limited(world: World, policy: str, **values: Any) -> None:
    world.settings(orders={"address_full_policy": policy, **values})


def sends(world: World, count: int, address: str = "orders", **values: Any) -> None:
    for _ in range(count):
        world.send(address, BODY, **values)


def try_send(world: World, connection: int, address: str = "orders", **values: Any) -> Any:
    answer = world.handle(c.Send(connection, address, b"", BODY, **values))
    world.turn()
    return answer


def is_blocked(answer: Any) -> bool:
    return isinstance(answer, Refusal) and answer.code is Code.BLOCKED


def paging(world: World) -> list[str]:
    """Addresses that page."""
    return sorted(address.name for address in world.state.addresses.values() if address.paging)


def reasons_of(world: World, name: str) -> list[str]:
    return [reasons.REASONS[event.reason][0] for event in world.events_named(name)]
