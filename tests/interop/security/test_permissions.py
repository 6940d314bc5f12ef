"""Permissions of a real broker: who may do what, refusals, the journal, and changes of rules."""

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import stomp  # type: ignore[import-untyped]

from tests.interop.using import daybook, events, queues, sent
from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

RULES = """
[[security-setting]]
match = "#"
send = ["all"]
consume = ["all"]
create-address = ["all"]
delete-address = ["all"]
create-durable-queue = ["all"]
delete-durable-queue = ["all"]
create-non-durable-queue = ["all"]
delete-non-durable-queue = ["all"]

[[security-setting]]
match = "orders.#"
send = ["sales"]
consume = ["workers", "all", "user:carol"]
create-address = ["sales"]
create-durable-queue = ["sales", "workers"]
create-non-durable-queue = ["workers", "user:carol"]

[[security-setting]]
match = "orders.secret"
send = ["all"]
consume = ["all"]
create-durable-queue = ["all"]
create-address = ["all"]
create-non-durable-queue = ["all"]

[[security-setting]]
match = "orders.list::vip"
consume = ["user:carol"]
"""
USERS = {"root": ("all",), "sam": ("sales",), "will": ("workers",), "carol": ()}


def user(broker: BrokerProcess, *words: str, text: str = "") -> str:
    """Run `daybook user` on the users file of a broker; return what it printed."""
    command = [DAYBOOK, "user", *words, "--users-file", f"{broker.directory}/users.toml"]
    command += ["--data", str(broker.data)]
    done = nursery.run(command, input=text, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def made(users: tuple[tuple[str, tuple[str, ...]], ...], tokens: bool) -> tuple[str, list[str]]:
    """Return a users file with these users and roles, and their tokens if they are to have some."""
    with TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data")
        broker.data.mkdir()
        for name, roles in users:
            flags = [word for role in roles for word in ("--role", role)]
            user(broker, "add", name, "--passcode-stdin", *flags, text=f"{name}\n")
        given = [user(broker, "token", name) for name, _ in users] if tokens else []
        return (broker.directory / "users.toml").read_text(), given


def give_users(
    broker: BrokerProcess, users: Mapping[str, tuple[str, ...]], *, tokens: bool = False
) -> None:
    """Give a new broker users, whose passcodes are their names, and whose tokens are in files.

    They are made once for all brokers: hashing a passcode takes long by design.
    """
    broker.data.mkdir()
    text, given = made(tuple(users.items()), tokens)
    file = broker.directory / "users.toml"
    file.touch(0o600)
    file.write_text(text)
    for name, token in zip(users, given, strict=False):
        (broker.directory.parent / name).write_text(token)


@contextmanager
def running(path: Path, rules: str = RULES) -> Iterator[BrokerProcess]:
    """A broker with users, whose passcodes are their names."""
    path.mkdir()
    with BrokerProcess(path / "data", config=rules) as broker:
        give_users(broker, USERS)
        yield broker.start()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("rights") / "one") as made:
        yield made


def login(broker: BrokerProcess, name: str) -> Wire:
    wire = Wire(broker.port)
    assert wire.connect(login=name, passcode=name).command == "CONNECTED"
    return wire


def refused(broker: BrokerProcess, name: str, command: str, **headers: Any) -> Frame:
    """Send a frame as a user, which must end with an ERROR."""
    with login(broker, name) as wire:
        wire.send(command, b"x" if command == "SEND" else b"", receipt="r", **headers)
        return wire.expect("ERROR")


def denials(broker: BrokerProcess) -> list[dict[str, Any]]:
    """The details of all PermissionRefused."""
    return events(broker, "PermissionRefused")


def reload(broker: BrokerProcess, rules: str) -> None:
    """Put other rules in force."""
    before = broker.log_text().count("configuration reloaded")
    broker.configure(rules)
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: broker.log_text().count("configuration reloaded") > before, "the reload")


def test_a_send_is_allowed_or_refused_with_a_reason(broker: BrokerProcess) -> None:
    with login(broker, "sam") as sam:
        sent(sam, "/queue/orders.eu", b"one")
    error = refused(broker, "will", "SEND", destination="/queue/orders.eu")
    assert error.headers["message"] == (
        "user 'will' may not send to address 'orders.eu'; the permission send is missing there"
    )
    assert error.headers["receipt-id"] == "r"
    error = refused(broker, "sam", "SEND", destination="/queue/elsewhere")
    assert "'sam' may not send to address 'elsewhere'" in error.headers["message"]
    error = refused(broker, "sam", "SEND", destination="/queue/orders.secret")
    assert "the permission send" in error.headers["message"]


