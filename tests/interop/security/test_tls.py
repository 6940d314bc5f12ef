"""TLS on acceptors: clients of others, certificates of clients, renewal, and what goes wrong."""

import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp  # type: ignore[import-untyped]

from daybook.engine.facts import details, events
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.readonly import journal_disk
from tests.interop.security.test_logins import add_user
from tests.interop.wire import Closed, Wire, frame
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LISTEN = ("stomps://127.0.0.1:0", "stomp://127.0.0.1:0")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def broker(tmp_path: Path, authority: Authority) -> Iterator[BrokerProcess]:
    """A broker with an acceptor with TLS, and one without."""
    with started(tmp_path, authority.issue("localhost")) as process:
        yield process


def started(tmp_path: Path, certificate: Path, *settings: str) -> BrokerProcess:
    process = BrokerProcess(
        tmp_path / "data",
        settings=(f"acceptor.certificate={certificate}", *(f"acceptor.{one}" for one in settings)),
        listen=LISTEN,
    )
    return process.start()


def logged(broker: BrokerProcess, text: str) -> Any:
    return wait_for(lambda: text in broker.log_text(), text)


def reload(broker: BrokerProcess) -> None:
    before = broker.log_text().count("configuration reloaded")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: broker.log_text().count("configuration reloaded") > before, "the reload")


def test_certificates_are_listed_with_the_days_that_are_left(
    tmp_path: Path, authority: Authority
) -> None:
    def answer(broker: BrokerProcess, *words: str) -> str:
        command = [DAYBOOK, *words, "--data", str(broker.data)]
        return nursery.run(command, capture_output=True, check=True, text=True).stdout

    with started(tmp_path, authority.issue("localhost", "127.0.0.1")) as broker:
        secured, plain = json.loads(answer(broker, "acceptor", "list", "--json"))
        assert secured["names"] == ["localhost", "127.0.0.1"]
        assert secured["days_left"] > 14
        assert secured["begins"] < time.time() * 1000 < secured["expires"]
        assert (plain["tls"], plain["subject"], plain["days_left"]) == (False, None, None)
        assert answer(broker, "health").strip() == "healthy"
        authority.issue("localhost", expired=True)
        broker.stop()
        broker.start()
        assert "of acceptor stomp expired on 2001-01-10" in answer(broker, "health")


def test_messages_of_any_size_cross_tls(broker: BrokerProcess, authority: Authority) -> None:
    assert broker.output.read_text().startswith("ready stomps://127.0.0.1:")
    bodies = [b"", b"short", b"\0" * 20_000, bytes(range(256)) * 5_000]
    with Wire(broker.port, tls=authority.trusting()) as wire:
        assert wire.connect().command == "CONNECTED"
        for body in bodies:
            wire.send("SEND", body, destination="/queue/a", receipt="r")
            wire.expect("RECEIPT")
        wire.send("SUBSCRIBE", destination="/queue/a", id="1", ack="auto")
        assert [wire.expect("MESSAGE").body for _ in bodies] == bodies
        wire.send("DISCONNECT", receipt="bye")
        wire.expect("RECEIPT")
        assert wire.at_end()
    with Wire(broker.ports[1]) as plain:
        assert plain.connect().command == "CONNECTED"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_versions_are_spoken(
    broker: BrokerProcess, authority: Authority, version: str
) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with Wire(broker.port, tls=context) as wire:
        assert wire.connect().command == "CONNECTED"
        assert isinstance(wire.socket, ssl.SSLSocket)
        assert wire.socket.version() == version.replace("_", ".")


