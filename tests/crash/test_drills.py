"""The campaigns of `daybook drill` on real brokers: sound ones pass, planted mistakes are found.

A plant is Python that is carried out in the process of the broker before it serves.
"""

import sys
from pathlib import Path

import pytest

from daybook.tools.drills import broker, campaigns, hardships
from daybook.tools.drills.campaigns import Asked
from daybook.tools.drills.shape import Report

pytestmark = pytest.mark.crash

CONFIG = """
[broker]
processes = 1
min-disk-free = "0"
[journal]
segment-bytes = "256KiB"
idle-mark-delay = 100
[[address-setting]]
match = "#"
max-delivery-attempts = 7
"""


def drill(folder: Path, name: str, rounds: int, seed: int = 5) -> Report:
    file = folder / "broker.toml"
    file.write_text(CONFIG, "utf-8")
    return campaigns.run(Asked(name, file, rounds, 5.0, seed, 5.0, folder / "scratch"))


@pytest.mark.parametrize("name", ["kill", "power-cut", "slow-disk", "disk-full"])
def test_a_sound_release_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setattr(hardships, "ROOM_BYTES", 2 << 20)
    report = drill(tmp_path, name, 1, seed)
    assert report.findings == []
    assert report.right
    assert report.configuration["journal.segment-bytes"] == 256 * 1024
    assert all(each.count for each in report.spreads), report.spreads
    assert report.could_not


AFTER_THE_FOLD = """
from daybook.recovery import directory
real = directory.fold_journal
def fold_journal(disk, last_lsn, state, *rest):
    found = real(disk, last_lsn, state, *rest)
    for queue in state.queues.values():
        for entry in list(queue.entries.values()):
            {harm}
    return found
directory.fold_journal = fold_journal
"""
LOSES_SYNCS = """
from daybook.tools.drills.noting import NotingFile
NotingFile.fdatasync = lambda self: self._notes.delay()
"""
ANSWERS_EARLY = """
from daybook.server.outbox import Outbox
real = Outbox.put
Outbox.put = lambda self, outlet, parts, gate: real(self, outlet, parts, 0)
"""
FLAGS_NOTHING = """
from daybook.protocols.stomp.subscription import Subscription
real = Subscription.deliver
Subscription.deliver = lambda self, message, count, flagged, gate: real(self, message, 1, 0, gate)
"""
DAMAGES_BODIES = """
from daybook.protocols.stomp.subscription import Subscription
real = Subscription.deliver
def deliver(self, message, count, flagged, gate):
    if len(message.body) > 1000:
        message.body = message.body[:-7] + b"garbage"
    return real(self, message, count, flagged, gate)
Subscription.deliver = deliver
"""
DIES_BY_ITSELF = """
import os, threading
threading.Timer(2, lambda: os._exit(3)).start()
"""
CUTS_TOO_MUCH = """
from daybook.journal import journal
real = journal.find_tail
def find_tail(segment, *given, **named):
    found = segment.block_at
    def block_at(offset, **flags):
        block = found(offset, **flags)
        if offset > segment.first_offset:
            found(offset + block.header.block_bytes, **flags)
        return block
    segment.block_at = block_at
    return real(segment, *given, **named)
journal.find_tail = find_tail
"""
COUNTS_AFRESH = AFTER_THE_FOLD.format(harm="entry.delivery_count = 0")
PLANTS = [
    ("kill", "counts-afresh", COUNTS_AFRESH),
    ("kill", "flags-nothing", FLAGS_NOTHING),
    ("kill", "damages-bodies", DAMAGES_BODIES),
    ("kill", "dies-by-itself", DIES_BY_ITSELF),
    ("kill", "cuts-too-much", CUTS_TOO_MUCH),
    ("power-cut", "loses-syncs", LOSES_SYNCS),
    ("power-cut", "answers-early", ANSWERS_EARLY),
    ("power-cut", "flags-nothing", FLAGS_NOTHING),
    ("power-cut", "counts-afresh", COUNTS_AFRESH),
    ("power-cut", "cuts-too-much", CUTS_TOO_MUCH),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plant"),
    [each[::2] for each in PLANTS],
    ids=[f"{each[0]}-{each[1]}" for each in PLANTS],
)
def test_a_planted_mistake_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, plant: str
) -> None:
    program = f"{plant}\nfrom daybook.tools.drills.serving import main\nmain()"
    monkeypatch.setattr(broker, "PROGRAM", (sys.executable, "-P", "-c", program))
    report = drill(tmp_path, name, 4)
    assert not report.right
    assert report.findings[0].promise != "drill", report.findings
    assert f"daybook drill {name}" in report.findings[0].again
