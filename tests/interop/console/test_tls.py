"""A console over https: its pages, its certificate and the renewal of it, and silent browsers."""

import http.client
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.interop.security.test_tls import openssl
from tests.support.brokers.certificates import Authority
from tests.support.console import Browser, ConsoleProcess
from tests.support.process import DAYBOOK, STOP_SECONDS, BrokerProcess, wait_for

pytestmark = pytest.mark.interop

NAMES = ("127.0.0.1", "localhost")
RELOADED = "the certificate was read again"
SILENT_SECONDS = 40
"""Less than the minute that an event loop gives a handshake by itself."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


@pytest.fixture
def certificate(authority: Authority) -> Path:
    return authority.issue(*NAMES)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as made:
        yield made.start()


@pytest.fixture
def console(broker: BrokerProcess, tmp_path: Path, certificate: Path) -> Iterator[ConsoleProcess]:
    words = ("--listen", "https://127.0.0.1:0", "--data", str(broker.data))
    files = ("--certificate", str(certificate), "--private-key", str(certificate))
    with ConsoleProcess(tmp_path, *words, *files) as made:
        yield made
        assert "Traceback" not in made.log_text()


def served_by(url: str, authority: Authority) -> Any:
    """Return the serial number of the certificate that a console shows."""
    place = urlsplit(url)
    with (
        socket.create_connection((place.hostname, place.port)) as plain,
        authority.trusting().wrap_socket(plain, server_hostname="localhost") as line,
    ):
        found = line.getpeercert()
        assert found is not None
        return found["serialNumber"]


def test_users_log_in_over_https(console: ConsoleProcess, authority: Authority) -> None:
    assert console.url.startswith("https://127.0.0.1:")
    browser = Browser(console, authority.trusting())
    shown = browser.submit(browser.get("/login"), login="guest", passcode="guest")
    cookie = shown.headers["set-cookie"]
    assert "Secure" in cookie.split("; ")
    assert "HttpOnly" in cookie
    assert "Queues" in browser.get("/b/data").words
    assert "Secure" in browser.post("/theme", {"theme": "dark"}).headers["set-cookie"]
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        Browser(console).get("/login")


def test_a_browser_cannot_begin_another_handshake(console: ConsoleProcess) -> None:
    port = urlsplit(console.url).port
    assert port is not None
    answer = openssl(port, "-tls1_2", said=b"R\n")
    assert "RENEGOTIATING" in answer
    assert "no renegotiation" in answer


def test_a_renewed_certificate_is_for_new_connections(
    console: ConsoleProcess, authority: Authority, certificate: Path
) -> None:
    browser = Browser(console, authority.trusting())
    browser.log_in("guest", "guest")
    first = served_by(console.url, authority)
    assert authority.issue(*NAMES, "console.example") == certificate
    console.process.send_signal(signal.SIGHUP)
    wait_for(lambda: RELOADED in console.log_text(), "the reload")
    second = served_by(console.url, authority)
    assert second != first
    assert "Queues" in browser.get("/b/data").words, "the session stays"
    shown = browser.ask("GET", "/login", headers={"Host": "console.example"})
    assert shown.status == 200, "the names are those of the new certificate"
    for spoil in (
        lambda: certificate.write_text("damaged"),
        lambda: authority.issue(*NAMES, expired=True),
    ):
        spoil()
        before = console.log_text().count("the former one stays in use")
        console.process.send_signal(signal.SIGHUP)
        wait_for(
            lambda before=before: console.log_text().count("the former one stays") > before,
            "the refusal",
        )
        assert served_by(console.url, authority) == second


def test_browsers_that_never_end_their_handshake_are_closed(
    console: ConsoleProcess, authority: Authority
) -> None:
    place = urlsplit(console.url)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection((place.hostname, place.port)))
            for _ in range(30)
        ]
        for each in idle[:10]:
            # The beginning of a ClientHello.
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert Browser(console, authority.trusting()).get("/login").status == 200
        for each in idle:
            each.settimeout(SILENT_SECONDS)
            try:
                assert each.recv(1000) == b""
            except ConnectionResetError:
                assert each in idle[:10]


def test_it_ends_with_its_terminal(broker: BrokerProcess, certificate: Path) -> None:
    ours, theirs = os.openpty()
    command = [
        DAYBOOK, "console", "--data", str(broker.data), "--listen", "https://127.0.0.1:0",
        "--certificate", str(certificate), "--private-key", str(certificate), "--no-link",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready https://")
        process.send_signal(signal.SIGHUP)
        assert RELOADED.encode() in process.stdout.readline()
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
