"""Virtual hosts: equal names on two of them stay apart, also over crashes and restarts.

"Connecting" and "Topic Durable Subscriptions" of the Apollo manual.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.using import daybook, journal, reload
from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess

pytestmark = pytest.mark.interop

HOSTS = """
[[virtual-host]]
name = "default"
host-names = ["here.example.org", "localhost"]

[[virtual-host]]
name = "eu"
host-names = ["EU.example.org"]
"""
SETTINGS = """
[[address-setting]]
match = "#"
dead-letter-address = "DLQ"
max-delivery-attempts = -1

[[address-setting]]
match = "bad"
max-delivery-attempts = 1

[[address-setting]]
match = "paged"
max-size-messages = 0
"""
CONFIG = HOSTS + SETTINGS
NAMES = {"default": "here.example.org", "eu": "eu.example.org"}


@pytest.fixture(name="hosts")
def broker_with_hosts(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=CONFIG) as process:
        yield process.start()


def opened(broker: BrokerProcess, host: str, version: str = "1.2", **headers: Any) -> Wire:
    """A connection to a virtual host."""
    wire = Wire(broker.port)
    wire.send("CONNECT", accept_version=version, host=NAMES[host], **headers)
    answer = wire.expect("CONNECTED")
    assert answer.headers["host-id"] == host
    return wire


def sent(wire: Wire, destination: str, body: str, **headers: Any) -> str:
    """Send a persistent message; return what the receipt tells of it."""
    wire.send(
        "SEND", body.encode(), destination=destination, receipt="r", persistent="true",
        receipt_outcome="true", **headers,
    )  # fmt: skip
    told = wire.expect("RECEIPT").headers
    return told.get("routed", told.get("dropped", ""))


def subscribed(wire: Wire, destination: str, **headers: Any) -> None:
    wire.send("SUBSCRIBE", **{"id": "s", **headers}, destination=destination, receipt="s")
    assert wire.expect("RECEIPT").headers["receipt-id"] == "s"


def next_body(wire: Wire) -> str:
    return wire.expect("MESSAGE").body.decode()


def nothing_more(wire: Wire) -> None:
    """Nothing is on its way to the peer but the answer to this."""
    wire.send("BEGIN", transaction="n", receipt="n")
    assert wire.expect("RECEIPT").headers["receipt-id"] == "n"
    wire.send("ABORT", transaction="n")


def refused(broker: BrokerProcess, **headers: Any) -> Frame:
    """The answer to a CONNECT that must be an ERROR and the end."""
    with Wire(broker.port) as wire:
        wire.send("CONNECT", **headers)
        answer = wire.expect("ERROR")
        assert wire.at_end()
        return answer


def cli(broker: BrokerProcess, *words: str) -> Any:
    said = daybook(broker, *words)
    return json.loads(said) if "--json" in words else said


def test_1_0_clients_are_connected_to_the_first_virtual_host(hosts: BrokerProcess) -> None:
    """'the broker connects those clients to the first virtual host defined'"""
    with Wire(hosts.port) as wire:
        wire.send("CONNECT")
        answer = wire.expect("CONNECTED")
        assert (answer.headers["version"], answer.headers["host-id"]) == ("1.0", "default")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_1_1_clients_name_a_virtual_host_by_any_of_its_names(
    hosts: BrokerProcess, version: str
) -> None:
    """'STOMP 1.1 clients must specify a virtual host': by its host names, in any case"""
    for name, host in (
        ("localhost", "default"), ("HERE.example.org", "default"), ("eu.example.org", "eu"),
        ("eu", "eu"),
    ):  # fmt: skip
        with Wire(hosts.port) as wire:
            wire.send("CONNECT", accept_version=version, host=name)
            assert wire.expect("CONNECTED").headers["host-id"] == host


def test_1_1_clients_without_a_virtual_host_get_the_first_one(hosts: BrokerProcess) -> None:
    """'STOMP 1.1 clients must specify': Apollo lets them in all the same, and so does Daybook"""
    with Wire(hosts.port) as wire:
        wire.send("CONNECT", accept_version="1.1")
        assert wire.expect("CONNECTED").headers["host-id"] == "default"


@pytest.mark.parametrize("name", ["nowhere", "eu.example.org.", "eu::q", "*", "a b"])
def test_an_unknown_host_ends_with_an_error(hosts: BrokerProcess, name: str) -> None:
    """'If no configured virtual host host_name matches ..., the connection is terminated'"""
    headers = {"accept_version": "1.2", "host": name.replace(":", "\\c")}
    assert "no virtual host is named" in refused(hosts, **headers).headers["message"]


def test_without_virtual_hosts_every_name_does(broker: BrokerProcess) -> None:
    for name in ("h", "eu.example.org"):
        with Wire(broker.port) as wire:
            wire.send("CONNECT", accept_version="1.2", host=name)
            assert wire.expect("CONNECTED").headers["host-id"] == "default"


def test_the_same_names_on_two_hosts_never_meet(hosts: BrokerProcess) -> None:
    """'the durable subscription id's are global across a virtual host', and no further"""
    for host in NAMES:
        with opened(hosts, host) as wire:
            subscribed(wire, "/topic/news", id="mine", persistent="true", ack="client")
            subscribed(wire, "/topic/#", id="all")
            for place in ("/queue/q", "/queue/paged", "/topic/news"):
                routed = sent(wire, place, f"{host} {place}", _AMQ_DUPL_ID=place)
                assert routed
                assert "::" not in routed
            assert {next_body(wire) for _ in range(2)} == {f"{host} /topic/news"}
    hosts.kill()
    hosts.start()
    for again in (False, True):
        for host in NAMES:
            with opened(hosts, host) as wire:
                assert sent(wire, "/queue/q", "again", _AMQ_DUPL_ID="/queue/q") == "duplicate"
                for place in ("/queue/q", "/queue/paged", "/dsub/mine"):
                    subscribed(wire, place, ack="client-individual", id=place)
                    message = wire.expect("MESSAGE")
                    expected = "/topic/news" if place == "/dsub/mine" else place
                    assert message.body.decode() == f"{host} {expected}"
                    assert message.headers["destination"] == expected
                    nothing_more(wire)
                    if again:
                        wire.send("ACK", id=message.headers["ack"], receipt="a")
                        wire.expect("RECEIPT")
        hosts.kill() if not again else hosts.stop()
        hosts.start()
    names = {row["queue"]: row["messages"] for row in cli(hosts, "queue", "list", "--json")}
    assert names == dict.fromkeys(
        [f"{prefix}{name}" for prefix in ("", "eu::") for name in ("dsub.mine", "paged", "q")], 0
    )
    hosts.stop()
    journal(hosts, "verify")
    shown = journal(hosts, "inspect", "--queue", "eu::q")
    assert "queue 'eu::q'" in shown
    assert "queue 'q'" not in shown


