"""A broker that serves the configuration of a router: what its sections promise, seen by clients.

Rules: Interconnect, chapter 12.1.2 to 12.1.5.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection, LinkDetached

from daybook.client.control import ask
from tests.support import nursery
from tests.support.brokers.router_conf import HEAD, PIECES, blocks_of, document
from tests.support.process import BrokerProcess, NotReady, wait_for

pytestmark = pytest.mark.interop

SECONDS: Final = 30
SECTIONS: Final = """
address {
    prefix: news
    distribution: multicast
}
address {
    pattern: */closed/#     # names with any first token
    distribution: unavailable
}
address {
    prefix: kept
    waypoint: yes
}
exchange {
    name: elsewhere
    address: elsewhere
}
"""
"""With addresses that differ in what a client sees."""

Connect = Callable[[], BlockingConnection]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("router") / "data"
    with BrokerProcess(directory, config=document(SECTIONS), listen=()) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    opened: list[BlockingConnection] = []

    def one() -> BlockingConnection:
        where = f"127.0.0.1:{broker.port}"
        opened.append(BlockingConnection(where, timeout=SECONDS, allowed_mechs="ANONYMOUS"))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def run(*arguments: str, text_in: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "daybook", *arguments]
    return nursery.run(command, capture_output=True, text=True, check=False, input=text_in)


def flush(connection: BlockingConnection) -> None:
    """Write all that a client has to say."""
    connection.container.process()
    connection.wait(lambda: not connection.conn.transport.pending(), msg="the output to leave")


def test_addresses_are_those_of_the_router(connect: Connect) -> None:
    first, second, sender = connect(), connect(), connect()
    receivers = [each.create_receiver("news/sports", credit=5) for each in (first, second)]
    link = sender.create_sender("news/sports")
    sender.wait(lambda: link.link.credit > 0, msg="credit")
    delivery = link.link.send(Message(body="one each"))
    flush(sender)
    for each in receivers:
        assert each.receive(SECONDS).body == "one each"
        each.accept()
        flush(each.connection)
    sender.wait(lambda: delivery.remote_state, msg="the outcome")
    assert delivery.remote_state == Delivery.ACCEPTED
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        sender.create_sender("a/closed")


def test_a_waypoint_is_a_queue_of_this_broker(broker: BrokerProcess, connect: Connect) -> None:
    connect().create_sender("kept").send(Message(body="stored"))
    answer = ask(broker.data, {"do": "queues"})
    assert answer is not None
    assert [(row["queue"], row["messages"]) for row in answer["queues"]] == [("kept", 1)]
    receiver = connect().create_receiver("kept", credit=1)
    assert receiver.receive(SECONDS).body == "stored"
    receiver.reject()
    flush(receiver.connection)
    dead = connect().create_receiver("DLQ", credit=1)
    assert dead.receive(SECONDS).body == "stored", "although all other addresses are direct"
    dead.accept()


def test_the_container_id_is_that_of_the_router(connect: Connect) -> None:
    assert connect().conn.remote_container == "Router.A"


def test_the_log_names_what_is_lost(broker: BrokerProcess) -> None:
    assert "exchange: exchanges are not taken over" in broker.log_text()


@pytest.mark.parametrize("name", PIECES)
def test_an_example_of_the_manual_can_be_checked_and_converted(tmp_path: Path, name: str) -> None:
    path = tmp_path / "qdrouterd.conf"
    path.write_text(document(PIECES[name].sections))
    checked = run("config", "check", str(path))
    assert checked.returncode == 0, checked.stderr
    converted = run("config", "convert", str(path))
    assert converted.returncode == 0, converted.stderr
    toml = tmp_path / "broker.toml"
    toml.write_text(converted.stdout)
    again = run("config", "check", str(toml))
    assert again.returncode == 0, again.stdout + again.stderr
    counts = [each.stdout.partition("valid")[2].partition(":")[2] for each in (checked, again)]
    assert counts[0] == counts[1]


def test_a_contradiction_stops_the_start(tmp_path: Path) -> None:
    wrong = HEAD + "address {\n    prefix: a\n    priority: 10\n}\n"
    path = tmp_path / "router.conf"
    path.write_text(wrong)
    line = wrong.split("\n").index("    priority: 10") + 1
    for command in ("check", "convert"):
        refused = run("config", command, str(path))
        assert refused.returncode == 2
        assert f"{path}:{line}: address.priority is 10; it must be" in refused.stderr
        assert not refused.stdout
    with (
        BrokerProcess(tmp_path / "data", config=wrong, listen=()) as process,
        pytest.raises(NotReady, match=r"address\.priority is 10"),
    ):
        process.start()


ROUTER: Final = """
connector {{
    name: store
    host: 127.0.0.1
    port: {port}
    role: route-container
}}
address {{
    prefix: orders
    waypoint: yes
}}
autoLink {{
    address: orders
    connection: store
    direction: out
}}
autoLink {{
    address: orders
    connection: store
    direction: in
}}
linkRoute {{
    prefix: books
    connection: store
    direction: in
}}
linkRoute {{
    prefix: books
    connection: store
    direction: out
}}
"""


def messages_of(broker: BrokerProcess) -> dict[str, int]:
    answer = ask(broker.data, {"do": "queues"})
    assert answer is not None
    return {row["queue"]: row["messages"] for row in answer["queues"]}


def test_a_router_in_front_of_a_store(tmp_path: Path) -> None:
    """Chapter 12.1.4.2 with two brokers: one has the configuration of the router, and one the
    queues. A message waits in the store until a consumer comes to the router."""
    toml = 'name = "store"\n[[queue]]\nname = "orders"\n'
    with BrokerProcess(
        tmp_path / "store", config=toml, listen=("amqp://127.0.0.1:0",), processes=1
    ) as store:
        store.start()
        sections = document(ROUTER.format(port=store.port))
        with BrokerProcess(tmp_path / "router", config=sections, listen=(), processes=1) as router:
            router.start()
            where = f"127.0.0.1:{router.port}"
            client = BlockingConnection(where, timeout=SECONDS, allowed_mechs="ANONYMOUS")
            sender = client.create_sender("orders")
            client.wait(lambda: sender.link.credit > 0, msg="credit")
            sender.send(Message(body="an order"))
            assert messages_of(store) == {"orders": 1}
            assert messages_of(router) == {}, "the router stores nothing"
            receiver = client.create_receiver("orders", credit=1)
            assert receiver.receive(SECONDS).body == "an order"
            receiver.accept()
            flush(client)
            wait_for(lambda: messages_of(store)["orders"] == 0, "the order to leave the store")
            client.create_sender("books").send(Message(body="a book"))
            assert messages_of(store)["books"] == 1
            client.close()


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Return a text with other pieces, which it must have."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_one_router_and_its_store_as_documented(tmp_path: Path) -> None:
    """The files of docs/routing.md, "one router", without TLS: login and rights suffice for queue
    and link routes."""
    passcode = tmp_path / "passcode"
    passcode.write_text("of the router\n")
    toml = replaced(
        next(each for each in blocks_of("routing.md", "toml") if "store-1" in each),
        ("0.0.0.0:5671", "127.0.0.1:0"),
        ("tls = true\ncertificate = ", "certificate = "),
    )
    with BrokerProcess(tmp_path / "store", config=toml, listen=(), processes=1) as store:
        store.directory.mkdir()
        users = str(store.directory / "users.toml")
        words = ("user", "add", "router-a", "--users-file", users, "--passcode-stdin")
        added = run(*words, text_in=passcode.read_text())
        assert added.returncode == 0, added.stderr
        store.start()
        sections = replaced(
            blocks_of("routing.md", "\nrouter {")[0],
            ("host: 0.0.0.0\n    port: amqp", "host: 127.0.0.1\n    port: 0"),
            (
                "host: store-1.example.org\n    port: amqps",
                f"host: 127.0.0.1\n    port: {store.port}",
            ),
            ("    sslProfile: inside\n", ""),
            ("/etc/qpid-dispatch/passcode", str(passcode)),
        )
        with BrokerProcess(tmp_path / "router", config=sections, listen=(), processes=1) as router:
            router.start()
            where = f"127.0.0.1:{router.port}"
            client = BlockingConnection(where, timeout=SECONDS, allowed_mechs="ANONYMOUS")
            for address in ("orders", "books.new"):
                sender = client.create_sender(address)
                client.wait(lambda link=sender.link: link.credit > 0, msg="credit")
                sender.send(Message(body=address))
                receiver = client.create_receiver(address, credit=1)
                assert receiver.receive(SECONDS).body == address
                receiver.accept()
            client.close()
