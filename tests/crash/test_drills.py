"""The campaigns of `daybook drill` on real brokers: sound ones pass, planted mistakes are found.

A plant is Python that is carried out in the process of the broker before it serves. It must do
harm that does not depend on where a kill happens: one block less may be one that nobody was told
of, eight blocks are not.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from daybook.recovery.signing.signing_keys import make_pair
from daybook.tools import journal_cli
from daybook.tools.drills.campaigns import drills, hardships
from daybook.tools.drills.campaigns.drills import Asked
from daybook.tools.drills.clients import witness
from daybook.tools.drills.reports.report import Report
from daybook.tools.drills.scratch import broker
from daybook.tools.drills.scratch.server import Serving
from tests.support.histories import some_history, write_history
from tests.support.nursery import WITH_CODE, Nursling, nursery
from tests.support.process import DAYBOOK, wait_for

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


SERVES = "from daybook.tools.drills.scratch.server import main\nmain()"
BEFORE_IMPORTS = {"disk-full-loses-a-piece"}
"""Mistakes in what other modules import by name: they must be there before those are loaded."""


def fork(command: Sequence[str], *, start_new_session: bool, stdin: int, **how: Any) -> Nursling:
    """Fork a drill's broker from the nursery, which is its parent then: it ends with that."""
    place = nursery()
    assert place is not None
    serving = replace(msgspec.json.decode(command[-1], type=Serving), starter=place.pid)
    return place.start([*command[:-1], msgspec.json.encode(serving).decode()], **how)


def plant(monkeypatch: pytest.MonkeyPatch, harm: str, *, forks: bool) -> None:
    """Let a drill's broker carry out a plant before it serves, in a fork or by an interpreter."""
    monkeypatch.setattr(broker, "PROGRAM", (*WITH_CODE, f"{harm}\n{SERVES}"))
    if forks:
        made = SimpleNamespace(**{**vars(subprocess), "Popen": fork})
        monkeypatch.setattr(broker, "subprocess", made)


def drill(folder: Path, name: str, rounds: int, seed: int = 5, protocol: str = "stomp") -> Report:
    file = folder / "broker.toml"
    file.write_text(CONFIG, "utf-8")
    return drills.run(Asked(name, file, rounds, 5.0, seed, 5.0, folder / "scratch", protocol))


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("kill", "both"), ("power-cut", "stomp"), ("power-cut", "amqp"), ("slow-disk", "stomp"),
        ("slow-disk", "amqp"), ("disk-full", "stomp"), ("disk-full", "amqp"),
    ],
)  # fmt: skip
def test_a_sound_release_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, protocol: str, seed: int
) -> None:
    monkeypatch.setattr(hardships, "ROOM_BYTES", 1 << 20)
    monkeypatch.setattr(hardships, "MORE_BYTES", 1 << 19)
    plant(monkeypatch, "", forks=True)
    check_sound(drill(tmp_path, name, 1, seed, protocol))
    # The broker's output has room, and is left, also where its data had none.
    assert (tmp_path / "scratch" / "broker.out").read_text("utf-8").startswith("ready ")
    assert (tmp_path / "scratch" / "broker.log").stat().st_size


def check_sound(report: Report) -> None:
    assert report.findings == []
    assert report.right
    assert report.configuration["journal.segment-bytes"] == 256 * 1024
    assert all(each.count for each in report.spreads), report.spreads
    assert report.could_not


SIGNING = """signing-key = "{folder}/signing.pem"
anchors = ["file:{folder}/anchors", "log"]
checkpoint-period = 100
"""