def test_dead_letters_stay_on_their_host(hosts: BrokerProcess) -> None:
    with opened(hosts, "eu") as wire:
        sent(wire, "/queue/bad", "x")
        subscribed(wire, "/queue/bad", ack="client-individual")
        wire.send("NACK", id=wire.expect("MESSAGE").headers["ack"])
        subscribed(wire, "/queue/DLQ", id="dead")
        letter = wire.expect("MESSAGE")
        assert letter.headers["_AMQ_ORIG_ADDRESS"] == letter.headers["_AMQ_ORIG_QUEUE"] == "bad"
    with opened(hosts, "default") as wire:
        subscribed(wire, "/queue/DLQ", id="dead")
        nothing_more(wire)


def test_temporary_destinations_are_those_of_their_host(hosts: BrokerProcess) -> None:
    with opened(hosts, "eu") as there, opened(hosts, "default") as here:
        subscribed(there, "/temp-queue/replies")
        sent(there, "/queue/requests", "?", reply_to="/temp-queue/replies")
        with opened(hosts, "eu") as server:
            subscribed(server, "/queue/requests")
            reply_to = server.expect("MESSAGE").headers["reply-to"]
            assert reply_to.startswith("/queue/temp.default.")
            assert sent(here, reply_to, "from elsewhere") == "gone"
            sent(server, reply_to, "!")
        assert next_body(there) == "!"
        nothing_more(there)


def test_names_with_a_host_are_no_names_for_clients(hosts: BrokerProcess) -> None:
    with opened(hosts, "eu") as wire:
        sent(wire, "/queue/q", "x")
    for destination in ("/queue/eu\\c\\cq", "eu\\c\\ceu\\c\\cq", "/queue/eu\\c\\c"):
        with opened(hosts, "default") as wire:
            wire.send("SUBSCRIBE", id="s", destination=destination, receipt="s")
            if wire.read().command == "RECEIPT":
                # ADDRESS::QUEUE of its own host.
                nothing_more(wire)
    names = {row["queue"]: row["messages"] for row in cli(hosts, "queue", "list", "--json")}
    assert names["eu::q"] == 1


