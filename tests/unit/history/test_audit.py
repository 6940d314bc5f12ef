"""Planted faults: in journals whose checksums and chain are right, an audit names the event."""

import time
from pathlib import Path

import pytest

from daybook.history.audit.running import Audit, audit_piece, joined, tasks
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.tools.verification import verify_data
from tests.support.breaches import BREACHES, Planter, queue_left_out
from tests.support.histories import write_history

SECOND = 1_000_000


def audited(data: Path, after: int = 0, last: int = 0) -> Audit:
    """Audit a data directory, in this process."""
    disk = RealDisk(data / JOURNAL)
    last = last or verify_data(disk, lambda _: None).report.last_lsn
    now = time.time_ns() // 1000
    found = tasks(data, disk, after, last, processes=1, now=now, tolerance=SECOND)
    return joined([audit_piece(task, disk) for task in found])


@pytest.mark.parametrize("planter", BREACHES, ids=lambda planter: planter.__name__)
def test_a_planted_breach_is_found_and_proven(planter: Planter, tmp_path: Path) -> None:
    planted = planter()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    found = audited(data)
    first = found.breaches[0]
    assert (first.rule, first.lsn) == (planted.rule, planted.lsn)
    assert planted.lsn in first.lsns
    assert found.breach_count == len(found.breaches) <= 2
    assert not found.is_clean


def test_verify_does_not_see_a_queue_that_was_left_out(tmp_path: Path) -> None:
    """Why there is an audit: bytes, fold and invariants are right."""
    planted = queue_left_out()
    data = write_history(tmp_path / "data", planted.history, cuts=planted.ends)
    assert verify_data(RealDisk(data / JOURNAL), lambda _: None).ok
