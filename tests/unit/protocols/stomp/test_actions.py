"""UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT: which command each frame becomes."""

import pytest

from daybook.engine.commands import (
    Begin,
    Commit,
    DeleteSubscription,
    Detach,
    Rollback,
    Settle,
)
from daybook.engine.facts.settlements import ACCEPTED, FAILED
from daybook.engine.refusals import Code
from tests.unit.protocols.stomp.fakes import FakeMessage, Peer, connected, frame


def subscribed(version: str | None, ack: str = "client-individual", head: str = "id:s") -> Peer:
    peer = connected(version)
    peer.send(frame(f"SUBSCRIBE\n{head}\ndestination:/topic/a\nack:{ack}"))
    peer.broker.lsn = 100
    return peer


# ---------------------------------------------------------------- UNSUBSCRIBE


@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_unsubscribe_by_id(version: str | None) -> None:
    peer = subscribed(version)
    consumer = peer.subscribed().consumer
    output = peer.send(frame("UNSUBSCRIBE\nid:s\nreceipt:r"))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert peer.broker.of(Detach) == [Detach(consumer)]
    assert peer.session.gate == peer.broker.lsn
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/topic/a"))
    assert not peer.session.closing


def test_unsubscribe_by_destination_in_1_0() -> None:
    peer = subscribed(None, head="x:y")
    peer.send(frame("UNSUBSCRIBE\ndestination:/topic/a"))
    assert len(peer.broker.of(Detach)) == 1


@pytest.mark.parametrize(
    ("version", "head", "part"),
    [
        ("1.2", "x:y", b"UNSUBSCRIBE without id"),
        ("1.1", "destination:/topic/a", b"UNSUBSCRIBE without id"),
        ("1.2", "id:other", b"no subscription with id 'other'"),
        (None, "x:y", b"UNSUBSCRIBE without destination"),
        (None, "destination:/topic/b", b"no subscription with destination '/topic/b'"),
        ("1.2", "id:s\npersistent:maybe", b"persistent is 'maybe'"),
    ],
)
def test_unsubscribe_refused(version: str | None, head: str, part: bytes) -> None:
    peer = subscribed(version)
    output = peer.send(frame("UNSUBSCRIBE\n" + head))
    assert part.replace(b"'", b"") in output.replace(b"'", b"")
    assert peer.session.closing
    assert peer.broker.of(Detach) == []


def test_unsubscribe_leaves_a_durable_subscription() -> None:
    peer = subscribed("1.2", head="id:s\npersistent:true")
    peer.send(frame("UNSUBSCRIBE\nid:s"))
    assert [each.delete_durable for each in peer.broker.of(Detach)] == [False]
    assert peer.broker.of(DeleteSubscription) == []


def test_unsubscribe_deletes_a_durable_subscription() -> None:
    peer = subscribed("1.2", head="id:s\npersistent:true")
    peer.send(frame("UNSUBSCRIBE\nid:s\npersistent:true"))
    assert [each.delete_durable for each in peer.broker.of(Detach)] == [True]
    assert peer.broker.of(DeleteSubscription) == []


def test_unsubscribe_deletes_a_durable_subscription_from_elsewhere() -> None:
    peer = connected("1.2")
    output = peer.send(frame("UNSUBSCRIBE\nid:s\npersistent:true\nreceipt:r"))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert peer.broker.commands == [DeleteSubscription("s", 1)]


def test_unsubscribe_from_its_queue_and_delete_it() -> None:
    peer = connected("1.2")
    peer.send(frame("SUBSCRIBE\nid:s\ndestination:/dsub/s"))
    peer.send(frame("UNSUBSCRIBE\nid:s\npersistent:true"))
    assert [each.delete_durable for each in peer.broker.of(Detach)] == [False]
    assert peer.broker.of(DeleteSubscription) == [DeleteSubscription("s", 1)]


def test_a_durable_subscription_that_is_not_there() -> None:
    peer = connected("1.2")
    peer.broker.refuse(DeleteSubscription, Code.NOT_FOUND, "there is no durable subscription 's'")
    output = peer.send(frame("UNSUBSCRIBE\nid:s\npersistent:true"))
    assert output.startswith(b"ERROR\nmessage:there is no durable subscription 's'\n")


