"""The share of one connection in a turn: where a session stops, and questions without a walk."""

import pytest

from daybook.engine.commands import Send, Settle
from daybook.engine.refusals import Code
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.exchange import Exchange
from tests.unit.protocols.stomp.fakes import Peer, connected, frame

SEND = b"SEND\ndestination:/queue/a\n\n%d\0"


def stopped(peer: Peer, data: bytes, units: int) -> Peer:
    """A peer whose session stopped because its budget was spent."""
    peer.broker.budget.allow(units)
    peer.send(data)
    assert peer.session.has_more
    return peer


def test_a_session_stops_between_two_frames_and_goes_on() -> None:
    peer = stopped(connected(), b"".join(SEND % number for number in range(10)), 4)
    # Taking the head apart for the first time is work as well.
    sent = len(peer.broker.of(Send))
    assert 0 < sent <= 4
    for _ in range(20):
        peer.broker.budget.allow(2)
        peer.session.proceed(peer.now)
    assert not peer.session.has_more
    bodies = [command.body for command in peer.broker.of(Send)]  # type: ignore[attr-defined]
    assert bodies == [b"%d" % number for number in range(10)]


def test_what_comes_while_a_session_waits_is_behind() -> None:
    peer = stopped(connected(), b"".join(SEND % number for number in range(6)), 3)
    peer.send(SEND % 6)
    peer.broker.budget.allow(100)
    peer.session.proceed(peer.now)
    bodies = [command.body for command in peer.broker.of(Send)]  # type: ignore[attr-defined]
    assert bodies == [b"%d" % number for number in range(7)]


def test_an_unfinished_command_is_given_again_before_all_that_follows() -> None:
    peer = connected()
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client"))
    for _ in range(2):
        peer.broker.refuse(Settle, Code.UNFINISHED, "")
    output = peer.send(b"ACK\nid:1-7\nreceipt:r\n\n\0" + SEND % 1)
    assert (output, peer.session.has_more) == (b"", True)
    peer.session.proceed(peer.now)
    assert peer.session.has_more
    peer.session.proceed(peer.now)
    assert peer.taken() == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert len(peer.broker.of(Settle)) == 3
    assert len(peer.broker.of(Send)) == 1


def test_a_run_of_acks_goes_on_with_the_one_that_is_unfinished() -> None:
    peer = connected()
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client"))
    peer.broker.commands.clear()
    acks = b"".join(b"ACK\nid:1-%d\n\n\0" % number for number in (5, 6, 7))
    stopped(peer, acks[:13] + acks[13:], 1)
    for _ in range(5):
        peer.broker.budget.allow(1)
        peer.session.proceed(peer.now)
    given = [command.message for command in peer.broker.of(Settle)]  # type: ignore[attr-defined]
    assert given == [5, 6, 7]


def test_a_session_that_ends_while_it_waits_does_nothing_more() -> None:
    peer = stopped(connected(), b"".join(SEND % number for number in range(6)), 3)
    sent = len(peer.broker.of(Send))
    peer.session.connection_lost(peer.now)
    assert not peer.session.has_more
    peer.session.proceed(peer.now)
    assert len(peer.broker.of(Send)) == sent


def test_a_head_is_taken_apart_once_however_its_frame_arrives() -> None:
    peer = connected(options=StompOptions())
    lines = "".join(f"h{number}:\\c\\c\n" for number in range(990))
    head = f"SEND\ndestination:/queue/a\n{lines}content-length:200\n\n".encode()
    before = peer.broker.budget.spent
    peer.send(head)
    once = peer.broker.budget.spent - before
    assert once >= 400
    for _ in range(200):
        peer.send(b"x")
    peer.send(b"\0")
    assert len(peer.broker.of(Send)) == 1
    assert peer.broker.budget.spent - before < 2 * once


def test_an_ack_of_1_0_costs_the_same_whatever_else_is_subscribed() -> None:
    exchange = Exchange()
    few, many = exchange.client(None), exchange.client(None)
    for number in range(500):
        many.send(f"SUBSCRIBE\nid:t{number}\ndestination:/topic/t{number}\nack:client")
    budget = exchange.broker.budget
    spent = []
    for client, queue in ((few, "few"), (many, "many")):
        client.send(f"SUBSCRIBE\nid:q\ndestination:/queue/{queue}\nack:client")
        (message,) = client.send(f"SEND\ndestination:/queue/{queue}", b"1")
        number = next(line[11:] for line in message.split(b"\n") if line.startswith(b"message-id:"))
        before = budget.spent
        client.send(f"ACK\nmessage-id:{number.decode()}")
        spent.append(budget.spent - before)
        assert not client.session.closing
    assert spent[0] == spent[1]


def test_unsubscribing_with_much_in_flight_takes_several_turns_and_one_receipt() -> None:
    exchange = Exchange()
    client = exchange.client()
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client")
    for _ in range(300):
        client.send("SEND\ndestination:/queue/a", b"1")
    budget = exchange.broker.budget
    budget.allow(20)
    client.session.receive(b"UNSUBSCRIBE\nid:s\nreceipt:r\n\n\0" + SEND % 2, 1)
    turns = 0
    while client.session.has_more:
        assert turns > 3 or client.session.out == []
        budget.allow(20)
        client.session.proceed(1)
        turns += 1
    assert turns > 3
    assert client.session.out == [b"RECEIPT\nreceipt-id:r\n\n\0"]
    assert exchange.broker.state.queue_by_name["a"].ready_count == 301


@pytest.mark.parametrize("head", ["destination:/queue/a", "destination:/queue/a\nttl:5000"])
def test_an_unfinished_send_is_the_same_command_again(head: str) -> None:
    """The command records the finished part; the sends behind it wait, in order."""
    peer = connected()
    for _ in range(4):
        peer.broker.refuse(Send, Code.UNFINISHED, "")
    sends = b"".join(frame(f"SEND\n{head}\nreceipt:{number}", b"%d" % number) for number in (1, 2))
    assert peer.send(sends) == b""
    proceeds = 0
    while peer.session.has_more:
        peer.now += 1_000_000
        peer.session.proceed(peer.now)
        proceeds += 1
    assert proceeds > 1
    assert peer.taken() == b"RECEIPT\nreceipt-id:1\n\n\0RECEIPT\nreceipt-id:2\n\n\0"
    commands = peer.broker.of(Send)
    assert [each.body for each in commands] == [b"1"] * 5 + [b"2"]  # type: ignore[attr-defined]
    assert commands[-2] is commands[-3] is commands[-4]
