"""Apollo's manual, "Stomp Protocol Options": each option of an acceptor, with hyphens here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.using import connected, sent
from tests.interop.wire import Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop

LISTEN = (
    "stomp://127.0.0.1:0",
    # Everything that says how destinations are spelled.
    "stomp://127.0.0.1:0?queue-prefix=Q/&topic-prefix=T/&path-separator=/&destination-separator=;"
    "&any-child-wildcard=%2B&any-descendant-wildcard=%2B%2B"
    "&regex-wildcard-start=<&regex-wildcard-end=>",
    "stomp://127.0.0.1:0?max-header-length=100&max-headers=5&max-data-length=10&die-delay=1s",
    "stomp://127.0.0.1:0?add-user-header=by&add-timestamp-header=at&add-redeliveries-header=again",
)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with several acceptors."""
    with BrokerProcess(tmp_path_factory.mktemp("options") / "data", listen=LISTEN) as broker:
        yield broker.start()
        assert broker.stop() == 0, broker.log_text()


@contextmanager
def at(broker: BrokerProcess, number: int) -> Iterator[Wire]:
    with Wire(broker.ports[number]) as wire:
        wire.connect()
        yield wire


def subscribed(wire: Wire, destination: str, **headers: str) -> None:
    wire.send("SUBSCRIBE", id=destination, destination=destination, receipt="s", **headers)
    wire.expect("RECEIPT")


def test_the_prefixes_and_the_path_separator(options: BrokerProcess) -> None:
    """queue_prefix "Defaults to /queue/", topic_prefix, path_separator: and each acceptor's own."""
    with at(options, 0) as plain, at(options, 1) as own:
        for kind, prefix in (("queue", "Q/"), ("topic", "T/")):
            subscribed(plain, f"/{kind}/a.b.c")
            subscribed(own, f"{prefix}d/e")
            reply = {"reply-to": f"{prefix}d/e;/temp-queue/r"}
            sent(own, f"{prefix}a/b/c", b"1", **reply)
            frame = plain.expect("MESSAGE")
            assert frame.headers["destination"] == f"/{kind}/a.b.c"
            first, temporary = frame.headers["reply-to"].split(",")
            assert first == f"/{kind}/d.e"
            assert temporary.startswith("/queue/temp.default.")
            # The answer goes to the name that was read.
            sent(plain, first, b"2", **{"reply-to": frame.headers["reply-to"]})
            frame = own.expect("MESSAGE")
            assert frame.headers["destination"] == f"{prefix}d/e"
            assert frame.headers["reply-to"].startswith(f"{prefix}d/e;Q/temp/default/")


def test_what_reply_to_says_can_be_sent_to(options: BrokerProcess) -> None:
    with at(options, 1) as client, at(options, 1) as server:
        subscribed(client, "/temp-queue/r")
        subscribed(server, "Q/service")
        sent(client, "Q/service", b"?", **{"reply-to": "/temp-queue/r"})
        sent(server, server.expect("MESSAGE").headers["reply-to"], b"!")
        assert client.expect("MESSAGE").body == b"!"


def test_the_destination_separator(options: BrokerProcess) -> None:
    """destination_separator "Defaults to ," """
    with at(options, 0) as plain, at(options, 1) as own:
        subscribed(plain, "/queue/s.a")
        subscribed(plain, "/topic/s.b")
        sent(own, "Q/s/a;T/s/b", b"x")
        found = {plain.expect("MESSAGE").headers["destination"] for _ in range(2)}
        assert found == {"/queue/s.a", "/topic/s.b"}


@pytest.mark.parametrize(
    "pattern", ["w/+/c", "w/b/c+", "w/++", "w/<a|b>/c", "w/+<[bc]>/c", "++/c", "w/#"]
)
def test_the_wildcards(options: BrokerProcess, pattern: str) -> None:
    """any_child_wildcard, any_descendant_wildcard, regex_wildcard_start and regex_wildcard_end"""
    with at(options, 0) as plain, at(options, 1) as own:
        subscribed(own, f"T/{pattern}")
        sent(plain, "/topic/x.y", b"other")
        sent(plain, "/topic/w.b.c", b"match")
        frame = own.expect("MESSAGE")
        assert (frame.body, frame.headers["destination"]) == (b"match", "T/w/b/c")


def test_characters_of_other_acceptors_are_no_wildcards(options: BrokerProcess) -> None:
    with at(options, 1) as own:
        own.send("SUBSCRIBE", id="s", destination="T/w/*")
        assert "here + stands for a word" in own.expect("ERROR").body.decode()


def test_max_header_length_bounds_a_header(options: BrokerProcess) -> None:
    """ "The maximum allowed length of a STOMP header. Defaults to 10k." """
    with at(options, 2) as wire:
        wire.send("SEND", destination="/queue/a", long="x" * 100)
        assert "max-header-length" in wire.expect("ERROR").body.decode()
    with connected(options) as wire:
        sent(wire, "/queue/long", b"", long="x" * 10_000)
        wire.send("SEND", destination="/queue/a", long="x" * 10_240)
        assert "max-header-length" in wire.expect("ERROR").body.decode()


