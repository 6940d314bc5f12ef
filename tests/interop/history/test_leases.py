"""Leases on a real broker: retention leaves alone what a reader without a process holds."""

import time
from pathlib import Path

from daybook.journal.pins import LEASE_US_MAX, Lease
from tests.crash.retention import first_lsn
from tests.interop.history.test_retention import SETTINGS, drain, leave, send, status
from tests.support.process import BrokerProcess, wait_for


def test_history_stays_as_long_as_the_lease(tmp_path: Path) -> None:
    settings = (*SETTINGS, "journal.retention-max-bytes=100KiB")
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        broker.start()
        lease = Lease(broker.data, "job1")
        assert lease.take(1, time.time_ns() // 1000 + LEASE_US_MAX)
        send(broker, "gone", 0, 120)
        assert len(drain(broker, "gone", 120)) == 120
        wait_for(lambda: "event 1 is being read" in status(broker)["retention_held_back"], "a look")
        assert first_lsn(broker.data) == 1
        # One that has ended, as if nobody had renewed it.
        assert lease.take(1, time.time_ns() // 1000)
        leave(broker)
        assert not lease.renew(time.time_ns() // 1000 + LEASE_US_MAX)
        assert broker.stop() == 0
