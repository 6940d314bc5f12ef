"""Links that a broker passes on over a connector, from end to end between processes.

Rules: Interconnect, chapter 12.2.
"""

from pathlib import Path

import pytest

from tests.interop.connectors.using import (
    QUICK,
    command,
    connector,
    east,
    listed,
    wait_until,
    west,
)

pytestmark = pytest.mark.interop

ROUTES = "".join(
    f'[[link-route]]\nprefix = "remote"\ndirection = "{direction}"\nconnector = "east"\n'
    for direction in ("in", "out")
)


def test_links_are_passed_on_and_end_with_the_connector(tmp_path: Path) -> None:
    with east(tmp_path) as other, west(tmp_path, "") as broker:
        other.start()
        broker.configure(connector(other.port, *QUICK) + ROUTES)
        broker.start()
        wait_until(broker, "open")
        url = ("--url", f"amqp://127.0.0.1:{broker.port}")
        command("send", "remote.q", "passed on", "--count", "3", *url)
        [queue] = listed(other, "queue", "list")
        assert (queue["queue"], queue["ready"]) == ("remote.q", 3)
        assert listed(broker, "queue", "list") == []
        said = command("receive", "remote.q", "--count", "3", "--timeout", "20", *url)
        assert said.count("passed on") == 3
        other.kill()
        wait_until(broker, "waiting")
        refused = command("send", "remote.q", "nobody there", *url, code=1)
        assert "amqp:" in refused or "no" in refused
        assert broker.stop() == 0
