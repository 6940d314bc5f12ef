"""Peers without credentials, beside a client that has logged in."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from bench.load.honest import Honest
from daybook.engine.facts import details, events
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.readonly import journal_disk
from tests.attack.honest import Beside
from tests.interop.using import status
from tests.interop.wire import Wire, frame
from tests.support.process import BrokerProcess, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
KIB = 1024
LOGIN_SECONDS = 10.0
"""A wait for strangers would take minutes; a hash alone takes part of a second."""
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with one user, joe."""
    with BrokerProcess(tmp_path / "data") as process:
        users = str(process.directory / "users.toml")
        command = [
            sys.executable,
            "-m",
            "daybook",
            "user",
            "add",
            "joe",
            "--passcode-stdin",
        ]
        subprocess.run(
            [*command, "--users-file", users], input=b"right\n", check=True, capture_output=True
        )
        yield process.start()


@pytest.fixture
def beside(broker: BrokerProcess) -> Iterator[Beside]:
    """Joe, after his login."""
    with Honest(broker.port, login="joe", passcode="right") as honest:
        yield Beside(broker, honest)


def log_in(broker: BrokerProcess) -> float:
    """Log in as joe; return how many seconds that took."""
    begun = time.monotonic()
    with Wire(broker.port) as wire:
        answer = wire.connect(login="joe", passcode="right")
    assert answer.command == "CONNECTED", answer
    return time.monotonic() - begun


def connect_frame(**headers: Any) -> bytes:
    """A CONNECT."""
    return frame("CONNECT", accept_version="1.2", host="h", **headers)


def refusals(broker: BrokerProcess) -> list[details.ConnectionDetail]:
    """The details of all ConnectionRefused in the journal."""
    found = []
    for block in read_blocks(journal_disk(broker.data), LAYOUT):
        for _, row, detail, *_ in block.events():
            if row[events.KIND] == events.CONNECTION_REFUSED:
                decoded = events.decode_detail(events.CONNECTION_REFUSED, detail)
                assert isinstance(decoded, details.ConnectionDetail)
                found.append(decoded)
    return found


def test_a_flood_of_logins_keeps_nobody_out_who_was_in(beside: Beside, scale: int) -> None:
    broker = beside.broker
    log_in(broker)
    with beside.attack(memory_bytes=128 << 20), ExitStack() as stack:
        for number in range(300 * scale):
            wire = stack.enter_context(Wire(broker.port))
            wire.write(connect_frame(login="joe", passcode=f"guess{number}"))
        assert max(log_in(broker) for _ in range(5)) < LOGIN_SECONDS
        found = status(broker)
        assert found["logins_waiting"] <= 250
        assert found["logins_turned_away"] >= 300 * scale - 260
    # Nothing is hashed for peers that have gone.
    wait_for(lambda: status(broker)["logins_waiting"] == 0, "the end of the queue")
    assert broker.stop() == 0


