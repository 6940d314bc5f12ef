"""Decisions about direct addresses that no broker makes, planted in journals.

As `tests.support.forging.decisions`: which names are direct, who gets a message, and how each
delivery ends.
"""

from typing import Any

import msgspec

from daybook.engine import commands as c
from daybook.engine.facts import events, reasons
from daybook.engine.facts.definitions import CLOSEST, MULTICAST, DistributionEntry, LinkRoute
from daybook.engine.facts.settlements import BY_GRANT
from tests.support.forging.decisions import Planted, Planter
from tests.support.forging.faults import appended, changed, replaced, retold, without
from tests.support.world import Event
from tests.support.worlds.auditing import DoorWorld
from tests.support.worlds.silent import Silent

TABLE = (
    DistributionEntry(prefix="one"),
    DistributionEntry(prefix="all", distribution=MULTICAST),
    DistributionEntry(prefix="near", distribution=CLOSEST),
    DistributionEntry(prefix="first", priority=7),
    DistributionEntry(prefix="safe", enable_fallback=True),
)


class Direct:
    """A world with a sender and a receiver of each direct address that is asked for."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.world = DoorWorld(**options)
        self.world.ok(c.ChangeDistributions(TABLE))
        self.sending, self.receiving = self.world.connect(), self.world.connect()
        self.senders = {name: self.sender(name) for name in names}
        self.receivers = [self.receiver(name) for name in names]

    def sender(self, name: str = "") -> int:
        return self.world.ok(c.AttachSender(self.sending, name))

    def receiver(self, name: str, credit: int = 10, **values: Any) -> int:
        return self.world.attach(
            self.receiving, name, credit_policy=BY_GRANT, credit_messages=credit, credit_bytes=0,
            **values,
        )  # fmt: skip

    def send(self, name: str, **values: Any) -> int:
        """Send a message, by the link that is there; return its id."""
        link = self.senders.get(name, 0)
        token = "t" if link else None
        self.world.ok(
            c.Send(self.sending, name, b"", b"a", **{"sender": link, "token": token, **values})
        )
        return self.named("Forwarded").lsn

    def named(self, name: str, number: int = -1) -> Event:
        return self.world.events_named(name)[number]

    # ---- forgeries

    def with_row(self, event: Event, rule: str, **values: int) -> Planted:
        row = changed(event.row, **values)
        history = replaced(self.world.journal, event, row)
        return Planted(history, self.world.ends, rule, event.lsn)

    def saying(self, event: Event, rule: str, **values: Any) -> Planted:
        detail = events.encode_detail(msgspec.structs.replace(event.decoded, **values))
        history = retold(self.world.journal, event, detail)
        return Planted(history, self.world.ends, rule, event.lsn)

    def again(self, event: Event, rule: str) -> Planted:
        history = appended(self.world.journal, event.row)
        history[-1] = history[-1]._replace(detail=event.detail)
        return Planted(history, self.world.ends, rule, history[-1].lsn)

    def missing(self, event: Event, rule: str, found_at: Event) -> Planted:
        history = without(self.world.journal, event)
        return Planted(history, self.world.ends, rule, found_at.lsn)


# ---- the table, and links


def table_that_nobody_can_configure() -> Planted:
    """Two entries of the distributions in force have the same pattern."""
    direct = Direct()
    return direct.saying(direct.named("DistributionsChanged"), "direct", entries=TABLE[:1] * 2)


def same_table_again() -> Planted:
    """The distributions changed to those that were in force."""
    direct = Direct()
    return direct.again(direct.named("DistributionsChanged"), "changed")


def link_to_a_stored_address() -> Planted:
    """A link leads to an address that the distributions leave to queues."""
    direct = Direct("one")
    return direct.saying(direct.named("LinkAttached"), "direct", address="stored")


def link_with_another_distribution() -> Planted:
    """A link says that all receivers of an address get each message, and one does."""
    direct = Direct("one")
    event = direct.named("LinkAttached", 0)
    return direct.saying(event, "direct", distribution=MULTICAST)


def link_of_nobody() -> Planted:
    """A link neither sends nor receives."""
    direct = Direct("one")
    return direct.saying(direct.named("LinkAttached"), "direct", role="browser")


def receiver_of_any_address() -> Planted:
    """A link receives from no address."""
    direct = Direct("one")
    event = direct.named("LinkAttached")
    return direct.saying(event, "direct", address="", distribution="")


def link_of_a_closed_connection() -> Planted:
    """A link began on a connection that had ended."""
    direct = Direct()
    ended = direct.world.connect()
    direct.world.close(ended)
    direct.sender("one")
    return direct.with_row(direct.named("LinkAttached"), "sender", connection=ended)


class Routed(Direct):
    """The same, and a link that is passed on to a container."""

    def __init__(self) -> None:
        super().__init__()
        route = LinkRoute(prefix="far", connector="east")
        self.world.ok(c.ChangeDistributions(TABLE, link_routes=(route,)))
        self.world.ok(c.HostLinks(self.receiving, Silent(), "east"))
        self.world.ok(c.RouteLink(self.sending, "far.q", True, "s", None, Silent()))


def link_passed_on_to_nobody() -> Planted:
    """A link is passed on to a connection that is not open."""
    routed = Routed()
    event = routed.named("LinkAttached")
    return routed.saying(event, "direct", through=event.lsn)


def link_that_no_route_passes_on() -> Planted:
    """A link is passed on, and no route leads its address anywhere."""
    routed = Routed()
    return routed.saying(routed.named("LinkAttached"), "direct", address="near")


def link_passed_on_in_the_other_direction() -> Planted:
    """A link of a receiver is passed on, and the route is for senders."""
    routed = Routed()
    return routed.saying(routed.named("LinkAttached"), "direct", role="receiver")


def link_left_behind() -> Planted:
    """A connection ended, and a link of it did not."""
    direct = Direct("one")
    direct.world.close(direct.receiving)
    closed = direct.named("ConnectionClosed")
    return direct.missing(direct.named("LinkDetached"), "fits", closed)


def link_of_another_connection() -> Planted:
    """A connection ended the link of another one."""
    direct = Direct("one")
    direct.world.detach(direct.receivers[0])
    return direct.with_row(
        direct.named("LinkDetached"), "taker", connection=direct.sending
    )  # fmt: skip


def link_ended_for_another_reason() -> Planted:
    """A delivery ended since its link was lost, and the link since it was closed."""
    direct = Direct("one")
    direct.send("one")
    direct.world.close(direct.receiving, reasons.DISCONNECTED)
    event = direct.named("LinkDetached")
    return direct.with_row(event, "ended", reason=reasons.CLOSED)


# ---- who got a message


def forwarded_to_a_stored_address() -> Planted:
    """A message by an anonymous link went to an address that stores messages."""
    direct = Direct("one")
    direct.send("one", sender=direct.sender(), token=None)
    return direct.saying(direct.named("Forwarded"), "direct", address="stored")


def forwarded_elsewhere() -> Planted:
    """A message went to another address than its link leads to."""
    direct = Direct("one", "near")
    direct.send("one")
    return direct.saying(direct.named("Forwarded"), "forwarded", address="near")


def forwarded_to_the_busier_one() -> Planted:
    """Of two receivers, the one that had more to settle got a message."""
    direct = Direct("one")
    other = direct.receiver("one")
    for _ in range(2):
        direct.send("one")
    direct.world.ok(c.Settle(other, direct.named("Forwarded").lsn))
    direct.send("one")
    event = direct.named("Forwarded")
    return direct.with_row(event, "forwarded", consumer=direct.receivers[0])


def forwarded_to_one_of_all() -> Planted:
    """Two of three receivers got a message that was for all of them."""
    direct = Direct("all")
    others = direct.receiver("all"), direct.receiver("all")
    direct.send("all")
    return direct.saying(direct.named("Forwarded"), "forwarded", receivers=others)


def forwarded_to_two() -> Planted:
    """Two receivers got a message that was for the nearest one."""
    direct = Direct("near")
    other = direct.receiver("near")
    direct.send("near")
    event = direct.named("Forwarded")
    told = direct.saying(event, "forwarded", receivers=(*direct.receivers, other))
    history = replaced(told.history, event, changed(event.row, consumer=0))
    return told._replace(history=history)


def forwarded_to_a_sender() -> Planted:
    """A link that only sends got a message."""
    direct = Direct("one")
    direct.send("one")
    event = direct.named("Forwarded")
    return direct.with_row(event, "forwarded", consumer=direct.senders["one"])


def released_although_somebody_receives() -> Planted:
    """Nobody got a message, and somebody received."""
    direct = Direct("one")
    direct.send("one")
    event = direct.named("Forwarded")
    return direct.with_row(event, "forwarded", consumer=0, reason=reasons.NO_RECEIVERS)


def forwarded_with_its_own_priority() -> Planted:
    """A message has another priority than its address gives all messages."""
    direct = Direct("first")
    direct.send("first")
    return direct.with_row(direct.named("Forwarded"), "facts", priority=4)


def forwarded_for_another_connection() -> Planted:
    """A message came by the link of another connection."""
    direct = Direct("one")
    direct.send("one")
    event = direct.named("Forwarded")
    return direct.with_row(event, "taker", connection=direct.receiving)


def forwarded_with_an_old_id() -> Planted:
    """A message has the id of the one before."""
    direct = Direct("one")
    first = direct.send("one")
    direct.send("one")
    return direct.with_row(direct.named("Forwarded"), "numbered", message=first)


def end_that_nobody_hears() -> Planted:
    """A message came by no link, and its sender wants to hear of its end."""
    direct = Direct("one")
    direct.send("one", sender=0, token=None)
    return direct.saying(direct.named("Forwarded"), "forwarded", settled=False)


def content_that_was_not_journaled() -> Planted:
    """The content of a message is there, and was not journaled."""
    direct = Direct("one", journal_direct="content")
    direct.send("one")
    event = direct.named("Forwarded")
    flags = event.row[events.FLAGS] | events.BODY_OMITTED
    return direct.with_row(event, "facts", flags=flags)


def content_of_no_length() -> Planted:
    """Content of a message was not journaled, nor how long it is."""
    direct = Direct("one")
    direct.send("one")
    return direct.saying(direct.named("Forwarded"), "forwarded", omitted_bytes=0)


def stored() -> tuple[Direct, Event]:
    """A message that a queue had, and that a receiver got."""
    direct = Direct()
    sender = direct.senders["safe"] = direct.sender("safe")
    direct.world.ok(c.Send(direct.sending, "safe", b"", b"a", sender=sender, token="t"))
    direct.receivers.append(direct.receiver("safe"))
    direct.world.turn()
    return direct, direct.named("Forwarded")


def forwarded_from_no_queue() -> Planted:
    """The broker itself sent a message, and took none from a queue."""
    direct, event = stored()
    return direct.with_row(event, "forwarded", related=event.decoded.link)


def forwarded_as_if_it_were_new() -> Planted:
    """A message that a queue had does not say so."""
    direct, event = stored()
    told = direct.saying(event, "forwarded", link=0)
    history = replaced(told.history, event, changed(event.row, related=event.decoded.link))
    return told._replace(history=history)


def taken_from_a_queue_by_a_peer() -> Planted:
    """A message of a peer is said to have been in a queue."""
    direct = Direct("one")
    direct.send("one")
    return direct.saying(direct.named("Forwarded"), "forwarded", link=direct.senders["one"])


# ---- how a delivery ends


def _settled() -> tuple[Direct, Event]:
    direct = Direct("one")
    message = direct.send("one")
    direct.world.ok(c.Settle(direct.receivers[0], message))
    return direct, direct.named("ForwardSettled")


def settled_twice() -> Planted:
    """A receiver ended a delivery a second time."""
    direct, event = _settled()
    return direct.again(event, "taker")


def settled_by_another() -> Planted:
    """A receiver ended the delivery of another one."""
    direct = Direct("one")
    other = direct.receiver("one")
    message = direct.send("one")
    direct.world.ok(c.Settle(direct.receivers[0], message))
    return direct.with_row(direct.named("ForwardSettled"), "taker", consumer=other)


def settled_by_another_connection() -> Planted:
    """A delivery was ended by a connection that did not attach its receiver."""
    direct, event = _settled()
    return direct.with_row(event, "taker", connection=direct.sending)


def never_settled() -> Planted:
    """A receiver left, and what it had did not end."""
    direct = Direct("one")
    direct.send("one")
    direct.world.detach(direct.receivers[0])
    left = direct.named("LinkDetached")
    return direct.missing(direct.named("ForwardSettled"), "fits", left)


def settled_in_two_manners() -> Planted:
    """A receiver that settles itself got a message that was settled by being sent."""
    direct = Direct("one")
    for _ in range(2):
        direct.world.ok(c.Settle(direct.receivers[0], direct.send("one")))
    event = direct.named("ForwardSettled")
    return direct.with_row(event, "automatic", reason=reasons.AUTOMATIC)


def end_with_words_of_nobody() -> Planted:
    """A delivery ended with its receiver, which is said to have given an error."""
    direct = Direct("one")
    direct.send("one")
    direct.world.detach(direct.receivers[0])
    return direct.saying(direct.named("ForwardSettled"), "fits", error="bad")


def forwarded_to_one_that_leaves() -> Planted:
    """A receiver settled what it had when its deliveries had begun to end with it."""
    direct = Direct("one")
    for _ in range(2):
        direct.send("one")
    direct.world.detach(direct.receivers[0])
    event = direct.named("ForwardSettled")
    return direct.with_row(event, "ended", reason=reasons.BY_CONSUMER)


OF_LINKS: tuple[Planter, ...] = (
    table_that_nobody_can_configure, same_table_again, link_to_a_stored_address,
    link_with_another_distribution, link_of_nobody, receiver_of_any_address,
    link_of_a_closed_connection, link_passed_on_to_nobody, link_that_no_route_passes_on,
    link_passed_on_in_the_other_direction, link_left_behind, link_of_another_connection,
    link_ended_for_another_reason, forwarded_to_a_stored_address, forwarded_elsewhere,
    forwarded_to_the_busier_one, forwarded_to_one_of_all, forwarded_to_two, forwarded_to_a_sender,
    released_although_somebody_receives, forwarded_with_its_own_priority,
    forwarded_for_another_connection, forwarded_with_an_old_id, end_that_nobody_hears,
    content_that_was_not_journaled, content_of_no_length, forwarded_from_no_queue,
    forwarded_as_if_it_were_new, taken_from_a_queue_by_a_peer, settled_twice, settled_by_another,
    settled_by_another_connection, never_settled, settled_in_two_manners,
    end_with_words_of_nobody, forwarded_to_one_that_leaves,
)  # fmt: skip
"""The breaches about direct addresses that an audit by re-execution must find."""
