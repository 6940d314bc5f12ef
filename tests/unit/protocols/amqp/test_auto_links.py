"""Connections that the broker opens, and the links that it attaches by itself (ADR 110)."""

from msgspec.structs import replace

from daybook.engine import commands as c
from daybook.engine.facts.definitions import (
    ANYCAST,
    AutoLink,
    DistributionEntry,
    QueueDefinition,
    Waypoint,
)
from daybook.engine.messages.amqp.places import header_of, places_of
from daybook.engine.names.names import qualified
from daybook.protocols.amqp.faults import SessionFault
from daybook.protocols.amqp.wire.errors import NOT_ALLOWED
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import Attach, Begin, Disposition
from daybook.protocols.amqp.wire.termini import Modified, Released, Source, Target
from daybook.protocols.port import ACTIVE, FAILED, AutoLinkRow
from tests.support.amqp.line import Anonymous, Line
from tests.support.amqp.peer import Peer, follow
from tests.support.world import World

OUT = AutoLink("to-east", "orders", "orders", is_out=True)
IN = AutoLink("from-east", "orders", "orders", is_out=False)


def _with_queue(*names: str) -> World:
    world = World()
    for name in names:
        world.ok(c.CreateQueue(name, QueueDefinition(name, ANYCAST)))
    return world


def test_a_connection_is_opened_and_both_know_who_is_there() -> None:
    line = Line().settle()
    assert line.dialled.connection
    assert line.accepted.connection
    (there,) = (
        each for each in line.there.broker.state.connections.values() if each.client_id == "here"
    )
    assert there.user == "guest"
    assert line.dialled.container == "there"
    assert not line.dialled.error


def test_a_login_with_a_passcode_is_accepted_or_refused_with_the_reason() -> None:
    login = Anonymous("guest")
    assert Line(login=login).settle().dialled.connection
    wrong = Line(login=Anonymous("wrong")).settle()
    assert wrong.dialled.closing
    assert wrong.dialled.error == "the passcode is wrong"
    none = Line(mechanisms=("EXTERNAL",)).settle()
    assert none.dialled.closing
    assert none.dialled.error == "ANONYMOUS is not offered"


def test_messages_go_over_a_link_that_goes_out() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    assert line.rows()["to-east"].state == ACTIVE
    for number in range(3):
        line.send(here, "orders", b"%d" % number)
    line.settle()
    assert here.bodies("orders") == []
    assert there.bodies("orders") == [b"0", b"1", b"2"]
    assert line.rows()["to-east"].total == 3


def test_messages_come_over_a_link_that_comes_in() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(IN, here=here, there=there).settle()
    assert line.rows()["from-east"].state == ACTIVE
    line.send(there, "orders", b"x")
    line.settle()
    assert there.bodies("orders") == []
    assert here.bodies("orders") == [b"x"]
    assert line.rows()["from-east"].total == 1


def test_a_peer_says_how_many_messages_wait_there() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(IN, OUT, here=here, there=there).settle()
    assert line.rows()["from-east"].available is None
    # Another consumer has the credit that this one has not got.
    there.handle(c.PauseQueue("orders"))
    for _ in range(3):
        line.send(there, "orders", b"x")
    line.settle().later(5.1)
    assert line.rows()["from-east"].available == 3
    assert line.rows()["to-east"].available is None
    there.handle(c.ResumeQueue("orders"))
    line.settle().later(5.1)
    assert line.rows()["from-east"].available == 0
    assert line.rows()["from-east"].total == 3


def test_a_link_with_a_limit_empties_a_queue_and_ends() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(here=here, there=there).settle()
    for number in range(5):
        line.send(here, "orders", b"%d" % number)
    drain = AutoLink("drain", "orders", "orders", is_out=True, queue="orders", limit=3)
    line.dialled.attach_link(drain, here.now)
    line.settle()
    assert there.bodies("orders") == [b"0", b"1", b"2"]
    assert here.bodies("orders") == [b"3", b"4"]
    assert line.rows()["drain"].total == 3
    line.later(0.6)
    assert not line.rows()
    assert not here.queue("orders").consumers
    assert not line.accepted._sessions


