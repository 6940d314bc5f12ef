"""Address settings of a real broker, set at run time."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interop.using import run
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[[address-setting]]
match = "#"
max-delivery-attempts = {}
dead-letter-address = "DLQ"
"""


def daybook(broker: BrokerProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return run(broker, "settings", *words)


def setting(broker: BrokerProcess, address: str, key: str) -> dict[str, Any]:
    answer = msgspec.json.decode(daybook(broker, address, "--json").stdout)
    return next(row for row in answer["settings"] if row["key"] == key)


def rejected(broker: BrokerProcess, body: bytes) -> None:
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SEND", body, destination="/queue/orders")
        wire.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client-individual")
        message = wire.expect("MESSAGE")
        wire.send("NACK", id=message.headers["ack"], receipt="n")
        wire.expect("RECEIPT")


def dead(broker: BrokerProcess) -> bytes:
    with Wire(broker.port) as wire:
        wire.connect()
        wire.send("SUBSCRIBE", id="s", destination="/queue/DLQ", ack="auto")
        return wire.expect("MESSAGE").body


def test_they_survive_a_kill_and_a_reload_until_they_are_removed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", config=CONFIG.format(5)) as broker:
        broker.start()
        done = daybook(broker, "set", "#", "max-delivery-attempts=1", "redelivery-delay=5s")
        assert done.stdout == "set max-delivery-attempts, redelivery-delay of match '#'\n"
        rejected(broker, b"first")
        assert dead(broker) == b"first"
        broker.kill()
        broker.configure(CONFIG.format(7))
        broker.start()
        rejected(broker, b"second")
        assert dead(broker) == b"second"
        broker.configure(CONFIG.format(8))
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in broker.log_text(), "the reload")
        assert setting(broker, "orders", "max-delivery-attempts") == {
            "key": "max-delivery-attempts", "value": 1, "match": "#", "from": "run time",
        }  # fmt: skip
        assert setting(broker, "orders", "redelivery-delay")["value"] == 5000
        assert "match #, at run time" in daybook(broker, "orders").stdout
        daybook(broker, "remove", "#", "max-delivery-attempts")
        found = setting(broker, "orders", "max-delivery-attempts")
        assert (found["value"], found["from"]) == (8, "configuration")
        assert setting(broker, "orders", "no-expiry")["from"] == "default"


def test_what_is_wrong_is_refused_with_a_reason(broker: BrokerProcess) -> None:
    for words, why in (
        (("set", "a.#.b", "no-expiry=true"), "last word"),
        (("set", "q", "no-expirie=true"), "did you mean 'no-expiry'?"),
        (("set", "q", "redelivery-delay=soon"), "milliseconds"),
        (("set", "q", "redelivery-delay"), "is not KEY=VALUE"),
        (("remove", "#", "max-delivery-attempts"), "was set by the configuration"),
        (("remove", "q"), "was not set at run time"),
    ):
        done = daybook(broker, *words)
        assert done.returncode
        assert why in done.stderr
    assert daybook(broker, "show", "set").returncode == 0
