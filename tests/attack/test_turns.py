"""Work that one client asks for beside an honest client, which must not notice."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.attacks.attacks import SCENARIOS, Attack
from bench.attacks.scenarios import Peer, sends
from daybook.client.control import ask
from tests.attack.honest import Beside
from tests.support.process import BrokerProcess, wait_for

TURN_MS = 250.0
"""How long a turn may take, in processor time of a machine that is busy with much else. Before, the
turns of these attacks took from half a second to a minute."""

MUCH_MORE = 12


def status_of(broker: BrokerProcess) -> dict[str, Any]:
    found = ask(broker.data, {"do": "status"})
    assert found is not None
    return found


SLOW = {
    "selective-commits", "temporaries", "duplicates", "retained", "groups", "due-at-once",
    "wildcard-queues", "browsers",
}  # fmt: skip
"""What takes long to prepare; `python -m bench.attack` measures all."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in SCENARIOS],
)
def test_beside(beside: Beside, scale: int, name: str) -> None:
    broker = beside.broker
    with Attack(name, broker.port, broker.data, scale) as attack, beside.attack():
        attack.run()
    assert status_of(broker)["turn_ms_longest"] <= TURN_MS


@pytest.mark.slow
def test_beside_a_very_long_temporary_queue(beside: Beside, scale: int) -> None:
    """So long that emptying it in one go takes seconds, as it once did."""
    broker, much = beside.broker, MUCH_MORE * scale
    with Attack("temporary-queue", broker.port, broker.data, much) as attack, beside.attack():
        attack.run()


def test_a_deletion_goes_on_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        peer = Peer(broker.port)
        for _ in range(20):
            peer.put(sends("/queue/long", 1000))
        peer.do("SEND\ndestination:/queue/long\n\nlast")
        ask(broker.data, {"do": "delete-queue", "queue": "long", "force": True})
        assert status_of(broker)["queues_being_deleted"] == 1
        broker.kill()
        peer.close()
        broker.start()
        other = Peer(broker.port)
        other.do("SEND\ndestination:/queue/long\n\nof another queue")
        other.close()
        wait_for(lambda: not status_of(broker)["queues_being_deleted"], "the rest of the deletion")
        assert status_of(broker)["messages_ready"] == 1
        broker.stop()
    # Fold, digests, index and invariants agree about it.
    proof = [sys.executable, "-m", "daybook.tools.journal_cli", "verify", str(broker.data)]
    assert subprocess.run(proof, check=False).returncode == 0
