"""However `journal verify` divides its work, and whatever it knows from before, its verdict is the
same."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import click
import msgspec
import pytest
from click.testing import CliRunner

from daybook.engine import commands as c
from daybook.history import workers
from daybook.history.verification import verify_state
from daybook.history.verification.folding_ranges import Plan
from daybook.history.verification.verification import Verdict, verify_data
from daybook.history.verification.verify_state import MAGIC, VerifyState
from daybook.history.verification.verify_work import Source
from daybook.history.workers import WorkerFailed, carried_out
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.summaries import summary_of_block
from daybook.journal.data_directory import BASE, INDEX, JOURNAL, SNAPSHOTS
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots import snapshots
from daybook.paging.snapshots.snapshots import Snapshots, known_snapshots
from daybook.tools.history import verify
from daybook.tools.journal_cli import cli
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.stored.full_disk import no_file_above
from tests.support.world import World

ENDS = {400, 800, 1200, 1600}


def take_snapshots(data: Path, last_lsn: int) -> None:
    """Index a history, with a snapshot at each of ENDS."""
    disk = RealDisk(data / JOURNAL)
    index = Index(data / INDEX, HISTORY_ID)
    taken = Snapshots(data / SNAPSHOTS, HISTORY_ID)
    for batch in batches(disk, 0, last_lsn, ENDS):
        index.advance(batch)
        assert taken.follow(index, disk, 1, 1)
    index.close()


@pytest.fixture(autouse=True)
def _snapshots_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SHARE", 0)
    monkeypatch.setattr(snapshots, "FREE_TIMES", 0)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of several segments, with snapshots."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(snapshots, "SHARE", 0)
        monkeypatch.setattr(snapshots, "FREE_TIMES", 0)
        events = some_history(5, 600)
        assert len(events) > max(ENDS)
        data = tmp_path_factory.mktemp("sound") / "data"
        write_history(data, events, segment_bytes=1 << 14)
        take_snapshots(data, len(events))
    assert len(segment_names(RealDisk(data / JOURNAL))) > 4
    return data


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def in_one_go(data: Path) -> Verdict:
    return verify_data(RealDisk(data / JOURNAL), lambda done: None, base=data / BASE)


def planned(data: Path, state: VerifyState | None = None, processes: int = 1) -> Verdict:
    plan = Plan(Source(data), processes, state, range_segments=1)
    return verify_data(RealDisk(data / JOURNAL), lambda done: None, base=data / BASE, plan=plan)


def said(verdict: Verdict) -> object:
    """All that a verdict says but what was known before."""
    return msgspec.structs.replace(verdict, segments_known=0, ranges_known=0)


def test_ranges_and_processes_come_to_the_same(data: Path) -> None:
    verdict = in_one_go(data)
    assert verdict.ok
    assert verdict.digests_compared
    assert said(planned(data)) == said(planned(data, processes=2)) == said(verdict)


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_same_damage_is_reported(data: Path, processes: int) -> None:
    names = segment_names(RealDisk(data / JOURNAL))
    flip(data / JOURNAL / names[1], 30)
    flip(data / JOURNAL / names[2], 5000)
    (data / JOURNAL / names[4]).unlink()
    verdict = in_one_go(data)
    assert len(verdict.faults) >= 3
    assert said(planned(data, processes=processes)) == said(verdict)


def test_a_wrong_digest_is_found_in_whatever_range(tmp_path: Path) -> None:
    world, random = World(), Random(1)
    connection = world.ok(c.OpenConnection("STOMP 1.2", "p", "u"))
    for number in range(1800):
        world.ok(c.Send(connection, "orders", b"", random.randbytes(60)))
        if number % 600 == 599:
            # Recorded in another range than that of the state that it is about.
            world.ok(c.Checkpoint(200 * (len(world.journal) // 200 - 2), "0" * 32))
    data = write_history(tmp_path / "data", world.journal, segment_bytes=1 << 14)
    take_snapshots(data, len(world.journal))
    assert len(segment_names(RealDisk(data / JOURNAL))) > 4
    verdict = in_one_go(data)
    assert len(verdict.wrong) == 3
    assert said(planned(data)) == said(verdict)


def test_a_damaged_snapshot_begins_no_range(data: Path) -> None:
    verdict = in_one_go(data)
    for known in list(known_snapshots(data / SNAPSHOTS, HISTORY_ID))[1:]:
        flip(data / SNAPSHOTS / known.file, 9000)
    assert said(planned(data)) == said(verdict)


def test_the_snapshot_of_another_history_begins_no_range(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    events = some_history(6, 600)
    write_history(other, events, segment_bytes=1 << 14)
    take_snapshots(other, len(events))
    ours = {each.lsn: each for each in known_snapshots(data / SNAPSHOTS, HISTORY_ID)}
    for theirs in known_snapshots(other / SNAPSHOTS, HISTORY_ID):
        if theirs.lsn not in ENDS:
            continue
        shutil.copy(other / SNAPSHOTS / theirs.file, data / SNAPSHOTS / theirs.file)
        # Its description says that it fits: only the fold of the range before shows the truth.
        forged = msgspec.structs.replace(theirs, block_hash=ours[theirs.lsn].block_hash)
        path = data / SNAPSHOTS / f"{theirs.lsn:020d}.json"
        path.write_bytes(msgspec.json.encode(forged))
    assert said(planned(data)) == said(in_one_go(data))
    assert planned(data).ok


def test_what_has_not_changed_is_not_verified_again(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "cache" / "state"
    first = planned(data, state := VerifyState(file, data, HISTORY_ID.hex()))
    state.save()
    assert (first.segments_known, first.ranges_known) == (0, 0)
    again = planned(data, VerifyState(file, data, HISTORY_ID.hex()))
    assert said(again) == said(first)
    names = segment_names(RealDisk(data / JOURNAL))
    assert again.segments_known == len(names) - 1
    assert again.ranges_known > 2
    flip(data / JOURNAL / names[1], 6000)
    damaged = planned(data, VerifyState(file, data, HISTORY_ID.hex()))
    assert damaged.faults
    assert damaged.segments_known == len(names) - 2
    assert said(damaged) == said(in_one_go(data))


def test_an_interrupted_run_is_continued(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "state"
    state = VerifyState(file, data, HISTORY_ID.hex())
    done: list[int] = []

    def interrupt(count: int) -> None:
        done.append(count)
        if len(done) == 15:
            raise KeyboardInterrupt

    plan = Plan(Source(data), 1, state, range_segments=1)
    with pytest.raises(KeyboardInterrupt):
        verify_data(RealDisk(data / JOURNAL), interrupt, plan=plan)
    state.save()
    continued = planned(data, VerifyState(file, data, HISTORY_ID.hex()))
    assert continued.segments_known
    assert said(continued) == said(in_one_go(data))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: flip(file, 200), "damaged"),
        (lambda file: file.write_bytes(b""), "damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "damaged"),
    ],
)
def test_a_damaged_state_is_not_used(
    data: Path, tmp_path: Path, spoil: Callable[[Path], object], why: str
) -> None:
    file = tmp_path / "state"
    planned(data, state := VerifyState(file, data, HISTORY_ID.hex()))
    state.save()
    spoil(file)
    state = VerifyState(file, data, HISTORY_ID.hex())
    assert why in state.note
    assert planned(data, state).segments_known == 0
    assert "another journal" in VerifyState(file, data, "00" * 16).note or why in state.note


def test_a_state_of_another_journal_is_not_used(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "state"
    planned(data, state := VerifyState(file, data, HISTORY_ID.hex()))
    state.save()
    assert "another journal" in VerifyState(file, data, "00" * 16).note


def test_a_state_is_never_written_where_it_is_verified(data: Path) -> None:
    with pytest.raises(click.UsageError, match="must not lie"):
        VerifyState(data / "state", data, HISTORY_ID.hex())


def test_the_command_says_what_it_knew_before(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "state"
    words = ["verify", str(data), "--state", str(file)]
    first = CliRunner().invoke(cli, words)
    assert first.exit_code == 0, first.output
    again = CliRunner().invoke(cli, [*words, "--json"])
    told = json.loads(again.stdout)
    assert told["segments_known"] == told["report"]["segments"] - 1
    assert "verified before" in CliRunner().invoke(cli, words).output
    assert file.stat().st_mode & 0o077 == 0


def test_archived_segments_are_found_by_other_processes_too(data: Path, tmp_path: Path) -> None:
    disk = RealDisk(data / JOURNAL)
    archive = Archive(str(tmp_path / "archive"))
    for name in segment_names(disk)[:3]:
        archive.put(disk, name, now=1)
        disk.remove(name)
    plan = Plan(Source(data, str(tmp_path / "archive")), 1, range_segments=1)
    with archive.reading(disk) as both:
        alone = verify_data(both, lambda done: None)
        assert alone.ok
        assert said(verify_data(both, lambda done: None, plan=plan)) == said(alone)


def die(progress: Callable[[int], None]) -> None:
    """Die as a process that the kernel kills."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(progress: Callable[[int], None]) -> None:
    """Fail as a disk does."""
    raise OSError(5, "Input/output error", "/there")


