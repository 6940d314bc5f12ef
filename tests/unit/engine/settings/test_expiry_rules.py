"""When messages expire, by the settings of their address."""

import msgspec
import pytest

from daybook.engine import commands as c
from daybook.engine.facts.definitions import MULTICAST
from daybook.engine.settings.expiry_rules import expires_of, has_rules
from daybook.engine.settings.settings import Settings
from tests.support.topology import create_queue
from tests.support.world import SECOND, World

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("values", "expires", "expected"),
    [
        ({}, 0, 0),
        ({}, NOW_MS + 5, NOW_MS + 5),
        ({"expiry_delay": 10}, 0, NOW_MS + 10),
        ({"expiry_delay": 10}, NOW_MS + 20, NOW_MS + 20),
        ({"expiry_delay": 0}, 0, NOW_MS),
        ({"min_expiry_delay": 10, "max_expiry_delay": 100}, 0, NOW_MS + 100),
        ({"min_expiry_delay": 10}, 0, NOW_MS + 10),
        ({"max_expiry_delay": 0}, 0, NOW_MS),
        ({"min_expiry_delay": 10, "max_expiry_delay": 100}, NOW_MS + 500, NOW_MS + 100),
        ({"min_expiry_delay": 10, "max_expiry_delay": 100}, NOW_MS + 5, NOW_MS + 10),
        ({"min_expiry_delay": 10, "max_expiry_delay": 100}, NOW_MS + 50, NOW_MS + 50),
        ({"min_expiry_delay": 10}, NOW_MS + 5000, NOW_MS + 5000),
        ({"expiry_delay": 7, "min_expiry_delay": 10, "max_expiry_delay": 100}, 0, NOW_MS + 7),
        (
            {"expiry_delay": 7, "min_expiry_delay": 10, "max_expiry_delay": 100},
            NOW_MS + 500,
            NOW_MS + 500,
        ),
        ({"no_expiry": True}, NOW_MS + 5, 0),
        ({"no_expiry": True, "expiry_delay": 7, "max_expiry_delay": 9}, 0, 0),
    ],
)
def test_rules(values: dict[str, int], expires: int, expected: int) -> None:
    settings = msgspec.structs.replace(Settings({}).resolve("a"), **values)
    assert expires_of(settings, expires, NOW_MS) == expected
    assert has_rules(settings) is bool(values)


def expiries(world: World, queue: str) -> list[int]:
    found = world.queue(queue).entries.values()
    return [entry.message.expires and entry.message.expires - world.now // 1000 for entry in found]


def test_every_way_to_send_is_ruled(world: World) -> None:
    rules = {"expiry_delay": 500}
    world.settings(orders=rules, news=rules, other={})
    # On demand, to a known queue, to several, by a qualified name, and so on.
    world.send("orders")
    world.send("orders")
    world.ok(create_queue("second", "orders"))
    world.send("orders")
    world.send("", queue="second")
    world.send("orders", persistent=False)
    connection = world.connect()
    world.ok(c.Begin(connection, "t"))
    world.send("orders", connection=connection, transaction="t")
    world.ok(c.Commit(connection, "t"))
    world.attach(connection, "news", routing_type=MULTICAST, durable_name="d")
    world.send("news", routing_type=MULTICAST)
    found = expiries(world, "orders") + expiries(world, "second") + expiries(world, "dsub.d")
    assert found == [500] * 7
    world.send("other")
    assert expiries(world, "other") == [0]
    world.check()


def test_settings_that_come_and_go(world: World) -> None:
    world.send("orders")
    world.settings(orders={"max_expiry_delay": 100})
    world.send("orders", expires=world.now // 1000 + 5000)
    world.settings()
    world.send("orders", expires=world.now // 1000 + 5000)
    assert expiries(world, "orders") == [0, 100, 5000]


def test_a_ruled_message_expires_and_its_copy_too(world: World) -> None:
    world.settings(
        orders={"expiry_delay": 500, "expiry_address": "late"}, late={"expiry_delay": 2000}
    )
    world.send("orders", b"x")
    world.now += SECOND
    world.ok(c.ExpireDue(10))
    assert world.ready("orders") == []
    assert world.ready("late") == [b"x"]
    assert expiries(world, "late") == [2000]
    world.restart()
    world.now += 3 * SECOND
    world.ok(c.ExpireDue(10))
    # Without an expiry address of its own it ends there.
    assert world.ready("late") == []
    world.check()


def test_a_blocked_send_counts_from_its_first_time(world: World) -> None:
    world.settings(
        orders={"expiry_delay": 5000, "max_size_messages": 1, "address_full_policy": "BLOCK"}
    )
    world.send("orders", b"1")
    connection = world.connect()
    command = c.Send(connection, "orders", b"", b"2")
    world.handle(command)
    begun = world.now
    world.now += SECOND
    world.ok(c.PurgeQueue("orders"))
    world.ok(command)
    assert [entry.message.expires for entry in world.queue("orders").entries.values()] == [
        begun // 1000 + 5000
    ]
