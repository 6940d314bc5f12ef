"""The Python client of Apache Qpid against a real broker, over AMQP 1.0."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from proton import (
    ConnectionException,
    Described,
    Message,
    ProtonException,
    Receiver,
    Sender,
    ulong,
)
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    Container,
    Copy,
    DurableSubscription,
    DynamicNodeProperties,
    Selector,
)
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from tests.interop.security.test_logins import add_user
from tests.interop.using import queues, reload
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.interop

SECONDS: Final = 30
LARGE: Final = bytes(range(256)) * 8192


def _broker(folder: Path) -> BrokerProcess:
    return BrokerProcess(folder, listen=("amqp://127.0.0.1:0", "stomp://127.0.0.1:0"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with _broker(tmp_path_factory.mktemp("amqp") / "data") as process:
        process.start()
        yield process


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with _broker(tmp_path / "data") as process:
        process.start()
        yield process


def _connect(broker: BrokerProcess, container: str = "", **options: Any) -> BlockingConnection:
    options = {"allowed_mechs": "ANONYMOUS", **options}
    reactor = Container()
    if container:
        reactor.container_id = container
    return BlockingConnection(
        f"127.0.0.1:{broker.port}", timeout=SECONDS, container=reactor, **options
    )


def _take(receiver: BlockingReceiver) -> Message:
    found = receiver.receive(SECONDS)
    receiver.accept()
    return found


def test_messages_come_as_they_were_sent(shared: BrokerProcess) -> None:
    connection = _connect(shared)
    sender, receiver = connection.create_sender("plain"), connection.create_receiver("plain", 10)
    sent = Message(
        id="id", body={"a": [1, 2.5, "x", None]}, durable=True, priority=7, subject="s",
        correlation_id="c", reply_to="answers", properties={"n": 1, "t": True, "s": "x"},
    )  # fmt: skip
    sender.send(sent)
    found = _take(receiver)
    for name in ("id", "body", "durable", "priority", "subject", "correlation_id", "reply_to",
                 "properties", "delivery_count", "first_acquirer"):  # fmt: skip
        wanted = True if name == "first_acquirer" else getattr(sent, name)
        assert getattr(found, name) == wanted, name
    connection.close()


def test_a_large_message_streams_through(shared: BrokerProcess) -> None:
    connection = _connect(shared)
    sender, receiver = connection.create_sender("large"), connection.create_receiver("large", 2)
    sender.send(Message(body=LARGE))
    sender.send(Message(body="behind it"))
    assert bytes(_take(receiver).body) == LARGE
    assert _take(receiver).body == "behind it"
    connection.close()


def test_selectors_and_browsers(shared: BrokerProcess) -> None:
    connection = _connect(shared)
    sender = connection.create_sender("chosen")
    for number in range(4):
        sender.send(Message(body=number, properties={"n": number}))
    browser = connection.create_receiver("chosen", 10, name="browser", options=Copy())
    assert [_take(browser).body for _ in range(4)] == [0, 1, 2, 3]
    receiver = connection.create_receiver("chosen", 10, name="some", options=Selector("n >= 2"))
    assert [_take(receiver).body for _ in range(2)] == [2, 3]
    connection.close()


def test_a_durable_subscription_keeps_what_came_meanwhile(shared: BrokerProcess) -> None:
    options = {"name": "sub", "options": DurableSubscription()}
    connection = _connect(shared, "container")
    connection.create_receiver("topic://kept", 1, **options).link.detach()
    connection.close()
    connection = _connect(shared, "container")
    connection.create_sender("topic://kept").send(Message(body="meanwhile", durable=True))
    receiver = connection.create_receiver("topic://kept", 1, **options)
    assert _take(receiver).body == "meanwhile"
    receiver.close()
    assert "dsub.container.sub" not in queues(shared)
    connection.close()


def test_stomp_and_amqp_read_each_other(shared: BrokerProcess) -> None:
    connection = _connect(shared)
    wire = Wire(shared.ports[1])
    wire.connect()
    receiver = connection.create_receiver("to.amqp", 10)
    wire.send("SEND", b"text", destination="/queue/to.amqp", color="red")
    found = _take(receiver)
    assert (found.body, found.properties["color"]) == ("text", "red")
    wire.send("SEND", b"\0\1", destination="/queue/to.amqp")
    assert bytes(_take(receiver).body) == b"\0\1"
    wire.send("SUBSCRIBE", id="1", destination="/queue/to.stomp")
    connection.create_sender("to.stomp").send(
        Message(
            body="back", correlation_id="k", address="elsewhere",
            properties={"n": 5, "destination": "/queue/forged", "content-length": "1"},
        )
    )  # fmt: skip
    frame = wire.expect("MESSAGE")
    assert frame.body == b"back"
    assert frame.headers["destination"] == "/queue/to.stomp"
    assert (frame.headers["n"], frame.headers["correlation-id"]) == ("5", "k")
    connection.close()
    wire.close()


def test_a_dynamic_node_stays_with_its_last_link(shared: BrokerProcess) -> None:
    on_no_links = DynamicNodeProperties({"lifetime-policy": Described(ulong(0x2C), [])})
    connection, other = _connect(shared), _connect(shared)
    maker = connection.create_receiver(None, dynamic=True, options=on_no_links)
    node = maker.link.remote_source.address
    sender = other.create_sender(node)
    maker.close()
    sender.send(Message(body="late"))
    receiver = connection.create_receiver(node)
    assert _take(receiver).body == "late"
    receiver.close()
    assert node in queues(shared)
    sender.close()
    assert node not in queues(shared)
    other.close()
    connection.close()


def test_what_cannot_be_attached_is_refused_with_a_reason(shared: BrokerProcess) -> None:
    connection = _connect(shared)
    with pytest.raises(LinkDetached, match="amqp:invalid-field"):
        connection.create_receiver("bad name{", 1)
    assert connection.create_receiver("good", 1)
    connection.close()


def test_users_log_in_by_passwords_and_challenges(broker: BrokerProcess) -> None:
    add_user(broker, "alice", "secret")
    reload(broker, "")
    connection = _connect(broker, user="alice", password="secret", allowed_mechs="PLAIN")
    connection.create_sender("orders").send(Message(body="x"))
    connection.close()
    with pytest.raises(ConnectionException):
        _connect(broker, user="alice", password="wrong", allowed_mechs="PLAIN")


class _Steps(MessagingHandler, TransactionHandler):
    """Sends three messages in a transaction, rolls back one, and takes three twice."""

    def __init__(self, port: int) -> None:
        super().__init__(auto_accept=False, prefetch=0)
        self.port = port
        self.told: list[Any] = []
        self.taken: list[Message] = []
        self.step = 0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(
            f"127.0.0.1:{self.port}", allowed_mechs="ANONYMOUS", reconnect=False
        )
        self.sender: Sender = event.container.create_sender(self.connection, "transactions")
        self.receiver: Receiver | None = None
        self._declare()

    def _declare(self) -> None:
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.taken = []
        if self.step == 0:
            for number in range(3):
                self.transaction.send(self.sender, Message(body=number))
            self.transaction.commit()
        elif self.step == 1:
            self.transaction.send(self.sender, Message(body="never"))
            self.transaction.abort()
        else:
            if self.receiver is None:
                self.receiver = self.container.create_receiver(self.connection, "transactions")
            self.receiver.flow(3)

    def on_message(self, event: Any) -> None:
        self.taken.append(event.message)
        self.transaction.accept(event.delivery)
        if len(self.taken) == 3:
            (self.transaction.abort if self.step == 2 else self.transaction.commit)()

    def on_transaction_committed(self, event: Any) -> None:
        self._note("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._note("aborted")

    def _note(self, what: str) -> None:
        self.told.append((what, [(each.body, each.delivery_count) for each in self.taken]))
        self.step += 1
        if self.step < 4:
            self._declare()
        else:
            self.connection.close()


def test_transactions_commit_and_roll_back(shared: BrokerProcess) -> None:
    steps = _Steps(shared.port)
    Container(steps).run()
    assert steps.told == [
        ("committed", []), ("aborted", []),
        ("aborted", [(0, 0), (1, 0), (2, 0)]), ("committed", [(0, 1), (1, 1), (2, 1)]),
    ]  # fmt: skip


def test_what_was_accepted_survives_kill_9_and_is_flagged(broker: BrokerProcess) -> None:
    connection = _connect(broker)
    sender, receiver = connection.create_sender("kept"), connection.create_receiver("kept", 2)
    for number in range(3):
        sender.send(Message(body=number, durable=True))
    assert _take(receiver).body == 0
    assert receiver.receive(SECONDS).body == 1
    # Its answer says that what was before is durable, too.
    sender.send(Message(body=3, durable=True))
    broker.kill()
    with suppress(ProtonException):
        connection.close()
    broker.start()
    connection = _connect(broker)
    receiver = connection.create_receiver("kept", 10)
    found = [_take(receiver) for _ in range(3)]
    assert [each.body for each in found] == [1, 2, 3]
    assert [each.first_acquirer for each in found[:2]] == [False, False]
    assert found[0].delivery_count == 1
    connection.close()
    broker.stop()
    for words in (["verify"], ["audit"]):
        done = nursery.run(
            [JOURNAL, *words, "--data", str(broker.data)], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    told = nursery.run(
        [JOURNAL, "inspect", "--data", str(broker.data), "--kind", "ConnectionOpened"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "AMQP 1.0" in told