def test_errors_name_things_as_clients_do(hosts: BrokerProcess) -> None:
    with opened(hosts, "eu") as wire:
        sent(wire, "/queue/q", "x")
        wire.send("SUBSCRIBE", id="s", destination="/queue/other\\c\\cq")
        said = wire.expect("ERROR").headers["message"]
        assert "queue 'q' is on address 'q'" in said.replace("\\c", ":")


def test_a_user_may_be_limited_to_some_hosts(hosts: BrokerProcess) -> None:
    users = ["--users-file", f"{hosts.directory}/users.toml", "--data", str(hosts.data)]

    def user(*words: str) -> None:
        done = nursery.run(
            [DAYBOOK, "user", *words, *users], input="pass\n", text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    user("add", "joe", "--virtual-host", "eu", "--passcode-stdin")
    for words in (
        ("add", "jim", "--virtual-host", "eux", "--no-passcode"),
        ("hosts", "joe", "eux"),
    ):
        done = nursery.run([DAYBOOK, "user", *words, *users], text=True, capture_output=True)
        assert done.returncode == 1
        assert "there is no virtual host 'eux'; name one that the configuration" in done.stderr
    user("add", "ann", "--passcode-stdin")
    reload(hosts, CONFIG)
    login = {"login": "joe", "passcode": "pass", "accept_version": "1.2"}
    said = refused(hosts, host=NAMES["default"], **login).headers["message"]
    assert "no virtual host is named so, or user 'joe' may not use it" in said
    assert refused(hosts, host="nowhere", **login).headers["message"] == said
    # Only joe, once proven, may know where joe may be.
    wrong = refused(hosts, host=NAMES["default"], **{**login, "passcode": "no"})
    assert "virtual host" not in wrong.headers["message"]
    with opened(hosts, "eu", login="joe", passcode="pass") as wire:
        for host in NAMES:
            opened(hosts, host, login="ann", passcode="pass").close()
        user("hosts", "joe", "default")
        reload(hosts, CONFIG)
        wire.expect("ERROR")
    opened(hosts, "default", login="joe", passcode="pass").close()
    user("hosts", "joe", "--all")
    reload(hosts, CONFIG)
    opened(hosts, "eu", login="joe", passcode="pass").close()


def test_permissions_of_one_host(tmp_path: Path) -> None:
    rules = CONFIG + (
        '[[security-setting]]\nmatch = "#"\nsend = ["*"]\nconsume = ["*"]\n'
        'create-address = ["*"]\ncreate-durable-queue = ["*"]\n'
        '[[security-setting]]\nmatch = "secret"\nvirtual-host = "eu"\nsend = ["user:joe"]\n'
    )
    with BrokerProcess(tmp_path / "data", config=rules) as process:
        process.start()
        with opened(process, "default") as wire:
            sent(wire, "/queue/secret", "x")
        with opened(process, "eu") as wire:
            sent(wire, "/queue/q", "x")
            wire.send("SEND", b"x", destination="/queue/secret")
            said = wire.expect("ERROR").headers["message"]
            assert "may not send to address 'secret'" in said


def test_limits_of_a_host_are_for_its_clients_alone(tmp_path: Path) -> None:
    limited = CONFIG.replace(
        '"eu"\n', '"eu"\nmax-connections = 2\nmax-queues = 2\nmax-size = "10KiB"\n'
    )
    with BrokerProcess(tmp_path / "data", config=limited) as process:
        process.start()
        with opened(process, "eu") as one, opened(process, "eu"):
            said = refused(process, host=NAMES["eu"], accept_version="1.2").headers["message"]
            assert "max-connections is 2" in said
            opened(process, "default").close()
            sent(one, "/queue/a", "x" * 9000)
            sent(one, "/queue/a", "x" * 9000)
            one.send("SEND", b"x", destination="/queue/a")
            assert "virtual host 'eu' is full" in one.expect("ERROR").headers["message"]
        with opened(process, "default") as other:
            sent(other, "/queue/a", "x" * 20000)
        with opened(process, "eu") as one:
            subscribed(one, "/queue/a")
            for _ in range(2):
                one.expect("MESSAGE")
            sent(one, "/queue/b", "x")
            one.send("SEND", b"x", destination="/queue/c")
            assert "max-queues is 2" in one.expect("ERROR").headers["message"]


def test_what_is_listed_for_a_host_is_there_and_removing_the_host_loses_nothing(
    tmp_path: Path,
) -> None:
    listed = CONFIG + (
        '[[queue]]\nname = "q"\nvirtual-host = "eu"\n'
        '[[address]]\nname = "news"\nrouting-types = ["multicast"]\nvirtual-host = "eu"\n'
        '[[divert]]\nname = "d"\naddress = "q"\nforwarding-addresses = ["copies"]\n'
        'virtual-host = "eu"\n'
    )
    with BrokerProcess(tmp_path / "data", config=listed) as process:
        process.start()
        with opened(process, "eu") as wire:
            assert sent(wire, "/queue/q", "x") == "q"
            assert sent(wire, "/queue/copies", "y") == "copies"
            reload(process, SETTINGS)
            assert (
                "there is no virtual host 'eu' any more" in wire.expect("ERROR").headers["message"]
            )
        with Wire(process.port) as wire:
            # Without virtual hosts there is the default one, which has every name.
            wire.send("CONNECT", accept_version="1.2", host=NAMES["eu"])
            assert wire.expect("CONNECTED").headers["host-id"] == "default"
            subscribed(wire, "/queue/q")
            nothing_more(wire)
        process.kill()
        process.start()
        names = {row["queue"]: row["messages"] for row in cli(process, "queue", "list", "--json")}
        assert names["eu::q"] == 1
        assert names["eu::copies"] == 2
        reload(process, listed)
        with opened(process, "eu") as wire:
            subscribed(wire, "/queue/q")
            assert next_body(wire) == "x"


def test_wildcards_over_queues_and_composites_stay_on_their_host(hosts: BrokerProcess) -> None:
    with opened(hosts, "default") as here, opened(hosts, "eu") as there:
        for wire, body in ((here, "here"), (there, "there")):
            sent(wire, "/queue/price.old", body)
        subscribed(here, "/queue/price.*,/queue/a,/topic/b.i*")
        subscribed(there, "/queue/price.*,/queue/a,/topic/b.i*")
        assert next_body(here) == "here"
        assert next_body(there) == "there"
        # Queues that come later, and the other parts.
        for destination in ("/queue/price.new", "/queue/a", "/topic/b.ibm"):
            sent(here, destination, f"{destination} here")
            assert next_body(here) == f"{destination} here"
            nothing_more(there)
            sent(there, destination, f"{destination} there")
            assert next_body(there) == f"{destination} there"
            nothing_more(here)


def test_commands_are_about_one_host(hosts: BrokerProcess) -> None:
    for host in NAMES:
        with opened(hosts, host) as wire:
            sent(wire, "/queue/q", host)
    on_eu = ("--virtual-host", "eu")
    (row,) = cli(hosts, "queue", "list", "--json", *on_eu)
    assert (row["queue"], row["host"], row["messages"]) == ("eu::q", "eu", 1)
    (message,) = cli(hosts, "browse", "q", "--json", *on_eu)["messages"]
    assert message["body"] == "eu"
    cli(hosts, "settings", "set", "q", "max-size-messages=5", *on_eu)
    assert "5" not in cli(hosts, "settings", "q").partition("max-size-messages")[2][:20]
    cli(hosts, "queue", "create", "other", "--address", "place", *on_eu)
    cli(hosts, "divert", "create", "d", "--address", "q", "--forwarding-addresses", "r", *on_eu)
    assert cli(hosts, "divert", "list", "--json", "--virtual-host", "default") == []
    cli(hosts, "queue", "move", "q", "other", *on_eu)
    cli(hosts, "queue", "purge", "place::other", *on_eu)
    cli(hosts, "queue", "delete", "eu::other")
    names = {row["queue"]: row["messages"] for row in cli(hosts, "queue", "list", "--json")}
    assert names == {"q": 1, "eu::q": 0}
    done = nursery.run(
        [DAYBOOK, "queue", "create", "x", "--virtual-host", "us", "--data", str(hosts.data)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "there is no virtual host 'us'; name one that the configuration lists" in done.stderr
    done = nursery.run(
        [DAYBOOK, "queue", "list", "--virtual-host", "us", "--data", str(hosts.data)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "none on virtual host 'us'" in done.stderr


def test_programs_name_the_host_in_the_url(hosts: BrokerProcess) -> None:
    url = f"stomp://127.0.0.1:{hosts.port}?virtual-host=eu"
    for words in (["send", "/queue/q", "hello"], ["receive", "/queue/q", "--count", "1"]):
        done = nursery.run(
            [DAYBOOK, *words, "--url", url], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert [row["queue"] for row in cli(hosts, "queue", "list", "--json")] == ["eu::q"]