def test_every_refusal_is_in_the_journal(broker: BrokerProcess) -> None:
    refused(broker, "will", "SEND", destination="/queue/orders.asia")

    def found() -> list[dict[str, Any]]:
        return [each for each in denials(broker) if each["detail"]["address"] == "orders.asia"]

    (event,) = wait_for(found, "the event")
    detail = event["detail"]
    assert (detail["user"], detail["permission"]) == ("will", "send")
    assert detail["peer"].startswith("127.0.0.1:")
    # It is in the log, too.
    lines = [each for each in broker.lines() if each["event"] == "permission refused"]
    assert any(each["user"] == "will" and each["address"] == "orders.asia" for each in lines)


def test_a_consumer_is_allowed_or_refused(broker: BrokerProcess) -> None:
    with login(broker, "sam") as sam, login(broker, "will") as will:
        sent(sam, "/queue/orders.us", b"one")
        will.send("SUBSCRIBE", id="s", destination="/queue/orders.us", ack="auto")
        assert will.expect("MESSAGE").body == b"one"
    error = refused(broker, "sam", "SUBSCRIBE", id="s", destination="/queue/orders.us")
    assert "'sam' may not consume from address 'orders.us'" in error.headers["message"]


def test_creation_needs_permissions_of_its_own(broker: BrokerProcess) -> None:
    error = refused(broker, "will", "SUBSCRIBE", id="s", destination="/topic/orders.new")
    assert "the permission create-address is missing" in error.headers["message"]
    with login(broker, "sam") as sam:
        sent(sam, "/topic/orders.new", b"x")
    with login(broker, "will") as will:
        will.send("SUBSCRIBE", id="s", destination="/topic/orders.new", receipt="r")
        will.expect("RECEIPT")
    error = refused(broker, "sam", "SUBSCRIBE", id="s", destination="/topic/orders.new")
    assert "the permission consume is missing" in error.headers["message"]


def test_a_user_may_be_named_and_a_queue_too(broker: BrokerProcess) -> None:
    daybook(broker, "queue", "create", "orders.list::vip")
    error = refused(broker, "will", "SUBSCRIBE", id="s", destination="/queue/orders.list::vip")
    assert "queue 'vip' of address 'orders.list'" in error.headers["message"]
    with login(broker, "carol") as carol:
        carol.send("SUBSCRIBE", id="s", destination="/queue/orders.list::vip", receipt="r")
        carol.expect("RECEIPT")


def test_wildcards_do_not_reach_what_is_closed(broker: BrokerProcess) -> None:
    error = refused(broker, "will", "SUBSCRIBE", id="s", destination="/topic/orders.#")
    assert "'will' may not consume from address 'orders.#'" in error.headers["message"]
    error = refused(broker, "will", "SUBSCRIBE", id="s", destination="/topic/#")
    assert "may not consume" in error.headers["message"]
    with login(broker, "root") as root:
        root.send("SUBSCRIBE", id="s", destination="/topic/#", receipt="r")
        assert "create-non-durable-queue" in root.expect("ERROR").headers["message"]


def test_a_durable_subscription_cannot_be_taken_to_another_address(broker: BrokerProcess) -> None:
    with login(broker, "root") as root:
        root.send(
            "SUBSCRIBE", id="mine", destination="/topic/orders.secret", persistent="true",
            receipt="r",
        )  # fmt: skip
        root.expect("RECEIPT")
        root.send("UNSUBSCRIBE", id="mine", receipt="u")
        root.expect("RECEIPT")
        sent(root, "/topic/orders.secret", b"secret")
    with login(broker, "sam") as sam:
        sent(sam, "/topic/orders.public", b"x")
    unknown = refused(broker, "will", "SUBSCRIBE", id="x", destination="/dsub/none")
    error = refused(broker, "will", "SUBSCRIBE", id="x", destination="/dsub/mine")
    assert "may not consume" in error.headers["message"]
    assert error.body.replace(b"mine", b"none") == unknown.body
    error = refused(broker, "will", "UNSUBSCRIBE", id="mine", persistent="true")
    assert "the permission delete-durable-queue is missing" in error.headers["message"]
    # The name does not matter, and the messages of the other subscription stay where they are.
    with login(broker, "will") as will, login(broker, "sam") as sam:
        will.send(
            "SUBSCRIBE", id="mine", destination="/topic/orders.public", persistent="true",
            receipt="r",
        )  # fmt: skip
        will.expect("RECEIPT")
        sent(sam, "/topic/orders.public", b"public")
        assert will.expect("MESSAGE").body == b"public"
    with login(broker, "root") as root:
        root.send("SUBSCRIBE", id="s", destination="/dsub/mine", ack="auto")
        assert root.expect("MESSAGE").body == b"secret"


