"""Replay into a running broker: dry first, each once, also with kill -9 in the middle."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.brokers.ports import free_port
from tests.interop.using import connected, queues, sent
from tests.interop.wire import Frame, Wire
from tests.support import nursery
from tests.support.process import JOURNAL, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

LARGE = b"chunk " * 60_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The history: 200 orders of which 120 are acknowledged, one of them large."""
    with BrokerProcess(tmp_path_factory.mktemp("source") / "data") as broker:
        broker.start()
        with connected(broker) as wire:
            for number in range(199):
                colour = "red" if number % 2 else "green"
                wire.send(
                    "SEND", b"order %d" % number, destination="/queue/orders", colour=colour,
                    priority="7", persistent="true",
                )  # fmt: skip
            sent(wire, "/queue/orders", LARGE, priority="7")
            sent(wire, "/queue/others", b"other")
            wire.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client-individual")
            for number in range(200):
                frame = wire.expect("MESSAGE")
                if number < 119 or frame.body == LARGE:
                    wire.send("ACK", id=frame.headers["ack"])
            wire.send("DISCONNECT", receipt="d")
            while wire.read().headers.get("receipt-id") != "d":
                pass
        assert broker.stop() == 0
        yield broker


def command(source: BrokerProcess, home: Path, url: str, *words: str) -> dict[str, Any]:
    return {
        "args": [
            JOURNAL, "replay", str(source.data), "/queue/again",
            "--url", url, *words,
        ],
        "env": os.environ | {"XDG_STATE_HOME": str(home)},
        "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
    }  # fmt: skip


def replay(source: BrokerProcess, home: Path, url: str, *words: str) -> dict[str, Any]:
    asked = command(source, home, url, *words, "--json")
    done = nursery.run(asked.pop("args"), check=False, **asked)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def waiting(broker: BrokerProcess) -> int:
    found = queues(broker)
    return int(found["again"]["messages"]) if "again" in found else 0


def drain(broker: BrokerProcess) -> list[Frame]:
    count = waiting(broker)
    with connected(broker) as wire:
        wire.send("SUBSCRIBE", id="s", destination="/queue/again", ack="auto")
        return [_message(wire) for _ in range(count)]


def _message(wire: Wire) -> Frame:
    return wire.expect("MESSAGE")


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_each_is_sent_once_though_the_broker_is_killed(
    source: BrokerProcess, tmp_path: Path, protocol: str
) -> None:
    port = free_port()
    url = f"{protocol}://127.0.0.1:{port}"
    chosen = ("--queue", "orders", "--only", "acknowledged")
    with BrokerProcess(tmp_path / "data", listen=[f"stomp+amqp://127.0.0.1:{port}"]) as target:
        target.start()
        dry = replay(source, tmp_path, url, *chosen)
        assert (dry["messages"], dry["large"], dry["left"], dry["sent"]) == (120, 1, 120, 0)
        assert waiting(target) == 0

        asked = command(source, tmp_path, url, *chosen, "--send", "--rate", "60")
        running = subprocess.Popen(asked.pop("args"), **asked)
        wait_for(lambda: waiting(target) > 20, "some replayed messages")
        target.kill()
        _, said = running.communicate(timeout=60)
        assert running.returncode == 1
        assert "repeat the command to resume" in said

        target.start()
        told = replay(source, tmp_path, url, *chosen, "--send")
        assert told["sent_before"] > 0 < told["sent"]
        assert told["sent_before"] + told["sent"] + told["duplicates"] == 120
        assert replay(source, tmp_path, url, *chosen, "--send")["left"] == 0
        assert json.loads(Path(told["state_file"]).read_text())["is_complete"]
        # Without the state file the broker remembers, too.
        Path(told["state_file"]).unlink()
        assert replay(source, tmp_path, url, *chosen, "--send")["duplicates"] == 120

        frames = drain(target)
        bodies = [frame.body for frame in frames]
        assert bodies == [*(b"order %d" % number for number in range(119)), LARGE]
        for number, frame in enumerate(frames[:-1]):
            assert frame.headers["colour"] == ("red" if number % 2 else "green")
            assert frame.headers["priority"] == "7"
            original, _, data_id = frame.headers["x-daybook-replay-of"].partition("@")
            assert data_id == told["data_id"]
            assert original.isdigit()
        assert target.stop() == 0
        # The trail of a replayed message says what it is.
        first = frames[0].headers["message-id"]
        words = [JOURNAL, "trail", str(target.data), first]
        trail = nursery.run(words, capture_output=True, text=True, check=True).stdout
        assert (
            f"a replay of message {frames[0].headers['x-daybook-replay-of'].split('@')[0]}" in trail
        )


def test_filters_spans_and_replays_of_their_own(source: BrokerProcess, tmp_path: Path) -> None:
    url = f"stomp://127.0.0.1:{free_port()}"
    with BrokerProcess(tmp_path / "data", listen=[url]) as target:
        target.start()
        red = replay(source, tmp_path, url, "--filter", "colour = 'red'", "--send")
        assert red["sent"] == 99
        never = replay(source, tmp_path, url, "--only", "never-acknowledged")
        assert never["addresses"] == {"orders": 80, "others": 1}
        waits = replay(source, tmp_path, url, "--only", "waiting", "--address", "others", "--send")
        assert waits["sent"] == 1
        again = replay(
            source, tmp_path, url, "--filter", "colour = 'red'", "--send", "--id", "second"
        )
        assert again["sent"] == 99
        assert waiting(target) == 199
        assert target.stop() == 0
        # Replays are not taken for originals.
        assert replay(target, tmp_path, url)["messages"] == 0
        assert replay(target, tmp_path, url, "--copies")["messages"] == 199
