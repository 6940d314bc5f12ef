"""Links of AMQP 1.0: attaching, credit, transfers, dispositions, transactions, and their ends."""

from typing import Any

import pytest

from daybook.engine import commands as c
from daybook.engine.facts import reasons
from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.facts.own_headers import OWN_HEADERS
from daybook.engine.facts.values import Symbol
from daybook.engine.filters.compiling import compile_filter
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.places import header_of, places_of
from daybook.engine.messages.amqp.writer import encoded, section_of
from daybook.engine.messages.content import view_of
from daybook.engine.settings.permissions import PERMISSIONS, Permissions
from daybook.protocols.amqp import incoming
from daybook.protocols.amqp.wire.errors import (
    DECODE_ERROR,
    FRAME_SIZE_TOO_SMALL,
    HANDLE_IN_USE,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    NOT_FOUND,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_ROLLBACK,
    TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    UNAUTHORIZED_ACCESS,
    UNKNOWN_ID,
    WINDOW_VIOLATION,
)
from daybook.protocols.amqp.wire.frames import frame
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER, SETTLED
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from tests.support.amqp.peer import Peer, message
from tests.support.compiled import replaces_parts
from tests.support.world import SECOND, World
from tests.support.worlds.auditing import DoorWorld, judged

SELECTOR = Symbol("apache.org:selector-filter:string")


@pytest.fixture
def peer() -> Peer:
    return Peer(World()).open()


def _accept(peer: Peer, first: int, last: int | None = None, state: Any = Accepted()) -> None:  # noqa: B008
    peer.say(Disposition(RECEIVER, first, last, True, state))


# ---- sending


def test_a_sender_gets_credit_and_its_messages_are_accepted_in_ranges(peer: Peer) -> None:
    peer.sender(0, "a")
    attached = peer.hear(Attach)
    assert (attached.role, attached.target.address) == (RECEIVER, "a")
    assert peer.hear(Flow).link_credit == 1000
    data = b"".join(_transfer(number, message(b"%d" % number, durable=True)) for number in range(3))
    peer.feed(data)
    assert peer.hear(Disposition) == Disposition(RECEIVER, 0, 2, True, Accepted())
    assert peer.world.ready("a") == [b"0", b"1", b"2"]


def _transfer(number: int, data: bytes) -> bytes:
    return frame(0, Transfer(0, number, b"t", 0), data)


