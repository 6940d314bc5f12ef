"""The seed's section "Subscription Flow Control", sentence by sentence, over a raw socket."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.using import arrived, connected, sent
from tests.interop.wire import Frame, Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

RECEIVE_BUFFER = 65_536
LARGE = 300_000


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue of this test alone."""
    return "/queue/" + request.node.name.replace("[", ".").replace("]", "").replace(",", "-")


@pytest.fixture
def client(shared_broker: BrokerProcess) -> Iterator[Wire]:
    with connected(shared_broker) as wire:
        yield wire


def fill(wire: Wire, queue: str, count: int, body: bytes = b"x", **headers: str) -> None:
    for _ in range(count - 1):
        wire.send("SEND", body, destination=queue, **headers)
    sent(wire, queue, body, **headers)


def subscribe(wire: Wire, queue: str, ack: str = "client-individual", **headers: Any) -> None:
    """Subscribe; the messages of the subscription follow the receipt."""
    wire.send("SUBSCRIBE", id="mysub", destination=queue, ack=ack, receipt="subscribed", **headers)
    assert wire.expect("RECEIPT").headers["receipt-id"] == "subscribed"


def acknowledge(wire: Wire, *frames: Frame, command: str = "ACK", **headers: str) -> None:
    for frame in frames:
        wire.send(command, id=frame.headers["ack"], **headers)


@pytest.mark.parametrize(
    ("credit", "body", "count"),
    [
        # Only messages, only bytes, and both: the wider window counts.
        ("4,0", b"four", 4),
        ("0,10", b"four", 3),
        ("2,12", b"four", 3),
        ("5,4", b"four", 5),
    ],
)
def test_messages_are_delivered_while_either_window_is_positive(
    client: Wire, queue: str, credit: str, body: bytes, count: int
) -> None:
    """Seed: "If either of the two credit windows have a positive value, the server will"."""
    fill(client, queue, 8, body)
    subscribe(client, queue, credit=credit)
    assert len(arrived(client)) == count


def test_the_bytes_are_those_of_the_body(client: Wire, queue: str) -> None:
    """Seed: "The content bytes are the body of the frame": headers use up no credit."""
    fill(client, queue, 6, b"12345", note="n" * 500)
    subscribe(client, queue, credit="0,11")
    assert len(arrived(client)) == 3


def test_the_body_of_a_large_message_counts_too(client: Wire, queue: str) -> None:
    """Seed: "total number of content bytes", also where the body is not in memory."""
    fill(client, queue, 3, b"L" * LARGE)
    subscribe(client, queue, credit=f"0,{LARGE + 1}")
    first, second = client.expect("MESSAGE"), client.expect("MESSAGE")
    assert len(first.body) == len(second.body) == LARGE
    assert arrived(client) == []
    acknowledge(client, first)
    assert client.expect("MESSAGE").body == first.body


@pytest.mark.parametrize("credit", ["", ",5", " ,5", "5,", "five", "-1", "1,-1", "1,2,3"])
def test_the_count_must_be_specified(shared_broker: BrokerProcess, credit: str) -> None:
    """Seed: "Must be specified.", and both are numbers."""
    with connected(shared_broker) as wire:
        wire.send("SUBSCRIBE", id="mysub", destination="/queue/count", credit=credit)
        refused = wire.expect("ERROR")
        assert "credit is" in refused.headers["message"]
        assert b"credit:COUNT" in refused.body
        assert wire.at_end()