# ---------------------------------------------------------------- ACK and NACK

OUTCOMES = {"ACK": ACCEPTED, "NACK": FAILED}


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize(("ack", "cumulative"), [("client", True), ("client-individual", False)])
@pytest.mark.parametrize(
    ("version", "head"),
    [("1.2", "id:1-77"), ("1.1", "subscription:s\nmessage-id:77")],
)
@pytest.mark.parametrize("transaction", [None, "t"])
def test_settling(
    command: str, ack: str, cumulative: bool, version: str, head: str, transaction: str | None
) -> None:
    peer = subscribed(version, ack)
    consumer = peer.subscribed().consumer
    head += f"\ntransaction:{transaction}" if transaction else ""
    output = peer.send(frame(f"{command}\nreceipt:r\n{head}"))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    outcome = OUTCOMES[command]
    assert peer.broker.of(Settle) == [Settle(consumer, 77, cumulative, transaction, outcome)]
    assert peer.session.gate == peer.broker.lsn


def test_settling_in_1_0_by_message_id_alone() -> None:
    peer = subscribed(None, head="x:y")
    peer.send(frame("ACK\nmessage-id:77\ntransaction:t"))
    consumer = peer.subscribed().consumer
    assert peer.broker.of(Settle) == [Settle(consumer, 77, False, "t")]


def test_in_1_0_the_most_recent_delivery_wins() -> None:
    peer = connected(None)
    for name in "abc":
        peer.send(frame(f"SUBSCRIBE\nid:{name}\ndestination:/topic/{name}\nack:client"))
    receivers = [each.receiver for each in peer.broker.commands]
    receivers[0].deliver(FakeMessage(77, b""), 1, False, 0)
    receivers[1].deliver(FakeMessage(77, b""), 1, False, 0)
    peer.send(frame("ACK\nmessage-id:77"))
    assert [each.consumer for each in peer.broker.of(Settle)] == [receivers[1].consumer]


def test_in_1_0_the_other_subscriptions_are_tried() -> None:
    peer = connected(None)
    for name in "abc":
        peer.send(frame(f"SUBSCRIBE\nid:{name}\ndestination:/topic/{name}\nack:client"))
    receivers = [each.receiver for each in peer.broker.commands]
    receivers[2].deliver(FakeMessage(78, b""), 1, False, 0)
    peer.taken()
    peer.broker.refuse(Settle, Code.NOT_FOUND, "not in flight")
    output = peer.send(frame("ACK\nmessage-id:77\nreceipt:r"))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    tried = [each.consumer for each in peer.broker.of(Settle)]
    assert tried == [receivers[2].consumer, receivers[0].consumer]


def test_in_1_0_the_subscription_may_be_named() -> None:
    peer = subscribed(None)
    peer.send(frame("SUBSCRIBE\nid:z\ndestination:/topic/a\nack:client"))
    peer.send(frame("ACK\nmessage-id:77\nsubscription:z"))
    assert [each.consumer for each in peer.broker.of(Settle)] == [peer.subscribed().consumer]


def test_an_unsubscribed_one_is_not_tried_in_1_0() -> None:
    peer = subscribed(None)
    peer.subscribed().deliver(FakeMessage(77, b""), 1, False, 0)
    peer.send(frame("UNSUBSCRIBE\nid:s"))
    assert b"no such delivery" in peer.send(frame("ACK\nmessage-id:77"))
    assert peer.broker.of(Settle) == []


@pytest.mark.parametrize("command", ["ACK", "NACK"])
@pytest.mark.parametrize(
    ("version", "head", "named"),
    [
        ("1.2", "id:2-77", "2-77"),
        ("1.2", "id:77", "77"),
        ("1.2", "id:1-", "1-"),
        ("1.2", "id:1-x", "1-x"),
        ("1.2", "id:1--7", "1--7"),
        ("1.2", "id:1-\u0663", "1-\u0663"),
        ("1.2", "id:1-" + "9" * 30, "9" * 30),
        ("1.1", "subscription:s\nmessage-id:x", "x"),
        ("1.1", "subscription:other\nmessage-id:77", "77"),
    ],
)
def test_unknown_ids(command: str, version: str, head: str, named: str) -> None:
    peer = subscribed(version)
    output = peer.send(frame(f"{command}\nreceipt:r\n{head}")).decode()
    assert output.startswith(f"ERROR\nmessage:{command} of ")
    assert named in output
    assert "\nreceipt-id:r\n" in output
    assert peer.broker.of(Settle) == []


