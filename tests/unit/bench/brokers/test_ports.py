"""Ports for brokers: nobody else gets one of them."""

import socket
import subprocess
import sys

import pytest

from bench.brokers import ports

ASKS = "from bench.brokers.ports import free_ports; print(*free_ports(200)); input()"


def test_no_other_process_and_no_outgoing_connection_gets_a_port() -> None:
    own = set(ports.free_ports(50))
    with subprocess.Popen(
        [sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = {int(each) for each in other.stdout.readline().split()}
        other.stdin.write("\n")
        other.stdin.flush()
    assert len(own) == 50
    assert len(theirs) == 200
    assert not own & theirs
    assert max(own | theirs) < int(ports.GIVEN_AWAY.read_text("ascii").split()[0])


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", ports.free_port())) as taken:
        port = taken.getsockname()[1]
        numbers = iter([port, port + 1, *[port] * ports.PORTS_OF_A_PROCESS])
        monkeypatch.setattr(ports, "_ports", lambda: numbers)
        assert ports.free_port() == port + 1
        with pytest.raises(ports.NoPortError, match="in use"):
            ports.free_port()