def test_nobody_takes_the_name_of_a_queue_elsewhere(broker: BrokerProcess) -> None:
    error = refused(broker, "sam", "SEND", destination="/queue/orders.eu\\c\\cpayroll")
    assert "may not create queue 'payroll'" in error.headers["message"]
    with login(broker, "sam") as sam:
        sent(sam, "/queue/orders.eu\\c\\corders.desk", b"x")
    with login(broker, "root") as root:
        sent(root, "/queue/payroll", b"x")


def test_a_transaction_is_refused_at_its_send(broker: BrokerProcess) -> None:
    with login(broker, "will") as will:
        will.send("BEGIN", transaction="t")
        will.send("SEND", b"x", destination="/queue/orders.eu", transaction="t")
        assert "may not send" in will.expect("ERROR").headers["message"]


def test_a_large_message_is_refused_at_its_beginning(broker: BrokerProcess) -> None:
    with login(broker, "will") as will:
        head = b"SEND\ndestination:/queue/orders.eu\ncontent-length:50000000\n\n"
        will.write(head + bytes(200_000))
        assert "may not send" in will.expect("ERROR").headers["message"]


def test_a_client_library_is_told(broker: BrokerProcess) -> None:
    heard: list[str] = []

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_error(self, frame: stomp.utils.Frame) -> None:
            heard.append(frame.headers["message"])

    connection = stomp.StompConnection12([("127.0.0.1", broker.port)], heartbeats=(0, 0))
    connection.set_listener("", Listener())
    connection.connect("will", "will", wait=True)
    connection.send("/queue/orders.eu", "x")
    wait_for(lambda: heard, "the reason")
    assert "'will' may not send to address 'orders.eu'" in heard[0]


def test_other_rules_hold_at_once(tmp_path: Path) -> None:
    open_to_all = '[[security-setting]]\nmatch = "#"\n' + "".join(
        f'{name} = ["*"]\n'
        for name in ("send", "consume", "create-address", "create-durable-queue")
    )
    with running(tmp_path / "one", open_to_all) as broker:
        with login(broker, "sam") as sam, login(broker, "will") as will:
            sent(sam, "/queue/a", b"1")
            will.send("SUBSCRIBE", id="s", destination="/queue/a", ack="auto")
            assert will.expect("MESSAGE").body == b"1"
            closed = open_to_all + '[[security-setting]]\nmatch = "a"\nsend = ["all"]\n'
            reload(broker, closed)
            # A consumer that lost its right is not served any more.
            assert "'will' may not consume" in will.expect("ERROR").headers["message"]
            sam.send("SEND", b"2", destination="/queue/a")
            assert "'sam' may not send" in sam.expect("ERROR").headers["message"]
        # A role that is given later, too.
        user(broker, "role", "sam", "--add", "all")
        reload(broker, closed)
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"3")
        (told,) = [each for each in broker.lines() if "closed connections without" in each["event"]]
        assert told["connections"] == 1


def test_a_user_that_is_refused_again_and_again_does_not_fill_the_journal(tmp_path: Path) -> None:
    with running(tmp_path / "one") as broker:
        for _ in range(60):
            refused(broker, "will", "SEND", destination="/queue/orders.eu")
        for number in range(200):
            refused(broker, "will", "SEND", destination=f"/queue/orders.{number}")
        assert json.loads(daybook(broker, "status", "--json"))["denials"] == 260
        assert broker.stop() == 0
        counts = [each["detail"].get("count", 1) for each in denials(broker)]
        # The share of a user: 32 of their own, one with the further ones of the first place, one
        # with all others.
        assert sum(counts) == 260
        assert len(counts) == 34


def test_an_address_without_a_rule_is_closed_and_what_follows_from_a_message_is_open(
    tmp_path: Path,
) -> None:
    rules = """
    [[security-setting]]
    match = "a"
    send = ["*"]
    consume = ["*"]
    create-address = ["*"]
    create-durable-queue = ["*"]

    [[address-setting]]
    match = "#"
    max-delivery-attempts = 1
    dead-letter-address = "dead"
    """
    with running(tmp_path / "one", rules) as broker:
        error = refused(broker, "sam", "SEND", destination="/queue/b")
        assert "'sam' may not send to address 'b'" in error.headers["message"]
        with login(broker, "sam") as sam:
            sent(sam, "/queue/a", b"x")
            sam.send("SUBSCRIBE", id="s", destination="/queue/a", ack="client-individual")
            sam.send("NACK", id=sam.expect("MESSAGE").headers["ack"], receipt="n")
            sam.expect("RECEIPT")
        assert queues(broker)["dead"]["ready"] == 1


