"""Auto-links: phases behind waypoints, fallback, costs, and bridges (12.1.4)."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.commands import FORWARDED
from daybook.engine.facts.definitions import ANYCAST, AutoLink, DistributionEntry, Waypoint
from daybook.engine.facts.settlements import ACCEPTED, RELEASED
from daybook.engine.links.links import UNTRIED, Ending
from daybook.history.audit.rules import Breach
from tests.support.topology import create_queue
from tests.support.world import MANY
from tests.support.worlds.auditing import judged
from tests.unit.engine.direct.test_forwarding import Direct, Heard

TABLE = (
    DistributionEntry(prefix="way", waypoint=True),
    DistributionEntry(prefix="kept", waypoint=True),
    DistributionEntry(prefix="near", distribution="closest"),
    DistributionEntry(prefix="work"),
    DistributionEntry(prefix="safe", enable_fallback=True),
    DistributionEntry(prefix="both", enable_fallback=True),
)
WAYPOINTS = (Waypoint("way.a"), Waypoint("safe.a"), Waypoint("both.a", has_queue=True))


class Linked(Direct):
    """A world with the connection of a connector, on which auto-links are."""

    def __init__(
        self,
        address: str = "way.a",
        table: tuple[DistributionEntry, ...] = TABLE,
        waypoints: tuple[Waypoint, ...] = WAYPOINTS,
        **options: Any,
    ) -> None:
        self.waypoints = waypoints
        super().__init__(address, table, **options)
        self.east = self.connector("east")

    def begin(self, table: tuple[DistributionEntry, ...]) -> None:
        self.world.ok(c.ChangeDistributions(table, waypoints=self.waypoints))

    def connector(self, name: str) -> int:
        return self.world.ok(c.OpenConnection("amqp", name, "", room=MANY, connector=name))

    def out(self, credit: int = 1000, connection: int = 0, **values: Any) -> int:
        """An auto-link out: a receiver of the engine."""
        link = auto_link(self.address, is_out=True, **values)
        return self.attach(credit, connection=connection or self.east, auto_link=link)

    def into(self, heard: Heard, **values: Any) -> int:
        """An auto-link in: a sender."""
        link = auto_link(self.address, is_out=False, **{"phase": 1, **values})
        answer = self.world.ok(
            c.AttachSender(self.east, self.address, link=7, receiver=heard, auto_link=link)
        )
        self.hear()
        return answer

    def send_by(self, sender: int, body: str, mark: object = "t") -> int:
        """Send as the other container."""
        answer = self.world.ok(
            c.Send(self.east, self.address, b"", body.encode(), sender=sender, token=mark)
        )
        self.hear()
        return answer

    def bodies(self, receiver: int) -> list[str]:
        return [each.body.decode() for each in self.deliveries(receiver)]

    def breaches(self) -> list[Breach]:
        return judged(self.world.journal)


def auto_link(address: str, *, is_out: bool, **values: Any) -> AutoLink:
    return AutoLink(**{
        "name": f"{address} {'out' if is_out else 'in'}", "address": address,
        "external": address, "is_out": is_out, **values,
    })  # fmt: skip


# ---- waypoints


def test_what_is_sent_goes_out_and_what_comes_in_is_received() -> None:
    linked = Linked()
    consumer, heard = linked.attach(), Heard()
    assert not linked.heard.is_open
    out, into = linked.out(), linked.into(heard)
    assert linked.heard.is_open
    assert heard.is_open
    assert linked.send() == FORWARDED
    assert (linked.taken(out), linked.taken(consumer)) == ([1], [])
    linked.settle(out, linked.message(out))
    assert linked.heard.ends == {1: Ending(ACCEPTED)}
    assert linked.send_by(into, "back") == FORWARDED
    assert linked.bodies(consumer) == ["back"]
    linked.settle(consumer, linked.message(consumer), RELEASED)
    assert heard.ends == {"t": UNTRIED}
    assert linked.breaches() == []
    linked.world.check()


def test_each_phase_opens_its_own_senders() -> None:
    linked, heard = Linked(), Heard()
    out, _ = linked.out(), linked.into(heard)
    assert (linked.heard.is_open, heard.is_open) == (True, False)
    consumer = linked.attach()
    assert heard.is_open
    linked.detach(out)
    assert (linked.heard.is_open, heard.is_open) == (False, True)
    linked.detach(consumer)
    assert not heard.is_open
    linked.world.ok(c.DetachSender(linked.sender))
    assert linked.world.broker.direct.addresses["way.a"].later
    linked.world.close(linked.east)
    assert not linked.world.broker.direct.addresses
    assert linked.breaches() == []


def test_links_say_which_auto_link_and_phase_they_are() -> None:
    linked = Linked()
    linked.out(cost=3, shard="east")
    linked.into(Heard())
    out, into = (each.decoded for each in linked.world.events_named("LinkAttached")[-2:])
    assert (out.auto_link, out.phase, out.cost, out.shard) == ("way.a out", 0, 3, "east")
    assert (into.auto_link, into.phase, into.role) == ("way.a in", 1, "sender")


def test_a_chain_of_phases() -> None:
    """A filter of another container between two queues: out at 1, in at 2."""
    linked, heard = Linked(), Heard()
    second = linked.out(phase=1)
    into = linked.into(heard, phase=1)
    linked.send_by(into, "x")
    assert linked.bodies(second) == ["x"]
    assert linked.breaches() == []


def test_anonymous_senders_send_at_phase_0() -> None:
    linked = Linked()
    consumer, out = linked.attach(), linked.out()
    anonymous = linked.attach_sender("", Heard())
    linked.send(sender=anonymous)
    linked.send(sender=0, token=None)
    assert (linked.taken(out), linked.taken(consumer)) == ([1, 2], [])


def test_a_waypoint_without_auto_links_is_a_queue_of_this_broker() -> None:
    linked = Linked("kept.a")
    assert linked.sender == 0
    linked.world.ok(c.Send(linked.peer, "kept.a", b"", b"x"))
    assert linked.world.bodies("kept.a") == [b"x"]


def test_a_name_that_stores_already_stores_on() -> None:
    linked = Linked("kept.a")
    linked.world.ok(c.Send(linked.peer, "kept.a", b"", b"x"))
    linked.world.ok(c.ChangeDistributions(TABLE, waypoints=(Waypoint("kept.a"),)))
    assert linked.attach_sender("kept.a") == 0
    linked.world.ok(c.DeleteAddress("kept.a", force=True))
    linked.world.turn()
    assert linked.attach_sender("kept.a", Heard()) > 0


@pytest.mark.parametrize("phase", [-1, 10])
def test_a_phase_that_no_address_has_is_refused(phase: int) -> None:
    linked = Linked()
    link = auto_link("way.a", is_out=True, phase=phase)
    refusal = linked.world.refused(c.Attach(linked.east, "way.a", auto_link=link))
    assert "phases from 0 to 9" in refusal.text


def test_nobody_makes_a_queue_of_a_waypoint_of_others() -> None:
    linked = Linked()
    refusal = linked.world.refused(create_queue("way.a", "way.a"))
    assert "has no queues" in refusal.text


@pytest.mark.parametrize(
    "wish", [{"filter": "a = 1"}, {"browses": True}, {"durable_name": "d"}], ids=str
)
def test_what_needs_one_queue_is_refused(wish: dict[str, Any]) -> None:
    linked = Linked()
    refusal = linked.world.refused(c.Attach(linked.peer, "way.a", **wish))
    assert "is a waypoint, whose messages pass through queues of other brokers" in refusal.text


def test_a_transaction_is_refused() -> None:
    linked = Linked()
    linked.out()
    linked.world.ok(c.Begin(linked.peer, "t"))
    send = c.Send(linked.peer, "way.a", b"", b"x", transaction="t", sender=linked.sender)
    assert "is a waypoint" in linked.world.refused(send).text


# ---- fallback


def test_a_fallback_link_gets_what_nobody_else_receives() -> None:
    linked = Linked("safe.a")
    assert not linked.heard.is_open
    store = linked.out(is_fallback=True)
    assert linked.heard.is_open
    linked.send()
    consumer = linked.attach()
    linked.send()
    linked.detach(consumer)
    assert linked.heard.is_open
    linked.send()
    assert (linked.taken(store), linked.taken(consumer)) == ([1, 3], [2])
    linked.detach(store)
    assert not linked.heard.is_open
    assert linked.breaches() == []
    linked.world.check()


def test_what_was_stored_comes_in_only_while_somebody_receives() -> None:
    linked, heard = Linked("safe.a"), Heard()
    store, into = linked.out(is_fallback=True), linked.into(heard, phase=0, is_fallback=True)
    assert not heard.is_open
    consumer = linked.attach()
    assert heard.is_open
    linked.send_by(into, "old")
    assert linked.bodies(consumer) == ["old"]
    linked.detach(consumer)
    assert not heard.is_open
    linked.send_by(into, "late", "u")
    assert heard.ends["u"] == UNTRIED
    assert linked.bodies(store) == []
    assert linked.breaches() == []


def test_auto_links_with_fallback_take_the_place_of_a_queue_here() -> None:
    linked = Linked("safe.a")
    linked.out(is_fallback=True)
    linked.world.close(linked.east)
    linked.hear()
    linked.send()
    assert linked.heard.ends[1] == UNTRIED
    assert "safe.a" not in linked.world.state.queue_by_name
    assert linked.breaches() == []


def test_a_queue_here_stores_what_no_fallback_link_gets_if_both_are_wanted() -> None:
    linked, heard = Linked("both.a"), Heard()
    assert linked.heard.is_open
    store = linked.out(is_fallback=True)
    linked.send()
    linked.detach(store)
    assert linked.send() > 0
    assert linked.world.bodies("both.a") == [b"2"]
    into = linked.into(heard, phase=0, is_fallback=True)
    linked.send_by(into, "late")
    assert heard.ends == {"t": UNTRIED}
    consumer = linked.attach()
    for _ in range(4):
        linked.hear()
    assert linked.bodies(consumer) == ["2"]
    assert linked.breaches() == []


def test_an_auto_link_with_fallback_needs_an_address_with_fallback() -> None:
    linked = Linked("work.a")
    link = auto_link("work.a", is_out=True, is_fallback=True)
    refusal = linked.world.refused(c.Attach(linked.east, "work.a", auto_link=link))
    assert "enable-fallback = true" in refusal.text


# ---- costs


def test_closest_is_who_costs_least_in_turn_among_equals() -> None:
    linked = Linked("near.a")
    far, east = linked.out(cost=5), linked.out(cost=2)
    west = linked.out(cost=2)
    for _ in range(4):
        linked.send()
    own = linked.attach(credit=0)
    linked.send()
    linked.detach(own)
    assert [len(linked.taken(each)) for each in (far, east, west)] == [0, 2, 2]
    linked.detach(east)
    linked.detach(west)
    linked.send()
    assert linked.taken(far) == [6]
    assert linked.breaches() == []


# ---- bridges


def test_a_bridge_in_stores_and_a_bridge_out_takes_from_the_queue() -> None:
    linked = Linked("kept.a")
    world = linked.world
    into = auto_link("kept.a", is_out=False)
    assert world.ok(c.AttachSender(linked.east, "kept.a", auto_link=into)) == 0
    world.ok(c.Send(linked.east, "kept.a", b"", b"x"))
    out = linked.out()
    world.dispatch()
    assert linked.bodies(out) == ["x"]
    assert world.queue("kept.a").definition.routing_type == ANYCAST
    world.ok(c.Settle(out, linked.message(out)))
    assert world.queue("kept.a").message_count == 0
    world.check()
