"""The console that a broker starts: it lives as long as its broker, and dies alone."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.brokers.ports import free_port
from tests.interop.console.test_tls import NAMES, served_by
from tests.interop.running.test_probe import LISTEN, metrics
from tests.interop.using import daybook, status
from tests.support import nursery
from tests.support.brokers.certificates import Authority
from tests.support.console import Browser
from tests.support.process import DAYBOOK, BrokerProcess, wait_for

pytestmark = pytest.mark.interop


class Place:
    """Where a console is."""

    def __init__(self, url: str) -> None:
        self.url = url


def section(port: int) -> str:
    return f'[console]\nlisten = "http://127.0.0.1:{port}"\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", config=section(0)) as made:
        yield made.start()


def told(broker: BrokerProcess) -> dict[str, Any]:
    """Return the status, when the console is ready."""
    found: dict[str, Any] = wait_for(
        lambda: (now := status(broker)).get("console") and now, "the console", every=0.2
    )
    return found


def is_listening(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


def test_it_serves_users_and_ends_with_the_broker(broker: BrokerProcess) -> None:
    url = told(broker)["console"]
    browser = Browser(Place(url))  # type: ignore[arg-type]
    assert "No problems" in browser.log_in("guest", "guest").words
    pid = told(broker)["console_pid"]
    assert os.getpriority(os.PRIO_PROCESS, pid) >= 5
    assert broker.stop() == 0
    assert not is_listening(url)
    assert not Path(f"/proc/{pid}").exists()


def test_it_calls_the_broker_by_its_name(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    broker.configure(f'[broker]\nname = "orders"\n{section(0)}')
    broker.start()
    browser = Browser(Place(told(broker)["console"]))  # type: ignore[arg-type]
    assert "orders" in browser.log_in("guest", "guest").words
    assert "orders" in browser.get("/b/orders").words


def test_it_is_started_again_and_its_death_is_a_warning(broker: BrokerProcess) -> None:
    first = told(broker)["console_pid"]
    os.kill(first, signal.SIGKILL)

    def health() -> Any:
        words = [DAYBOOK, "health", "--data", str(broker.data)]
        done = nursery.run(words, capture_output=True, check=False, text=True)
        return done if "console" in done.stdout else None

    done = wait_for(health, "the warning")
    assert done.stdout == "warning: console: it was ended by SIGKILL\n"
    assert done.returncode == 0
    wait_for(lambda: status(broker).get("console_pid") not in (None, first), "another one")
    assert any(each.get("work") == "console" for each in broker.lines())
    told(broker)


def test_a_broker_that_is_killed_takes_it_along(broker: BrokerProcess) -> None:
    port = int(told(broker)["console"].rpartition(":")[2])
    broker.kill()
    wait_for(lambda: not is_listening(f":{port}"), "the end of the console")
    broker.configure(section(port))
    broker.start()
    assert told(broker)["console"].endswith(f":{port}")


def test_a_reload_starts_moves_and_ends_it(broker: BrokerProcess) -> None:
    first = told(broker)["console"]
    port = free_port()
    broker.configure(section(port))
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: status(broker).get("console", "").endswith(f":{port}"), "the other port")
    assert not is_listening(first)
    broker.configure("")
    broker.send_signal(signal.SIGHUP)
    wait_for(lambda: "console" not in status(broker), "the end")
    wait_for(lambda: not is_listening(f":{port}"), "the end of the process")
    broker.configure(section(0))
    broker.send_signal(signal.SIGHUP)
    told(broker)


def test_it_reads_its_certificate_again_and_the_broker_knows_its_dates(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "certificates")
    certificate = authority.issue(*NAMES)
    config = (
        f'[console]\nlisten = "https://127.0.0.1:0"\ncertificate = "{certificate}"\n'
        f'private-key = "{certificate}"\n'
    )
    with BrokerProcess(tmp_path / "data", config=config, listen=LISTEN) as broker:
        broker.start()
        known = wait_for(lambda: (now := status(broker)).get("console") and now, "the console")
        url, first = known["console"], served_by(known["console"], authority)
        row = json.loads(daybook(broker, "acceptor", "list", "--json"))[-1]
        assert (row["acceptor"], row["tls"], row["connections"]) == ("[console]", True, None)
        assert row["names"] == list(NAMES)
        assert row["days_left"] > 14
        assert "[console]" in daybook(broker, "acceptor", "list")
        metric = 'daybook_certificate_expiry_timestamp_seconds{acceptor="[console]"}'
        assert metrics(broker)[metric] == pytest.approx(row["expires"] / 1000, abs=1)
        browser = Browser(Place(url), authority.trusting())  # type: ignore[arg-type]
        browser.log_in("guest", "guest")
        assert "[console]" in browser.get("/b/data/list/acceptors").words
        authority.issue(*NAMES, "console.example")
        broker.send_signal(signal.SIGHUP)
        wait_for(lambda: served_by(url, authority) != first, "the renewed certificate")
        assert status(broker)["console_pid"] == known["console_pid"]
        assert "[console]" in browser.get("/b/data/list/acceptors").words, "the session stays"
        assert "console.example" in daybook(broker, "acceptor", "list", "--json")
        assert status(broker)["certificates_expiring"] == []
        broker.stop()
        authority.issue(*NAMES, expired=True)
        broker.start()
        (expiring,) = wait_for(lambda: status(broker)["certificates_expiring"], "the date")
        assert expiring["acceptor"] == "[console]"
        assert "the certificate of the console expired on 2001-01-10" in daybook(broker, "health")


def test_a_console_that_cannot_listen_says_why(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with BrokerProcess(tmp_path / "data", config=section(port)) as broker:
            broker.start()

            def trouble() -> str:
                rows = status(broker)["background"]
                return next((each["trouble"] for each in rows if each["name"] == "console"), "")

            why = wait_for(trouble, "the trouble", every=0.2)
            assert f"cannot listen at http://127.0.0.1:{port}: Address already in use" in why