@pytest.mark.parametrize("receipt", ["", "\nreceipt:r"])
def test_an_id_that_the_broker_does_not_know(receipt: str) -> None:
    peer = subscribed("1.2")
    peer.broker.refuse(Settle, Code.NOT_FOUND, "message 77 is not in flight")
    output = peer.send(frame(f"ACK\nid:1-77{receipt}"))
    assert output.startswith(b"ERROR\nmessage:ACK of '1-77'\\c no such delivery is in flight")
    assert (b"\nreceipt-id:r\n" in output) == bool(receipt)


def test_other_refusals_of_an_ack_are_told_as_they_are() -> None:
    peer = subscribed("1.2")
    peer.broker.refuse(Settle, Code.INVALID, "it is part of another transaction")
    output = peer.send(frame("ACK\nid:1-77\ntransaction:t"))
    assert output.startswith(b"ERROR\nmessage:ACK of '1-77'\\c it is part of another transaction")


@pytest.mark.parametrize(
    ("version", "head", "missing"),
    [
        ("1.2", "message-id:1", "id"),
        ("1.1", "message-id:1", "subscription"),
        ("1.1", "subscription:s", "message-id"),
        (None, "subscription:s", "message-id"),
    ],
)
def test_missing_headers(version: str | None, head: str, missing: str) -> None:
    peer = subscribed(version)
    assert f"\nmessage:ACK without {missing}; give the header {missing}\n".encode() in peer.send(
        frame("ACK\n" + head)
    )


@pytest.mark.parametrize(
    ("version", "head"),
    [("1.2", "id:1-77"), ("1.1", "subscription:s\nmessage-id:77"), (None, "message-id:77")],
)
def test_an_auto_subscription_takes_no_acks(version: str | None, head: str) -> None:
    peer = subscribed(version, "auto")
    assert b"no such delivery is in flight" in peer.send(frame("ACK\n" + head))
    assert peer.broker.of(Settle) == []


def test_nack_does_not_exist_in_1_0() -> None:
    peer = subscribed(None)
    assert b"unknown command NACK in STOMP 1.0" in peer.send(frame("NACK\nmessage-id:77"))


# ---------------------------------------------------------------- transactions


@pytest.mark.parametrize(
    ("command", "kind"), [("BEGIN", Begin), ("COMMIT", Commit), ("ABORT", Rollback)]
)
@pytest.mark.parametrize("version", [None, "1.1", "1.2"])
def test_transaction_frames(version: str | None, command: str, kind: type[Begin]) -> None:
    peer = connected(version)
    output = peer.send(frame(f"{command}\ntransaction:t\nreceipt:r"))
    assert output == b"RECEIPT\nreceipt-id:r\n\n\0"
    assert peer.broker.commands == [kind(1, "t")]
    assert peer.session.gate == peer.broker.lsn


@pytest.mark.parametrize("command", ["BEGIN", "COMMIT", "ABORT"])
@pytest.mark.parametrize("head", ["x:y", "transaction:"])
def test_transaction_frames_name_their_transaction(command: str, head: str) -> None:
    output = connected().send(frame(f"{command}\n{head}"))
    what = "with an empty" if head == "transaction:" else "without"
    assert output.startswith(f"ERROR\nmessage:{command} {what} transaction".encode())


@pytest.mark.parametrize(
    ("command", "kind"), [("BEGIN", Begin), ("COMMIT", Commit), ("ABORT", Rollback)]
)
def test_transaction_frames_refused(command: str, kind: type[Begin]) -> None:
    peer = connected()
    peer.broker.refuse(kind, Code.ALREADY_EXISTS, "transaction 't' says no")
    output = peer.send(frame(f"{command}\ntransaction:t\nreceipt:r"))
    assert output.startswith(b"ERROR\nmessage:transaction 't' says no\nreceipt-id:r\n")
    assert peer.session.closing
