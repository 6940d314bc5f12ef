"""Logins by SASL over real sockets, by the made-up protocol of links: SCRAM-SHA-256 above all."""

import json
import resource
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from tests.interop.security.test_logins import add_user
from tests.interop.using import status
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.links.client import LinksBroker, LinksClient
from tests.support.links.scram_client import ScramClient
from tests.support.links.wire import frame
from tests.support.process import JOURNAL, wait_for

pytestmark = pytest.mark.interop

SCRAM = "SCRAM-SHA-256"
PLUS = "SCRAM-SHA-256-PLUS"
HALF_OPEN = 2000
OLDER = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$zV4DXKSMFNc8Ew+5OVa7YQ"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinksBroker]:
    """A broker with the users joe, with a verifier, and older, without one."""
    with LinksBroker(tmp_path_factory.mktemp("sasl") / "data") as process:
        add_user(process, "joe", "right")
        users = process.directory / "users.toml"
        users.write_text(f'{users.read_text()}"older" = "{OLDER}"\n')
        process.start()
        yield process


def refused(
    broker: LinksBroker, scram: ScramClient, mechanism: str = SCRAM, **replaced: str
) -> str:
    """Log in; return why that is refused."""
    with LinksClient(broker.port) as client:
        client.say("init", SCRAM, scram.first())
        client.say("response", scram.last(client.expect("challenge")[0], **replaced))
        why: str = client.expect("closed")[0]
        return why


def test_both_sides_prove_who_they_are(broker: LinksBroker) -> None:
    with LinksClient(broker.port) as client:
        client.say("hello")
        assert client.expect("mechanisms")[0] == [SCRAM, "PLAIN"]
        scram = ScramClient("joe", "right")
        assert client.scram(scram) == "joe"
        assert scram.is_proven
        client.open()
        client.sender(1, "a")
        client.deliver(1, b"x")


def test_the_response_may_come_after_an_empty_challenge(broker: LinksBroker) -> None:
    with LinksClient(broker.port) as client:
        client.say("init", "PLAIN", None)
        assert client.expect("challenge") == [b""]
        client.say("response", b"\0joe\0right")
        assert client.expect("outcome") == ["joe", b""]


def test_who_does_not_exist_is_told_what_a_wrong_passcode_is_told(broker: LinksBroker) -> None:
    told = {
        login: refused(broker, ScramClient(login, "wrong")).replace(login, "LOGIN")
        for login in ("joe", "nobody", "older")
    }
    assert set(told.values()) == {
        "login or passcode of 'LOGIN' is wrong; give a valid login and passcode"
    }
    found = {each["login"]: each for each in broker.lines() if each["event"] == "login refused"}
    assert "lacks" not in found["joe"]
    kind = [JOURNAL, "inspect", "--data", str(broker.data), "--kind", "ConnectionRefused", "--json"]
    shown = wait_for(
        lambda: nursery.run(kind, capture_output=True, check=True, text=True).stdout, "the event"
    )
    # The first one of an address and reason in a minute has its name.
    assert json.loads(shown.splitlines()[0])["detail"]["user"] == "joe"
    assert "daybook user passwd" in found["older"]["lacks"]


def test_salts_are_the_same_after_a_restart(broker: LinksBroker) -> None:
    def salts() -> list[bytes]:
        found = []
        for login in ("joe", "nobody", "older"):
            with LinksClient(broker.port) as client:
                client.say("init", SCRAM, f"n,,n={login},r=x".encode())
                _, salt, iterations = client.expect("challenge")[0].split(b",")
                found.append((salt, iterations))
        return found

    before = salts()
    assert len({len(salt) for salt, _ in before}) == len({count for _, count in before}) == 1
    assert len({salt for salt, _ in before}) == len(before)
    broker.stop()
    broker.start()
    assert salts() == before


@pytest.mark.parametrize(
    ("replaced", "why"),
    [
        ({"r": "tampered"}, "nonce"),
        ({"c": "eSws"}, "channel binding"),
        ({"p": "AAAA"}, "malformed"),
        ({"p": "A" * 43 + "="}, "is wrong"),
    ],
)
def test_what_was_tampered_with_is_refused(
    broker: LinksBroker, replaced: dict[str, str], why: str
) -> None:
    assert why in refused(broker, ScramClient("joe", "right"), **replaced)


def test_an_exchange_that_was_overheard_is_of_no_use(broker: LinksBroker) -> None:
    scram = ScramClient("joe", "right")
    with LinksClient(broker.port) as client:
        client.say("init", SCRAM, scram.first())
        last = scram.last(client.expect("challenge")[0])
        client.say("response", last)
        assert client.expect("outcome")[0] == "joe"
        # Nor a second time on the same connection.
        client.say("response", last)
        assert client.expect("closed") == ["a response to no challenge"]
    with LinksClient(broker.port) as client:
        client.say("init", SCRAM, scram.first())
        client.expect("challenge")
        client.say("response", last)
        assert "nonce" in client.expect("closed")[0]


@pytest.mark.parametrize("mechanism", [SCRAM, "PLAIN"])
def test_giant_messages_end_their_connection_alone(broker: LinksBroker, mechanism: str) -> None:
    with LinksClient(broker.port) as client:
        client.say("init", mechanism, b"n,,n=joe,r=" + b"x" * 900_000)
        assert "longer than 4,096 bytes" in client.expect("closed")[0]
    with LinksClient(broker.port) as client:
        client.scram(ScramClient("joe", "right"))


