"""`daybook drill failover` on real nodes: a sound release passes, planted mistakes are found.

A plant is Python that is carried out in the processes of each node and broker before they serve.
"""

import signal
import subprocess
from pathlib import Path

import pytest

from daybook.tools.drills.failover import drill
from daybook.tools.drills.failover.drill import Asked
from daybook.tools.drills.failover.mishaps import HandedOver, LostBroker, LostData, Mishap, Stopped
from daybook.tools.drills.reports.report import Report
from daybook.tools.drills.scratch import broker
from tests.crash.test_drills import AFTER_THE_FOLD, CONFIG, SERVES, started, those_with
from tests.support.histories import some_history, write_history
from tests.support.nursery import WITH_CODE
from tests.support.process import wait_for

pytestmark = pytest.mark.crash

LEASE_MS = 10_000
"""So long that a busy machine keeps it."""
CONFIRMS_TOO_EARLY = """
import time
from daybook.replication.node import Node, Role
from daybook.replication.quorum import Quorum
Quorum.followers_needed = property(lambda self: 0)
send, tick, sent = Node._send_parts, Node.tick, {}
def send_late(self, node, shipment):
    # Followers without any event would elect nobody, so that nothing is seen to be lost.
    if not self.shipments[node].acked or time.monotonic() - sent.get(node, 0.0) > 3.0:
        sent[node] = time.monotonic()
        send(self, node, shipment)
def tick_and_send(self, now):
    tick(self, now)
    for node, shipment in list(self.shipments.items()) if self.role is Role.LEADING else ():
        if shipment.is_joined:
            self._send_parts(node, shipment)
Node._send_parts, Node.tick = send_late, tick_and_send
"""
ENDS_AFTER_ITS_LEAD = """
import os
from daybook.replication.runner import Runner
Runner._follow_again = lambda self: os._exit(3)
"""
COUNTS_AFRESH = AFTER_THE_FOLD.format(harm="entry.delivery_count = 0")


def rehearse(
    monkeypatch: pytest.MonkeyPatch, folder: Path, kinds: tuple[type[Mishap], ...], harm: str = "",
    data: Path | None = None,
) -> Report:  # fmt: skip
    """Run the drill with some mishaps, one of each."""
    monkeypatch.setattr(drill, "MISHAPS", kinds)
    if harm:
        monkeypatch.setattr(broker, "PROGRAM", (*WITH_CODE, f"{harm}\n{SERVES}"))
    file = folder / "broker.toml"
    file.write_text(CONFIG, "utf-8")
    return drill.run(
        Asked(data, file, len(kinds), 10.0, 5, "majority", LEASE_MS, keep=folder / "scratch")
    )


def test_a_sound_release_passes_on_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_history(tmp_path / "data", some_history(3, 700), segment_bytes=1 << 18)
    before = {each: each.read_bytes() for each in data.rglob("*") if each.is_file()}
    report = rehearse(monkeypatch, tmp_path, (Mishap, LostData, HandedOver), data=data)
    assert report.findings == []
    assert report.right
    assert [each.right for each in report.tried] == [1, 1, 1, 1]
    assert "an empty node caught up" in report.figures
    assert all(each.count for each in report.spreads), report.spreads
    assert {each: each.read_bytes() for each in before} == before
    assert those_with(str(tmp_path / "scratch")) == []


PLANTED: dict[str, tuple[type[Mishap], str, str]] = {
    "confirms-too-early": (Mishap, CONFIRMS_TOO_EARLY, "P1"),
    "ends-after-its-lead": (LostBroker, ENDS_AFTER_ITS_LEAD, "P8"),
    "counts-afresh-after-its-start": (Stopped, COUNTS_AFRESH, "P5"),
}
"""The mishap that shows a mistake, the mistake, and the promise that it breaks."""


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_of_a_cluster_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    kind, harm, promise = PLANTED[mistake]
    for attempt in range(3):
        (folder := tmp_path / str(attempt)).mkdir()
        report = rehearse(monkeypatch, folder, (kind,), harm)
        if not report.right:
            break
        # On a busy machine a kill may come in a moment at which the mistake does no harm.
    assert not report.right
    assert report.findings[0].promise == promise, report.findings
    assert "daybook drill failover" in report.findings[0].again


def test_a_drill_that_is_told_to_end_leaves_no_node(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with started(scratch, "failover") as process:
        wait_for(lambda: len(list(scratch.glob("*/?/node.sock"))) == 3, "three nodes")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 128 + signal.SIGTERM
    assert those_with(str(scratch)) == []
    assert list(scratch.iterdir()) == []


def test_without_etcd_the_drill_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = subprocess.run(
        [broker.PROGRAM[0], "-P", "-m", "daybook", "drill", "failover", "--arbiter", "etcd"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 1
    assert "etcd is not installed here" in said.stderr