def test_a_worker_that_dies_or_fails_is_reported_in_words() -> None:
    for work, words in ((die, "died"), (refuse, "/there: Input/output error")):
        with pytest.raises(WorkerFailed, match=words):
            list(carried_out([(1, work, ()), (2, work, ())], 2, lambda done: None))


def test_one_process_does_what_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ONE_PROCESS_BYTES", 10)
    assert workers.chosen_processes(None, 10) == 1
    assert workers.chosen_processes(None, 11) == len(os.sched_getaffinity(0))
    assert workers.chosen_processes(3, 1) == 3


def test_summaries_are_those_of_the_writer(data: Path) -> None:
    large = 0
    for block in read_blocks(RealDisk(data / JOURNAL)):
        large += block.count > 64
        if block.count:
            assert summary_of_block(block) == block.codec.summarise(block.columns())
    assert large


@pytest.mark.parametrize("content", [b"-----BEGIN PRIVATE KEY-----\n", b"{}\n", b"x", b"\0\0x"])
def test_a_file_that_is_no_state_is_left_alone(data: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes"
    file.write_bytes(content)
    words = ["verify", str(data), "--resume", "--state", str(file)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert f"{file} is not a state" in done.output
    assert file.read_bytes() == content


@pytest.mark.parametrize("content", [b"", MAGIC[:5], MAGIC + b"00\n{}", b"\0" * 500])
def test_an_empty_or_damaged_state_is_replaced(data: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state"
    file.write_bytes(content)
    done = CliRunner().invoke(cli, ["verify", str(data), "--state", str(file)])
    assert done.exit_code == 0
    assert "is damaged" in done.output
    assert file.read_bytes().startswith(MAGIC)


def test_a_full_disk_is_named(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "state"
    planned(data, state := VerifyState(file, data, HISTORY_ID.hex()))
    # A slow plan has saved its state before.
    file.unlink(missing_ok=True)
    with no_file_above(100), pytest.raises(OSError, match=str(file)):
        state.save()
    assert not list(tmp_path.glob("state*"))


@pytest.fixture
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the state be all that finds no room: the fold needs some, too."""
    save = VerifyState.save

    def on_a_full_disk(state: VerifyState) -> None:
        with no_file_above(100):
            save(state)

    monkeypatch.setattr(VerifyState, "save", on_a_full_disk)
    monkeypatch.setattr(verify_state, "SAVE_SECONDS", 0.0)


@pytest.mark.usefixtures("_full_disk")
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_state_that_cannot_be_written_hides_no_verdict(
    data: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "state"
    done = CliRunner().invoke(cli, ["verify", str(data), "--state", str(file), *words])
    assert done.exit_code == 0, done.output
    assert f"could not be kept for the next time: {file}: File too large" in done.stderr
    assert json.loads(done.stdout)["ok"] if words else done.stdout.endswith("intact\n")
    assert not list(tmp_path.glob("state*"))
    # A fault is found with or without a state.
    newest = sorted((data / JOURNAL).glob("*.seg"))[1]
    spoilt = bytearray(newest.read_bytes())
    spoilt[5000] ^= 1
    newest.write_bytes(spoilt)
    done = CliRunner().invoke(cli, ["verify", str(data), "--state", str(file), *words])
    assert done.exit_code == 1
    assert newest.name in done.stdout
    assert "could not be kept" in done.stderr


def test_a_state_that_cannot_be_reached_hides_no_verdict(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    words = ["verify", str(data), "--state", str(tmp_path / "file" / "state")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "cannot be read (Not a directory); everything is verified again" in done.stderr
    assert f"could not be kept for the next time: {tmp_path / 'file' / 'state'}" in done.stderr
    assert "intact" in done.stdout


def test_an_interrupted_verification_says_what_was_not_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verdict_on", interrupt)
    words = ["verify", str(data), "--state", str(tmp_path / "state")]
    with no_file_above(100):
        done = CliRunner().invoke(cli, words)
    assert "interrupted; the results could not be kept" in done.output
    assert "resumes from here" in CliRunner().invoke(cli, words).output


def test_a_user_without_a_home_names_a_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def expand(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", expand)
    done = CliRunner().invoke(cli, ["verify", str(data), "--resume"])
    assert done.exit_code == 2
    assert "name a file with --state" in done.output