def test_a_link_with_a_limit_ends_when_nothing_is_left() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    drain = AutoLink("drain", "bills", "bills", is_out=True, queue="bills", limit=9)
    here.ok(c.CreateQueue("bills", QueueDefinition("bills", ANYCAST)))
    line.send(here, "bills", b"x")
    line.dialled.attach_link(drain, here.now)
    line.settle().later(0.6)
    assert there.bodies("bills") == [b"x"]
    assert [*line.rows()] == ["to-east"]


def _renewed(line: Line, *links: AutoLink) -> Line:
    line.links = links
    line.dialled.renew_auto_links(line.here.now)
    return line


def test_links_are_added_and_removed_on_an_open_connection() -> None:
    here, there = _with_queue("orders", "bills"), _with_queue("orders", "bills")
    line = Line(OUT, here=here, there=there).settle()
    (former,) = here.queue("orders").consumers
    bills = AutoLink("bills", "bills", "bills", is_out=False)
    _renewed(line, OUT, bills).settle()
    assert {each.state for each in line.rows().values()} == {ACTIVE}
    assert [*here.queue("orders").consumers] == [former]
    _renewed(line, bills).settle().later(0.6)
    assert [*line.rows()] == ["bills"]
    assert not here.queue("orders").consumers
    assert len(line.accepted._sessions) == 1
    _renewed(line).settle().later(0.6)
    assert not line.rows()
    assert not line.accepted._sessions
    assert not line.dialled.closing


def test_links_are_added_where_there_was_none() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = _renewed(Line(here=here, there=there).settle(), OUT).settle()
    assert line.rows()["to-east"].state == ACTIVE


def test_a_link_out_that_is_removed_waits_for_outcomes_and_takes_nothing_new() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    line.send(here, "orders", b"on its way")
    follow(here, line.dialled)
    _renewed(line)
    line.send(here, "orders", b"later")
    follow(here, line.dialled)
    assert line.rows()["to-east"].in_flight == 1
    line.settle().later(0.6)
    assert not line.rows()
    assert there.bodies("orders") == [b"on its way"]
    assert here.ready("orders") == [b"later"]


def test_a_link_in_that_is_removed_takes_what_the_peer_has_sent() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(IN, here=here, there=there).settle()
    line.send(there, "orders", b"on its way")
    follow(there, line.accepted)
    _renewed(line)
    line.settle().later(0.6)
    assert not line.rows()
    assert here.bodies("orders") == [b"on its way"]
    assert there.bodies("orders") == []
    line.send(there, "orders", b"later")
    line.settle()
    assert there.ready("orders") == [b"later"]


def test_a_link_whose_outcomes_do_not_come_ends_all_the_same() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    line.send(here, "orders", b"x")
    follow(here, line.dialled)
    _renewed(line)
    line.dialled.out.clear()
    for _ in range(22):
        here.now += 500_000
        line.dialled.tick(here.now)
    assert not line.rows()
    follow(here, line.dialled)
    assert here.ready("orders") == [b"x"]


def test_a_changed_link_takes_the_place_of_the_former_and_counts_on() -> None:
    here, there = _with_queue("orders"), _with_queue("orders", "bills")
    line = Line(OUT, here=here, there=there).settle()
    line.send(here, "orders", b"1")
    line.settle()
    changed = AutoLink("to-east", "orders", "bills", is_out=True)
    _renewed(line, changed).settle().later(0.6)
    line.send(here, "orders", b"2")
    line.settle()
    assert there.bodies("orders") == [b"1"]
    assert there.bodies("bills") == [b"2"]
    assert line.rows()["to-east"] == AutoLinkRow(changed, ACTIVE, total=2)


def test_a_link_that_is_removed_and_wanted_again_is_there_in_the_end() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(IN, here=here, there=there).settle()
    _renewed(_renewed(line), IN).settle().later(0.6).later(0.1)
    line.send(there, "orders", b"x")
    line.settle()
    assert here.bodies("orders") == [b"x"]
    assert [each.state for each in line.rows().values()] == [ACTIVE]


