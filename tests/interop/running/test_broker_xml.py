"""A broker that serves the broker.xml of Artemis: what its texts promise, seen by clients."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daybook.client.control import ask
from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.brokers.broker_xml import PIECES, document
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

STORE = """
<global-max-size>100M</global-max-size>
<message-expiry-scan-period>100</message-expiry-scan-period>
<journal-type>NIO</journal-type>
<acceptors>
  <acceptor name="all">tcp://127.0.0.1:0?protocols=CORE,STOMP;anycastPrefix=anycast://</acceptor>
  <acceptor name="core">tcp://127.0.0.1:5672?protocols=CORE;multicastPrefix=multicast://</acceptor>
</acceptors>
<addresses>
  <address name="DLA"><anycast><queue name="DLQ"/></anycast></address>
  <address name="ExpiryAddress"><anycast><queue name="ExpiryQueue"/></anycast></address>
  <address name="foo"><anycast><queue name="q1"/>
    <queue name="q2" max-consumers="1"/></anycast></address>
  <address name="foo.orders"><anycast><queue name="orders"/></anycast>
    <multicast><queue name="all-orders"><filter string="size > 3"/></queue></multicast></address>
</addresses>
<address-settings>
  <address-setting match="exampleQueue">
    <dead-letter-address>DLA</dead-letter-address>
    <max-delivery-attempts>3</max-delivery-attempts>
  </address-setting>
  <address-setting match="dropped">
    <max-delivery-attempts>1</max-delivery-attempts>
  </address-setting>
  <address-setting match="stocks">
    <expiry-address>ExpiryAddress</expiry-address>
    <expiry-delay>10</expiry-delay>
  </address-setting>
</address-settings>
<diverts><divert name="copy"><address>foo.orders</address>
  <forwarding-address>audit</forwarding-address><routing-type>ANYCAST</routing-type></divert>
  <divert name="marked"><address>to-mark</address><forwarding-address>marks</forwarding-address>
  <routing-type>ANYCAST</routing-type>
  <transformer><class-name>x.AddHeadersTransformer</class-name>
  <property key="mark" value="blue"/></transformer></divert>
  <divert name="coded"><address>to-mark</address><forwarding-address>codes</forwarding-address>
  <routing-type>ANYCAST</routing-type>
  <transformer><class-name>org.example.HatColour</class-name></transformer></divert></diverts>
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("xml") / "data"
    with BrokerProcess(directory, config=document(STORE)) as process:
        yield process.start()
        assert process.stop() == 0, process.log_text()


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "daybook", *arguments]
    return nursery.run(command, capture_output=True, text=True, check=False)


def counts(broker: BrokerProcess) -> dict[str, int]:
    shown = run("queue", "list", "--json", "--data", str(broker.data)).stdout
    return {row["queue"]: row["messages"] for row in msgspec.json.decode(shown, type=list[Any])}


def publish(wire: Wire, destination: str, body: bytes = b"x", **headers: Any) -> Frame:
    wire.send("SEND", body, destination=destination, receipt="r", persistent="true", **headers)
    return wire.expect("RECEIPT")


def test_a_flag_adds_an_acceptor_with_the_prefixes_of_those_not_opened(
    broker: BrokerProcess,
) -> None:
    assert len(broker.ports) == 2
    for port, prefix, queue in zip(
        broker.ports, ("anycast://", "multicast://"), ("orders", "all-orders"), strict=True
    ):
        before = counts(broker)
        with Wire(port) as wire:
            wire.connect()
            publish(wire, f"{prefix}foo.orders", size=5)
        after = counts(broker)
        grown = {name for name in after if after[name] > before.get(name, 0)}
        assert grown == {queue, "audit"}


def test_dead_letters_go_where_the_file_says(broker: BrokerProcess, wire: Wire) -> None:
    publish(wire, "/queue/exampleQueue", b"bad")
    wire.send("SUBSCRIBE", id="s", destination="/queue/exampleQueue", ack="client-individual")
    for _ in range(3):
        wire.send("NACK", id=wire.expect("MESSAGE").headers["ack"])
    wire.send("SUBSCRIBE", id="d", destination="DLA::DLQ")
    found = wire.expect("MESSAGE")
    assert found.body == b"bad"
    assert found.headers["_AMQ_ORIG_ADDRESS"] == "exampleQueue"
    assert found.headers["_AMQ_ORIG_QUEUE"] == "exampleQueue"


