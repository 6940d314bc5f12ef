"""Turns are short while a light client is beside much work, and long otherwise."""

from daybook.server.hub.turn_lengths import (
    DELIVERY_UNITS,
    LIGHT_UNITS,
    PERIOD_US,
    SHORT_PART,
    SHORT_US,
    SLICE_UNITS,
    TurnLengths,
    Usage,
)
from tests.unit.server.hub.test_hub import Bench
from tests.unit.server.hub.test_turns import MANY, SEND, count, flooded


def test_who_uses_little_in_two_periods_is_light() -> None:
    usage, now = Usage(), 10 * PERIOD_US
    assert usage.add(1, now)
    assert not usage.add(LIGHT_UNITS, now + 1)
    # Only the period after a quiet one is light again.
    assert not usage.add(1, now + PERIOD_US)
    assert usage.add(1, now + 2 * PERIOD_US)
    assert not usage.add(LIGHT_UNITS + 1, now + 3 * PERIOD_US)
    assert usage.add(1, now + 9 * PERIOD_US)


def test_a_clock_that_was_set_back_makes_nobody_heavy_for_ever() -> None:
    usage = Usage()
    assert not usage.add(LIGHT_UNITS + 1, 10 * PERIOD_US)
    assert usage.add(1, PERIOD_US)


def test_short_turns_become_long_again() -> None:
    lengths = TurnLengths()
    lengths.shorten(1000)
    assert lengths.are_short
    assert lengths.slice == SLICE_UNITS // SHORT_PART
    assert lengths.delivery == DELIVERY_UNITS // SHORT_PART
    lengths.tick(1000 + SHORT_US - 1)
    assert lengths.are_short
    lengths.tick(1000 + SHORT_US)
    assert not lengths.are_short
    assert (lengths.slice, lengths.delivery) == (SLICE_UNITS, DELIVERY_UNITS)
    lengths.shorten(1000)
    # The clock was set back.
    lengths.tick(500)
    assert not lengths.are_short


def test_a_light_client_beside_a_heavy_one_makes_turns_short() -> None:
    bench = Bench()
    honest = bench.connect()
    flooded(bench)
    lengths = bench.hub.turns.lengths
    bench.hub.turn()
    assert not lengths.are_short
    honest.send(SEND % b"honest")
    assert lengths.are_short
    spent = bench.hub.broker.budget.spent
    bench.hub.turn()
    assert bench.hub.broker.budget.spent - spent <= lengths.turn + lengths.delivery
    bench.run()
    assert count(bench, "flood") == MANY


def test_a_light_client_alone_leaves_turns_long() -> None:
    bench = Bench()
    honest = bench.connect()
    for _ in range(20):
        honest.send(SEND % b"honest")
        bench.run()
    assert not bench.hub.turns.lengths.are_short


def test_heavy_clients_leave_turns_long() -> None:
    bench = Bench()
    clients = [bench.connect() for _ in range(2)]
    for client in clients:
        client.send(SEND % b"flood" * MANY)
    bench.hub.turn()
    for client in clients:
        client.send(SEND % b"flood" * 300)
        bench.hub.turn()
    assert not bench.hub.turns.lengths.are_short