def test_a_cost_changes_in_place_where_it_decides_nothing() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    (former,) = here.queue("orders").consumers
    dearer = replace(OUT, cost=5)
    _renewed(line, dearer).settle()
    assert line.rows()["to-east"].link == dearer
    assert [*here.queue("orders").consumers] == [former]


def test_a_cost_of_a_direct_address_is_that_of_a_new_link() -> None:
    here, there = World(), _with_queue("orders")
    here.ok(c.ChangeDistributions((DistributionEntry(prefix="orders"),), "stored"))
    line = Line(OUT, here=here, there=there).settle()
    dearer = replace(OUT, cost=5)
    _renewed(line, dearer).settle().later(0.6)
    assert line.rows()["to-east"] == AutoLinkRow(dearer, ACTIVE)
    (link,) = here.broker.direct.receivers.values()
    assert link.cost == 5


def test_a_link_that_was_refused_is_removed_at_once() -> None:
    here, there = _with_queue("orders"), World()
    there.ok(c.SetSettings("#", {"auto-create-addresses": False, "auto-create-queues": False}))
    line = Line(IN, here=here, there=there).settle()
    _renewed(line)
    assert not line.rows()
    assert not line.settle().accepted._sessions


def test_a_link_without_an_answer_yet_is_removed_when_it_is_there() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there)
    for _ in range(4):
        follow(there, line.accepted)
        line._carry(line.dialled, line.accepted, there)
        line._answer()
        line._carry(line.accepted, line.dialled, here)
    _renewed(line).settle().later(0.6).later(0.6)
    assert not line.rows()
    assert line.dialled.connection
    assert not here.queue("orders").consumers


def test_a_link_to_a_container_is_attached_when_it_has_connected() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(container_links=(OUT,), here=here, there=there).settle()
    (row,) = line.accepted.auto_links
    assert row.state == FAILED
    assert "names no user" in row.why


def test_a_peer_may_attach_by_the_right_of_the_user_that_a_connector_names() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(container_links=(OUT,), user="guest", here=here, there=there).settle()
    (row,) = line.accepted.auto_links
    assert row.state == ACTIVE
    line.send(there, "orders", b"x")
    line.settle()
    assert here.bodies("orders") == [b"x"]


def test_a_container_gets_the_links_of_its_virtual_host_alone() -> None:
    elsewhere = AutoLink("other", qualified("eu", "orders"), "orders", is_out=True)
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(container_links=(elsewhere,), user="guest", here=here, there=there).settle()
    assert line.accepted.auto_links == ()


def test_a_link_that_is_refused_is_attached_again_later() -> None:
    here, there = _with_queue("orders"), World()
    there.ok(c.SetSettings("#", {"auto-create-addresses": False, "auto-create-queues": False}))
    line = Line(IN, here=here, there=there).settle()
    row = line.rows()["from-east"]
    assert row.state == FAILED
    assert "amqp:not-found" in row.why
    there.ok(c.CreateQueue("orders", QueueDefinition("orders", ANYCAST)))
    line.later(1.9)
    assert line.rows()["from-east"].state == FAILED
    line.later(0.2)
    assert line.rows()["from-east"].state == ACTIVE
    assert line.rows()["from-east"].why == ""


def test_a_link_whose_queue_is_deleted_fails_alone() -> None:
    here, there = _with_queue("orders", "bills"), _with_queue("orders", "bills")
    bills = AutoLink("bills", "bills", "bills", is_out=False)
    line = Line(IN, bills, here=here, there=there).settle()
    there.settings(**{"#": {"config-delete-addresses": "FORCE"}})
    there.ok(c.CreateAddress("orders", (ANYCAST,), adopts=True, configured=True))
    there.handle(c.DropUnlisted(frozenset(), frozenset(), frozenset()))
    line.settle()
    assert line.rows()["from-east"].state == FAILED
    assert line.rows()["bills"].state == ACTIVE


