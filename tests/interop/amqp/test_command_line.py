"""`daybook send` and `daybook receive` over AMQP 1.0, beside STOMP, on a broker with both."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daybook.client.bodies import BODY_BYTES_IN_MEMORY
from daybook.tools.administration.traffic import AmqpTraffic, Shown, StompTraffic
from daybook.tools.daybook import cli
from tests.support.brokers.certificates import Authority
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[[address]]
prefix = "direct"

[[address-setting]]
match = "#"
max-delivery-attempts = 3

[[address-setting]]
match = "full.#"
max-size-messages = 2
address-full-policy = "BLOCK"

[[address-setting]]
match = "failing.#"
max-size-messages = 2
address-full-policy = "FAIL"

[[address-setting]]
match = "known.#"
id-cache-size = 100
"""


class Both:
    """A broker, and commands that reach it by either protocol."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        amqp, stomp = broker.ports[:2]
        self.urls = {"amqp": f"amqp://127.0.0.1:{amqp}", "stomp": f"stomp://127.0.0.1:{stomp}"}

    def run(self, by: str, *arguments: object, text: str | None = None) -> Result:
        words = [*map(str, arguments), "--url", self.urls.get(by, by)]
        clean = {"DAYBOOK_DATA": None, "DAYBOOK_URL": None}
        return CliRunner().invoke(cli, words, input=text, env=clean)

    def queue(self, name: str) -> dict[str, Any]:
        words = ["queue", "list", "--data", str(self.broker.data), "--json"]
        rows = json.loads(CliRunner().invoke(cli, words).output)
        return next(row for row in rows if row["queue"] == name)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    listen = ("amqp://127.0.0.1:0", "stomp://127.0.0.1:0")
    data = tmp_path_factory.mktemp("both") / "data"
    with BrokerProcess(data, listen=listen, config=CONFIG) as broker:
        yield Both(broker.start())


@pytest.fixture(params=["amqp", "stomp"])
def sends(request: pytest.FixtureRequest) -> str:
    by: str = request.param
    return by


@pytest.fixture(params=["amqp", "stomp"])
def receives(request: pytest.FixtureRequest) -> str:
    by: str = request.param
    return by


OF_TRANSFER = ("subscription", "message-id", "ack", "sender-message-id", "expires", "persistent")
"""Headers that only some ways add."""


def test_what_one_protocol_sends_the_other_receives(both: Both, sends: str, receives: str) -> None:
    said = {"a": "b=c:d", "correlation-id": "7", "content-type": "text/plain", "JMSXGroupID": "g"}
    headers = [word for name, value in said.items() for word in ("--header", f"{name}={value}")]
    sent = both.run(
        sends, "send", "/queue/one", "two\u00e4", *headers, "--priority", 7, "--ttl", 60_000
    )
    assert sent.exit_code == 0, sent.output
    assert sent.output.startswith("sent 1 message of 5 bytes to /queue/one; ")
    got = both.run(receives, "receive", "/queue/one", "--json")
    told = json.loads(got.output)
    assert (told["body"], told["body_bytes"]) == ("two\u00e4", 5)
    found = told["headers"]
    assert int(found["expires"]) > 1_000_000_000_000
    assert {name: value for name, value in found.items() if name not in OF_TRANSFER} == {
        "destination": "/queue/one", "content-length": "5", "priority": "7",
        **said,
    }  # fmt: skip
    empty = both.run(receives, "receive", "/queue/one", "--timeout", 0.05)
    assert empty.exit_code == 1
    assert "0 of 1 message arrived within 0.05 s" in empty.stderr


@pytest.mark.parametrize("body", [b"", b"\xff\x00\n", b"text"])
def test_bodies_of_every_kind(both: Both, sends: str, receives: str, body: bytes) -> None:
    piped = CliRunner().invoke(
        cli, ["send", "/queue/kinds", "--url", both.urls[sends]], input=body
    )  # fmt: skip
    assert piped.exit_code == 0, piped.output
    got = both.run(receives, "receive", "/queue/kinds")
    assert got.stdout_bytes == body + b"\n"


def test_large_bodies_in_pieces(both: Both, sends: str, receives: str, tmp_path: Path) -> None:
    file, out = tmp_path / "large", tmp_path / "out"
    file.write_bytes(bytes(range(256)) * (5 * BODY_BYTES_IN_MEMORY // 256) + b"end")
    sent = both.run(sends, "send", "/queue/large", "--file", file, "--count", 2)
    assert sent.exit_code == 0, sent.output
    with out.open("wb") as writing:
        command = [
            sys.executable, "-m", "daybook", "receive", "/queue/large", "--count", "2",
            "--url", both.urls[receives],
        ]  # fmt: skip
        subprocess.run(command, stdout=writing, check=True)
    assert out.read_bytes() == (file.read_bytes() + b"\n") * 2


def test_many_and_in_a_transaction(both: Both) -> None:
    assert both.run("amqp", "send", "/queue/many", "x", "--count", 1500).exit_code == 0
    told = both.run("amqp", "send", "/queue/many", "y", "--count", 20, "--transaction", "--json")
    assert json.loads(told.output)["sent"] == 20
    assert both.queue("many")["ready"] == 1520
    got = both.run("amqp", "receive", "/queue/many", "--count", 1520)
    assert got.output.split() == ["x"] * 1500 + ["y"] * 20
    assert both.queue("many")["acknowledged"] == 1520


def test_no_more_is_taken_than_was_asked_for(both: Both) -> None:
    both.run("amqp", "send", "/queue/some", "x", "--count", 5)
    assert both.run("amqp", "receive", "/queue/some", "--count", 2).exit_code == 0
    assert both.queue("some")["ready"] == 3
    rows = both.run("amqp", "receive", "/queue/some", "--count", 3, "--json").output.splitlines()
    assert not any("redelivered" in json.loads(row)["headers"] for row in rows)


def test_keeping_rejecting_and_auto(both: Both) -> None:
    both.run("amqp", "send", "/queue/kept", "stay")
    for _ in range(2):
        assert both.run("amqp", "receive", "/queue/kept", "--keep").output == "stay\n"
    for attempt in (1, 2):
        row = both.run("amqp", "receive", "/queue/kept", "--reject", "--json").output
        assert json.loads(row)["headers"].get("delivery-count", "1") == str(attempt)
    assert both.run("amqp", "receive", "/queue/kept", "--ack", "auto").output == "stay\n"
    assert both.queue("kept")["ready"] == 0


def test_a_durable_subscription(both: Both) -> None:
    durable = ("receive", "/topic/news", "--durable", "reports", "--timeout", 0.1)
    assert both.run("amqp", *durable).exit_code == 1
    both.run("stomp", "send", "/topic/news", "hello")
    assert both.run("amqp", *durable).output == "hello\n"


def test_delays_duplicates_and_groups_are_said_by_headers(both: Both) -> None:
    both.run("amqp", "send", "/queue/late", "x", "--header", "AMQ_SCHEDULED_DELAY=600000")
    assert both.queue("late")["scheduled"] == 1
    for _ in range(2):
        both.run("amqp", "send", "/queue/known.a", "x", "--header", "_AMQ_DUPL_ID=1")
    assert both.queue("known.a")["ready"] == 1


def test_following_until_it_is_interrupted(both: Both) -> None:
    command = [
        sys.executable, "-m", "daybook", "receive", "/queue/quiet", "--follow",
        "--url", both.urls["amqp"],
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        assert follower.stderr.readline().startswith("waiting for messages from /queue/quiet")
        for number in range(3):
            both.run("amqp", "send", "/queue/quiet", number)
        both.run("amqp", "send", "/queue/quiet", "last", "--count", 250)
        assert [follower.stdout.readline() for _ in range(4)] == ["0\n", "1\n", "2\n", "last\n"]
        assert [follower.stdout.readline() for _ in range(249)] == ["last\n"] * 249
        wait_for(lambda: both.queue("quiet")["acknowledged"] == 253, "all acknowledgements")
        follower.send_signal(2)
        assert follower.wait(30) == 0
    wait_for(lambda: both.queue("quiet")["consumers"] == 0, "the consumer to be gone")
    assert both.queue("quiet")["ready"] == 0


@pytest.mark.parametrize("by", ["amqp", "stomp"])
def test_an_interrupt_within_a_step_ends_behind_it(
    by: str, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"amqp": AmqpTraffic, "stomp": StompTraffic}[by]
    take = kind.next

    def interrupted(self: Any, timeout: float | None) -> Shown | None:
        found = take(self, timeout)
        if found is not None and b"".join(found.content.pieces()) == b"second":
            os.kill(os.getpid(), signal.SIGINT)
        return found

    monkeypatch.setattr(kind, "next", interrupted)
    for body in ("first", "second", "third"):
        both.run(by, "send", f"/queue/interrupted.{by}", body)
    found = both.run(by, "receive", f"/queue/interrupted.{by}", "--follow")
    assert (found.exit_code, found.stdout) == (0, "first\nsecond\n")
    assert both.queue(f"interrupted.{by}")["acknowledged"] == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("send", "/topic/nobody", "x", "--must-route"), 1, "1 of 1 went to no queue"),
        (("send", "/temp-queue/a", "x"), 1, "AMQP has no such destinations"),
        (("receive", "/dsub/a"), 1, "AMQP has no such destinations"),
        (("send", "/queue/a", "x", "--header", "retain=set"), 1, "one of STOMP alone"),
        (("send", "/queue/failing.a", "x", "--count", 9), 1, "is full"),
        (("receive", "/queue/none::a::b"), 1, "refused /queue/none::a::b"),
    ],
)
def test_what_is_refused_is_said(
    both: Both, arguments: tuple[object, ...], code: int, words: str
) -> None:
    found = both.run("amqp", *arguments)
    assert found.exit_code == code, found.output
    assert words in found.stderr


def test_a_message_in_a_transaction_that_is_refused_undoes_all(both: Both) -> None:
    both.run("amqp", "send", "/queue/failing.b", "x", "--count", 2)
    found = both.run("amqp", "send", "/queue/failing.b", "x", "--count", 9, "--transaction")
    assert (found.exit_code, "refused" in found.stderr) == (1, True), found.output
    assert both.queue("failing.b")["ready"] == 2


@pytest.mark.parametrize("by", ["amqp", "stomp"])
def test_what_goes_to_no_queue_is_said(both: Both, by: str) -> None:
    lost = both.run(by, "send", "/topic/nobody", "x", "--count", 3)
    assert (lost.exit_code, "dropped: no-binding" in lost.stdout) == (0, True), lost.output
    found = both.run(by, "send", "/queue/somebody", "x", "--must-route")
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("by", "words"), [("amqp", "from which nobody receives"), ("stomp", "nobody receives from the")]
)
def test_a_direct_address_without_receivers_is_said(both: Both, by: str, words: str) -> None:
    found = both.run(by, "send", "direct.a", "x", "--timeout", 0.5)
    assert (found.exit_code, words in found.stderr) == (1, True), found.output


def test_a_guest_who_is_no_user_is_let_in(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    words = ["user", "add", "joe", "--passcode-stdin", "--users-file", f"{data}/users.toml"]
    assert CliRunner().invoke(cli, words, input="open-sesame").exit_code == 0
    listen, settings = ("amqp://127.0.0.1:0", "stomp://127.0.0.1:0"), ["allow-guest=true"]
    with BrokerProcess(data, listen=listen, settings=settings) as broker:
        both = Both(broker.start())
        for by in ("amqp", "stomp"):
            assert both.run(by, "send", "/queue/a", "x").exit_code == 0
        assert both.queue("a")["ready"] == 2


def test_a_full_address_is_waited_for(both: Both) -> None:
    found = both.run("amqp", "send", "/queue/full.a", "x", "--count", 5, "--timeout", 0.3)
    assert found.exit_code == 1
    assert "no outcome arrived within" in found.stderr
    again = both.run("amqp", "send", "/queue/full.a", "x", "--timeout", 0.3)
    assert again.exit_code == 1
    assert "no outcome arrived within" in again.stderr or "gave no credit" in again.stderr
    assert both.queue("full.a")["ready"] == 2


def test_a_wrong_passcode_and_the_wrong_protocol(both: Both) -> None:
    port = both.broker.ports
    wrong = both.run(f"amqp://joe:secret@127.0.0.1:{port[0]}", "send", "/queue/a", "x")
    assert (wrong.exit_code, "login or passcode is wrong" in wrong.stderr) == (1, True)
    assert "secret" not in wrong.output
    stomp = both.run(f"amqp://127.0.0.1:{port[1]}", "send", "/queue/a", "x")
    assert (stomp.exit_code, "does not speak AMQP 1.0" in stomp.stderr) == (1, True)


@pytest.mark.parametrize("how", ["tls", "certificate", "scram", "wrong", "untrusted"])
def test_logins(secured: tuple[BrokerProcess, Authority], how: str) -> None:
    broker, authority = secured
    tls, plain = (f"localhost:{port}" for port in broker.ports)
    mine = authority.issue("a@b.example", name="client", cn="joe")
    url, words = {
        "tls": (f"amqps://joe:secret@{tls}?ca={authority.ca}", "accepted"),
        "certificate": (f"amqps://{tls}?ca={authority.ca}&certificate={mine}", "accepted"),
        "scram": (f"amqp://joe:secret@{plain}", "accepted"),
        "wrong": (f"amqp://joe:wrong@{plain}", "login or passcode is wrong"),
        "untrusted": (f"amqps://joe:secret@{tls}", "its certificate is not trusted"),
    }[how]
    found = CliRunner().invoke(cli, ["send", "/queue/a", "x" * 100_000, "--url", url])
    assert words in found.output
    assert (found.exit_code == 0) == (words == "accepted")
    if words == "accepted":
        got = CliRunner().invoke(cli, ["receive", "/queue/a", "--url", url])
        assert got.output == "x" * 100_000 + "\n"


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BrokerProcess, Authority]]:
    """A broker with a user, an acceptor with TLS and certificates of clients, and one without."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "certificates")
    said = (
        f"certificate={authority.issue('localhost')}", f"client-ca={authority.ca}",
        "client-certificates=optional", "certificate-login=cn",
    )  # fmt: skip
    listen = [f"amqps://127.0.0.1:0?{'&'.join(said)}", "amqp://127.0.0.1:0"]
    with BrokerProcess(folder / "data", listen=listen) as broker:
        broker.data.mkdir()
        words = ["user", "add", "joe", "--passcode-stdin", "--data", str(broker.data)]
        added = CliRunner().invoke(cli, words, input="secret\n")
        assert added.exit_code == 0, added.output
        yield broker.start(), authority