def test_max_headers_bounds_their_number(options: BrokerProcess) -> None:
    """ "The maximum number of allowed headers in a frame. Defaults to 1000." """
    with at(options, 2) as wire:
        wire.send("SEND", destination="/queue/a", a="", b="", c="", d="", e="")
        assert "max-headers" in wire.expect("ERROR").body.decode()
    with connected(options) as wire:
        wire.send("SEND", destination="/queue/a", **{f"h{number}": "" for number in range(1000)})
        assert "max-headers" in wire.expect("ERROR").body.decode()


def test_max_data_length_bounds_a_body(options: BrokerProcess) -> None:
    """ "The maximum size of the body portion of a STOMP frame." """
    with at(options, 2) as wire:
        sent(wire, "/queue/short", b"x" * 10)
        wire.send("SEND", b"x" * 11, destination="/queue/short")
        assert "max-data-length" in wire.expect("ERROR").body.decode()


def test_die_delay_is_the_time_between_an_error_and_the_end(options: BrokerProcess) -> None:
    """ "The amount of time to delay in milliseconds after an ERROR message is sent" """
    with at(options, 2) as wire:
        wire.send("NONSENSE")
        wire.expect("ERROR")
        wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        wire.socket.settimeout(10)
        assert wire.socket.recv(1) == b""


def test_headers_are_added(options: BrokerProcess) -> None:
    """add_user_header, add_timestamp_header and add_redeliveries_header: "Not set by default." """
    with at(options, 3) as wire:
        sent(wire, "/queue/added", b"x", again="mine")
        wire.send("SUBSCRIBE", id="s", destination="/queue/added", ack="client-individual")
        frame = wire.expect("MESSAGE")
        assert frame.headers["by"] == "guest"
        assert frame.headers["at"].isdigit()
        assert "again" not in frame.headers
        wire.send("NACK", id=frame.headers["ack"])
        assert wire.expect("MESSAGE").headers["again"] == "1"
        wire.send("NACK", id=frame.headers["ack"])
    with connected(options) as wire:
        sent(wire, "/queue/not-added", b"x")
        wire.send("SUBSCRIBE", id="s", destination="/queue/not-added")
        assert not {"by", "at", "again"} & set(wire.expect("MESSAGE").headers)


def test_buffer_size_is_tuned_by_the_number_of_connections(tmp_path: Path) -> None:
    """buffer_size: "it will be auto tuned between 640k and 20k". The default is 1MiB for each."""
    listen = ("stomp://127.0.0.1:0?buffer-size=auto",)
    with BrokerProcess(tmp_path / "data", listen=listen) as broker:
        broker.start()
        with connected(broker) as slow, connected(broker) as producer:
            slow.send("SUBSCRIBE", id="s", destination="/queue/a", receipt="s")
            slow.expect("RECEIPT")
            body = bytes(64 << 10)
            for _ in range(40):
                sent(producer, "/queue/a", body)
            assert [slow.expect("MESSAGE").body for _ in range(40)] == [body] * 40
        assert broker.stop() == 0, broker.log_text()


EXAMPLE = """<broker xmlns="http://activemq.apache.org/schema/activemq/apollo">
<virtual_host id="mybroker"><host_name>localhost</host_name></virtual_host>
<connector id="tcp" bind="tcp://127.0.0.1:0">
<stomp max_header_length="10000">
<add_user_header separator=",">user</add_user_header>
<add_user_header kind="group">group</add_user_header>
<add_user_header kind="user" separator=",">login</add_user_header>
</stomp>
</connector>
</broker>
"""


def test_the_example_of_a_connector_is_served_as_it_stands(tmp_path: Path) -> None:
    """ "<connector id="tcp" bind=...><stomp max_header_length="10000"><add_user_header ..." """
    with BrokerProcess(tmp_path / "data", config=EXAMPLE, listen=()) as broker:
        (tmp_path / "data").mkdir()
        command = [DAYBOOK, "user", "add", "alice", "--passcode-stdin", "--role", "sales"]
        command += ["--role", "admins", "--users-file", f"{broker.directory}/users.toml"]
        nursery.run(command, input="secret\n", text=True, check=True, capture_output=True)
        broker.start()
        with Wire(broker.port) as wire:
            login = {"login": "alice", "passcode": "secret", "host": "localhost"}
            wire.send("CONNECT", accept_version="1.2", **login)
            wire.expect("CONNECTED")
            # "separator: If user has multiple principles which match", "kind: Defaults to *"
            wire.send("SUBSCRIBE", id="s", destination="/queue/caf%C3%A9")
            sent(wire, "/queue/café", b"x", user="mallory")
            headers = wire.expect("MESSAGE").headers
            assert headers["destination"] == "/queue/caf%C3%A9"
            assert headers["user"] == "alice,admins,sales"
            # "If not set, then only the first matching principle will be set in the header."
            assert headers["group"] == "admins"
            assert headers["login"] == "alice"
            wire.send("SEND", destination="/queue/a", long="x" * 10_000)
            assert "max-header-length" in wire.expect("ERROR").body.decode()
        with Wire(broker.port) as wire:
            wire.send("CONNECT", accept_version="1.2", **login | {"host": "elsewhere"})
            assert "no virtual host is named so" in wire.expect("ERROR").body.decode()
        assert broker.stop() == 0, broker.log_text()
