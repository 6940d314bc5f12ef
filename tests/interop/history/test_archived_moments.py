"""The broker as it was at moments that have left its journal: from snapshots that it archived."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.journal.blocks.format import manifest_name, snapshot_name
from daybook.journal.disk import RealDisk
from daybook.paging.snapshots.archived_snapshots import archived_lsns
from daybook.tools.journal_cli import cli
from tests.crash.retention import first_lsn
from tests.interop.history.test_time_travel import FIGURES, quiet_moment
from tests.interop.using import connected, sent
from tests.support.process import BrokerProcess, wait_for

pytestmark = pytest.mark.interop

CONFIG = """
[journal]
snapshot-every = "16KiB"
archive-snapshot-every = "16KiB"
segment-bytes = "64KiB"
retention-scan-period = 100
retention-max-bytes = "200KiB"
archive-directory = "{archive}"
"""
ROUNDS = 3
MESSAGES = 100
BODY_BYTES = 10_000


def journal(broker: BrokerProcess, *words: str, code: int = 0) -> tuple[str, str]:
    """Run a command on the history of a broker and its archive; return its output and errors."""
    archive = broker.data.with_name("archive")
    command = [*words, "--data", str(broker.data), "--archive", str(archive)]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout, done.stderr


def queues_at(broker: BrokerProcess, lsn: int) -> tuple[list[dict[str, Any]], str]:
    told, errors = journal(broker, "inspect", "--at", str(lsn), "--json")
    rows = json.loads(told)["list_of_queues"]
    return [{key: row[key] for key in FIGURES} for row in rows], errors


def work(broker: BrokerProcess, number: int) -> None:
    """Let messages come and go, until so much is journaled that a snapshot is due; keep a few."""
    with connected(broker) as wire, connected(broker) as consumer:
        consumer.send("SUBSCRIBE", id="s", destination="/queue/flow", ack="auto")
        for body in range(MESSAGES):
            sent(wire, "/queue/flow", Random(number * MESSAGES + body).randbytes(BODY_BYTES))
            consumer.expect("MESSAGE")
        for body in range(5 + number):
            sent(wire, f"/queue/kept{number}", b"%d" % body)


def test_old_moments_are_told_from_archived_snapshots(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    shelf = RealDisk(archive)
    with BrokerProcess(tmp_path / "data", config=CONFIG.format(archive=archive)) as broker:
        broker.start()
        remembered: list[tuple[int, list[dict[str, Any]]]] = []
        for number in range(ROUNDS):
            work(broker, number)
            remembered.append(quiet_moment(broker))
            broker.kill()
            broker.start()
        wait_for(lambda: first_lsn(broker.data) > remembered[1][0], "history to leave")
        wait_for(lambda: archived_lsns(shelf), "archived snapshots")
        assert queues_at(broker, remembered[0][0]) == (remembered[0][1], "")
        assert broker.stop() == 0
    assert "retention" not in [json.loads(line)["part"] for line in warnings_of(broker)]
    # Without those that the indexer has not removed yet it is the same.
    shutil.rmtree(broker.data / "snapshots")
    for lsn, rows in remembered:
        assert queues_at(broker, lsn) == (rows, "")
    change, _ = journal(broker, "diff", str(remembered[0][0]), str(remembered[2][0]), "--json")
    new = [row["queue"] for row in json.loads(change)["queues"]["new"]]
    assert new == ["kept1", "kept2"]
    journal(broker, "fork", str(tmp_path / "fork"), "--at", str(remembered[1][0]))
    assert "snapshots: " in journal(broker, "verify", "--index")[0]
    listed = json.loads(journal(broker, "archive", "list", "--json")[0])
    assert [each["lsn"] for each in listed["snapshots"]] == archived_lsns(shelf)[::-1]

    newest = max(lsn for lsn in archived_lsns(shelf) if lsn <= remembered[1][0])
    path = archive / snapshot_name(newest)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    rows, errors = queues_at(broker, remembered[1][0])
    assert rows == remembered[1][1]
    assert f"{path.name} is passed over" in errors
    assert path.name in journal(broker, "archive", "verify", code=1)[0]
    assert path.name in journal(broker, "verify", "--index", code=6)[0]
    path.unlink()
    (archive / manifest_name(path.name)).unlink()
    assert "intact" in journal(broker, "archive", "verify")[0]
    assert queues_at(broker, remembered[1][0]) == (remembered[1][1], "")


def warnings_of(broker: BrokerProcess) -> list[str]:
    lines = broker.log_text().splitlines()
    return [line for line in lines if line.startswith("{") and '"warning"' in line]