def test_a_refused_login_says_the_truth_and_can_be_matched(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        assert "wants a login" in wire.connect().headers["message"]
    with Wire(broker.port) as wire:
        refused = wire.connect(login="joe", passcode="wrong")
        why = "login or passcode of 'joe' is wrong; give a valid login and passcode"
        assert refused.headers["message"] == why
    with Wire(broker.port) as wire:
        assert wire.connect(login=SECRET, passcode="x").command == "ERROR"
    assert SECRET not in broker.log_text()
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    [pattern] = re.findall(r"^failregex = (.*)$", page, re.MULTILINE)
    matched = re.findall(
        pattern.replace("<HOST>", r"(?P<host>[\w.:]+)"), broker.log_text(), re.MULTILINE
    )
    assert matched == ["127.0.0.1"] * 3


def test_refused_logins_do_not_fill_the_journal(beside: Beside, scale: int) -> None:
    broker = beside.broker
    long = SECRET + "x" * 8_000
    with beside.attack(memory_bytes=64 << 20):
        for _ in range(400 * scale):
            with Wire(broker.port) as wire:
                wire.write(connect_frame(login="guest", passcode=long))
                wire.write(connect_frame(login=long))
        with Wire(broker.port) as wire:
            assert wire.connect(login=SECRET, passcode="x").command == "ERROR"
        with Wire(broker.port) as wire:
            wire.write(frame("CONNECT", accept_version="9", login=SECRET))
            assert wire.read().command == "ERROR"
    wait_for(lambda: status(broker)["logins_waiting"] == 0, "the end of the queue")
    refused = status(broker)["refusals"]
    assert refused >= 100
    assert broker.stop() == 0
    found = refusals(broker)
    assert 1 <= len(found) <= 8
    assert sum(detail.count for detail in found) == refused
    assert all(len(detail.user) < 60 and len(detail.text) <= 200 for detail in found)
    assert not any(SECRET in str(detail) for detail in found)


def test_refused_logins_write_nothing_on_a_full_disk(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings=["min-disk-free=1024GiB"]) as broker:
        broker.start()
        for _ in range(50):
            with Wire(broker.port) as wire:
                assert wire.connect(login="guest", passcode="wrong").command == "ERROR"
        assert status(broker)["refusals"] == 50
        assert broker.stop() == 0
        assert refusals(broker) == []


@pytest.mark.parametrize("size", [16_000, 900_000])
def test_an_unfinished_connect_costs_little(beside: Beside, scale: int, size: int) -> None:
    """Within what may come before the login, and beyond, where the connection is closed."""
    broker = beside.broker
    log_in(broker)
    before = broker.rss_bytes()
    count = 200
    begun = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:" + b"x" * size
    with beside.attack(memory_bytes=40 << 20), ExitStack() as stack:
        for _ in range(count * scale):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            stranger.settimeout(5)
            with suppress(OSError):
                stranger.sendall(begun)
        time.sleep(0.2)
        assert log_in(broker) < LOGIN_SECONDS
        assert (broker.rss_bytes() - before) / count < 64 * KIB


def test_more_before_the_login_is_an_error(broker: BrokerProcess) -> None:
    begun = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:"
    for data in (b"\n" * 20_000, b"\r\n" * 10_000, begun + b"x" * 20_000):
        with Wire(broker.port) as wire:
            with suppress(ConnectionError):
                wire.write(data)
            assert "max-early-data" in wire.expect("ERROR").body.decode()


def test_what_follows_a_connect_waits_for_it(broker: BrokerProcess) -> None:
    """However much it is: the broker reads no more of it until the login is decided."""
    body = bytes(1000)
    many = b"".join(frame("SEND", body, destination="/queue/early") for _ in range(200))
    with Wire(broker.port) as wire:
        wire.write(connect_frame(login="joe", passcode="right") + many)
        wire.send("SEND", b"", destination="/queue/early", receipt="all")
        wire.expect("CONNECTED")
        wire.expect("RECEIPT")


def test_sockets_that_say_nothing_make_room(beside: Beside) -> None:
    """More than may be pending: who logs in gets in, from the same address."""
    broker = beside.broker
    with beside.attack(), ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            for _ in range(400)
        ]
        wait_for(lambda: status(broker)["connections_dismissed"] >= 140, "those that made room")
        assert log_in(broker) < LOGIN_SECONDS
        idle[0].settimeout(10)
        assert b"have not logged in" in idle[0].recv(4096)


def test_connections_of_an_address_are_bounded(tmp_path: Path) -> None:
    settings = ["max-connections-per-address=3"]
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, ExitStack() as stack:
        broker.start()
        wires = [stack.enter_context(Wire(broker.port)) for _ in range(3)]
        for wire in wires:
            assert wire.connect().command == "CONNECTED"
        with Wire(broker.port) as fourth:
            assert "max-connections-per-address" in fourth.expect("ERROR").headers["message"]
        wires[0].close()
        wait_for(lambda: status(broker)["connections"] == 2, "one that has gone")
        with Wire(broker.port) as fourth:
            assert fourth.connect().command == "CONNECTED"
