"""AMQP 1.0 over WebSocket with rhea, the client of Node.js, and its package `ws`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop

SECONDS = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    listen = ("amqp://127.0.0.1:0", "stomp+amqp://127.0.0.1:0")
    with BrokerProcess(tmp_path_factory.mktemp("web") / "data", listen=listen) as process:
        process.start()
        yield process


@pytest.mark.parametrize("acceptor", [0, 1], ids=["amqp", "stomp+amqp"])
def test_rhea_sends_and_receives(broker: BrokerProcess, packages: Path, acceptor: int) -> None:
    # The body fits neither in a frame nor in one read.
    size = 300_000
    url = f"ws://127.0.0.1:{broker.ports[acceptor]}/"
    done = subprocess.run(
        ["node", "amqp.mjs", url, "web", str(size)],
        cwd=packages, capture_output=True, check=False, timeout=SECONDS, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{size} bytes"