def test_the_size_defaults_to_the_receive_buffer(client: Wire, queue: str) -> None:
    """Seed: "Defaults to the receive buffer size of the TCP socket which is typically 65536"."""
    fill(client, queue, 6, b"x" * (RECEIVE_BUFFER // 4))
    subscribe(client, queue, credit="1")
    assert len(arrived(client)) == 4


def test_the_default_is_655360_of_both(client: Wire, queue: str) -> None:
    """Seed: "the same effect as if it had been set to credit:655360,655360": the window of bytes is
    used up, and that of messages is not, so the broker goes on."""
    fill(client, queue, 9, b"x" * 100_000)
    subscribe(client, queue)
    assert len(arrived(client)) == 9


@pytest.mark.parametrize(
    ("credit", "body", "count"),
    [
        # One message, and another one only after its ACK.
        ("1,0", b"x", 1),
        # No messages by number: bytes alone count, 65536 of them.
        ("0", b"x" * 40_000, 2),
        # Nothing at all.
        ("0,0", b"x", 0),
        ("0,0", b"", 0),
        # Empty bodies use up no bytes.
        ("0,1", b"", 5),
    ],
)
def test_a_zero_is_a_window_that_allows_nothing(
    client: Wire, queue: str, credit: str, body: bytes, count: int
) -> None:
    """Seed: "initial setting of the credit window": zero is not positive, and not "no limit"."""
    fill(client, queue, 5, body)
    subscribe(client, queue, credit=credit)
    assert len(arrived(client)) == count


def test_acks_replenish_both_windows(client: Wire, queue: str) -> None:
    """Seed: "the credit windows are incremented by the number of messages and content sizes"."""
    fill(client, queue, 9, b"12345")
    subscribe(client, queue, credit="2,10")
    first = arrived(client)
    assert len(first) == 2
    acknowledge(client, first[0])
    assert len(arrived(client)) == 1
    # Two more, also of another size.
    acknowledge(client, first[1])
    assert len(arrived(client)) == 1


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_five_and_no_bytes_is_at_most_five(client: Wire, queue: str, ack: str) -> None:
    """Seed: "credit:5,0 ... at most 5 messages if the client is not sending any ACK": the example
    has no `ack`, so it holds with `ack:auto`."""
    fill(client, queue, 12)
    subscribe(client, queue, ack, credit="5,0")
    first = arrived(client)
    assert len(first) == 5
    acknowledge(client, first[0])
    assert len(arrived(client)) == 1


def test_a_cumulative_ack_gives_back_all_that_it_covers(client: Wire, queue: str) -> None:
    """Seed: "incremented by the number of messages ... that were acknowledged"."""
    fill(client, queue, 12)
    subscribe(client, queue, "client", credit="5,0")
    first = arrived(client)
    acknowledge(client, first[3])
    assert len(arrived(client)) == 4


def test_a_nack_gives_credit_back_and_the_redelivery_uses_it(client: Wire, queue: str) -> None:
    """The seed speaks of ACK alone; a message that a NACK gave back has left the client, too."""
    fill(client, queue, 3)
    subscribe(client, queue, credit="1,0")
    for _ in range(2):
        (only,) = arrived(client)
        acknowledge(client, only, command="NACK")
    (again,) = arrived(client)
    assert again.headers["redelivered"] == "true"
    assert again.headers["delivery-count"] == "3"
    acknowledge(client, again)
    assert [each.headers.get("redelivered") for each in arrived(client)] == [None]


def test_a_transactional_ack_gives_credit_and_consumes_nothing(
    shared_broker: BrokerProcess, client: Wire, queue: str
) -> None:
    """Seed: "A transactional ACK increases the credit window without actually consuming"."""
    fill(client, queue, 8)
    subscribe(client, queue, credit="2,0")
    client.send("BEGIN", transaction="t")
    frames = arrived(client)
    for _ in range(3):
        acknowledge(client, *frames[-2:], transaction="t")
        frames += arrived(client)
    assert len(frames) == 8
    client.close()
    with connected(shared_broker) as other:
        subscribe(other, queue)
        assert len(arrived(other)) == 8


def test_after_a_commit_the_credit_is_not_given_twice(client: Wire, queue: str) -> None:
    """Seed: "transactionally ACK messages as they are received": COMMIT gives nothing more."""
    fill(client, queue, 8)
    subscribe(client, queue, credit="2,0")
    client.send("BEGIN", transaction="t")
    acknowledge(client, *arrived(client), transaction="t")
    assert len(arrived(client)) == 2
    client.send("COMMIT", transaction="t")
    assert arrived(client) == []


@pytest.mark.parametrize("again", ["ACK", "NACK", "COMMIT"])
def test_after_an_abort_the_credit_is_not_given_twice(client: Wire, queue: str, again: str) -> None:
    """Seed: "If the transaction is aborted subsequent acknowledgements ... does not increase"."""
    fill(client, queue, 8)
    subscribe(client, queue, credit="2,0")
    client.send("BEGIN", transaction="t")
    first = arrived(client)
    acknowledge(client, *first, transaction="t")
    second = arrived(client)
    assert len(second) == 2
    client.send("ABORT", transaction="t")
    if again == "COMMIT":
        client.send("BEGIN", transaction="u")
        acknowledge(client, *first, transaction="u")
        client.send("COMMIT", transaction="u")
    else:
        acknowledge(client, *first, command=again)
    assert arrived(client) == []
    # Those that were in no transaction give theirs.
    acknowledge(client, *second)
    assert len(arrived(client)) == 2


def test_a_cumulative_ack_in_a_transaction_gives_all_back_once(client: Wire, queue: str) -> None:
    """Seed: "A transactional ACK increases the credit window", by all that it covers."""
    fill(client, queue, 12)
    subscribe(client, queue, "client", credit="3,0")
    client.send("BEGIN", transaction="t")
    first = arrived(client)
    acknowledge(client, first[2], transaction="t")
    second = arrived(client)
    assert len(second) == 3
    client.send("ABORT", transaction="t")
    # Six messages are acknowledged, three of which gave their credit before.
    acknowledge(client, second[2])
    assert len(arrived(client)) == 3


def test_without_credit_and_without_acks_there_is_no_limit(client: Wire, queue: str) -> None:
    """Where `credit` is missing, `ack:auto` has no window: otherwise a client that never sends an
    ACK, as `ack:auto` allows, would stop after 655,360 messages."""
    subscribe(client, queue, "auto")
    for _ in range(8):
        fill(client, queue, 1, b"x" * 100_000)
        client.expect("MESSAGE")
