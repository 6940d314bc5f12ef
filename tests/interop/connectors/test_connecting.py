"""Connectors of one broker to another one, to peers that misbehave, and what lists say of them."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.interop.connectors.using import (
    QUICK,
    SECONDS,
    command,
    connector,
    east,
    listed,
    row,
    wait_for_link,
    wait_until,
    wait_why,
    west,
)
from tests.interop.using import events
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

PASSCODE: Final = "open-sesame"
BRIDGE: Final = """
[[auto-link]]
address = "orders"
direction = "out"
connector = "east"
"""


def add_user(broker: BrokerProcess, login: str) -> None:
    broker.data.mkdir()
    words = ("user", "add", login, "--passcode-stdin", "--users-file", f"{broker.data}/users.toml")
    nursery.run([DAYBOOK, *words], input=PASSCODE, text=True, check=True, capture_output=True)


def send(broker: BrokerProcess, address: str, body: str) -> None:
    url = f"amqp://127.0.0.1:{broker.port}"
    command("send", "--url", url, address, body)


def receive(broker: BrokerProcess, address: str, login: str = "") -> str:
    url = f"amqp://{login}127.0.0.1:{broker.port}"
    return command("receive", "--url", url, address, "--count", "1", "--timeout", "15")


# ---- another broker


def test_a_connector_opens_attaches_and_carries_messages(tmp_path: Path) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        broker.configure(connector(other.port, *QUICK) + BRIDGE)
        broker.start()
        found = wait_until(broker, "open")
        assert found["url"] == f"amqp://127.0.0.1:{other.port}"
        assert (found["why"], found["attempts"], found["failures"]) == ("", 1, 0)
        assert found["container"].startswith("daybook")
        assert found["product"] == "daybook"
        wait_for_link(broker, "orders-out-east")
        send(broker, "orders", "carried")
        assert "carried" in receive(other, "orders")
        link = wait_for_link(broker, "orders-out-east")
        assert (link["direction"], link["external_address"]) == ("out", "orders")
        assert (link["messages"], link["connection"]) == (1, found["connection"])
        # The other side knows this one by its name.
        [there] = listed(other, "connection", "list")
        assert there["client_id"] == "west"
        opened = [each for each in events(broker) if each["kind"] == "ConnectionOpened"]
        assert "east" in [each["detail"].get("connector") for each in opened]
        assert listed(broker, "connectors")[0]["active_links"] == 1
        metrics = command("status", "--data", str(broker.data))
        assert "connectors" in metrics


def test_a_peer_that_is_killed_is_connected_to_when_it_is_back(tmp_path: Path) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        port = other.port
        broker.configure(connector(port, *QUICK) + BRIDGE)
        broker.start()
        wait_for_link(broker, "orders-out-east")
        other.kill()
        found = wait_until(broker, "waiting")
        assert found["why"]
        assert found["failures"] >= 1
        assert wait_for_link(broker, "orders-out-east", "inactive")["connection"] is None
        send(broker, "orders", "stored meanwhile")
        health = command("health", "--data", str(broker.data))
        assert health.startswith("warning: connector east is down: ")
        with east(tmp_path, port=port) as again:
            again.start()
            assert wait_until(broker, "open")["why"] == ""
            assert "stored meanwhile" in receive(again, "orders")
        assert "Traceback" not in broker.log_text()


def test_a_container_that_connects_gets_its_auto_links(tmp_path: Path) -> None:
    links = BRIDGE.replace('connector = "east"', 'container = "east"')
    config = f'{links}[[acceptor]]\nprotocol = "amqp"\nlisten = "127.0.0.1:0"\nrole = "container"\n'
    with BrokerProcess(tmp_path / "west", config=config, listen=(), processes=1) as broker:
        broker.start()
        inactive = wait_for_link(broker, "orders-out-east", "inactive")
        assert inactive["why"] == "no container with this id is connected"
        dialling = connector(broker.port, *QUICK, 'user = "router"', name="west")
        with east(tmp_path, f'name = "east"\n{dialling}') as other:
            add_user(other, "router")
            other.start()
            wait_for_link(broker, "orders-out-east")
            send(broker, "orders", "to the container")
            assert "to the container" in receive(other, "orders", f"router:{PASSCODE}@")


def test_a_peer_without_a_user_attaches_nothing(tmp_path: Path) -> None:
    """The links of a connector are those of its configuration, as it names no user."""
    links = BRIDGE.replace('connector = "east"', 'container = "east"')
    config = f'{links}[[acceptor]]\nprotocol = "amqp"\nlisten = "127.0.0.1:0"\nrole = "container"\n'
    with BrokerProcess(tmp_path / "west", config=config, listen=(), processes=1) as broker:
        broker.start()
        with east(tmp_path, f'name = "east"\n{connector(broker.port, *QUICK, name="west")}') as one:
            one.start()
            failed = wait_for_link(broker, "orders-out-east", "failed")
            assert "amqp:" in failed["why"]


def _reload(broker: BrokerProcess, *parts: str) -> None:
    broker.configure("".join(parts))
    broker.send_signal(signal.SIGHUP)


def test_a_reload_changes_links_and_costs_on_an_open_connection(tmp_path: Path) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        base = connector(other.port, *QUICK)
        broker.configure(base + BRIDGE)
        broker.start()
        wait_for_link(broker, "orders-out-east")
        former, [there] = row(broker), listed(other, "connection", "list")
        send(broker, "orders", "before")
        route = '[[link-route]]\nprefix = "far"\ndirection = "in"\nconnector = "east"\n'
        sharded = '[[sharded-queue]]\nname = "jobs"\nconnectors = ["east"]\n'
        slow = connector(other.port, 'reconnect-delay = "2s"', 'connect-timeout = "9s"', "cost = 7")
        bills = BRIDGE.replace("orders", "bills")
        _reload(broker, slow, BRIDGE, bills, route, sharded)
        wait_for_link(broker, "bills-out-east")
        wait_for_link(broker, "jobs-in-east")
        send(broker, "far", "passed on")
        assert "passed on" in receive(other, "far")
        send(broker, "orders", "between")
        _reload(broker, slow, bills)
        wait_for(lambda: len(listed(broker, "auto-link", "list")) == 1, "the others' ends")
        send(broker, "orders", "stays here")
        send(broker, "bills", "bridged")
        assert "bridged" in receive(other, "bills")
        url = f"amqp://127.0.0.1:{other.port}"
        got = command("receive", "orders", "--url", url, "--count", "2", "--timeout", "15")
        assert [each in got for each in ("before", "between")] == [True, True]
        kept = [each["ready"] for each in listed(broker, "queue", "list")]
        assert sum(kept) == 1
        assert listed(other, "connection", "list")[0]["connection"] == there["connection"]
        same = ("connection", "attempts", "failures")
        assert [row(broker)[key] for key in same] == [former[key] for key in same]
        assert broker.stop() == 0


def test_a_reload_gives_a_container_that_is_connected_its_new_links(tmp_path: Path) -> None:
    acceptor = '[[acceptor]]\nprotocol = "amqp"\nlisten = "127.0.0.1:0"\nrole = "container"\n'
    links = BRIDGE.replace('connector = "east"', 'container = "east"')
    with BrokerProcess(tmp_path / "west", config=acceptor, listen=(), processes=1) as broker:
        broker.start()
        dialling = connector(broker.port, *QUICK, 'user = "router"', name="west")
        with east(tmp_path, f'name = "east"\n{dialling}') as other:
            add_user(other, "router")
            other.start()
            wait_until(other, "open", "west")
            _reload(broker, acceptor, links)
            wait_for_link(broker, "orders-out-east")
            _reload(broker, acceptor)
            wait_for(lambda: not listed(broker, "auto-link", "list"), "its end")
            assert row(other, "west")["attempts"] == 1


def test_a_reload_adds_changes_and_removes_connectors(tmp_path: Path) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        same = connector(other.port, *QUICK, name="same")
        broker.configure(same + connector(other.port, *QUICK) + BRIDGE)
        broker.start()
        before = wait_until(broker, "open", "same")["connection"]
        former = wait_until(broker, "open")["connection"]
        broker.configure(
            same + connector(other.port, *QUICK, 'container = "w"') + BRIDGE
            + connector(other.port, *QUICK, name="new")
        )  # fmt: skip
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: len(listed(broker, "connectors")) == 3, "the new one", SECONDS)
        wait_until(broker, "open", "new")
        changed = wait_for(
            lambda: (found := row(broker))["connection"] not in (former, None) and found,
            "the changed one",
        )
        assert changed["attempts"] >= 2
        assert wait_until(broker, "open", "same")["connection"] == before
        wait_for_link(broker, "orders-out-east")
        broker.configure(same)
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: len(listed(broker, "connection", "list")) == 1, "the others' ends")
        assert [each["connector"] for each in listed(broker, "connectors")] == ["same"]
        assert row(broker, "same")["connection"] == before
        assert broker.stop() == 0
        assert other.stop() == 0


# ---- logins and secrets


@pytest.mark.parametrize("lines", [(), ('mechanisms = ["PLAIN"]',)], ids=["scram", "plain"])
def test_a_login_with_a_passcode(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        add_user(other, "daybook-west")
        other.start()
        right, wrong = tmp_path / "right", tmp_path / "wrong"
        right.write_text(f"{PASSCODE}\n")
        wrong.write_text("another\n")
        login = ('login = "daybook-west"', *lines, *QUICK)
        broker.configure(connector(other.port, *login, f'passcode-file = "{wrong}"'))
        broker.start()
        wait_why(broker, "the peer refused the login 'daybook-west', or its passcode")
        broker.configure(connector(other.port, *login, f'passcode = "{PASSCODE}"'))
        broker.send_signal(signal.SIGHUP)
        wait_until(broker, "open")
        [there] = listed(other, "connection", "list")
        assert there["user"] == "daybook-west"
        wrong.write_text(f"{PASSCODE}\n")
        broker.configure(connector(other.port, *login, f'passcode-file = "{wrong}"'))
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: row(broker)["attempts"] > 2 and row(broker)["state"] == "open", "file")
        assert PASSCODE not in broker.log_text()
        assert PASSCODE not in command("connectors", "--data", str(broker.data), "--json")
        assert broker.stop() == 0
        for path in broker.data.rglob("*"):
            assert not path.is_file() or PASSCODE.encode() not in path.read_bytes(), path


def test_a_user_that_does_not_exist_is_a_reason(tmp_path: Path) -> None:
    with west(tmp_path, connector(9, *QUICK, 'user = "nobody"')) as broker:
        broker.start()
        wait_why(broker, "there is no user 'nobody' here (user)")


# ---- TLS


def test_tls_by_an_authority_of_our_own(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    certificate = authority.issue("localhost", "127.0.0.1")
    elsewhere = authority.issue("east.example.org", name="elsewhere")
    mine = authority.issue("west.example.org", name="mine")
    demands = f'client-certificates = "required"\nclient-ca = "{authority.ca}"\n'
    acceptor = '[[acceptor]]\nname = "{}"\nprotocol = "amqp"\nlisten = "127.0.0.1:0"\ntls = true\n'
    config = (
        acceptor.format("right") + f'certificate = "{certificate}"\n'
        + acceptor.format("other") + f'certificate = "{elsewhere}"\n'
        + acceptor.format("asks") + f'certificate = "{certificate}"\n' + demands
        + acceptor.format("plain").replace("tls = true\n", "")
    )  # fmt: skip
    trusts = f'trusted-certificates = "{authority.ca}"'
    with BrokerProcess(tmp_path / "east", config=config, listen=(), processes=1) as other:
        right, wrong, asks, plain = other.start().ports

        def tls(name: str, port: int, *lines: str) -> str:
            return connector(port, *QUICK, *lines, name=name, scheme="amqps")

        shown = (f'certificate = "{mine}"', trusts)
        broker = west(
            tmp_path,
            tls("trusted", right, trusts)
            + tls("unknown", right, f'trusted-certificates = "{stranger.ca}"')
            + tls("system", right)
            + tls("name", wrong, trusts)
            + tls("named", wrong, trusts, 'host-name = "east.example.org"')
            + tls("lax", wrong, trusts, "verify-host-name = false")
            + tls("without", asks, trusts)
            + tls("shown", asks, *shown)
            + tls("to-plain", plain, trusts)
            + connector(right, *QUICK, 'connect-timeout = "1s"', name="no-tls"),
        )
        with broker:
            broker.start()
            for name in ("trusted", "named", "lax", "shown"):
                wait_until(broker, "open", name)
            for name in ("unknown", "system"):
                why = wait_why(broker, "the peer's certificate is not accepted: ", name)
                assert "unable to get local issuer" in why or "self-signed" in why
            assert "IP address mismatch" in wait_why(broker, "not accepted", "name")
            wait_why(broker, "the peer wants a certificate", "without")
            wait_why(broker, "the peer refused the handshake: it wants", "to-plain")
            assert row(broker, "no-tls")["state"] != "open"
            assert broker.stop() == 0


def test_certificates_are_checked_with_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(connector(9, 'trusted-certificates = "/nowhere.pem"', scheme="amqps"))
    done = nursery.run(
        [DAYBOOK, "config", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "connector 'east': /nowhere.pem (trusted-certificates) cannot be read" in done.stderr


# ---- peers that misbehave


@contextmanager
def misbehaving(behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """A listener whose connections are treated so, each in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    ends = threading.Event()

    def one(accepted: socket.socket) -> None:
        with accepted:
            try:
                behave(accepted)
            except OSError:
                return

    def serve() -> None:
        while not ends.is_set():
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(accepted,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        ends.set()
        listener.close()


def _hang(accepted: socket.socket) -> None:
    while accepted.recv(1024):
        pass


def _garbage(accepted: socket.socket) -> None:
    accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    accepted.recv(1024)


def _close(accepted: socket.socket) -> None:
    """Close at once."""


def _much(accepted: socket.socket) -> None:
    accepted.sendall(b"AMQP\x03\x01\x00\x00")
    while True:
        accepted.sendall(bytes(range(256)) * 256)


SASL: Final = b"AMQP\x03\x01\x00\x00"
MECHANISMS: Final = bytes.fromhex("00000000 02010000 005340c0 0d01a309 414e4f4e594d4f5553")


def _close_frame() -> bytes:
    """A close with the error that another address is to be used."""
    condition = b"amqp:connection:redirect"
    text = b"use another address"
    fields = b"\xa3%c%s\xa1%c%s" % (len(condition), condition, len(text), text)
    error = b"\x00\x53\x1d\xc0%c\x02%s" % (len(fields) + 1, fields)
    body = b"\x00\x53\x18\xc0%c\x01%s" % (len(error) + 1, error)
    return (8 + len(body)).to_bytes(4) + b"\x02\x00\x00\x00" + body


def _frame(kind: int, body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4) + bytes((2, kind, 0, 0)) + body


def _redirect(accepted: socket.socket) -> None:
    accepted.recv(8)
    accepted.sendall(SASL + _frame(1, b"\x00\x53\x40\xc0\x0c\x01\xa3\x09ANONYMOUS"))
    accepted.recv(1024)
    accepted.sendall(_frame(1, b"\x00\x53\x44\xc0\x03\x01\x50\x00"))
    accepted.recv(8)
    opened = _frame(0, b"\x00\x53\x10\xc0\x04\x01\xa1\x01x")
    accepted.sendall(b"AMQP\x00\x01\x00\x00" + opened + _close_frame())
    time.sleep(0.5)


PEERS: Final = {
    "hang": (_hang, "the peer does not open the connection, after 1 s (connect-timeout)"),
    "garbage": (_garbage, "AMQP"),
    "close": (_close, ""),
    "much": (_much, ""),
    "redirect": (_redirect, "amqp:connection:redirect: use another address"),
}


def test_peers_that_misbehave_cost_one_attempt_after_the_other(tmp_path: Path) -> None:
    with misbehaving(_hang) as hang, misbehaving(_garbage) as garbage, \
            misbehaving(_close) as close, misbehaving(_much) as much, \
            misbehaving(_redirect) as redirect:  # fmt: skip
        ports = {
            "hang": hang, "garbage": garbage, "close": close, "much": much, "redirect": redirect,
        }  # fmt: skip
        config = "".join(
            connector(port, *QUICK, 'connect-timeout = "1s"', name=name)
            for name, port in ports.items()
        )
        with west(tmp_path, config + connector(hang, 'connect-timeout = "1s"', name="tls",
                                               scheme="amqps")) as broker:  # fmt: skip
            broker.start()
            for name, (_, words) in PEERS.items():
                wait_for(lambda: row(broker, name)["failures"] > 2, f"{name}", SECONDS)  # noqa: B023
                if words:
                    wait_why(broker, words, name)
            wait_why(broker, "the peer does not finish TLS, login and open", "tls")
            begun, before = time.monotonic(), broker.open_files()
            send(broker, "orders", "served all the same")
            assert "served all the same" in receive(broker, "orders")
            wait_for(lambda: row(broker, "close")["failures"] > 8, "more failures", SECONDS)
            assert broker.open_files() <= before + len(ports) + 2
            assert time.monotonic() - begun < SECONDS
            said = [each for each in broker.lines() if each.get("part") == "connectors"]
            # One line for each new reason; "close" says the same each time.
            assert len([each for each in said if each["connector"] == "close"]) <= 3
            assert broker.stop() == 0
            assert "Traceback" not in broker.log_text()


def test_without_descriptors_nothing_is_tried_and_nothing_breaks(tmp_path: Path) -> None:
    with east(tmp_path) as other:
        other.start()
        config = "".join(connector(other.port, *QUICK, name=f"c{each}") for each in range(40))
        with west(tmp_path, config, open_files=(240, 240)) as broker:
            broker.start()
            wait_for(
                lambda: sum(each["state"] == "open" for each in listed(broker, "connectors")) > 5,
                "some of them", SECONDS,
            )  # fmt: skip
            send(broker, "orders", "x")
            assert "Traceback" not in broker.log_text()
            assert broker.stop() == 0