def test_a_sound_release_is_killed_and_its_operator_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The broker signs as the operator's does, and nothing of it reaches key, anchors or
    supervisor."""
    folder = tmp_path / "production"
    folder.mkdir()
    make_pair(folder / "signing.pem")
    config = folder / "broker.toml"
    signing = SIGNING.format(folder=folder)
    config.write_text(CONFIG.replace("[journal]\n", "[journal]\n" + signing), "utf-8")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    scratch = tmp_path / "scratch"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        report = drills.run(Asked("kill", config, 1, 5.0, seed, keep=scratch))
        with pytest.raises(BlockingIOError):
            supervisor.recv(100)
    check_sound(report)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    words = [scratch / "data", "--public-key", scratch / "drill-signing.pem.pub"]
    words += ["--anchor", scratch / "drill-anchors"]
    done = CliRunner().invoke(journal_cli.cli, ["verify", *map(str, words)])
    assert done.exit_code == 0, done.output
    assert "anchored up to event" in done.output


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
from daybook.tools.drills.disks.undo_log import NotingFile
NotingFile.fdatasync = lambda self: self._notes.delay()
"""
ANSWERS_EARLY = """
from daybook.server.hub.outbox import Outbox
real = Outbox.put
Outbox.put = lambda self, outlet, parts, gate: real(self, outlet, parts, 0)
"""
FLAGS_NOTHING = """
from daybook.protocols.stomp.subscription import Subscription
real = Subscription.deliver
Subscription.deliver = lambda self, message, count, flagged, gate: real(self, message, 1, 0, gate)
"""
AMQP_FLAGS_NOTHING = """
from daybook.protocols.amqp.outgoing import Outgoing
real = Outgoing.deliver
Outgoing.deliver = lambda self, message, count, marks, gate: real(self, message, 1, 0, gate)
"""
AMQP_FORGETS_MESSAGES = """
from daybook.protocols.amqp.incoming import Incoming
real = Incoming._send
count = [0]
def _send(self, message, *given):
    send = real(self, message, *given)
    count[0] += 1
    send.persistent = count[0] % 10 != 0
    return send
Incoming._send = _send
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
            after = offset
            for _ in range(8):
                after += found(after, **flags).header.block_bytes
        return block
    segment.block_at = block_at
    return real(segment, *given, **named)
journal.find_tail = find_tail
"""
COUNTS_AFRESH = AFTER_THE_FOLD.format(harm="entry.delivery_count = 0")
KNOWS_A_SYNC = """
import os, threading, time
from daybook.server.hub.hub import Hub
from daybook.tools.drills.disks.undo_log import NotingFile
since = [0.0]
sync = NotingFile.fdatasync
def fdatasync(self):
    since[0] = time.monotonic()
    sync(self)
    since[0] = 0.0
NotingFile.fdatasync = fdatasync
def is_slow():
    return since[0] and time.monotonic() - since[0] > 0.5
"""
WAITS_FOR_SYNCS = (
    KNOWS_A_SYNC
    + """
real = Hub.tick
def tick(self):
    while is_slow():
        time.sleep(0.01)
    real(self)
Hub.tick = tick
"""
)
BEATS_AFTER_SYNCS = (
    KNOWS_A_SYNC
    + """
from daybook.server.hub.deadlines import Deadlines
real = Deadlines.due
Deadlines.due = lambda self, now: () if is_slow() else real(self, now)
"""
)
DROPS_WHO_WAITS = (
    KNOWS_A_SYNC
    + """
real = Hub.tick
def tick(self):
    for peer in list(self.peers) if is_slow() else ():
        peer.transport.close(0)
    real(self)
Hub.tick = tick
"""
)
DIES_OF_A_SLOW_SYNC = (
    KNOWS_A_SYNC
    + """
real = Hub.tick
def tick(self):
    if is_slow():
        os._exit(3)
    real(self)
Hub.tick = tick
"""
)
WRITES_WITHOUT_ROOM = """
import os, time
from daybook.journal.errors import DiskFull
from daybook.journal.writing.writer import WriterCore
real = WriterCore.append
def append(self, batch):
    try:
        real(self, batch)
    except DiskFull:
        self.report_space()
        {harm}
WriterCore.append = append
"""
ANSWERS_UNWRITTEN = WRITES_WITHOUT_ROOM.format(
    harm="self.journal.next_lsn = self.journal._encode(batch).header.last_lsn + 1"
)
DIES_WITHOUT_ROOM = WRITES_WITHOUT_ROOM.format(harm="os._exit(3)")
HANGS_WITHOUT_ROOM = """
import time
from daybook.server.monitoring.disk_watch import DiskWatch
real = DiskWatch.no_segment
def no_segment(self, full):
    real(self, full)
    time.sleep(1000)
DiskWatch.no_segment = no_segment
"""
NEVER_RESUMES = """
from daybook.server.monitoring.disk_watch import DiskWatch
DiskWatch.has_segment = lambda self: None
"""
NEVER_RETRIES = WRITES_WITHOUT_ROOM.format(harm="time.sleep(1000)")
LOSES_A_PIECE = """
from msgspec.structs import replace
from daybook.engine.routing import chunks
from daybook.engine.refusals import Refusal
real = chunks.take_chunk
waited = set()
def take_chunk(core, command):
    if command.send.connection in waited and not core.room.disk_full:
        command = replace(command, body=command.body[:-10] + b"not those.")
    taken = real(core, command)
    if isinstance(taken, Refusal) and core.room.disk_full:
        waited.add(command.send.connection)
    return taken
chunks.take_chunk = take_chunk
"""
STARTS_NOT_WHEN_FULL = """
from daybook.journal.journal import Journal
from daybook.journal.errors import DiskFull
real = Journal.open.__func__
def open(cls, *given, **named):
    journal, repair = real(cls, *given, **named)
    journal.reserve()
    assert journal.disk_full is None
    return journal, repair
Journal.open = classmethod(open)
"""
WHEN_REBUILT = """
from daybook.errors import DaybookError
from daybook.recovery import checkpoint, directory
from daybook.recovery.directory import RecoveryError
renewed = []
renew = checkpoint._renew
def _renew(path, disk, data_id, why, notice):
    if why:
        renewed.append(why)
        {before}
    renew(path, disk, data_id, why, notice)
checkpoint._renew = _renew
real = directory.fold_journal
def fold_journal(disk, last_lsn, state, *rest):
    found = real(disk, last_lsn, state, *rest)
    for queue in state.queues.values() if renewed else ():
        {after}
    return found
directory.fold_journal = fold_journal
"""
BELIEVES_A_TORN_INDEX = WHEN_REBUILT.format(before="pass", after="queue.added += 1")
FORGETS_WITHOUT_INDEX = WHEN_REBUILT.format(before="pass", after="queue.entries.clear()")
NEEDS_ITS_INDEX = WHEN_REBUILT.format(before="raise RecoveryError(why)", after="pass")
REBUILDS_IN_SILENCE = WHEN_REBUILT.format(before="notice = lambda text: None", after="pass")
READS_A_TORN_INDEX = """
from daybook.recovery import checkpoint, directory
directory.suspect = lambda *given: ""
checkpoint._why_not = lambda *given: ""
"""
OF_THE_INDEX = {
    BELIEVES_A_TORN_INDEX, FORGETS_WITHOUT_INDEX, NEEDS_ITS_INDEX, REBUILDS_IN_SILENCE,
    READS_A_TORN_INDEX,
}  # fmt: skip
"""Mistakes that the first start after a crash shows: before the last start, derived files are
always damaged."""
PLANTS = [
    ("kill", "counts-afresh", COUNTS_AFRESH),
    ("kill", "flags-nothing", FLAGS_NOTHING),
    ("kill", "flags-nothing-over-amqp", AMQP_FLAGS_NOTHING),
    ("kill", "forgets-messages-over-amqp", AMQP_FORGETS_MESSAGES),
    ("kill", "damages-bodies", DAMAGES_BODIES),
    ("kill", "dies-by-itself", DIES_BY_ITSELF),
    ("kill", "cuts-too-much", CUTS_TOO_MUCH),
    ("kill", "believes-a-torn-index", BELIEVES_A_TORN_INDEX),
    ("kill", "forgets-without-index", FORGETS_WITHOUT_INDEX),
    ("kill", "needs-its-index", NEEDS_ITS_INDEX),
    ("kill", "rebuilds-in-silence", REBUILDS_IN_SILENCE),
    ("kill", "does-not-judge-its-index", READS_A_TORN_INDEX),
    ("power-cut", "believes-a-torn-index", BELIEVES_A_TORN_INDEX),
    ("power-cut", "loses-syncs", LOSES_SYNCS),
    ("power-cut", "answers-early", ANSWERS_EARLY),
    ("power-cut", "flags-nothing", FLAGS_NOTHING),
    ("power-cut", "counts-afresh", COUNTS_AFRESH),
    ("power-cut", "cuts-too-much", CUTS_TOO_MUCH),
    ("slow-disk", "answers-early", ANSWERS_EARLY),
    ("slow-disk", "waits-for-syncs", WAITS_FOR_SYNCS),
    ("slow-disk", "beats-after-syncs", BEATS_AFTER_SYNCS),
    ("slow-disk", "drops-who-waits", DROPS_WHO_WAITS),
    ("slow-disk", "dies-of-a-slow-sync", DIES_OF_A_SLOW_SYNC),
    ("disk-full", "answers-unwritten", ANSWERS_UNWRITTEN),
    ("disk-full", "dies-without-room", DIES_WITHOUT_ROOM),
    ("disk-full", "hangs-without-room", HANGS_WITHOUT_ROOM),
    ("disk-full", "never-resumes", NEVER_RESUMES),
    ("disk-full", "never-retries", NEVER_RETRIES),
    ("disk-full", "loses-a-piece", LOSES_A_PIECE),
    ("disk-full", "starts-not-when-full", STARTS_NOT_WHEN_FULL),
]


