"""A queue with a bridge to another broker and a consumer here is at least once (ADR 110)."""

from daybook.engine import commands as c
from daybook.engine.facts.definitions import AutoLink
from tests.support.world import World


def test_what_a_bridge_may_have_delivered_is_redelivered_to_a_consumer_here() -> None:
    world = World()
    peer, away = world.connect(), world.connect()
    link = AutoLink("out", "orders", "orders", is_out=True)
    world.attach(away, "orders", auto_link=link)
    world.ok(c.Send(peer, "orders", b"", b"1"))
    assert [each.redelivered for each in world.deliveries] == [False]
    # Nobody knows whether the other broker has it.
    world.close(away)
    here = world.attach(peer, "orders")
    last = world.deliveries[-1]
    assert (last.consumer, last.message) == (here, world.deliveries[0].message)
    assert last.redelivered
