"""A large message is measured on a broker that really moves it."""

import socket
import threading

import msgspec
import pytest
from click.testing import CliRunner

from bench.large import Transfer, TransferError, main, send


def test_a_transfer_is_measured() -> None:
    result = CliRunner().invoke(main, ["--megabytes", "3", "--json"])
    assert result.exit_code == 0, result.output
    found = msgspec.json.decode(result.output, type=Transfer)
    assert found.megabytes == 3
    assert found.send_rate > 0
    assert found.receive_rate > 0
    assert len(found.peak_rss_mib) >= 2
    assert found.round_trips[0].phase == "quiet"
    for trips in found.round_trips:
        assert 0 < trips.p50_ms <= trips.longest_ms
        assert trips.count > 0


def test_a_peer_that_is_no_broker_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 12)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TransferError, match="was expected"):
            send(listener.getsockname()[1], 10)
        thread.join()