def test_messages_whose_outcome_is_not_known_return_when_the_connection_is_lost() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    line.send(here, "orders", b"x")
    follow(here, line.dialled)
    assert here.in_flight("orders") == [b"x"]
    line.dialled.connection_lost(here.now)
    assert here.ready("orders") == [b"x"]
    assert not here.queue("orders").consumers
    assert not here.state.connections


def test_a_session_that_the_peer_ends_is_begun_again() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    (session,) = line.accepted._sessions.values()
    line.accepted._end_session(session, SessionFault(NOT_ALLOWED, "go away"), there.now)
    line.settle()
    assert line.rows()["to-east"].state == FAILED
    assert line.rows()["to-east"].why == "amqp:not-allowed: go away"
    line.later(2.1)
    assert line.rows()["to-east"].state == ACTIVE


def test_a_large_message_goes_in_pieces() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there).settle()
    body = bytes(range(256)) * 1000
    line.send(here, "orders", body)
    line.settle()
    assert here.bodies("orders") == []
    (entry,) = there.entries("orders")
    assert there.large_body(entry.message) == body


def test_sessions_that_the_peer_does_not_allow_are_said() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(IN, OUT, here=here, there=there, max_sessions=1).settle()
    rows = line.rows().values()
    assert {each.state for each in rows} == {ACTIVE, FAILED}
    assert {each.why for each in rows} == {"", "the peer allows no more sessions"}


def test_an_answer_to_a_session_that_was_not_begun_closes_the_connection() -> None:
    line = Line().settle()
    begin = Begin(remote_channel=7, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    line.dialled.receive(frame(0, begin), line.here.now)
    assert line.dialled.closing
    assert "began no session" in line.dialled.error


def test_a_peer_cannot_attach_to_a_session_of_the_broker() -> None:
    here, there = _with_queue("orders"), _with_queue("orders")
    line = Line(OUT, here=here, there=there, user="guest").settle()
    (session,) = line.accepted._sessions.values()
    asked = Attach("mine", 5, RECEIVER, source=Source("orders"), target=Target("t"))
    line.dialled.receive(frame(session.channel, asked), here.now)
    assert line.rows()["to-east"].state == FAILED
    line.settle().later(2.1).later(5.1)
    assert line.rows()["to-east"].state == ACTIVE


def test_a_peer_that_speaks_something_else_is_left() -> None:
    line = Line()
    line.dialled.receive(b"HTTP/1.1 400 Bad Request\r\n", line.here.now)
    assert line.dialled.closing
    assert "does not speak AMQP 1.0" in line.dialled.error
    assert not line.here.state.connections


def test_the_reason_of_a_close_is_kept() -> None:
    line = Line().settle()
    line.accepted.dismiss("the broker moves", "", line.there.now)
    line.settle()
    assert line.dialled.closing
    assert line.dialled.error == (
        "the peer closed the connection: amqp:connection:forced: the broker moves"
    )


def test_what_another_broker_says_of_earlier_deliveries_gets_to_the_consumer() -> None:
    here, there = World(), _with_queue("wp")
    table = (DistributionEntry(prefix="wp", waypoint=True),)
    here.ok(c.ChangeDistributions(table, "stored", (Waypoint("wp"),)))
    back = AutoLink("back", "wp", "wp", is_out=False, phase=1)
    line = Line(back, here=here, there=there).settle()
    client = Peer(here).open("client")
    client.receiver(1, "wp", 10)
    line.send(there, "wp", b"x")

    def delivered() -> tuple[int, bool, int]:
        line.settle()
        client.settle()
        ((transfer, payload),) = client.deliveries()
        header = header_of(payload, places_of(payload)[0])
        return transfer.delivery_id, header.first_acquirer, header.delivery_count

    number, *facts = delivered()
    assert facts == [True, 0]
    failed = Modified(delivery_failed=True)
    client.say(Disposition(RECEIVER, number, settled=True, state=failed))
    number, *facts = delivered()
    assert facts == [False, 1]
    client.say(Disposition(RECEIVER, number, settled=True, state=Released()))
    assert delivered()[1:] == (False, 1)
