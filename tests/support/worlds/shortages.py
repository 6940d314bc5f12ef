"""Stories of brokers that have no room: each limit is reached, and messages are dropped for it."""

import random
from typing import Any, Final

from daybook.engine import commands as c
from daybook.engine.facts.definitions import ANYCAST, MULTICAST, DivertDefinition
from daybook.engine.messages.headers import build
from tests.support.topology import create_queue
from tests.support.worlds.auditing import DoorWorld

LIMITS: Final[tuple[dict[str, Any], ...]] = (
    {"max_size_messages": 2, "address_full_policy": "DROP"},
    {"max_size_bytes": 900, "address_full_policy": "DROP"},
    {"max_size_messages": 1, "page_limit_messages": 2, "page_full_policy": "DROP"},
    {"max_size_messages": 1, "page_limit_bytes": 1200, "page_full_policy": "DROP"},
    {"address_full_policy": "DROP"},
)
"""The limits of an address; the last one has none of its own."""


def short(seed: int, steps: int = 30) -> DoorWorld:
    """Play a story in which addresses, the broker, or the machine are full now and then."""
    draw = random.Random(seed)
    world = DoorWorld(
        disk_full_policy="DROP", global_max_messages=draw.choice((0, 4)),
        global_max_size=draw.choice((0, 2000)), persist_id_cache=seed % 5 > 0,
    )  # fmt: skip
    world.settings(
        "full" if seed % 4 else "decisions", q=draw.choice(LIMITS), n=draw.choice(LIMITS),
        w={**draw.choice(LIMITS), "dead_letter_address": "dead", "send_to_dla_on_no_route": True},
    )  # fmt: skip
    world.ok(create_queue("q", "q"))
    world.ok(create_queue("dead", "dead"))
    for name in ("n", "w"):
        world.ok(create_queue(f"{name}1", name, MULTICAST, filter=draw.choice(("", "k=1"))))
        world.ok(create_queue(f"{name}2", name, MULTICAST, filter="k=2"))
    world.ok(c.CreateAddress("only", (MULTICAST,)))
    if seed % 2:
        where = draw.choice(("q", "n"))
        wanted = DivertDefinition(
            "d", where, ("only", "q") if where == "n" else ("n",), seed % 3 == 0, "k=2"
        )
        world.ok(c.CreateDivert(wanted))
    connection = world.connect()
    consumer = world.attach(connection, "q")
    for number in range(steps):
        world.now += 5_000
        choice = draw.randrange(10)
        if choice == 0:
            world.broker.report_disk(draw.choice(("", "4 bytes are free, and min-disk-free is 9")))
        elif choice == 1:
            world.broker.report_memory(draw.choice(("", "", "the memory of the process is full")))
        elif choice == 2:
            _settle(world, consumer)
        else:
            _send(world, draw, connection, number)
        if draw.randrange(3):
            world.turn()
    world.turn()
    return world


def _settle(world: DoorWorld, consumer: int) -> None:
    world.turn()
    messages = list(world.state.consumers[consumer].unacked)
    if messages:
        world.handle(c.Settle(consumer, messages[-1], True))


def _send(world: DoorWorld, draw: random.Random, connection: int, number: int) -> None:
    duplicate_id = f"i{draw.randrange(4)}" if draw.randrange(3) == 0 else ""
    properties = [("k", str(draw.randrange(4)))]
    if duplicate_id:
        properties.append(("_AMQ_DUPL_ID", duplicate_id))
    command = c.Send(
        connection, draw.choice(("q", "q", "n", "w", "only")), build(properties),
        b"x" * draw.randrange(200), draw.choice((None, None, ANYCAST, MULTICAST)),
        persistent=draw.randrange(4) > 0, duplicate_id=duplicate_id,
        transaction="t" if draw.randrange(6) == 0 else None,
    )  # fmt: skip
    if command.transaction is None:
        world.handle(command)
        return
    world.handle(c.Begin(connection, "t"))
    world.handle(command)
    world.handle(c.Commit(connection, "t"))
