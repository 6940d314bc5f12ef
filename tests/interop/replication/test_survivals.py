"""The node that leads next has more than small messages, and a client of others finds it by a list
of hosts."""

import json
import queue
import subprocess
from pathlib import Path
from typing import Any

import stomp  # type: ignore[import-untyped]

from tests.interop.replication.nodes import FAILOVER_SECONDS, ANode, Client, running
from tests.interop.using import sent
from tests.support.process import DAYBOOK, wait_for

LARGE = bytes(range(256)) * 1_200


def said(node: ANode, *words: str) -> Any:
    """Return what a command answers about a node that leads."""
    command = [DAYBOOK, *words, "--data", str(node.data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_large_messages_ids_settings_and_pauses_survive_the_leader(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        wire = client.connected()
        first = cluster.wait_for_leader()
        sent(wire, "/queue/large", LARGE)
        sent(wire, "/queue/once", b"it", _AMQ_DUPL_ID="42")
        said(first, "queue", "pause", "once")
        said(first, "settings", "set", "large", "max-delivery-attempts=7")
        first.kill()
        client.lose()
        wire = client.connected()
        second = cluster.wait_for_leader(other_than=first.name)
        sent(wire, "/queue/once", b"it", _AMQ_DUPL_ID="42")
        (shown,) = said(second, "queue", "list", "--search", "once")
        assert (shown["ready"], shown["paused"]) == (1, True)
        rows = said(second, "settings", "show", "large")["settings"]
        values = {each["key"]: each["value"] for each in rows}
        assert values["max-delivery-attempts"] == 7
        wire.send("SUBSCRIBE", id="s", destination="/queue/large", ack="client-individual")
        assert wire.expect("MESSAGE").body == LARGE


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """What stomp.py hands over."""

    def __init__(self) -> None:
        self.receipts: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.bodies: queue.SimpleQueue[str] = queue.SimpleQueue()

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_message(self, frame: Any) -> None:
        self.bodies.put(frame.body)


def test_a_client_with_a_list_of_hosts_finds_each_leader(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        hosts = [("127.0.0.1", port) for port in cluster.ports.values()]

        def connected() -> tuple[stomp.Connection12, Heard]:
            connection, heard = stomp.Connection12(hosts, reconnect_attempts_max=1), Heard()
            connection.set_listener("", heard)
            connection.connect("guest", "guest", wait=True)
            return connection, heard

        def tried() -> tuple[stomp.Connection12, Heard] | None:
            try:
                return connected()
            except (stomp.exception.StompException, OSError):
                # A broker that begins or ends in this moment.
                return None

        other_than = ""
        for number in range(2):
            connection, heard = wait_for(tried, "a leader for stomp.py", FAILOVER_SECONDS)
            connection.send("/queue/q", str(number), receipt=str(number))
            assert heard.receipts.get(timeout=FAILOVER_SECONDS) == str(number)
            leader = cluster.wait_for_leader(other_than=other_than)
            if not number:
                leader.kill()
                other_than = leader.name
        connection.subscribe("/queue/q", "s")
        assert [heard.bodies.get(timeout=FAILOVER_SECONDS) for _ in range(2)] == ["0", "1"]
        connection.disconnect()