def test_without_a_dead_letter_address_a_message_is_removed(
    broker: BrokerProcess, wire: Wire
) -> None:
    publish(wire, "/queue/dropped", b"bad")
    wire.send("SUBSCRIBE", id="s", destination="/queue/dropped", ack="client-individual")
    wire.send("NACK", id=wire.expect("MESSAGE").headers["ack"], receipt="n")
    wire.expect("RECEIPT")
    assert counts(broker)["dropped"] == 0


def test_messages_expire_after_the_delay(wire: Wire) -> None:
    publish(wire, "/queue/stocks", b"late")
    wire.send("SUBSCRIBE", id="e", destination="ExpiryAddress::ExpiryQueue")
    found = wire.expect("MESSAGE")
    assert found.body == b"late"
    assert found.headers["_AMQ_ORIG_ADDRESS"] == "stocks"


def test_max_consumers(wire: Wire) -> None:
    for number in range(2):
        wire.send("SUBSCRIBE", id=f"s{number}", destination="foo::q2", receipt="r")
    wire.expect("RECEIPT")
    assert "max-consumers is 1" in str(wire.expect("ERROR"))


def test_an_untyped_message_to_an_unknown_address_is_multicast(
    broker: BrokerProcess, wire: Wire
) -> None:
    publish(wire, "unknown")
    assert "unknown" not in counts(broker)


def test_what_is_ignored_is_in_the_log(broker: BrokerProcess) -> None:
    text = broker.log_text()
    assert "'core' is not opened" in text
    assert "journal-type" not in text
    (line,) = [each for each in broker.lines() if "not needed here" in each["event"]]
    assert line["elements"] == 1


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_is_served(tmp_path: Path, name: str) -> None:
    piece = PIECES[name]
    with BrokerProcess(tmp_path / "data", config=document(piece.core), processes=1) as process:
        process.start()
        for (address, key), value in piece.settings.items():
            answer = ask(process.data, {"do": "settings", "address": address})
            assert answer is not None
            rows = {row["key"]: row["value"] for row in answer["settings"]}
            assert rows.get(key, value) == value
        answer = ask(process.data, {"do": "queues"})
        assert answer is not None
        queues = {row["queue"]: row for row in answer["queues"]}
        for (queue, key), value in piece.queues.items():
            assert queues[queue].get(key.replace("-", "_"), value) == value
        answer = ask(process.data, {"do": "addresses"})
        assert answer is not None
        addresses = {row["address"]: row for row in answer["addresses"]}
        for address, types in piece.addresses.items():
            assert set(addresses[address]["routing_types"]) == set(types)


def test_check_and_convert(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(document(STORE))
    checked = run("config", "check", str(path))
    assert checked.returncode == 0, checked.stderr
    assert "1 acceptors, 4 addresses, 6 queues, 3 diverts" in checked.stdout
    assert "not needed here: 1 elements (--all lists them" in checked.stderr
    everything = run("config", "check", "--all", str(path)).stderr
    assert f"{path}:8: <journal-type>: the journal has files of its own" in everything
    converted = run("config", "convert", str(path))
    assert converted.returncode == 0
    toml = tmp_path / "broker.toml"
    toml.write_text(converted.stdout)
    again = run("config", "check", str(toml))
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.replace("toml", "xml") == checked.stdout.replace(" (3 warnings)", "")
    path.write_text(document("<max-disk-usage>much</max-disk-usage>\n<!-- -->"))
    wrong = run("config", "check", str(path))
    assert wrong.returncode == 2
    assert f"{path}:5: max-disk-usage is" in wrong.stderr
    path.write_text('<!DOCTYPE x [<!ENTITY e "e">]><configuration>&e;</configuration>')
    assert "DOCTYPE" in run("config", "convert", str(path)).stderr


def test_a_file_that_is_wrong_stops_the_start(tmp_path: Path) -> None:
    wrong = document("<max-disk-usage>x</max-disk-usage>")
    with BrokerProcess(tmp_path / "data", config=wrong) as process:
        process.launch()
        assert process.wait() == 2
        assert "max-disk-usage is" in process.log_text()


def test_a_transformer_that_adds_headers_does_and_others_are_named(
    broker: BrokerProcess, wire: Wire
) -> None:
    publish(wire, "to-mark")
    wire.send("SUBSCRIBE", id="m", destination="marks::marks", ack="auto")
    assert wire.expect("MESSAGE").headers["mark"] == "blue"
    wire.send("SUBSCRIBE", id="c", destination="codes::codes", ack="auto")
    assert "mark" not in wire.expect("MESSAGE").headers
    assert "org.example.HatColour of divert 'coded' is code of Java" in broker.log_text()
