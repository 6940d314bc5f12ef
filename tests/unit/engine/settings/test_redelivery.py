"""How long a message waits after each failed delivery."""

import msgspec
import pytest

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.settings.redelivery import delay_of, spread
from daybook.engine.settings.settings import AddressSettings, Settings
from tests.support.world import SECOND, World


def settings(**values: float) -> AddressSettings:
    return msgspec.structs.replace(Settings({}).resolve("a"), **values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The example of the manual.
        (
            {
                "redelivery_delay": 5000, "redelivery_delay_multiplier": 2,
                "max_redelivery_delay": 15000,
            },
            [5000, 10000, 15000, 15000],
        ),
        ({"redelivery_delay": 5000}, [5000, 5000, 5000, 5000]),
        (
            {"redelivery_delay": 5000, "redelivery_delay_multiplier": 1.5},
            [5000, 7500, 11250, 16875],
        ),
        # Without a maximum: ten times the delay.
        ({"redelivery_delay": 10, "redelivery_delay_multiplier": 7.0}, [10, 70, 100, 100]),
        ({"redelivery_delay": 10, "max_redelivery_delay": 3}, [3, 3, 3, 3]),
        ({"redelivery_delay": 10, "max_redelivery_delay": 0}, [0, 0, 0, 0]),
        ({"redelivery_delay_multiplier": 3.0, "max_redelivery_delay": 50}, [0, 0, 0, 0]),
    ],
)  # fmt: skip
def test_delays(values: dict[str, float], expected: list[int]) -> None:
    assert [delay_of(settings(**values), failures, 7) for failures in range(1, 5)] == expected


def test_no_number_of_failures_is_too_many() -> None:
    grown = settings(redelivery_delay=1, redelivery_delay_multiplier=1000.0)
    assert delay_of(grown, 65_535, 1) == 10


def test_what_failed_together_is_spread() -> None:
    spreading = settings(
        redelivery_delay=1000, redelivery_collision_avoidance_factor=0.2, max_redelivery_delay=5000
    )
    found = [delay_of(spreading, 1, message) for message in range(1, 2001)]
    assert min(found) >= 800
    assert max(found) <= 1200
    assert min(found) < 850
    assert max(found) > 1150
    assert abs(sum(found) / len(found) - 1000) < 20
    assert len(set(found)) > 300
    assert all(delay_of(spreading, 1, message) == found[message - 1] for message in range(1, 50))
    assert delay_of(settings(redelivery_delay=100, redelivery_collision_avoidance_factor=1), 1, 1)


def test_the_longest_delay_holds_for_what_is_spread() -> None:
    spreading = settings(
        redelivery_delay=1000, redelivery_collision_avoidance_factor=1.0, max_redelivery_delay=1000
    )
    found = [delay_of(spreading, 1, message) for message in range(1, 500)]
    assert max(found) == 1000
    assert min(found) >= 0


def test_spreads_are_from_minus_one_to_one() -> None:
    found = [spread(message, failures) for message in range(300) for failures in (1, 2)]
    assert min(found) >= -1
    assert max(found) <= 1


def test_each_failure_waits_longer_also_after_a_restart() -> None:
    world = World()
    rules = {
        "redelivery_delay": 5000, "redelivery_delay_multiplier": 2.0,
        "max_redelivery_delay": 15_000, "max_delivery_attempts": -1,
    }  # fmt: skip
    world.settings(orders=rules)
    waited = []
    for failure in range(4):
        consumer = world.attach(world.connect(), "orders", credit_messages=1)
        if not failure:
            world.send("orders", b"x")
        world.nack(consumer, world.deliveries[-1].message)
        scheduled = world.events_named("Scheduled")[-1]
        assert scheduled.reason == reasons.REDELIVERY_DELAY
        waited.append(scheduled.decoded.due - world.now // 1000)
        world.restart()
        world.now += 15 * SECOND
        world.ok(c.DeliverDue(10))
    assert waited == [5000, 10_000, 15_000, 15_000]
    world.check()