def test_a_passcode_that_changes_in_the_middle_is_wrong(tmp_path: Path) -> None:
    with LinksBroker(tmp_path / "data") as broker:
        add_user(broker, "joe", "right")
        add_user(broker, "eve", "right")
        broker.start()
        with LinksClient(broker.port) as client, LinksClient(broker.port) as other:
            scrams = ScramClient("joe", "right"), ScramClient("eve", "right")
            for each, scram in zip((client, other), scrams, strict=True):
                each.say("init", SCRAM, scram.first())
            lasts = [
                scram.last(each.expect("challenge")[0])
                for each, scram in zip((client, other), scrams, strict=True)
            ]
            users = broker.directory / "users.toml"
            lines = users.read_text().splitlines(keepends=True)
            users.write_text("".join(line for line in lines if not line.startswith('"joe"')))
            broker.send_signal(signal.SIGHUP)
            wait_for(lambda: "configuration reloaded" in broker.log_text(), "the reload")
            client.say("response", lasts[0])
            assert "is wrong" in client.expect("closed")[0]
            other.say("response", lasts[1])
            assert other.expect("outcome")[0] == "eve"


def test_a_login_is_bound_to_the_certificate_of_the_broker(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue("localhost")
    config = f"""
[[acceptor]]
name = "secret"
protocol = "links"
listen = "127.0.0.1:0"
tls = true
certificate = "{certificate}"
"""
    with LinksBroker(tmp_path / "data", config=config) as broker:
        add_user(broker, "joe", "right")
        broker.listen.clear()
        broker.start()
        context = authority.trusting()
        with Wire(broker.port, tls=context) as wire:
            assert isinstance(wire.socket, ssl.SSLSocket)
            der = wire.socket.getpeercert(binary_form=True)
        assert der is not None
        binding = "tls-server-end-point", sha256(der).digest()

        def log_in(scram: ScramClient, mechanism: str, context: ssl.SSLContext = context) -> str:
            with LinksClient(broker.port, context) as client:
                client.say("hello")
                assert client.expect("mechanisms")[0] == [PLUS, SCRAM, "PLAIN"]
                client.say("init", mechanism, scram.first())
                told = client.read()
                if told[0] == "challenge":
                    client.say("response", scram.last(told[1]))
                    told = client.read()
                if told[0] == "outcome":
                    scram.check(told[2])
                return str(told[1])

        assert log_in(ScramClient("joe", "right", binding=binding), PLUS) == "joe"
        assert log_in(ScramClient("joe", "right"), SCRAM) == "joe"
        # The channel ends at somebody else's certificate.
        wrong = "tls-server-end-point", sha256(b"another").digest()
        assert "channel binding" in log_in(ScramClient("joe", "right", binding=wrong), PLUS)
        # Somebody has taken the better mechanism off the list.
        assert "was not shown" in log_in(ScramClient("joe", "right", flag="y"), SCRAM)


def test_a_certificate_is_a_login(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue("localhost")
    config = f"""
[[acceptor]]
name = "secret"
protocol = "links"
listen = "127.0.0.1:0"
tls = true
certificate = "{certificate}"
client-certificates = "optional"
client-ca = "{authority.ca}"
certificate-login = "cn"
"""
    with LinksBroker(tmp_path / "data", config=config) as broker:
        add_user(broker, "joe", "right")
        broker.listen.clear()
        broker.start()
        joe = authority.trusting(authority.issue("joe", name="joe", cn="joe"))
        eve = authority.trusting(authority.issue("eve", name="eve", cn="eve"))
        with LinksClient(broker.port, joe) as client:
            assert client.log_in("EXTERNAL") == "joe"
        with LinksClient(broker.port, joe) as client:
            client.say("init", "EXTERNAL", b"eve")
            assert "that of another user" in client.expect("closed")[0]
        with LinksClient(broker.port, eve) as client:
            client.say("init", "EXTERNAL", b"")
            assert client.expect("closed") == ["there is no user 'eve'"]
        with LinksClient(broker.port, authority.trusting()) as client:
            client.say("init", "EXTERNAL", b"joe")
            assert "the mechanism is none of" in client.expect("closed")[0]


def test_exchanges_that_stop_in_the_middle_hold_nothing_up(broker: LinksBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, HALF_OPEN + 500)), hard))
    with ExitStack() as stack, Wire(broker.ports[1]) as honest:
        answer = honest.connect(login="joe", passcode="right")
        assert answer.command == "CONNECTED", answer
        longest = 0.0
        for number in range(HALF_OPEN):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            half.sendall(frame("init", SCRAM, b"n,,n=joe,r=x%d" % number))
            if number % 50 == 0:
                begun = time.monotonic()
                honest.send("SEND", b"x", destination="/queue/honest", receipt=str(number))
                assert honest.read().command == "RECEIPT"
                longest = max(longest, time.monotonic() - begun)
        shown = status(broker)
        # Those of one address that have not logged in: `max-pending-logins-per-address`.
        assert shown["connections_dismissed"] >= HALF_OPEN - 300
        assert shown["logins_waiting"] == 0
        assert longest < 5.0
        # And somebody new gets in.
        with LinksClient(broker.port) as client:
            client.scram(ScramClient("joe", "right"))