def test_older_versions_are_refused(broker: BrokerProcess) -> None:
    answer = openssl(broker.port, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "alert protocol version" in answer
    logged(broker, "no TLS version that is allowed")


def openssl(port: int, *flags: str, said: bytes = b"") -> str:
    """Return the output of `openssl s_client`."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *flags]
    done = nursery.run(command, input=said, capture_output=True, check=False, timeout=60)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def test_openssl_and_server_names(broker: BrokerProcess, authority: Authority) -> None:
    flags = ("-CAfile", str(authority.ca), "-servername", "localhost", "-ign_eof")
    said = frame("CONNECT", accept_version="1.2", host="h") + frame("DISCONNECT", receipt="1")
    answer = openssl(broker.port, *flags, said=said)
    assert "Verify return code: 0 (ok)" in answer
    assert "CONNECTED\nversion:1.2" in answer


def test_stomp_py(broker: BrokerProcess, authority: Authority) -> None:
    heard: list[str] = []

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, message: stomp.utils.Frame) -> None:
            heard.append(message.body)

    connection = stomp.StompConnection12([("localhost", broker.port)], heartbeats=(0, 0))
    connection.set_ssl(for_hosts=[("localhost", broker.port)], ca_certs=str(authority.ca))
    connection.set_listener("", Listener())
    connection.connect("guest", "guest", wait=True)
    connection.subscribe("/queue/a", "1")
    for number in range(100):
        connection.send("/queue/a", str(number))
    wait_for(lambda: len(heard) == 100, "all messages")
    connection.disconnect()


def test_a_client_that_does_not_trust_the_broker_goes(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        Wire(broker.port, tls=stranger.trusting())
    logged(broker, "the client does not trust the broker's certificate")


# ---- certificates of clients


def with_client_certificates(tmp_path: Path, authority: Authority, *settings: str) -> BrokerProcess:
    return started(tmp_path, authority.issue("localhost"), f"client-ca={authority.ca}", *settings)


def refuse(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    """Expect that a client does not get in; with TLS 1.3 it notices after its own handshake."""
    with (
        pytest.raises((ssl.SSLError, Closed, ConnectionError)),
        Wire(broker.port, tls=context) as wire,
    ):
        wire.connect()


def test_a_required_certificate(tmp_path: Path, authority: Authority) -> None:
    with with_client_certificates(tmp_path, authority, "client-certificates=required") as broker:
        refuse(broker, authority.trusting())
        logged(broker, "the client shows no certificate")
        mine = authority.issue("a@b.example", name="client", cn="joe")
        with Wire(broker.port, tls=authority.trusting(mine)) as wire:
            assert wire.connect().command == "CONNECTED"
        other = Authority(tmp_path / "other").issue("a@b.example", name="foreign")
        refuse(broker, authority.trusting(other))
        logged(broker, "the client's certificate is not accepted")
        old = authority.issue("a@b.example", name="old", cn="joe", expired=True)
        refuse(broker, authority.trusting(old))
        logged(broker, "certificate has expired")


def test_a_certificate_is_a_login(tmp_path: Path, authority: Authority) -> None:
    flags = ("client-certificates=optional", "certificate-login=cn")
    with with_client_certificates(tmp_path, authority, *flags) as broker:
        for user in ("joe", "eve"):
            add_user(broker, user, "secret")
        reload(broker)

        def answer(certificate: Path | None, **headers: str) -> Any:
            with Wire(broker.port, tls=authority.trusting(certificate)) as wire:
                return wire.connect(**headers)

        joe = authority.issue("a@b.example", name="joe", cn="joe")
        assert answer(joe).command == "CONNECTED"
        assert answer(joe, login="joe").command == "CONNECTED"
        # Another login needs its passcode.
        assert answer(joe, login="eve").command == "ERROR"
        assert answer(joe, login="eve", passcode="wrong").command == "ERROR"
        assert answer(joe, login="eve", passcode="secret").command == "CONNECTED"
        assert answer(None).command == "ERROR"
        assert answer(None, login="joe", passcode="secret").command == "CONNECTED"
        unknown = authority.issue("a@b.example", name="mallory", cn="mallory")
        refused = answer(unknown)
        assert refused.command == "ERROR"
        assert "no user 'mallory'" in refused.headers["message"]
        users = [one["user"] for one in opened(broker)]
        assert users == ["joe", "joe", "eve", "joe"]


def opened(broker: BrokerProcess) -> list[dict[str, Any]]:
    """The connections that the journal says were opened."""
    found = []
    for block in read_blocks(journal_disk(broker.data), LAYOUT):
        for _, row, detail, *_ in block.events():
            if row[events.KIND] == events.CONNECTION_OPENED:
                decoded = events.decode_detail(events.CONNECTION_OPENED, detail)
                assert isinstance(decoded, details.ConnectionDetail)
                found.append({"user": decoded.user})
    return found


def test_a_rule_for_logins(tmp_path: Path, authority: Authority) -> None:
    flags = (
        "client-certificates=required", "certificate-login=email",
        r"certificate-pattern=(\w+)@staff\.example",
    )  # fmt: skip
    with with_client_certificates(tmp_path, authority, *flags) as broker:
        add_user(broker, "joe", "secret")
        reload(broker)
        for number, (name, command) in enumerate(
            [
                ("joe@staff.example", "CONNECTED"),
                ("joe@other.example", "ERROR"),
                ("joe@staff.example.evil", "ERROR"),
            ]
        ):
            certificate = authority.issue(name, name=f"client{number}")
            with Wire(broker.port, tls=authority.trusting(certificate)) as wire:
                assert wire.connect().command == command, name


# ---- renewal


def serial(broker: BrokerProcess, authority: Authority) -> str:
    with Wire(broker.port, tls=authority.trusting()) as wire:
        assert isinstance(wire.socket, ssl.SSLSocket)
        found = wire.socket.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def test_a_renewed_certificate_is_taken_and_nobody_loses_a_connection(
    broker: BrokerProcess, authority: Authority
) -> None:
    before = serial(broker, authority)
    with Wire(broker.port, tls=authority.trusting()) as wire:
        wire.connect()
        authority.issue("localhost")
        assert serial(broker, authority) == before
        reload(broker)
        assert serial(broker, authority) != before
        wire.send("SEND", b"still here", destination="/queue/a", receipt="r")
        wire.expect("RECEIPT")
    after = serial(broker, authority)
    path = Path(broker.settings[0].partition("=")[2])
    for bad in (b"", b"nonsense", path.read_bytes()[:900]):
        path.write_bytes(bad)
        told = broker.log_text().count("the certificate was not reloaded")
        reload(broker)
        assert broker.log_text().count("the certificate was not reloaded") > told
        assert serial(broker, authority) == after
    authority.issue("localhost", expired=True)
    reload(broker)
    logged(broker, "and not now; renew it")
    assert serial(broker, authority) == after
    authority.issue("localhost")
    reload(broker)
    assert serial(broker, authority) != after
    # Of the key nothing is ever logged.
    assert "PRIVATE" not in broker.log_text()


def test_a_start_with_a_bad_certificate(tmp_path: Path, authority: Authority) -> None:
    bad = tmp_path / "bad.pem"
    flag = f"acceptor.certificate={bad}"
    process = BrokerProcess(tmp_path / "data", settings=[flag], listen=LISTEN)
    assert "cannot be read: No such file" in process.refuse()
    bad.write_text("nonsense")
    assert "no certificate in PEM format" in process.refuse()
    one, two = authority.issue("localhost", name="one"), authority.issue("localhost", name="two")
    process.settings[:] = [f"acceptor.certificate={one}", f"acceptor.key={two}"]
    assert "the key belongs to another certificate" in process.refuse()


def test_an_expired_certificate_is_served_with_a_warning(
    tmp_path: Path, authority: Authority
) -> None:
    certificate = authority.issue("localhost", expired=True)
    certificate.chmod(0o644)
    with started(tmp_path, certificate) as broker:
        logged(broker, "the certificate expired on 2001-01-10")
        logged(broker, "others may use the key (mode 0644)")
        with pytest.raises(ssl.SSLCertVerificationError):
            Wire(broker.port, tls=authority.trusting())


# ---- who speaks something else


def test_a_client_without_tls_is_told(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        assert "this port speaks TLS" in wire.connect().headers["message"]
        assert wire.at_end()
    logged(broker, "TLS is spoken here, and the client speaks without it")


def test_a_client_with_tls_at_a_port_without_is_told(
    broker: BrokerProcess, authority: Authority
) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
        Wire(broker.ports[1], tls=authority.trusting())
    logged(broker, "the client speaks TLS, and this port does not")


def test_a_handshake_that_never_ends_is_ended(tmp_path: Path, authority: Authority) -> None:
    with started(tmp_path, authority.issue("localhost"), "connect-timeout=1s") as broker:
        silent = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(20)]
        for one in silent[:10]:
            one.sendall(b"\x16\x03\x01\x02\x00")
        begun = time.monotonic()
        for one in silent:
            one.settimeout(20)
            with one:
                assert one.recv(1) == b""
        assert time.monotonic() - begun < 15
        with Wire(broker.port, tls=authority.trusting()) as wire:
            assert wire.connect().command == "CONNECTED"


def test_the_end_of_tls_ends_the_connection(broker: BrokerProcess, authority: Authority) -> None:
    with Wire(broker.port, tls=authority.trusting()) as wire:
        wire.connect()
        assert isinstance(wire.socket, ssl.SSLSocket)
        wire.socket.unwrap()


def test_metrics_over_tls(tmp_path: Path, authority: Authority) -> None:
    certificate = authority.issue("localhost")
    listen = (f"https://127.0.0.1:0?certificate={certificate}",)
    process = BrokerProcess(tmp_path / "data", listen=listen)
    with process.start() as broker:
        plain = socket.create_connection(("127.0.0.1", broker.port))
        with authority.trusting().wrap_socket(plain, server_hostname="localhost") as wrapped:
            wrapped.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while data := wrapped.recv(65536):
                answer += data
        assert answer.startswith(b"HTTP/1.1 200")


def test_commands_connect_with_tls(tmp_path: Path, authority: Authority) -> None:
    flags = ("client-certificates=optional", "certificate-login=cn")
    with with_client_certificates(tmp_path, authority, *flags) as broker:
        add_user(broker, "joe", "secret")
        reload(broker)
        mine = authority.issue("a@b.example", name="client", cn="joe")
        where = f"localhost:{broker.port}"
        ways = [f"stomps://joe:secret@{where}?ca={authority.ca}"]
        ways += [f"stomps://{where}?ca={authority.ca}&certificate={mine}"]
        large = "x" * 100_000
        for url in ways:
            assert "safe on disk" in command("send", "/queue/a", large, "--url", url)
            assert large in command("receive", "/queue/a", "--count", "1", "--url", url)
        untrusted = command("send", "/queue/a", "x", "--url", f"stomps://joe:secret@{where}")
        assert "its certificate is not trusted" in untrusted
        assert "name a file of certificates to trust" in untrusted
        plain = command("send", "/queue/a", "x", "--url", f"stomp://joe:secret@{where}")
        assert "this port speaks TLS" in plain


def command(*words: str) -> str:
    """Return the output of a command."""
    done = nursery.run([DAYBOOK, *words], capture_output=True, check=False, text=True)
    return done.stdout + done.stderr


def test_a_port_that_others_reach_needs_tls(tmp_path: Path, authority: Authority) -> None:
    process = BrokerProcess(tmp_path / "data", listen=["stomp://0.0.0.0:0"])
    process.launch()
    assert process.wait() == 2
    assert "can be reached from other machines, which needs TLS" in process.log_text()
    process.listen[:] = ["stomp://0.0.0.0:0?allow-cleartext=true"]
    with process.start():
        assert "everybody on the way can read passcodes" in process.log_text()
    certificate = authority.issue("localhost")
    process.listen[:] = [f"stomps://0.0.0.0:0?certificate={certificate}"]
    with process.start() as broker, Wire(broker.port, tls=authority.trusting()) as wire:
        assert wire.connect().command == "CONNECTED"
