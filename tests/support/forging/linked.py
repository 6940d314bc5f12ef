"""Decisions about auto-links, phases and shards that no broker makes, planted in journals.

As `tests.support.forging.direct`.
"""

from typing import Any

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import (
    BY_GROUP,
    CLOSEST,
    AutoLink,
    DistributionEntry,
    Waypoint,
)
from daybook.engine.facts.events import CONSUMER, GROUPED
from daybook.engine.messages.headers import build
from tests.support.forging.decisions import Planted, Planter
from tests.support.forging.direct import Direct
from tests.support.world import MANY

TABLE = (
    DistributionEntry(prefix="way", waypoint=True),
    DistributionEntry(prefix="groups", waypoint=True),
    DistributionEntry(prefix="near", distribution=CLOSEST),
    DistributionEntry(prefix="safe", enable_fallback=True),
)
WAYPOINTS = (
    Waypoint("way"), Waypoint("safe"), Waypoint("groups", shard_by=BY_GROUP, shards=("a", "b")),
)  # fmt: skip


class Linked(Direct):
    """A world with a sender to an address, and the connection of a connector."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.world.ok(c.ChangeDistributions(TABLE, waypoints=WAYPOINTS))
        self.name = name
        self.east = self.world.ok(c.OpenConnection("amqp", "east", "", room=MANY, connector="east"))
        self.senders = {name: self.sender(name)}

    def out(self, **values: Any) -> int:
        name = self.name
        link = AutoLink(f"{name} {values}", name, name, is_out=True, **values)
        self.receiving, before = self.east, self.receiving
        found = self.receiver(name, auto_link=link)
        self.receiving = before
        return found

    def into(self, **values: Any) -> int:
        link = AutoLink(f"{self.name} in", self.name, self.name, is_out=False, **values)
        return self.world.ok(c.AttachSender(self.east, self.name, auto_link=link))

    def send_of_group(self) -> None:
        """Send a message of a group."""
        command = c.Send(
            self.sending, self.name, build([("JMSXGroupID", "g")]), b"a", format=GROUPED,
            sender=self.senders[self.name], token="t",
        )  # fmt: skip
        self.world.ok(command)

    def given(self, receiver: int, rule: str) -> Planted:
        """Give the last message to another receiver."""
        return self.with_row(self.named("Forwarded"), rule, consumer=receiver, reason=0)


def waypoint_that_is_twice() -> Planted:
    """An address with auto-links is in the distributions twice."""
    linked = Linked("way")
    event = linked.named("DistributionsChanged")
    return linked.saying(event, "direct", waypoints=WAYPOINTS[:1] * 2)


def receiver_before_the_waypoint() -> Planted:
    """A peer receives what others send to a waypoint, before it was stored."""
    linked = Linked("way")
    linked.receiver("way")
    return linked.saying(linked.named("LinkAttached"), "direct", phase=0)


def sender_behind_the_waypoint() -> Planted:
    """A peer sends to receivers behind a waypoint."""
    linked = Linked("way")
    return linked.saying(linked.named("LinkAttached"), "direct", phase=1)


def phase_that_no_address_has() -> Planted:
    """An auto-link is at the phase 10."""
    linked = Linked("way")
    linked.out()
    return linked.saying(linked.named("LinkAttached"), "direct", phase=10)


def fallback_of_a_peer() -> Planted:
    """A peer receives what nobody else can get, as auto-links do."""
    linked = Linked("safe")
    linked.receiver("safe")
    return linked.saying(linked.named("LinkAttached"), "direct", is_fallback=True)


def fallback_where_there_is_none() -> Planted:
    """An auto-link with fallback is for an address without it."""
    linked = Linked("way")
    linked.out()
    return linked.saying(linked.named("LinkAttached"), "direct", is_fallback=True)


def forwarded_past_the_waypoint() -> Planted:
    """A message to a waypoint went to a receiver behind it."""
    linked = Linked("way")
    linked.out()
    behind = linked.receiver("way")
    linked.send("way")
    return linked.given(behind, "forwarded")


def stored_although_somebody_receives() -> Planted:
    """A link with fallback got a message, and somebody received."""
    linked = Linked("safe")
    store = linked.out(is_fallback=True)
    linked.receiver("safe")
    linked.send("safe")
    return linked.given(store, "forwarded")


def stored_again() -> Planted:
    """A message from a store went back there."""
    linked = Linked("safe")
    store, into = linked.out(is_fallback=True), linked.into(is_fallback=True)
    linked.world.ok(c.Send(linked.east, "safe", b"", b"a", sender=into, token="t"))
    return linked.given(store, "forwarded")


def released_although_it_could_be_stored() -> Planted:
    """Nobody got a message, and a link with fallback was there."""
    linked = Linked("safe")
    linked.out(is_fallback=True)
    linked.send("safe")
    event = linked.named("Forwarded")
    return linked.with_row(event, "forwarded", consumer=0, reason=reasons.NO_RECEIVERS)


def forwarded_to_one_that_is_farther() -> Planted:
    """A message went a way that costs more than another one."""
    linked = Linked("near")
    far = linked.out(cost=5)
    linked.out(cost=2)
    linked.send("near")
    return linked.given(far, "forwarded")


def forwarded_to_another_shard() -> Planted:
    """A message of a group went to another shard than the one that it is for."""
    linked = Linked("groups")
    shards = linked.out(shard="a"), linked.out(shard="b")
    linked.send_of_group()
    got = linked.named("Forwarded").row[CONSUMER]
    return linked.given(shards[got == shards[0]], "forwarded")


def released_although_its_shard_is_there() -> Planted:
    """Nobody got a message of a group, and its shard was there."""
    linked = Linked("groups")
    linked.out(shard="a"), linked.out(shard="b")
    linked.send_of_group()
    event = linked.named("Forwarded")
    return linked.with_row(event, "forwarded", consumer=0, reason=reasons.NO_RECEIVERS)


def released_for_a_shard_that_is_none() -> Planted:
    """Nobody got a message, for want of a shard that the table does not know."""
    linked = Linked("way")
    linked.world.ok(
        c.Send(linked.sending, "way", b"", b"a", sender=linked.senders["way"], token="t")
    )
    return linked.saying(linked.named("Forwarded"), "forwarded", shard="c")


def shard_of_a_peer() -> Planted:
    """A peer's receiver is said to lead to a shard."""
    linked = Linked("groups")
    linked.receiver("groups")
    return linked.saying(linked.named("LinkAttached"), "direct", shard="a")


OF_AUTO_LINKS: tuple[Planter, ...] = (
    waypoint_that_is_twice, receiver_before_the_waypoint, sender_behind_the_waypoint,
    phase_that_no_address_has, fallback_of_a_peer, fallback_where_there_is_none,
    forwarded_past_the_waypoint, stored_although_somebody_receives, stored_again,
    released_although_it_could_be_stored, forwarded_to_one_that_is_farther,
    forwarded_to_another_shard, released_although_its_shard_is_there,
    released_for_a_shard_that_is_none, shard_of_a_peer,
)  # fmt: skip
"""The breaches about auto-links that an audit must find."""
