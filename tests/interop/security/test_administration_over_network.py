"""Administration over the network: tokens, rights, the record of who did what, and peers that
misbehave."""

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.security.test_permissions import give_users, login, reload, user
from tests.interop.using import events, sent
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LISTEN = ("stomp://127.0.0.1:0", "control://127.0.0.1:0")
RULES = """
[[security-setting]]
match = "#"
manage = ["admins"]
send = ["*"]
consume = ["*"]

[[security-setting]]
match = "orders.#"
manage = ["sales", "admins"]
browse = ["readers"]
delete-durable-queue = ["cleaners"]
"""
USERS = {"ada": ("admins",), "sam": ("sales",), "rea": ("readers",), "cleo": ("cleaners",)}


@contextmanager
def running(path: Path, rules: str = RULES, *settings: str) -> Iterator[BrokerProcess]:
    """A broker with an administrator and a seller, and files with their tokens."""
    path.mkdir()
    with BrokerProcess(path / "data", config=rules, listen=LISTEN, settings=settings) as broker:
        give_users(broker, USERS, tokens=True)
        yield broker.start()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("network") / "one") as made:
        yield made


def asked(broker: BrokerProcess, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user, over the network, from a folder without a data directory."""
    token = broker.directory.parent / name
    flags = ["--url", f"control://127.0.0.1:{broker.ports[1]}", "--token-file", str(token)]
    return nursery.run(
        [DAYBOOK, *words, *flags], capture_output=True, check=False, text=True, cwd="/"
    )


def ok(broker: BrokerProcess, name: str, *words: str) -> str:
    done = asked(broker, name, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(broker: BrokerProcess, name: str, *words: str) -> str:
    done = asked(broker, name, *words)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


class Line:
    """A bare connection to the acceptor of administrators."""

    def __init__(
        self, broker: BrokerProcess, name: str = "", context: ssl.SSLContext | None = None
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.ports[1]), 30)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")
        if name:
            token = (broker.directory.parent / name).read_text().strip()
            assert self.ask(token=token) == {"result": {"user": name}}

    def ask(self, **request: Any) -> Any:
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return self.read()

    def read(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()


def recorded(broker: BrokerProcess, kind: str) -> list[dict[str, Any]]:
    """The details of all events of a kind."""
    return [event["detail"] for event in events(broker, kind)]


def test_every_command_takes_the_url(broker: BrokerProcess) -> None:
    assert "running" in ok(broker, "ada", "status")
    ok(broker, "ada", "health")
    assert ok(broker, "ada", "queue", "create", "first") == "created queue 'first'\n"
    assert "first" in ok(broker, "ada", "queue", "list")
    assert "first" in ok(broker, "ada", "address", "list")
    ok(broker, "ada", "settings", "set", "first", "max-delivery-attempts=2")
    assert "match first, at run time" in ok(broker, "ada", "settings", "first")
    ok(broker, "ada", "divert", "list")
    ok(broker, "ada", "consumer", "list")
    ok(broker, "ada", "queue", "groups", "first")
    with login(broker, "sam") as sam:
        sent(sam, "/queue/first", b"hello")
        assert "hello" in ok(broker, "ada", "browse", "first")
        assert "1 message removed" in ok(broker, "ada", "queue", "purge", "first")
        ok(broker, "ada", "connection", "close", "--user", "sam")
        assert "an administrator closed" in sam.expect("ERROR").headers["message"]
    ok(broker, "ada", "queue", "delete", "first")


def test_each_change_is_recorded_with_its_user(broker: BrokerProcess) -> None:
    ok(broker, "ada", "queue", "create", "second")
    with login(broker, "sam") as sam:
        sam.send("BEGIN", transaction="t", receipt="r")
        sam.expect("RECEIPT")
        ok(broker, "ada", "connection", "close", "--user", "sam")
    found = recorded(broker, "Administered")
    created = [each for each in found if "create-queue" in each["request"]][-1]
    assert created["by"].startswith("ada from 127.0.0.1:")
    closed = [each for each in found if "close-connections" in each["request"]][-1]
    assert closed["by"].startswith("ada from ")
    assert not [each for each in found if "dbk_" in each["request"]]


def test_rights_are_those_of_the_address(broker: BrokerProcess) -> None:
    assert "'sam' may not browse address '#'" in refused(broker, "sam", "connection", "list")
    assert "'cleo' may browse nothing" in refused(broker, "cleo", "queue", "list")
    ok(broker, "sam", "queue", "create", "orders.eu")
    error = refused(broker, "sam", "queue", "create", "bills")
    assert "'sam' may not create a durable queue on address 'bills'" in error
    ok(broker, "sam", "queue", "pause", "orders.eu")
    ok(broker, "sam", "queue", "resume", "orders.eu")
    assert "manage is missing" in refused(broker, "rea", "queue", "purge", "orders.eu")
    ok(broker, "rea", "browse", "orders.eu")
    assert "browse is missing" in refused(broker, "cleo", "browse", "orders.eu")
    # Messages do not go where their mover may administer nothing.
    ok(broker, "ada", "queue", "create", "bills")
    # A list has only what its user may see.
    for kind in ("queue", "address"):
        listed = ok(broker, "sam", kind, "list")
        assert "orders.eu" in listed
        assert "bills" not in listed
        assert "bills" in ok(broker, "ada", kind, "list")
    assert "may not administer" in refused(broker, "sam", "queue", "move", "orders.eu", "bills")
    assert "may not" in refused(broker, "sam", "settings", "set", "#", "no-expiry=true")
    assert "may not" in refused(broker, "sam", "connection", "close", "--user", "ada")
    ok(broker, "cleo", "queue", "delete", "orders.eu")
    wait_for(
        lambda: any(
            each["user"] == "rea" and each["permission"] == "manage"
            for each in recorded(broker, "PermissionRefused")
        ),
        "the event",
    )


def test_without_rules_a_token_is_enough(tmp_path: Path) -> None:
    with running(tmp_path / "one", "") as broker:
        ok(broker, "sam", "queue", "create", "any")


def test_a_token_is_withdrawn_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "one") as broker, Line(broker, "ada") as line:
        assert "result" in line.ask(do="status")
        user(broker, "token", "ada", "--remove")
        reload(broker, RULES)
        assert line.ask(do="status")["error"]["text"] == "the token is not valid any more"
        assert line.read() is None
        assert "the token is wrong" in refused(broker, "ada", "status")
        user(broker, "disable", "sam")
        reload(broker, RULES)
        assert "the token is wrong" in refused(broker, "sam", "status")


def test_wrong_tokens_are_slowed_down_and_recorded(tmp_path: Path) -> None:
    with running(tmp_path / "one") as broker:

        def said_to(token: str) -> str:
            with Line(broker) as line:
                return str(line.ask(token=token)["error"]["text"])

        wrong, slowed = "the token is wrong, or its user is disabled", "too many tokens were wrong"
        assert said_to("dbk_wrong") == wrong
        # Each one makes the delay longer: at last it is longer than this machine takes to ask.
        wait_for(lambda: said_to("dbk_wrong").startswith(slowed), "a delay")
        wait_for(
            lambda: any(each["text"] == wrong for each in recorded(broker, "ConnectionRefused")),
            "the event",
        )
        assert "dbk_wrong" not in broker.log_text()
        # A passcode of STOMP is not a token, and the other way round.
        wait_for(lambda: said_to("ada") == wrong, "the end of the delay", every=0.1)


def test_strangers_hold_nothing(tmp_path: Path) -> None:
    settings = ("acceptor.token-timeout=2s", "acceptor.idle-timeout=2s")
    with running(tmp_path / "one", RULES, *settings) as broker:
        silent = [Line(broker) for _ in range(100)]
        assert "running" in ok(broker, "ada", "status")
        with Line(broker) as line:
            line.socket.sendall(b"x" * 5000)
            assert line.read()["error"]["code"] == "limit"
        with Line(broker) as line:
            line.socket.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert line.read()["error"]["code"] == "invalid"
        with Line(broker) as line:
            begun = time.monotonic()
            assert line.read()["error"]["code"] == "timeout"
            assert time.monotonic() - begun > 1
        with Line(broker, "ada") as line:
            assert line.read()["error"]["code"] == "timeout"
        for each in silent:
            each.__exit__()


@pytest.mark.usefixtures("own_interpreter")
def test_an_administrator_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    settings = ("acceptor.idle-timeout=2s",)
    with running(tmp_path / "one", RULES, *settings) as broker:
        for number in range(3):
            ok(broker, "ada", "queue", "create", f"q{number}")
        hangs = Line(broker, "ada")
        hangs.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        hangs.socket.settimeout(0.2)
        request = json.dumps({"do": "status"}).encode() + b"\n"
        try:
            for _ in range(200_000):
                hangs.socket.sendall(request)
        except TimeoutError:
            pass
        before = memory(broker)
        with login(broker, "sam") as sam:
            for number in range(50):
                sent(sam, "/queue/q0", b"x" * number)
        assert "running" in ok(broker, "ada", "status")
        assert memory(broker) - before < 30 << 20

        def is_closed() -> bool:
            return "the answers are not read" in broker.log_text() or not connected(hangs)

        wait_for(is_closed, "the end of the connection")
        hangs.__exit__()


def memory(broker: BrokerProcess) -> int:
    """Bytes of memory of the broker's process."""
    pages = int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def connected(line: Line) -> bool:
    """Whether the broker still has the connection: it reads what was sent, or lets it wait."""
    try:
        line.socket.sendall(b"\n")
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


def test_a_kill_in_the_middle_and_a_stop(tmp_path: Path) -> None:
    with running(tmp_path / "one") as broker:
        with Line(broker, "ada") as line:
            assert line.ask(do="create-queue", definition={"name": "q"})["result"]["lsn"] > 0
            broker.kill()
            assert line.read() is None
        broker.start()
        assert '"q"' in ok(broker, "ada", "queue", "list", "--json")
        with Line(broker, "ada") as line:
            assert broker.stop() == 0
            answer = line.read()
            assert answer is None or answer["error"]["code"] == "unavailable"


def test_what_cannot_be_reached_or_is_not_safe_is_said_plainly(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("dbk_x\n")

    def says(*flags: str) -> str:
        done = nursery.run([DAYBOOK, "status", *flags], capture_output=True, check=False, text=True)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        return done.stderr

    here = "control://127.0.0.1:1"
    assert "cannot be reached" in says("--url", here, "--token-file", str(token))
    assert "name the file with your token" in says("--url", here)
    assert "is not the URL" in says("--url", "http://x", "--token-file", str(token))
    assert "cannot be read" in says("--url", here, "--token-file", str(tmp_path / "gone"))
    assert "two brokers" in says("--url", here, "--data", "x", "--token-file", str(token))


def test_others_reach_it_by_tls_only(tmp_path: Path) -> None:
    done = nursery.run(
        [DAYBOOK, "serve", "--data", str(tmp_path / "d"), "--listen", "control://0.0.0.0:0"],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "needs TLS" in done.stderr


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue("localhost")
    stranger = Authority(tmp_path / "others")
    with BrokerProcess(
        tmp_path / "data",
        listen=("stomp://127.0.0.1:0", "controls://127.0.0.1:0"),
        settings=(f"acceptor.certificate={certificate}",),
    ) as broker:
        (tmp_path / "data").mkdir()
        user(broker, "add", "ada", "--no-passcode")
        (tmp_path / "ada").write_text(user(broker, "token", "ada"))
        broker.start()
        port = broker.ports[1]

        def status(scheme: str, host: str, ca: Path) -> tuple[int, str]:
            done = nursery.run(
                [
                    DAYBOOK, "status", "--url", f"{scheme}://{host}:{port}", "--token-file",
                    str(tmp_path / "ada"), "--ca-file", str(ca),
                ],
                capture_output=True, check=False, text=True,
            )  # fmt: skip
            assert "Traceback" not in done.stderr
            return done.returncode, done.stdout + done.stderr

        code, said = status("controls", "localhost", authority.ca)
        assert (code, "running" in said) == (0, True), said
        assert "TLS with" in status("controls", "localhost", stranger.ca)[1]
        # The certificate is for another name.
        assert "TLS with" in status("controls", "127.0.0.1", authority.ca)[1]
        assert status("control", "127.0.0.1", authority.ca)[0] == 1
        # A long answer, and many of them, cross TLS too.
        with Line(broker, context=authority.trusting()) as line:
            token = (tmp_path / "ada").read_text().strip()
            assert line.ask(token=token) == {"result": {"user": "ada"}}
            for _ in range(50):
                assert "result" in line.ask(do="queues")
