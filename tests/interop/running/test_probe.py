"""The probe of a started broker, asked by the clients that supervisors use."""

import http.client
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from daybook.client.control import ask
from daybook.engine.facts.events import BROKER_STOPPED, CHECKPOINT
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.readonly import journal_disk
from daybook.server.monitoring.cluster_figures import CLUSTER
from daybook.server.monitoring.figures import FAMILIES
from tests.interop.hardships.test_hanging import stopped
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

LISTEN = ("stomp://127.0.0.1:0", "http://127.0.0.1:0")
NAME = 'quote"\\£€😀'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = ("broker.disk-scan-period=100ms", "broker.stop-timeout=40s")
    with BrokerProcess(tmp_path / "data", settings=settings, listen=LISTEN) as process:
        yield process.start()


def get(
    broker: BrokerProcess, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPResponse]:
    """Ask over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.ports[1], timeout=20)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode(), response
    finally:
        connection.close()


def ready(broker: BrokerProcess) -> tuple[int, str]:
    status, body, _ = get(broker, "/ready")
    return status, body


def metrics(broker: BrokerProcess) -> dict[str, float]:
    """Samples by name and labels as they are written."""
    _, text, _ = get(broker, "/metrics")
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_a_connection_is_kept_for_many_requests(broker: BrokerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.ports[1], timeout=20)
    connection.connect()
    ours = connection.sock
    for method, path, status in (
        ("GET", "/live", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/ready", 200),
        ("GET", "/metrics", 200),
        ("GET", "/", 404),
        ("DELETE", "/live", 405),
        ("GET", "/live", 200),
    ):
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        assert response.status == status
        assert bool(body) == (method != "HEAD")
        assert connection.sock is ours
    connection.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_is_answered(broker: BrokerProcess) -> None:
    url = f"http://127.0.0.1:{broker.ports[1]}"
    command = ["curl", "--silent", "--fail-with-body", "--max-time", "20"]
    done = subprocess.run(
        [*command, f"{url}/live", f"{url}/ready"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "live\nready\n"
    head = subprocess.run(
        [*command, "--head", f"{url}/metrics"], capture_output=True, text=True, check=True
    )
    assert head.stdout.startswith("HTTP/1.1 200 OK")
    posted = subprocess.run(
        [*command, "--data", "x", f"{url}/ready"], capture_output=True, text=True, check=False
    )
    assert (posted.returncode, posted.stdout) == (22, "requests have no body here\n")


def test_metrics_are_what_prometheus_reads(broker: BrokerProcess) -> None:
    escaped = NAME.replace("\\", "\\\\")
    with Wire(broker.port) as wire:
        wire.connect()
        for _ in range(3):
            wire.send("SEND", b"hello", destination=f"/queue/{escaped}", receipt="r")
            wire.expect("RECEIPT")
        _, text, response = get(broker, "/metrics")
        assert response.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
        families = {family.name: family for family in text_string_to_metric_families(text)}
        of_clusters = {figure.family for figure in CLUSTER}
        expected = [
            family.name.removesuffix("_total") for family in FAMILIES if family not in of_clusters
        ]
        assert list(families) == expected
        (sample,) = families["daybook_queue_messages_ready"].samples
        assert sample.labels == {"address": NAME, "queue": NAME}
        assert sample.value == 3
        connections = families["daybook_connections"].samples
        assert {each.labels["protocol"]: each.value for each in connections} == {
            "stomp": 1,
            "http": 1,
        }
        accept = "application/openmetrics-text;version=1.0.0"
        _, text, response = get(broker, "/metrics", Accept=accept)
        found = list(openmetrics.text_string_to_metric_families(text))
        assert [family.name for family in found] == expected
        content_type = response.getheader("content-type") or ""
        assert content_type.startswith("application/openmetrics-text")


def test_a_full_disk_is_not_ready_and_a_free_one_is_again(broker: BrokerProcess) -> None:
    assert ready(broker) == (200, "ready\n")
    broker.configure("min-disk-free = '1024GiB'\n")
    broker.settings.clear()
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: ready(broker)[0] == 503, "the disk to be full")
    assert ready(broker) == (503, "not ready: the disk is full\n")
    assert get(broker, "/live")[0] == 200
    time.sleep(1.1)  # a rendered page is good for a second
    values = metrics(broker)
    assert values["daybook_ready"] == 0
    assert values['daybook_problems{kind="disk"}'] == 1
    broker.configure("")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: ready(broker)[0] == 200, "room on the disk")


def test_a_disk_that_hangs_is_told_by_every_connection(broker: BrokerProcess) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", broker.ports[1], timeout=20)

    def ask_again(path: str) -> tuple[int, str]:
        kept.request("GET", path)
        response = kept.getresponse()
        return response.status, response.read().decode()

    assert ask_again("/ready") == (200, "ready\n")
    with Wire(broker.port) as wire:
        wire.connect()
        with stopped(broker.writers()[0]):
            wire.send("SEND", bytes(100), destination="/queue/a")
            wait_for(lambda: ready(broker)[0] == 503, "the writer to be missed", 40)
            assert ask_again("/ready") == (503, "not ready: events do not become durable\n")
            assert ask_again("/live") == (200, "live\n")
            _, text = ask_again("/metrics")
            assert "\ndaybook_ready 0.0\n" in text
            assert 'daybook_problems{kind="durability"} 1.0' in text
        wait_for(lambda: ready(broker)[0] == 200, "the writer to continue")
    kept.close()


def test_a_stop_is_seen_until_its_end(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire, stopped(broker.writers()[0]):
        wire.send("CONNECT", accept_version="1.2", host="h")
        time.sleep(0.2)
        broker.send_signal(signal.SIGTERM)
        wait_for(lambda: get(broker, "/live")[0] == 503, "the stop to begin", 30)
        assert get(broker, "/live")[:2] == (503, "not live: stopping\n")
        assert ready(broker) == (503, "not ready: stopping\n")
    broker.wait()


def test_a_page_of_somebody_else_reads_nothing(tmp_path: Path) -> None:
    """A browser sends the name of the page, to whatever address the name has been turned."""
    listen = (LISTEN[0], "http://127.0.0.1:0?allowed-hosts=['broker.example.org']")
    with BrokerProcess(tmp_path / "data", listen=listen) as broker:
        broker.start()
        evil = f"evil.example:{broker.ports[1]}"
        for path in ("/metrics", "/ready", "/live"):
            status, body, _ = get(broker, path, Host=evil)
            assert status == 421
            assert body == f"'{evil}' is not listed in allowed-hosts of this acceptor\n"
        for host in ("broker.example.org", "localhost", "10.1.2.3", socket.gethostname()):
            assert get(broker, "/live", Host=host)[0] == 200
        with Wire(broker.port) as wire:
            wire.write(
                b"GET / HTTP/1.1\r\nHost: %(at)b\r\nOrigin: http://%(at)b\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                b"Sec-WebSocket-Version: 13\r\n\r\n" % {b"at": evil.encode()}
            )
            assert wire.socket.recv(4096).startswith(b"HTTP/1.1 403")
        logged = [line for line in broker.lines() if "refusal" in line["event"]]
        assert len(logged) == 1
        assert "allowed-hosts" in logged[0]["why"]


def test_nothing_of_it_is_in_the_journal(broker: BrokerProcess) -> None:
    for path in ("/live", "/ready", "/metrics", "/nowhere"):
        get(broker, path)
    with socket.create_connection(("127.0.0.1", broker.ports[1])) as peer:
        peer.sendall(b"CONNECT\nlogin:guest\npasscode:guest\n\n\0")
        assert b" 400 Bad Request\r\n" in peer.recv(4096)
    status = ask(broker.directory, {"do": "status"})
    assert status is not None
    assert status["connections"] == status["refusals"] == 0
    before = status["lsn"]
    assert broker.stop() == 0
    blocks = read_blocks(journal_disk(broker.data), LAYOUT)
    kinds = {lsn: columns[0] for block in blocks for lsn, columns, *_ in block.events()}
    # The index may have had a checkpoint meanwhile.
    after = [kind for lsn, kind in kinds.items() if lsn > before and kind != CHECKPOINT]
    assert after == [BROKER_STOPPED], "only the stop came after"


def test_a_port_that_is_taken_is_told_with_its_protocol(broker: BrokerProcess) -> None:
    other = BrokerProcess(
        broker.directory.with_name("other"), listen=(f"http://127.0.0.1:{broker.ports[1]}",)
    )
    assert "choose another address with --listen http://HOST:PORT" in other.refuse()