PROMISES = {
    FLAGS_NOTHING: {"P5"}, AMQP_FLAGS_NOTHING: {"P5"},
    LOSES_SYNCS: {"P1"}, DAMAGES_BODIES: {"P1"}, DIES_BY_ITSELF: {"P1"},
    # Confirmations and deliveries go out early alike.
    ANSWERS_EARLY: {"P1", "P5"},
    REBUILDS_IN_SILENCE: {"P8"}, NEEDS_ITS_INDEX: {"P8"},
}  # fmt: skip
"""The promises that a mistake breaks, where it is not many: the drill must name one of them.

Others also keep a broker from its start or drop a connection; the drill reports what it meets
first."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake", "harm"), PLANTS, ids=[f"{each[0]}-{each[1]}" for each in PLANTS]
)
def test_a_planted_mistake_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mistake: str, harm: str
) -> None:
    monkeypatch.setattr(hardships, "ROOM_BYTES", 1 << 20)
    monkeypatch.setattr(hardships, "MORE_BYTES", 1 << 19)
    monkeypatch.setattr(witness, "ANSWER_SECONDS", 5.0)
    plant(monkeypatch, harm, forks=f"{name}-{mistake}" not in BEFORE_IMPORTS)
    protocol = "amqp" if mistake.endswith("-over-amqp") else "stomp"
    report = drill(tmp_path, name, 1 if harm in OF_THE_INDEX else 4, protocol=protocol)
    assert not report.right
    promises = PROMISES.get(harm, {f"P{number}" for number in range(1, 9)} | {"bug"})
    assert report.findings[0].promise in promises, report.findings
    assert f"daybook drill {name}" in report.findings[0].again


def started(scratch: Path, *words: object) -> "subprocess.Popen[str]":
    """Start a drill whose scratch data lies below a folder."""
    scratch.mkdir()
    # Tests that run under nohup ignore it, and so would the drill.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        return subprocess.Popen(
            [DAYBOOK, "drill", *map(str, words)], env=os.environ | {"TMPDIR": str(scratch)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGHUP, before)


def those_with(words: str) -> list[int]:
    """The processes that have this in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_drill_that_is_told_to_end_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "scratch"
    with started(scratch, "disk-full") as drill:
        wait_for(lambda: list(scratch.glob("*/full/data/control.sock")), "a broker at work")
        assert those_with(str(scratch))
        drill.send_signal(number)
        assert drill.wait(60) == 128 + number
        assert drill.stderr is not None
        assert drill.stderr.read() == ""
    assert those_with(str(scratch)) == []
    assert str(scratch) not in Path("/proc/mounts").read_text("utf-8")
    assert list(scratch.iterdir()) == []


def test_a_broker_ends_with_its_drill(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with started(scratch, "kill") as drill:
        wait_for(lambda: list(scratch.glob("*/data/control.sock")), "a broker at work")
        assert those_with(str(scratch))
        drill.kill()
    wait_for(lambda: not those_with(str(scratch)), "the end of the broker")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_drill(tmp_path: Path, number: signal.Signals) -> None:
    data = write_history(tmp_path / "data", some_history(3, 700), segment_bytes=1 << 15)
    scratch = tmp_path / "scratch"
    with started(scratch, "crash-points", data, "--jobs", 2, "--points", 1000) as drill:
        wait_for(lambda: len(list(scratch.glob("*/*/checkpoint"))) == 2, "two workers")
        drill.send_signal(number)
        # All that write to it have ended.
        assert drill.stderr is not None
        assert "Traceback" not in drill.stderr.read()
    if number == signal.SIGTERM:
        assert drill.returncode == 143
        assert list(scratch.iterdir()) == []