def test_without_rules_a_broker_is_open_and_says_so_once(tmp_path: Path) -> None:
    with running(tmp_path / "one", "") as broker:
        with login(broker, "carol") as carol:
            sent(carol, "/queue/anything", b"x")
        reload(broker, "")
        said = [each for each in broker.lines() if "no permissions are configured" in each["event"]]
        assert len(said) == 1
        assert "there are no rules" in user(broker, "show", "carol")


def test_the_rights_of_a_user_and_where_each_comes_from(broker: BrokerProcess) -> None:
    shown = user(broker, "show", "will", "--address", "orders.eu")
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert rows["roles:"] == ["workers"]
    assert rows["consume"][:3] == ["yes", "workers", "orders.#"]
    assert "workers," in rows["consume"][3:], "those who have the right"
    assert rows["send"][0] == "no"
    answer = json.loads(user(broker, "show", "carol", "--address", "orders.#", "--json"))
    allowed = {each["permission"]: each for each in answer["permissions"]}
    assert allowed["consume"]["allowed"] is False
    assert allowed["consume"]["rules"] == ["orders.secret"]
    by_file = user(
        broker, "show", "will", "--address", "orders.eu", "--config", str(broker.config_file)
    )
    assert by_file == shown


def test_a_broker_xml(tmp_path: Path) -> None:
    xml = """<configuration><core><security-settings>
      <security-setting match="#">
        <permission type="createDurableQueue" roles="amq"/>
        <permission type="createAddress" roles="amq, other"/>
        <permission type="send" roles="amq"/>
        <permission type="view" roles="amq"/>
      </security-setting></security-settings></core></configuration>"""
    file = tmp_path / "broker.xml"
    file.write_text(xml)
    converted = nursery.run(
        [DAYBOOK, "config", "convert", str(file)], capture_output=True, check=True, text=True
    )
    assert "'view' in security-setting '#' is not supported" in converted.stderr + converted.stdout
    with running(tmp_path / "one", converted.stdout) as broker:
        error = refused(broker, "will", "SEND", destination="/queue/a")
        assert "may not send" in error.headers["message"]
        assert "amq" not in error.headers["message"]
        (line,) = [each for each in broker.lines() if each["event"] == "permission refused"]
        assert (line["user"], line["permission"], line["granted_to"]) == ("will", "send", "amq")
        user(broker, "role", "will", "--add", "amq")
        reload(broker, converted.stdout)
        with login(broker, "will") as will:
            sent(will, "/queue/a", b"x")


def test_users_are_disabled_and_get_other_passcodes(tmp_path: Path) -> None:
    with running(tmp_path / "one", "") as broker:
        with login(broker, "sam") as sam:
            user(broker, "disable", "sam")
            reload(broker, "")
            assert "removed or disabled" in sam.expect("ERROR").headers["message"]
        with Wire(broker.port) as wire:
            answer = wire.connect(login="sam", passcode="sam")
            assert answer.headers["message"].startswith("the user 'sam' is disabled; ")
        with Wire(broker.port) as wire:
            answer = wire.connect(login="sam", passcode="wrong")
            assert "login or passcode of 'sam' is wrong" in answer.headers["message"]
        user(broker, "enable", "sam")
        reload(broker, "")
        with login(broker, "sam"):
            pass
        with login(broker, "will") as will:
            user(broker, "passwd", "will", "--passcode-stdin", text="other\n")
            reload(broker, "")
            assert "another passcode" in will.expect("ERROR").headers["message"]
        with Wire(broker.port) as wire:
            assert wire.connect(login="will", passcode="other").command == "CONNECTED"


COPIES = """
[[divert]]
name = "copied"
address = "given"
forwarding-addresses = ["orders.copied"]
"""


def test_copies_need_no_permission(tmp_path: Path) -> None:
    """The sender of a message needs none for the address that a divert copies it to."""
    with running(tmp_path / "two", RULES.replace('["all"]', '["all", "sales"]') + COPIES) as broker:
        with login(broker, "sam") as sam:
            sent(sam, "/queue/given", b"x")
        with login(broker, "will") as will:
            will.send("SUBSCRIBE", id="s", destination="/queue/orders.copied", ack="auto")
            assert will.expect("MESSAGE").body == b"x"
        assert (
            "not send"
            in refused(broker, "carol", "SEND", destination="/queue/given").headers["message"]
        )
