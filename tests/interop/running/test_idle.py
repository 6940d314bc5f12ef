"""A broker in which nothing happens leaves the machine alone."""

import time
from pathlib import Path

import pytest

from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

SECONDS = 3.0
WAKE_UPS_MAX = 4.0
"""Of all processes in a second: the ticks of the loop, those of the guard, and looks at files."""


def times_woken(broker: BrokerProcess) -> int:
    """How often the threads of a broker's processes went to sleep so far."""
    woken = 0
    for pid in (broker.process.pid, *broker.children()):
        for status in Path(f"/proc/{pid}/task").glob("*/status"):
            for line in status.read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    woken += int(line.split()[1])
    return woken


def wake_ups(broker: BrokerProcess) -> int:
    """How often it wakes up within `SECONDS`."""
    before = times_woken(broker)
    time.sleep(SECONDS)
    return times_woken(broker) - before


@pytest.mark.parametrize("processes", [3, 1])
def test_an_idle_broker_sleeps(tmp_path: Path, processes: int) -> None:
    with BrokerProcess(tmp_path / "data", processes=processes) as broker:
        broker.start()
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SEND", b"1", destination="/queue/work", persistent="true", receipt=1)
            wire.expect("RECEIPT")
        wait_for(lambda: wake_ups(broker) <= WAKE_UPS_MAX * SECONDS, "a broker that sleeps")
        # It wakes up for new connections.
        with Wire(broker.port) as wire:
            wire.connect()
            wire.send("SUBSCRIBE", id=1, destination="/queue/work", ack="auto")
            assert wire.expect("MESSAGE").body == b"1"
        assert broker.stop() == 0
