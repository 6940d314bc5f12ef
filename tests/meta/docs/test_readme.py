"""The first client of the README works as it stands, and the journal tells what it did."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.brokers.ports import free_port
from daybook.tools import journal_cli
from tests.meta import tree
from tests.support.process import wait_for

SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEFAULT_PORT = "61613"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Run a broker on a new data directory; yield its port once it accepts connections."""
    port = free_port()
    listen = f"stomp://127.0.0.1:{port}"
    with subprocess.Popen(
        [Path(sys.executable).with_name("daybook"), "serve", "--data", "data", "--listen", listen],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            assert "ready" in broker.stdout.readline()
            yield port
            broker.terminate()
            assert broker.wait() == 0
        finally:
            broker.kill()


def told(folder: Path) -> str:
    """Return the events of the journal, also of a running broker."""
    done = CliRunner().invoke(journal_cli.cli, ["inspect", str(folder / "data")])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.interop
def test_the_first_client_works(port: int, tmp_path: Path) -> None:
    (source,) = SNIPPET.findall((tree.ROOT / "README.md").read_text("utf-8"))
    assert DEFAULT_PORT in source
    with subprocess.Popen(
        [sys.executable, "-u", "-c", source.replace(DEFAULT_PORT, str(port))],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            # The prompt of `input` has a line of its own; receipt and message come in any order.
            printed = ""
            while not ("safe on disk: order-1" in printed and '{"order": 1}' in printed):
                line = client.stdout.readline()
                assert line, f"the client ended early: {printed}"
                printed += line
            # The acknowledgement goes out after the message was printed.
            while "Acknowledged" not in told(tmp_path):
                assert client.poll() is None
            client.stdin.write("\n")
            client.stdin.flush()
            assert client.wait() == 0
        finally:
            client.kill()
    wait_for(lambda: "ConnectionClosed" in told(tmp_path), "the end of the connection")
    for kind in ("Routed", "Delivered", "Acknowledged"):
        assert kind in told(tmp_path)


def test_the_first_screen_says_what_it_is_not_yet() -> None:
    first = (tree.ROOT / "README.md").read_text("utf-8").partition("\n## ")[0]
    for word in ("alpha", "single node", "Artemis 2.44", "STOMP"):
        assert word in first
