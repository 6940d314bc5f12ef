"""Direct addresses over real sockets, with the Python client of Qpid and with STOMP.

Rules: Interconnect, chapter 12.1.1 to 12.1.3.
"""

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import Any, Final

import pytest
from proton import Delivery, Link, Message
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, LinkDetached, SendException

from tests.interop.using import audited, events, queues
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SECONDS: Final = 30
CONFIG: Final = """
[[address]]
prefix = "work"

[[address]]
pattern = "news.#"
distribution = "multicast"

[[address]]
prefix = "closed"
distribution = "unavailable"

[[address]]
prefix = "kept"
waypoint = true
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("direct") / "data", config=CONFIG,
        listen=("amqp://127.0.0.1:0", "stomp://127.0.0.1:0"),
    ) as process:  # fmt: skip
        process.start()
        yield process


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[[], BlockingConnection]]:
    opened: list[BlockingConnection] = []

    def one() -> BlockingConnection:
        opened.append(
            BlockingConnection(
                f"127.0.0.1:{broker.port}", timeout=SECONDS, allowed_mechs="ANONYMOUS"
            )
        )
        return opened[-1]

    yield one
    for each in opened:
        each.close()


Connect = Callable[[], BlockingConnection]
OUTCOMES: Final = (Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED)


def credit_of(connection: BlockingConnection, sender: Any) -> int:
    """The credit that a sender has when all that the broker sent has been read."""
    connection.container.process()
    credit: int = sender.link.credit
    return credit


def begin(connection: BlockingConnection, sender: Any, body: str, address: str = "") -> Any:
    """Send a message without waiting for its outcome."""
    delivery = sender.link.send(Message(body=body, address=address or None))
    flush(connection)
    return delivery


def flush(connection: BlockingConnection) -> None:
    """Write all that the client has to say."""
    connection.container.process()
    transport = connection.conn.transport
    connection.wait(lambda: not transport.pending(), msg="the output to leave")


def settle(receiver: Any, outcome: int = Delivery.ACCEPTED) -> None:
    receiver.settle(outcome)
    flush(receiver.connection)


def await_outcome(connection: BlockingConnection, delivery: Any) -> int:
    connection.wait(lambda: delivery.remote_state, msg="the outcome of a message")
    state: int = delivery.remote_state
    delivery.settle()
    return state


def await_credit(connection: BlockingConnection, sender: Any) -> None:
    connection.wait(lambda: sender.link.credit > 0, msg="credit")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_of_the_receiver_is_that_of_the_sender(connect: Connect, outcome: int) -> None:
    sending, receiving = connect(), connect()
    receiver = receiving.create_receiver(f"work.{outcome}", credit=1)
    sender = sending.create_sender(f"work.{outcome}")
    await_credit(sending, sender)
    delivery = begin(sending, sender, "one")
    assert receiver.receive(SECONDS).body == "one"
    assert delivery.remote_state == 0
    settle(receiver, outcome)
    assert await_outcome(sending, delivery) == outcome


def test_a_sender_has_credit_only_while_somebody_receives(connect: Connect) -> None:
    sending, receiving = connect(), connect()
    sender = sending.create_sender("work.alone")
    other = receiving.create_receiver("work.other", credit=1)
    assert credit_of(sending, sender) == 0
    receiver = receiving.create_receiver("work.alone", credit=0)
    await_credit(sending, sender)
    delivery = begin(sending, sender, "waits")
    receiver.flow(1)
    assert receiver.receive(SECONDS).body == "waits"
    settle(receiver)
    assert await_outcome(sending, delivery) == Delivery.ACCEPTED
    receiver.close()
    late = begin(sending, sender, "nobody")
    assert await_outcome(sending, late) == Delivery.RELEASED
    other.close()


def test_multicast_gives_everybody_a_copy(connect: Connect) -> None:
    sending = connect()
    receivers = [connect().create_receiver("news.today", credit=5) for _ in range(3)]
    sender = sending.create_sender("news.today")
    await_credit(sending, sender)
    delivery = begin(sending, sender, "extra")
    for receiver, outcome in zip(receivers, OUTCOMES[::2] + OUTCOMES[:1], strict=True):
        assert receiver.receive(SECONDS).body == "extra"
        settle(receiver, outcome)
    assert await_outcome(sending, delivery) == Delivery.ACCEPTED


STRENGTH: Final = (Delivery.REJECTED, Delivery.ACCEPTED, Delivery.MODIFIED, Delivery.RELEASED)


@pytest.mark.parametrize("said", [*combinations_with_replacement(STRENGTH, 2)])
def test_the_strongest_outcome_of_several_is_that_of_the_sender(
    connect: Connect, said: tuple[int, int]
) -> None:
    address = f"news.{said[0]}.{said[1]}"
    receivers = [connect().create_receiver(address, credit=1) for _ in said]
    sending = connect()
    sender = sending.create_sender(address)
    await_credit(sending, sender)
    delivery = begin(sending, sender, "copy")
    for receiver, outcome in zip(receivers, reversed(said), strict=True):
        assert delivery.remote_state == 0
        assert receiver.receive(SECONDS).body == "copy"
        settle(receiver, outcome)
    assert await_outcome(sending, delivery) == said[0]


def test_nobody_gets_a_copy_without_receivers(connect: Connect) -> None:
    sending = connect()
    sender = sending.create_sender(None)
    await_credit(sending, sender)
    delivery = begin(sending, sender, "one", "news.nobody")
    assert await_outcome(sending, delivery) == Delivery.RELEASED


class Second(LinkOption):  # type: ignore[misc]
    """The receiver of a link settles after its sender has settled."""

    def apply(self, link: Any) -> None:
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


@pytest.mark.parametrize("address", ["work.steps", "news.steps"])
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_settlement_has_three_steps_from_end_to_end(
    connect: Connect, address: str, outcome: int
) -> None:
    sending, receiving = connect(), connect()
    receiver = receiving.create_receiver(f"{address}.{outcome}", credit=1, options=Second())
    sender = sending.create_sender(f"{address}.{outcome}", options=Second())
    assert sender.link.remote_rcv_settle_mode == Link.RCV_SECOND
    await_credit(sending, sender)
    sent = begin(sending, sender, "steps")
    receiver.receive(SECONDS)
    got = receiver.fetcher.unsettled[0]
    got.update(outcome)
    flush(receiving)
    sending.wait(lambda: sent.remote_state, msg="the state of the receiver")
    assert (sent.remote_state, sent.settled) == (outcome, False)
    # The answer to a later question shows that nothing came before it.
    receiving.create_receiver(f"{address}.other", credit=1).close()
    assert not got.settled
    sent.settle()
    flush(sending)
    receiving.wait(lambda: got.settled, msg="the settlement of the sender")
    assert got.remote_state == outcome
    got.settle()


def test_a_receiver_that_dies_leaves_its_messages_in_doubt(connect: Connect) -> None:
    sending, receiving = connect(), connect()
    receiver = receiving.create_receiver("work.dies", credit=0)
    receiver.flow(1)
    sender = sending.create_sender("work.dies")
    await_credit(sending, sender)
    got, waiting = begin(sending, sender, "got"), begin(sending, sender, "waiting")
    assert receiver.receive(SECONDS).body == "got"
    receiving.close()
    assert await_outcome(sending, got) == Delivery.MODIFIED
    assert await_outcome(sending, waiting) == Delivery.RELEASED


def test_an_anonymous_sender_hears_where_nobody_receives(connect: Connect) -> None:
    connection = connect()
    sender = connection.create_sender(None)
    await_credit(connection, sender)
    nobody = begin(connection, sender, "", "work.nobody")
    assert await_outcome(connection, nobody) == Delivery.RELEASED
    unavailable = begin(connection, sender, "", "closed.x")
    assert await_outcome(connection, unavailable) == Delivery.REJECTED
    receiver = connection.create_receiver("work.somebody", credit=1)
    delivery = begin(connection, sender, "hello", "work.somebody")
    assert receiver.receive(SECONDS).body == "hello"
    settle(receiver)
    assert await_outcome(connection, delivery) == Delivery.ACCEPTED


def test_what_cannot_be_is_refused_at_attach(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(LinkDetached, match="is unavailable"):
        connection.create_receiver("closed.x")
    with pytest.raises(LinkDetached, match="is unavailable"):
        connection.create_sender("closed.x")


def test_a_waypoint_stores(connect: Connect, broker: BrokerProcess) -> None:
    connection = connect()
    connection.create_sender("kept.jobs").send(Message(body="job", durable=True))
    assert queues(broker)["kept.jobs"]["ready"] == 1
    receiver = connection.create_receiver("kept.jobs", credit=1)
    assert receiver.receive(SECONDS).body == "job"
    settle(receiver)


def test_a_refused_message_raises_for_a_blocking_sender(connect: Connect) -> None:
    connection = connect()
    receiver = connection.create_receiver("work.blocking", credit=1)
    sender = connect().create_sender("work.blocking")
    del receiver
    connection.close()
    with pytest.raises(SendException):
        sender.send(Message(body="nobody"), timeout=SECONDS)


def test_stomp_takes_part(connect: Connect, broker: BrokerProcess) -> None:
    with Wire(broker.ports[1]) as wire:
        wire.connect()
        wire.send("SEND", destination="work.stomp", receipt="r1")
        assert "nobody receives from" in wire.expect("ERROR").headers["message"]
    receiver = connect().create_receiver("work.stomp", credit=1)
    with Wire(broker.ports[1]) as wire:
        wire.connect()
        wire.send("SEND", b"from stomp", destination="work.stomp", receipt="r2")
        wire.expect("RECEIPT")
        assert receiver.receive(SECONDS).body in (b"from stomp", "from stomp")
        settle(receiver)
        receiver.close()
        wire.send(
            "SUBSCRIBE", destination="work.stomp", id="1", ack="client-individual", receipt="r3"
        )
        wire.expect("RECEIPT")
        sending = connect()
        sender = sending.create_sender("work.stomp")
        await_credit(sending, sender)
        delivery = begin(sending, sender, "to stomp")
        found = wire.expect("MESSAGE")
        assert b"to stomp" in found.body
        wire.send("ACK", id=found.headers["ack"])
        assert await_outcome(sending, delivery) == Delivery.ACCEPTED


def test_a_large_message_passes_whole(connect: Connect) -> None:
    """Its body is in the journal, before anybody knows who gets it."""
    receiving, sending = connect(), connect()
    receiver = receiving.create_receiver("work.large", credit=2)
    sender = sending.create_sender("work.large")
    body = bytes(range(256)) * 8_000
    delivery = sender.link.send(Message(body=body, inferred=True))
    flush(sending)
    got = receiver.receive(timeout=SECONDS)
    assert bytes(got.body) == body
    settle(receiver)
    assert await_outcome(sending, delivery) == Delivery.ACCEPTED


def test_the_journal_has_every_decision(connect: Connect, broker: BrokerProcess) -> None:
    """The last test of the broker, which it stops."""
    sending, receiving = connect(), connect()
    receiver = receiving.create_receiver("work.told", credit=1)
    sender = sending.create_sender("work.told")
    await_credit(sending, sender)
    delivery = begin(sending, sender, "one")
    receiver.receive(SECONDS)
    settle(receiver)
    await_outcome(sending, delivery)
    names = ("DistributionsChanged", "LinkAttached", "Forwarded", "ForwardSettled")
    wait_for(lambda: events(broker, *names)[-1]["kind"] == names[-1], "the outcome in the journal")
    assert {each["kind"] for each in events(broker, *names)} == {*names}
    audited(broker)
