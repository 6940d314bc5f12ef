"""Apollo's manual, "Reliable Messaging": a test for each sentence that says what happens.

Messages are persistent unless their sender says otherwise; at Apollo it is the other way round.
"""

import pytest

from tests.interop.using import connected, sent
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


def subscribe(wire: Wire, **headers: str) -> None:
    wire.send("SUBSCRIBE", id="s", destination="/queue/a", receipt="s", **headers)
    wire.expect("RECEIPT")


def what_is_left(broker: BrokerProcess) -> list[bytes]:
    """The messages of the queue; a last one marks the end."""
    with connected(broker) as wire:
        sent(wire, "/queue/a", b"end", priority="0")
        wire.send("SUBSCRIBE", id="s", destination="/queue/a")
        found = []
        while (frame := wire.expect("MESSAGE")).body != b"end":
            found.append(frame.body)
        return found


def killed(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def test_persisted_messages_are_recovered_after_a_failure_that_kills_the_broker(
    broker: BrokerProcess,
) -> None:
    """ "messages to be persisted so that they can be recovered if there is failure which kills the
    broker"; and "the sender must add the persistent:true header" """
    with connected(broker) as wire:
        sent(wire, "/queue/a", b"1", persistent="true")
        sent(wire, "/queue/a", b"2")
        sent(wire, "/queue/a", b"3", persistent="false")
        killed(broker)
    assert what_is_left(broker) == [b"1", b"2"]


def test_what_has_a_receipt_is_not_dropped_even_if_a_failure_occurs(broker: BrokerProcess) -> None:
    """ "Once the broker responds with a RECEIPT frame ... you are guaranteed the broker will not
    drop the message even if a failure occurs" """
    for number in range(3):
        with connected(broker) as wire:
            for each in range(10):
                wire.send("SEND", b"%d" % each, destination="/queue/a", receipt=str(each))
            receipts = [wire.expect("RECEIPT").headers["receipt-id"] for _ in range(10)]
            assert receipts == [str(each) for each in range(10)]
            killed(broker)
        assert what_is_left(broker) == [b"%d" % each for each in range(10)], number


def test_the_example_of_a_correlated_receipt(broker: BrokerProcess) -> None:
    """ "RECEIPT receipt-id:001", "until he receives the correlated RECEIPT frame" """
    with connected(broker) as wire:
        wire.write(b"SEND\ndestination:/queue/a\nreceipt:001\n\nhello queue a\n\0")
        frame = wire.expect("RECEIPT")
        assert frame.headers == {"receipt-id": "001"}
        assert frame.body == b""
    assert what_is_left(broker) == [b"hello queue a\n"]


def test_in_a_transaction_the_receipt_of_the_commit_says_it(broker: BrokerProcess) -> None:
    """ "if you are not sending the message in a transaction, it is recommend that you also add a
    receipt header": with one, that of COMMIT is enough."""
    with connected(broker) as wire:
        wire.send("BEGIN", transaction="t")
        wire.send("SEND", b"1", destination="/queue/a", transaction="t")
        wire.send("SEND", b"2", destination="/queue/a", transaction="t")
        wire.send("COMMIT", transaction="t", receipt="c")
        assert wire.expect("RECEIPT").headers["receipt-id"] == "c"
        wire.send("BEGIN", transaction="u")
        sent(wire, "/queue/a", b"3", transaction="u")
        killed(broker)
    assert what_is_left(broker) == [b"1", b"2"]


def test_a_message_that_is_sent_again_may_be_there_twice(broker: BrokerProcess) -> None:
    """ "will probably try to send the same message again which may cause a duplicate message": with
    `_AMQ_DUPL_ID` it does not, also over a kill."""
    for _ in range(2):
        with connected(broker) as wire:
            sent(wire, "/queue/a", b"plain")
            sent(wire, "/queue/a", b"known", _AMQ_DUPL_ID="one")
            killed(broker)
    assert what_is_left(broker) == [b"plain", b"known", b"plain"]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_messages_that_were_not_acked_are_redelivered_to_another_client(
    broker: BrokerProcess, mode: str
) -> None:
    """ "Any messages on a queue delivered to a client which have not been acked when the client
    disconnects will get redelivered to another subscribed client." """
    with connected(broker) as other:
        with connected(broker) as wire:
            subscribe(wire, ack=mode)
            for body in (b"1", b"2", b"3"):
                sent(other, "/queue/a", body)
            first, *rest = [wire.expect("MESSAGE") for _ in range(3)]
            wire.send("ACK", id=first.headers["ack"], receipt="a")
            wire.expect("RECEIPT")
            subscribe(other, ack=mode)
        again = [other.expect("MESSAGE") for _ in range(2)]
        assert [frame.body for frame in again] == [frame.body for frame in rest]
        assert {frame.headers["redelivered"] for frame in again} == {"true"}


def test_messages_of_a_subscriber_that_does_not_ack_are_not_redelivered(
    broker: BrokerProcess,
) -> None:
    """ "You should only use subscribers which use the client or client-individual ack mode to
    consume reliable messages": with `auto` what was delivered is done with."""
    with connected(broker) as wire:
        subscribe(wire)
        with connected(broker) as other:
            sent(other, "/queue/a", b"1")
        assert wire.expect("MESSAGE").body == b"1"
    assert what_is_left(broker) == []