def test_a_settled_message_is_taken_in_silence(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"), settled=True)
    assert peer.heard(Disposition) == []
    assert peer.world.ready("a") == [b"x"]


def test_a_message_may_come_in_several_frames_and_may_be_aborted(peer: Peer) -> None:
    peer.sender(0, "a")
    data = message(b"x" * 100)
    peer.say(Transfer(0, 0, b"t", 0, more=True), data[:30])
    peer.say(Transfer(0, more=True), data[30:60])
    peer.say(Transfer(0, aborted=True))
    assert peer.world.broker.state.address_by_name == {}
    assert peer.connection.input_bytes == 0
    peer.say(Transfer(0, 1, b"u", 0, more=True), data[:30])
    peer.say(Transfer(0), data[30:])
    assert peer.world.ready("a") == [b"x" * 100]


def test_messages_that_begin_alike_say_each_what_they_say(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 1000)
    sent = [
        message(b"x" * (at % 5), durable=at % 3 > 0, priority=4 + at % 2, ttl=at % 7 * 50_000)
        if at % 11
        else message("text", properties={"at": at})
        for at in range(300)
    ]  # fmt: skip
    for at, each in enumerate(sent):
        peer.send(0, at, each)
    deliveries = peer.deliveries()
    assert [said.delivery_id for said, _ in deliveries] == list(range(300))
    assert len({said.delivery_tag for said, _ in deliveries}) == 300
    for data, (_, payload) in zip(sent, deliveries, strict=True):
        places, came = places_of(payload), places_of(data)
        header, wanted = header_of(payload, places[0]), header_of(data, came[0])
        assert payload[places[0].end :] == data[came[0].end :]
        assert (header.durable, header.priority) == (wanted.durable, wanted.priority)
        assert bool(header.ttl) == bool(wanted.ttl)
    assert peer.heard(Disposition)[-1].last in (299, None)


def test_a_time_to_live_begins_with_each_message_that_begins_alike(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 10)
    for at in range(3):
        peer.send(0, at, message(b"x", ttl=60_000))
        ((_, payload),) = peer.deliveries()
        assert header_of(payload, places_of(payload)[0]).ttl == 60_000
        peer.world.now += 1_000_000


def test_notes_on_a_message_are_not_in_the_next_one_that_begins_alike(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 600)
    for at in range(260):
        peer.send(0, at, message(b"x"))
    bare = {payload for _, payload in peer.deliveries()}
    assert len(bare) == 1
    noted = Modified(delivery_failed=False, message_annotations={"x-opt-note": "this one"})
    peer.say(Disposition(RECEIVER, 258, settled=True, state=noted))
    peer.say(Disposition(RECEIVER, 259, settled=True, state=Released()))
    (_, first), (_, second) = peer.deliveries()
    assert (b"this one" in first, b"this one" in second) == (True, False)
    peer.send(0, 260, message(b"x"))
    assert {payload for _, payload in peer.deliveries()} == bare


def test_a_large_message_that_waits_for_room_stays_whole() -> None:
    peer = Peer(World(), min_large_message_size=1024).open()
    world = peer.world
    world.settings(**{"big": {"max-size-messages": 1, "address-full-policy": "BLOCK"}})
    peer.sender(0, "big")
    peer.send(0, 0, message(b"first"))
    body = b"0123456789" * 300
    peer.send(0, 1, message(body))
    assert peer.connection.waiting
    assert peer.connection.input_bytes == 3000
    world.ok(c.PurgeQueue("big"))
    peer.connection.resume_sender(1, world.now)
    peer.settle()
    assert len(peer.heard(Disposition)) == 2
    assert not peer.connection.input_bytes
    (entry,) = world.queue("big").ready()
    assert world.large_body(entry.message) == body


def test_a_body_that_cannot_be_read_ends_its_link_and_counts_no_attempt() -> None:
    peer = Peer(world := DoorWorld(), min_large_message_size=1024).open()
    peer.sender(0, "a")
    peer.send(0, 0, message(bytes(2000), durable=True))
    peer.send(0, 1, message(b"small", durable=True))
    peer.receiver(1, "a", 2)
    [pull] = peer.connection.pulls
    pull.taker.give_up("no file", world.now)
    world.ok(c.Withhold(world.queue("a").id, pull.message))
    peer.settle()
    assert peer.hear(Detach).error.description == "no file"
    returned = world.events_named("Returned")
    assert {each.reason for each in returned} == {reasons.UNREADABLE}
    peer.said.clear()
    peer.receiver(2, "a", 2)
    assert [data[-5:] for _, data in peer.deliveries()] == [b"small"]
    assert not judged(world.journal, world.ends)


def test_a_frame_may_end_where_a_section_in_front_of_a_large_body_ends() -> None:
    peer = Peer(World(), min_large_message_size=1024).open()
    peer.sender(0, "a")
    data = message(b"x" * 3000, properties={"p": "y" * 2000})
    head = places_of(data)[1].end
    peer.say(Transfer(0, 0, b"t", 0, more=True), data[:head])
    peer.say(Transfer(0), data[head:])
    assert peer.hear(Disposition).state == Accepted()
    assert len(peer.world.events_named("ChunkReceived")) == 1


def test_a_message_that_was_rejected_early_is_rejected_once() -> None:
    peer = Peer(World(), min_large_message_size=1024).open()
    peer.sender(0, "a")
    data = message(b"x" * 3000)
    state = TransactionalState(b"none")
    peer.say(Transfer(0, 0, b"t", 0, more=True, state=state), data[:2000])
    peer.say(Transfer(0, more=True), data[2000:2500])
    peer.say(Transfer(0), data[2500:])
    [rejected] = peer.heard(Disposition)
    assert rejected.state.error.condition == UNKNOWN_ID
    assert peer.connection.input_bytes == 0
    assert peer.world.events_named("ChunkReceived") == []


def test_programs_hear_that_a_transaction_was_routed_before(peer: Peer) -> None:
    peer.world.settings(**{"#": {"id-cache-size": 10}})
    peer.sender(0, "a")
    _control_by(peer, Coordinator())
    states = []
    for number in (10, 20):
        declared = _control(peer, number, Declare())
        state = TransactionalState(declared.txn_id)
        body = message(b"x", properties={"_AMQ_DUPL_ID": "1"})
        peer.send(0, number + 1, body, state=state)
        peer.connection.gate = 0
        states.append(_control(peer, number + 2, Discharge(declared.txn_id)))
        # Perhaps another connection sent it, and the journal does not have it yet.
        [recorded] = peer.world.events_named("DuplicateIdRecorded")
        assert peer.connection.gate >= recorded.lsn
    assert states[0] == Accepted()
    assert states[1].error.condition == TRANSACTION_ROLLBACK
    assert states[1].error.info == {"daybook:code": "duplicate-id"}


def test_a_commit_waits_for_messages_that_wait_in_their_links() -> None:
    peer = Peer(World()).open()
    world = peer.world
    world.settings(**{"full": {"max-size-messages": 1, "address-full-policy": "BLOCK"}})
    peer.sender(0, "full")
    _control_by(peer, Coordinator())
    declared = _control(peer, 0, Declare())
    peer.send(0, 1, message(b"first"))
    peer.send(0, 2, message(b"it waits for room"))
    peer.send(0, 3, message(b"in it"), state=TransactionalState(declared.txn_id))
    _say_control(peer, 4, Discharge(declared.txn_id))
    assert [each.first for each in peer.heard(Disposition)] == [1]
    world.ok(c.PurgeQueue("full"))
    peer.connection.resume_sender(1, world.now)
    peer.settle()
    assert [each.first for each in peer.heard(Disposition)] == [2, 3]
    world.ok(c.PurgeQueue("full"))
    peer.connection.resume_sender(2, world.now)
    peer.settle()
    ended = peer.hear(Disposition)
    assert (ended.first, ended.state) == (4, Accepted())
    assert world.ready("full") == [b"in it"]


def test_a_commit_does_not_wait_for_a_message_that_was_aborted_or_whose_link_ended() -> None:
    peer = Peer(World()).open()
    peer.sender(0, "a")
    peer.sender(1, "a")
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    for number, end in ((10, Transfer(0, aborted=True)), (20, Detach(0, closed=True))):
        declared = _control(peer, number, Declare())
        state = TransactionalState(declared.txn_id)
        peer.say(Transfer(0, number + 1, b"t", 0, more=True, state=state), b"\0")
        _say_control(peer, number + 2, Discharge(declared.txn_id))
        assert peer.heard(Disposition) == []
        peer.say(end)
        assert peer.hear(Disposition).state == Accepted()


def test_without_credit_or_above_the_limit_the_link_ends_alone() -> None:
    peer = Peer(World(), credit=2, max_message_size=100).open()
    peer.sender(0, "a")
    peer.sender(1, "b")
    peer.send(0, 0, message(b"x" * 200))
    assert peer.hear(Detach).error.condition == MESSAGE_SIZE_EXCEEDED
    for number in (1, 2):
        peer.say(Transfer(1, number, b"t", 0, more=True), b"\0")
        peer.say(Transfer(1, aborted=True))
    assert peer.heard(Detach) == []
    assert not peer.connection.closing


def test_more_messages_than_credit_end_the_link() -> None:
    world = World()
    world.settings(**{"#": {"max-size-messages": 1, "address-full-policy": "BLOCK"}})
    peer = Peer(world, credit=3).open()
    peer.sender(0, "a")
    for number in range(9):
        peer.send(0, number, message(b"x"))
    assert peer.hear(Detach).error.condition == TRANSFER_LIMIT_EXCEEDED


def test_a_full_address_stops_one_link_and_no_other() -> None:
    world = World()
    world.settings(**{"full": {"max-size-messages": 1, "address-full-policy": "BLOCK"}})
    peer = Peer(world).open()
    peer.sender(0, "full")
    peer.sender(1, "other")
    peer.heard(Flow)
    for number in range(3):
        peer.send(0, number, message(b"f"))
    peer.send(1, 3, message(b"o"))
    accepted = [(each.first, each.last or each.first) for each in peer.heard(Disposition)]
    assert accepted == [(0, 0), (3, 3)]
    waiting = [link for link in range(9) if peer.connection.is_sender_waiting(link)]
    assert len(waiting) == 1
    world.ok(c.PurgeQueue("full"))
    peer.connection.resume_sender(waiting[0], world.now)
    peer.settle()
    assert [each.first for each in peer.heard(Disposition)] == [1]


@pytest.mark.parametrize("data", [b"", b"\xff", b"\0\x53\x75\xa0\xff"])
def test_a_malformed_message_is_rejected(peer: Peer, data: bytes) -> None:
    peer.sender(0, "a")
    peer.send(0, 0, data)
    if data:
        assert peer.hear(Disposition).state.error.condition == DECODE_ERROR
    peer.send(0, 1, message(b"x"))
    assert peer.heard(Disposition)[-1].state == Accepted()


def test_properties_that_only_the_broker_sets_are_removed(peer: Peer) -> None:
    peer.sender(0, "a")
    named = {each: "forged" for each in OWN_HEADERS}
    data = message(b"x", properties={**named, "mine": "kept"})
    peer.send(0, 0, data)
    (entry,) = peer.world.entries("a")
    assert view_of(entry.message).properties == {"mine": "kept"}
    assert all(any(mark in each.encode() for mark in incoming._OWN_MARKS) for each in OWN_HEADERS)


def test_an_anonymous_sender_says_where_each_message_goes(peer: Peer) -> None:
    peer.sender(0, None)
    peer.send(0, 0, message(b"x"))
    assert peer.hear(Disposition).state.error.condition == INVALID_FIELD


def test_faults_of_a_session_end_it_alone(peer: Peer) -> None:
    peer.begin(1)
    peer.sender(0, "a")
    peer.send(9, 0, message(b"x"))
    assert peer.hear(End).error.condition == UNATTACHED_HANDLE
    peer.send(0, 1, message(b"ignored"))
    peer.say(End())
    assert not peer.connection.closing
    peer.say(Attach("again", 5, SENDER, source=Source(), target=Target("a")), channel=1)
    assert peer.heard(Attach)[-1].name == "again"


def test_a_handle_is_used_once(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.sender(0, "b")
    assert peer.hear(End).error.condition == HANDLE_IN_USE


def test_a_window_that_is_ignored_ends_the_session(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.feed(_transfer(0, message(b"x")))
    peer.feed(_begin_of_large() + _more(b"") * 3000)
    assert peer.hear(End).error.condition == WINDOW_VIOLATION


def _begin_of_large() -> bytes:
    return frame(0, Transfer(0, 1, b"t", 0, more=True), b"\0")


def _more(data: bytes) -> bytes:
    return frame(0, Transfer(0, more=True), data)


def test_a_long_reason_is_cut_and_stops_nobody(peer: Peer) -> None:
    peer.sender(0, None)
    for number, size in enumerate((100, 250, 300, 2000, 5000)):
        peer.send(0, number, message(b"x", to="{" + "n" * size))
        problem = peer.hear(Disposition).state.error
        assert problem.condition == INVALID_FIELD
        assert len(problem.description) <= 300


def test_a_delivery_that_does_not_go_on_ends_its_link_alone() -> None:
    peer = Peer(World(), body_timeout_ms=5000, idle_time_out_ms=0).open()
    peer.sender(0, "a")
    peer.sender(1, "a")
    peer.say(Transfer(0, 0, b"t", 0, more=True), b"\0")
    assert peer.connection.next_deadline == peer.world.now + 5 * SECOND
    peer.world.sleep(3)
    peer.say(Transfer(0, more=True), b"\x53")
    peer.world.sleep(3)
    peer.connection.tick(peer.world.now)
    peer.settle()
    assert peer.heard(Detach) == []
    peer.world.sleep(2)
    peer.connection.tick(peer.world.now)
    peer.settle()
    detached = peer.hear(Detach)
    assert (detached.handle, detached.error.condition) == (0, RESOURCE_LIMIT_EXCEEDED)
    peer.send(1, 1, message(b"x"))
    assert peer.hear(Disposition).state == Accepted()
    assert peer.connection.buffered_bytes < 2000


@replaces_parts
def test_a_message_of_very_many_frames_takes_no_more_memory_than_its_bytes(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    right = incoming.arriving.begin_large

    def counting(data: bytes, *rest: int) -> Any:
        looks.append(len(data))
        return right(data, *rest)

    monkeypatch.setattr(incoming.arriving, "begin_large", counting)
    peer.sender(0, "a")
    session = peer.connection._sessions[0]
    link = session.links[0]
    assert isinstance(link, incoming.Incoming)
    text = encoded({Symbol("x-opt-long"): "x" * 150_000})
    data = section_of(0x72, text) + section_of(0x75, encoded(b"body"))
    peer.say(Transfer(0, 0, b"t", 0, more=True), data[:110_000])
    for at in range(110_000, 113_000):
        peer.say(Transfer(0, more=True), data[at : at + 1])
        peer.say(Transfer(0, more=True), b"")
        assert len(link._messages[0].pieces) <= incoming.PIECES_MAX
    assert len(looks) == 1
    peer.say(Transfer(0), data[113_000:])
    assert peer.hear(Disposition).state == Accepted()


def test_a_message_has_a_limited_number_of_properties() -> None:
    peer = Peer(World(), max_headers=10).open()
    peer.sender(0, "a")
    for count, accepted in ((10, True), (11, False)):
        named = {f"n{number}": number for number in range(count)}
        peer.send(0, count, message(b"x", properties=named))
        assert (peer.hear(Disposition).state == Accepted()) == accepted


# ---- receiving


def test_a_delivery_says_how_often_and_whether_it_is_the_first(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x", durable=True, priority=7))
    peer.receiver(1, "a", 9)
    for count in range(3):
        [(transfer, data)] = peer.deliveries()
        header = _header(data)
        assert (header.durable, header.priority) == (True, 7)
        assert (header.delivery_count, header.first_acquirer) == (count, not count)
        assert transfer.delivery_id == count
        assert data.endswith(b"\xa0\x01x")
        _accept(peer, count, state=Modified(delivery_failed=True))


def _header(data: bytes) -> Any:
    return header_of(data, places_of(data)[0])


def test_outcomes_mean_what_they_say(peer: Peer) -> None:
    world = peer.world
    world.settings(**{"#": {"dead-letter-address": "dead"}})
    peer.sender(0, "a")
    peer.receiver(1, "a", 9)
    for number, (state, counts) in enumerate(
        [(Released(), 0), (Modified(), 0), (Modified(delivery_failed=True), 1)]
    ):
        peer.send(0, number, message(b"x"))
        [(transfer, _)] = peer.deliveries()
        peer.say(Disposition(RECEIVER, transfer.delivery_id, None, True, state))
        [(again, data)] = peer.deliveries()
        assert _header(data).delivery_count == counts
        _accept(peer, again.delivery_id)
    peer.send(0, 9, message(b"bad"))
    [(transfer, _)] = peer.deliveries()
    _accept(peer, transfer.delivery_id, state=Rejected())
    assert world.bodies("dead") == [b"bad"]


def test_what_modified_notes_is_in_the_next_delivery(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 9)
    peer.send(0, 0, message(b"x"))
    [(transfer, _)] = peer.deliveries()
    _accept(peer, transfer.delivery_id, state=Modified(message_annotations={"why": "later"}))
    [(_, data)] = peer.deliveries()
    assert b"why" in data
    assert b"later" in data


def test_a_range_settles_all_of_it(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 100)
    for number in range(20):
        peer.send(0, number, message(b"x"))
    assert len(peer.deliveries()) == 20
    _accept(peer, 0, 14)
    assert len(peer.world.in_flight("a")) == 5
    _accept(peer, 0, 0xFFFF_FFF0)
    assert peer.world.in_flight("a") == []


def test_a_long_range_is_settled_in_several_turns(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 100)
    for number in range(60):
        peer.send(0, number, message(b"x"))
    peer.deliveries()
    peer.world.broker.budget.allow(20)
    said = frame(0, Disposition(RECEIVER, 0, 59, True, Accepted()))
    peer.connection.receive(said, peer.world.now)
    assert peer.connection.has_more
    assert 0 < len(peer.world.in_flight("a")) < 60
    peer.settle()
    assert peer.world.in_flight("a") == []


def test_a_receiver_that_waits_for_the_broker_hears_that_it_settled(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 9)
    peer.send(0, 0, message(b"x"))
    peer.heard(Disposition)
    peer.say(Disposition(RECEIVER, 0, None, False, Accepted()))
    settled = peer.hear(Disposition)
    assert (settled.role, settled.settled, settled.state) == (SENDER, True, Accepted())


def test_what_a_peer_says_with_a_state_is_not_repeated(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 9)
    states = (
        Rejected(Error("x", "why" * 300)), Modified(True, message_annotations={"k": "v" * 600}),
    )  # fmt: skip
    for number, state in enumerate(states):
        peer.send(0, number, message(b"x"))
        peer.heard(Disposition)
        [(transfer, _)] = peer.deliveries()
        peer.say(Disposition(RECEIVER, transfer.delivery_id, None, False, state))
        assert peer.hear(Disposition).state == (Rejected(), Modified(True))[number]


def test_an_answer_fits_into_the_frames_of_its_peer() -> None:
    peer = Peer(World())
    peer.log_in()
    peer.say(Open("c", max_frame_size=512))
    peer.connection.admitted("", peer.world.now)
    peer.settle()
    peer.begin()
    peer.receiver(0, "a", name="n" * 100)
    assert peer.hear(Attach).source.address == "a"
    peer.receiver(1, "a", name="m" * 250, filter={"s": Described(SELECTOR, "a = 'b'" * 10)})
    assert peer.hear(Detach).error.condition == FRAME_SIZE_TOO_SMALL
    peer.receiver(2, "a", name="l" * 1000)
    assert peer.hear(End).error.condition == FRAME_SIZE_TOO_SMALL


def test_deliveries_of_a_settled_link_are_settled(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 9, settled=SETTLED)
    peer.send(0, 0, message(b"x"))
    [(transfer, _)] = peer.deliveries()
    assert transfer.settled
    assert peer.world.in_flight("a") == []


def test_credit_is_counted_and_a_drain_is_answered(peer: Peer) -> None:
    peer.sender(0, "a")
    peer.receiver(1, "a", 2)
    for number in range(5):
        peer.send(0, number, message(b"x"))
    assert len(peer.deliveries()) == 2
    peer.flow(1, 2, count=2)
    assert len(peer.deliveries()) == 2
    peer.heard(Flow)
    peer.flow(1, 10, count=4, drain=True)
    assert len(peer.deliveries()) == 1
    drained = peer.hear(Flow)
    assert (drained.handle, drained.delivery_count, drained.link_credit) == (1, 14, 0)


def test_deliveries_wait_for_the_window_of_the_session() -> None:
    peer = Peer(World())
    peer.open()
    peer.begin(1, window=3)
    peer.say(Attach("r", 0, RECEIVER, source=Source("a"), target=Target()), channel=1)
    peer.say(
        Flow(
            next_incoming_id=0, incoming_window=3, next_outgoing_id=0, outgoing_window=9, handle=0,
            delivery_count=0, link_credit=100,
        ),
        channel=1,
    )  # fmt: skip
    peer.sender(0, "a")
    for number in range(5):
        peer.send(0, number, message(b"x"))
    assert len(peer.deliveries()) == 3
    assert peer.connection.unsent_bytes > 0
    peer.say(
        Flow(next_incoming_id=3, incoming_window=9, next_outgoing_id=0, outgoing_window=9),
        channel=1,
    )
    assert len(peer.deliveries()) == 2
    assert peer.connection.unsent_bytes == 0


def test_what_waits_for_the_window_goes_with_its_link_and_leaves_no_number_out() -> None:
    peer = Peer(World())
    peer.open()
    peer.begin(1, window=2)
    windows = {"next_outgoing_id": 0, "outgoing_window": 9}
    for handle, address in enumerate(("long", "short")):
        attach = Attach(f"r{handle}", handle, RECEIVER, source=Source(address), target=Target())
        peer.say(attach, channel=1)
        flow = Flow(
            next_incoming_id=0, incoming_window=2, handle=handle, delivery_count=0, link_credit=9,
            **windows,
        )  # fmt: skip
        peer.say(flow, channel=1)
    peer.sender(0, "long")
    peer.sender(1, "short")
    # The first frames of a delivery leave, the rest and another one wait with it.
    peer.connection.max_frame_size = 512
    peer.send(0, 0, message(b"x" * 2000))
    peer.send(0, 1, message(b"y"))
    peer.send(1, 2, message(b"z"))
    peer.deliveries()
    peer.say(Detach(0, True), channel=1)
    assert peer.hear(Detach).handle == 0
    peer.say(Flow(next_incoming_id=2, incoming_window=9, **windows), channel=1)
    ((transfer, _),) = peer.deliveries()
    assert (transfer.handle, transfer.delivery_id) == (1, 1)
    assert peer.connection.unsent_bytes == 0


def test_the_body_of_a_delivery_that_waits_for_the_window_is_kept() -> None:
    peer = Peer(World(), min_large_message_size=1000).open()
    peer.begin(1, window=0)
    attach = Attach("r", 0, RECEIVER, snd_settle_mode=SETTLED, source=Source("a"), target=Target())
    peer.say(attach, channel=1)
    flow = Flow(
        next_incoming_id=0, incoming_window=0, next_outgoing_id=0, outgoing_window=9, handle=0,
        delivery_count=0, link_credit=9,
    )  # fmt: skip
    peer.say(flow, channel=1)
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x" * 5000))
    assert peer.connection.first_chunk > 0
    peer.say(Detach(0, True), channel=1)
    assert peer.connection.first_chunk == 0


def test_a_connection_that_is_gone_holds_nothing() -> None:
    peer = Peer(World()).open()
    peer.begin(1, window=0)
    peer.say(Attach("r", 0, RECEIVER, source=Source("a"), target=Target()), channel=1)
    flow = Flow(
        next_incoming_id=0, incoming_window=0, next_outgoing_id=0, outgoing_window=9, handle=0,
        delivery_count=0, link_credit=9,
    )  # fmt: skip
    peer.say(flow, channel=1)
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"))
    peer.send(0, 1, b"the beginning of a message", more=True)
    assert peer.connection.input_bytes
    assert peer.connection.unsent_bytes
    peer.connection.connection_lost(peer.world.now)
    assert peer.connection.buffered_bytes == peer.connection.unsent_bytes == 0


def test_a_selector_and_a_browser() -> None:
    peer = Peer(World(compile_filter=compile_filter)).open()
    peer.sender(0, "a")
    for number, priority in enumerate((1, 9)):
        peer.send(0, number, message(b"%d" % number, priority=priority))
    wanted = {"s": Described(SELECTOR, "JMSPriority = 1")}
    peer.receiver(1, "a", 9, filter=wanted, distribution_mode="copy")
    attached = peer.heard(Attach)[-1]
    assert attached.source.filter == wanted
    [(transfer, data)] = peer.deliveries()
    assert data.endswith(b"0")
    _accept(peer, transfer.delivery_id)
    assert len(peer.world.ready("a")) == 2


def test_selectors_over_very_many_properties_split_the_turn() -> None:
    world = World(compile_filter=compile_filter)
    peer = Peer(world).open()
    peer.sender(0, "a")
    properties = {f"property{number}": number for number in range(600)}
    for number in range(10):
        peer.send(0, number, message(b"x", properties=properties))
    selector = Described(SELECTOR, "property7 = 'x' OR property8 = 'y'")
    source = Source("a", distribution_mode="copy", filter={"s": selector})
    attach = frame(0, Attach("r", 1, RECEIVER, source=source, target=Target()))
    peer.connection.receive(attach, world.now)
    (browser,) = (each for each in world.broker.state.consumers.values() if each.browse)
    (queue,) = world.broker.state.queues.values()
    turns = 0
    while browser.caught_up != queue.newest:
        world.broker.budget.allow(600)
        world.broker.dispatch(world.now)
        turns += 1
    # Each message has 12 KB of properties, which are 380 units of the budget.
    assert turns >= 5


def test_a_source_that_cannot_be_is_refused(peer: Peer) -> None:
    peer.receiver(
        1, "a", filter={"s": Described(Symbol("apache.org:selector-filter:string"), "((")}
    )
    attached, detached = peer.hear(Attach), peer.hear(Detach)
    assert attached.source is None
    assert (detached.closed, detached.error.condition) == (True, INVALID_FIELD)
    peer.say(Detach(1, True))
    peer.receiver(1, "a")
    assert peer.hear(Attach).source.address == "a"


def test_a_deleted_queue_ends_its_link_alone(peer: Peer) -> None:
    peer.receiver(1, "a", 9)
    peer.world.settings(**{"#": {"config-delete-addresses": "FORCE"}})
    peer.world.ok(c.CreateAddress("a", (ANYCAST,), adopts=True, configured=True))
    peer.world.handle(c.DropUnlisted(frozenset(), frozenset(), frozenset()))
    peer.settle()
    assert peer.hear(Detach).error.condition == RESOURCE_DELETED
    assert not peer.connection.closing
    peer.say(Detach(1, True))
    peer.receiver(1, "a")
    assert peer.heard(Attach)[-1].source.address == "a"


def test_the_owner_of_a_dynamic_node_is_its_link(peer: Peer) -> None:
    peer.say(
        Attach(
            "d", 0, SENDER, source=Source(), target=Target(dynamic=True), initial_delivery_count=0
        )
    )
    address = peer.hear(Attach).target.address
    peer.receiver(1, address, 9)
    peer.send(0, 0, message(b"x"))
    assert len(peer.deliveries()) == 1
    peer.say(Detach(0, True))
    ended = {each.handle: each.error for each in peer.heard(Detach)}
    assert ended[0] is None
    assert ended[1].condition == RESOURCE_DELETED
    assert address not in peer.world.state.address_by_name


def test_a_dynamic_node_is_on_the_virtual_host_of_its_link() -> None:
    peer = Peer(World(), virtual_hosts=(("eu", "eu"),)).open(hostname="eu")
    peer.receiver(0, None, credit=5, dynamic=True)
    address = peer.hear(Attach).source.address
    assert address.startswith("temp.default.")
    peer.sender(1, address)
    peer.send(1, 0, message(b"reply"))
    ((_, data),) = peer.deliveries()
    assert data.endswith(b"reply")


def test_a_durable_subscription_outlives_its_link_and_is_closed(peer: Peer) -> None:
    def attach(handle: int) -> None:
        peer.receiver(handle, "topic://news", 9, name="sub", durable=2, expiry_policy="never")

    attach(1)
    peer.say(Detach(1))
    peer.sender(0, "topic://news")
    peer.send(0, 0, message(b"x"))
    attach(2)
    assert len(peer.deliveries()) == 1
    peer.say(Detach(2, True))
    assert "dsub.c.sub" not in peer.world.state.queue_by_name
    peer.heard(Attach)
    peer.say(Attach("sub", 3, RECEIVER, source=None, target=Target()))
    assert peer.hear(Attach).source is None
    assert peer.heard(Detach)[-1].error.condition == NOT_FOUND


def test_a_shared_subscription_is_one_queue_of_several_connections() -> None:
    world = World()
    peers = [Peer(world).open(f"c{number}") for number in range(2)]
    for number, peer in enumerate(peers):
        peer.receiver(
            1, "topic://news", 9, name=f"s|global{number}", capabilities=("shared", "global")
        )
    peers[0].sender(0, "topic://news")
    for number in range(4):
        peers[0].send(0, number, message(b"x"))
    peers[1].settle()
    assert len(peers[0].deliveries()) + len(peers[1].deliveries()) == 4
    for peer in peers:
        peer.say(Detach(1, True))
    assert not world.state.queue_by_name


# ---- transactions


def _control_by(peer: Peer, target: Any) -> None:
    peer.say(Attach("tx", 5, SENDER, source=Source(), target=target, initial_delivery_count=0))


def _say_control(peer: Peer, number: int, said: Any) -> None:
    peer.send(5, number, section_of(0x77, COMPOSITES.encoded(said)))


def _control(peer: Peer, number: int, said: Any) -> Any:
    _say_control(peer, number, said)
    return peer.heard(Disposition)[-1].state


def test_a_transaction_is_committed_or_rolled_back(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    for number, fails in enumerate((True, False)):
        declared = _control(peer, 10 * number, Declare())
        assert isinstance(declared, Declared)
        peer.send(
            0, 10 * number + 1, message(b"%d" % number),
            state=TransactionalState(declared.txn_id),
        )  # fmt: skip
        assert peer.heard(Disposition)[-1].state == TransactionalState(declared.txn_id, Accepted())
        assert peer.world.broker.state.address_by_name.get("a") is None or not peer.world.ready("a")
        assert _control(peer, 10 * number + 2, Discharge(declared.txn_id, fails)) == Accepted()
    assert peer.world.ready("a") == [b"1"]


def test_what_a_rolled_back_transaction_had_settled_comes_again(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"))
    peer.receiver(1, "a", 9)
    [(transfer, _)] = peer.deliveries()
    declared = _control(peer, 1, Declare())
    state = TransactionalState(declared.txn_id, Accepted())
    _accept(peer, transfer.delivery_id, state=state)
    _control(peer, 2, Discharge(declared.txn_id, fail=True))
    [(_, data)] = peer.deliveries()
    assert _header(data).delivery_count == 1


def test_what_a_transaction_did_not_take_any_more_comes_again(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"))
    peer.receiver(1, "a", 9)
    [(transfer, _)] = peer.deliveries()
    declared = _control(peer, 1, Declare())
    peer.world.sleep(2)
    peer.world.ok(c.ExpireTransactions(1))
    _accept(peer, transfer.delivery_id, state=TransactionalState(declared.txn_id, Accepted()))
    # It said that it had settled it, so there is nothing to answer.
    assert peer.heard(Disposition) == []
    assert isinstance(_control(peer, 2, Discharge(declared.txn_id)), Rejected)
    [(_, data)] = peer.deliveries()
    assert _header(data).delivery_count == 1


def test_what_waits_for_the_window_and_for_a_large_message_keeps_its_order() -> None:
    peer = Peer(World(), min_large_message_size=1024).open()
    peer.begin(1, window=1)
    peer.sender(0, "a")
    bodies = [b"0", b"1" * 3000, b"2", b"3" * 3000, b"4"]
    for number, body in enumerate(bodies):
        peer.send(0, number, message(body))
    peer.say(Attach("r", 0, RECEIVER, source=Source("a"), target=Target()), channel=1)
    found: list[str] = []
    came = 0
    for turn in range(40):
        grant = {"handle": 0, "delivery_count": 0, "link_credit": 9, "drain": True}
        peer.say(
            Flow(
                next_incoming_id=came, incoming_window=1, next_outgoing_id=0, outgoing_window=9,
                **({} if turn else grant),
            ),
            channel=1,
        )  # fmt: skip
        while peer.connection.pulls:
            pull = peer.connection.pulls.pop(0)
            chunk = next(each for each in peer.world.journal if each.lsn == pull.chunk)
            pull.taker.take(chunk.body, peer.world.now)
            peer.settle()
        for said, payload in peer.said:
            if isinstance(said, Transfer):
                came += 1
                found += [] if said.more else [payload[-1:].decode()]
            elif isinstance(said, Flow) and said.drain:
                found.append(f"drained {said.delivery_count}")
        peer.said.clear()
    assert found == ["0", "1", "2", "3", "4", "drained 9"]


def test_an_unknown_transaction_is_refused(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    peer.send(0, 0, message(b"x"), state=TransactionalState(b"none"))
    assert peer.heard(Disposition)[-1].state.error.condition == UNKNOWN_ID
    assert _control(peer, 1, Discharge(b"none")).error.condition == UNKNOWN_ID


def test_the_refusal_of_a_settled_message_ends_its_link_with_the_reason(peer: Peer) -> None:
    peer.world.ok(c.SetSettings("full", {"max-size-messages": 1, "address-full-policy": "FAIL"}))
    refused = (
        ("locked", message(b"x"), UNAUTHORIZED_ACCESS),
        ("full", message(b"x"), RESOURCE_LIMIT_EXCEEDED),
        ("a", b"no message", DECODE_ERROR),
        (None, message(b"x"), INVALID_FIELD),
    )
    for handle, (address, data, condition) in enumerate(refused):
        peer.sender(handle, address)
        if address == "locked":
            # The right is lost while the link is there.
            rules = {name: ("*",) for name in PERMISSIONS}
            peer.world.broker.permit(Permissions({"#": rules, "locked": {}}))
        for number in range(2 if address == "full" else 1):
            peer.send(handle, 10 * handle + number, data, settled=True)
        detached = peer.hear(Detach)
        assert (detached.handle, detached.error.condition) == (handle, condition)
    assert peer.heard(Disposition) == []


def test_a_settled_message_that_is_refused_dooms_its_transaction(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    declared = _control(peer, 1, Declare())
    state = TransactionalState(declared.txn_id)
    peer.send(0, 2, message(b"x"), state=state)
    peer.send(0, 3, b"no message", state=state, settled=True)
    assert peer.hear(Detach).error.condition == DECODE_ERROR
    outcome = _control(peer, 4, Discharge(declared.txn_id))
    assert outcome.error.condition == TRANSACTION_ROLLBACK
    assert peer.world.broker.state.address_by_name.get("a") is None or not peer.world.ready("a")


def test_the_end_of_the_controlling_link_rolls_back(peer: Peer) -> None:
    peer.say(
        Attach("tx", 5, SENDER, source=Source(), target=Coordinator(), initial_delivery_count=0)
    )
    peer.sender(0, "a")
    declared = _control(peer, 0, Declare())
    peer.send(0, 1, message(b"x"), state=TransactionalState(declared.txn_id))
    peer.say(Detach(5, True))
    assert not peer.connection.transactions
    peer.world.check()
    assert "a" not in peer.world.state.address_by_name or not peer.world.ready("a")
