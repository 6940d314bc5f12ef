"""Salvage: everything sound is taken, everything missing is named, and nothing is invented.

Each kind of damage is done to a copy of a data directory with a known history.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from daybook.engine.facts.details import RoutedDetail
from daybook.engine.facts.events import (
    KIND,
    MESSAGE,
    PERSISTENT,
    QUEUE,
    ROUTED,
    chunk_lsns,
    decode_detail,
)
from daybook.engine.facts.kinds import ENTERING
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import BASE, DATA_ID, INDEX, JOURNAL, TABLES
from daybook.journal.disk import RealDisk
from daybook.journal.errors import DiskFull, NoJournal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.paging.retention.missing_content import entries, without_content
from daybook.paging.retention.retirement import keep
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import open_for_reading
from daybook.recovery.directory import open_directory
from daybook.recovery.salvage import salvage as salvaging
from daybook.recovery.salvage.salvage import SalvageError, salvage
from daybook.recovery.salvage.salvage_report import Report
from tests.support.histories import HISTORY_ID, some_history, write_history
from tests.support.world import World, fold

ROUNDS: Final = 1
"""How many places each kind of damage is tried at."""
EVENTS = some_history(11, 500)
CUT = 15
INDEXED = len(EVENTS) * 3 // 4 // CUT * CUT
Damage = Callable[[Path, Random], Any]


def silent(_: str) -> None:
    """Ignore a note."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory without an index."""
    data = tmp_path_factory.mktemp("salvage") / "plain"
    write_history(data, EVENTS, segment_bytes=1 << 14, cuts=range(CUT, len(EVENTS), CUT))
    (data / "users.toml").write_text("")
    return data


@pytest.fixture(scope="module")
def indexed(plain: Path) -> Path:
    """The same with an index that is somewhat behind."""
    data = plain.with_name("indexed")
    shutil.copytree(plain, data)
    index = Index(data / INDEX, HISTORY_ID)
    for batch in batches(RealDisk(data / JOURNAL), 0, INDEXED):
        index.advance(batch)
    index.close()
    return data


def ids_of(state: State) -> set[tuple[int, int]]:
    """Return all entries that survive a restart, as (queue, message)."""
    return {
        (queue.id, message_id)
        for queue in state.queues.values()
        for message_id, entry in queue.entries.items()
        if entry.message.flags & PERSISTENT
    }


def ever() -> set[tuple[int, int]]:
    """Return all entries that there ever were."""
    found = set()
    for event in EVENTS:
        row = event.row
        if row[KIND] in ENTERING:
            queues: tuple[int, ...] = (row[QUEUE],)
            if row[KIND] == ROUTED and not row[QUEUE]:
                detail = decode_detail(ROUTED, event.detail)
                assert isinstance(detail, RoutedDetail)
                queues = detail.queues
            found |= {(queue, row[MESSAGE]) for queue in queues}
    return found


def salvaged(source: Path, target: Path) -> tuple[Report, set[tuple[int, int]], str]:
    """Salvage; check the result as any journal is checked; return the report, the entries that are
    left after a start, and the digest of the state."""
    before = contents(source)
    report = salvage(source, target, note=silent)
    assert contents(source) == before
    verdict = verify_data(RealDisk(target / JOURNAL), lambda _: None, base=target / BASE)
    assert verdict.ok, (verdict.wrong, verdict.report.faults)
    opened = open_directory(target, indexers=ThreadIndexers())
    opened.close()
    with closing(open_for_reading(target / INDEX)) as tables, tables.read() as txn:
        found = {
            (entry.queue, entry.message)
            for entry in entries(tables, txn)
            if entry.flags & PERSISTENT
        }
    # Nothing that is queued lacks its content: a broker would not get past it.
    gone = [(gap.first_lsn, gap.last_lsn) for gap in report.gaps]
    with closing(open_for_reading(target / INDEX)) as tables:
        assert not list(without_content(tables, RealDisk(target / JOURNAL), gone))
    return report, found, verdict.digest


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("which", ["plain", "indexed"])
def test_an_undamaged_directory_comes_out_as_it_is(
    request: pytest.FixtureRequest, tmp_path: Path, which: str
) -> None:
    source = request.getfixturevalue(which)
    report, found, state = salvaged(source, tmp_path / "made")
    assert report.is_whole
    assert not report.lost_events
    assert state == digest(fold(EVENTS))
    assert found == ids_of(fold(EVENTS))
    made = events_in(tmp_path / "made")
    assert made[:-1] == events_in(source)
    assert (tmp_path / "made" / "users.toml").exists()


def events_in(data: Path) -> list[Any]:
    return [
        event for block in read_blocks(RealDisk(data / JOURNAL), LAYOUT) for event in block.events()
    ]


def middle(data: Path, random: Random) -> Path:
    """Return one of the segments that are neither the first nor the newest."""
    return data / JOURNAL / random.choice(segment_names(RealDisk(data / JOURNAL))[1:-1])


def newest(data: Path) -> Path:
    return data / JOURNAL / segment_names(RealDisk(data / JOURNAL))[-1]


def flip(path: Path, random: Random, first: int = 0) -> None:
    changed = bytearray(path.read_bytes())
    used = len(changed.rstrip(b"\0"))
    changed[random.randrange(first, used)] ^= 1 << random.randrange(8)
    path.write_bytes(changed)


def bit_in_a_segment(data: Path, random: Random) -> None:
    names = segment_names(RealDisk(data / JOURNAL))
    flip(data / JOURNAL / random.choice(names), random)


def bit_in_a_header(data: Path, random: Random) -> None:
    path = middle(data, random)
    changed = bytearray(path.read_bytes())
    changed[random.randrange(72)] ^= 4
    path.write_bytes(changed)


def bits_everywhere(data: Path, random: Random) -> None:
    for name in segment_names(RealDisk(data / JOURNAL)):
        flip(data / JOURNAL / name, random)


def segment_missing(data: Path, random: Random) -> None:
    middle(data, random).unlink()


def first_missing(data: Path, random: Random) -> None:
    (data / JOURNAL / segment_names(RealDisk(data / JOURNAL))[0]).unlink()


def newest_missing(data: Path, random: Random) -> None:
    newest(data).unlink()


def zeroed(data: Path, random: Random) -> None:
    path = middle(data, random)
    changed = bytearray(path.read_bytes())
    at = random.randrange(4096, len(changed))
    changed[at : at + 3000] = bytes(len(changed[at : at + 3000]))
    path.write_bytes(changed)


def truncated(data: Path, random: Random) -> None:
    path = middle(data, random)
    path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size)])


def newest_truncated(data: Path, random: Random) -> None:
    path = newest(data)
    path.write_bytes(path.read_bytes()[:5000])


def garbage(data: Path, random: Random) -> None:
    path = middle(data, random)
    path.write_bytes(random.randbytes(path.stat().st_size))


def data_id_missing(data: Path, random: Random) -> None:
    (data / "data-id").unlink()
    bit_in_a_header(data, random)


def index_destroyed(data: Path, random: Random) -> None:
    bit_in_a_segment(data, random)
    if (data / INDEX).exists():
        for _ in range(20):
            flip(data / INDEX / TABLES, random)


DAMAGES: list[Damage] = [
    bit_in_a_segment, bit_in_a_header, bits_everywhere, segment_missing, first_missing,
    newest_missing, zeroed, truncated, newest_truncated, garbage, data_id_missing, index_destroyed,
]  # fmt: skip


@pytest.mark.parametrize("which", ["plain", "indexed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_the_gap_does_not_touch_is_there_and_nothing_is_invented(
    request: pytest.FixtureRequest, tmp_path: Path, which: str, damage: Damage
) -> None:
    source = request.getfixturevalue(which)
    for seed in range(ROUNDS):
        data = tmp_path / f"damaged-{seed}"
        shutil.copytree(source, data)
        damage(data, Random(seed))
        report, found, _ = salvaged(data, tmp_path / f"made-{seed}")
        gone = [(gap.first_lsn, gap.last_lsn) for gap in report.gaps]
        ends = report.last_lsn

        def is_lost(lsn: int, gone: Any = gone, ends: int = ends) -> bool:
            return lsn > ends or any(first <= lsn <= last for first, last in gone)

        assert found <= ever(), f"seed {seed}"
        wanted = {
            (queue, message)
            for queue, message in ids_of(fold(EVENTS))
            if not any(map(is_lost, contents_at(message)))
        }
        assert wanted <= found, f"seed {seed}: {sorted(wanted - found)}"
        lost = {message for _, message in report.without_content}
        assert all(any(map(is_lost, contents_at(message))) for message in lost)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("with_base", [True, False])
def test_a_beginning_that_left(
    indexed: Path, tmp_path: Path, *, with_index: bool, with_base: bool
) -> None:
    data = tmp_path / "data"
    shutil.copytree(indexed, data)
    disk = RealDisk(data / JOURNAL)
    first, second = segment_names(disk)[:2]
    last = int(second.partition(".")[0]) - 1
    keep(disk, None, data / BASE, data / INDEX, HISTORY_ID, last, now=1)
    (data / JOURNAL / first).unlink()
    if not with_index:
        shutil.rmtree(data / INDEX)
    if not with_base:
        for path in (data / BASE).glob("*.mdb"):
            flip(path, Random(1))
    report, found, _ = salvaged(data, tmp_path / "made")
    assert found <= ever()
    kept = {(queue, message) for queue, message in ids_of(fold(EVENTS)) if message > last}
    assert kept <= found
    if with_base:
        assert not report.gaps
        assert report.state_from == "the base"
    elif with_index:
        assert report.state_from == "the index"
    else:
        assert [gap.first_lsn for gap in report.gaps] == [1]
        assert any("no sound state" in text for text in report.notes)


@pytest.mark.parametrize("which", ["plain", "indexed"])
@pytest.mark.parametrize("footer_is_sound", [True, False])
def test_a_newest_segment_that_is_missing_is_missed(
    request: pytest.FixtureRequest, tmp_path: Path, which: str, *, footer_is_sound: bool
) -> None:
    data = tmp_path / "data"
    shutil.copytree(request.getfixturevalue(which), data)
    newest(data).unlink()
    left = newest(data)
    if not footer_is_sound:
        changed = bytearray(left.read_bytes())
        changed[-1] ^= 1
        left.write_bytes(changed)
    report, _, _ = salvaged(data, tmp_path / "made")
    assert not report.is_whole
    gap = report.gaps[-1]
    assert (gap.events, gap.first_lsn, gap.segment) == (0, report.last_lsn + 1, left.name)
    assert "another one followed" in gap.what
    state = fold(EVENTS[: report.last_lsn])
    assert report.uncertain == sum(queue.message_count for queue in state.queues.values()) > 0


def test_lsns_that_a_start_skipped_are_not_lost_events(tmp_path: Path) -> None:
    world = World()
    for _ in range(100):
        world.connect()
    begins = len(world.journal)
    world.restart(skipped=70)
    ends = len(world.journal)
    for _ in range(3000):
        world.connect()
    count = len(world.journal)
    data = tmp_path / "data"
    cuts = [begins, ends, *range(ends + 20, count, 20)]
    write_history(data, world.journal, segment_bytes=1 << 14, cuts=cuts)
    block = next(b for b in read_blocks(RealDisk(data / JOURNAL), LAYOUT) if b.last_lsn == ends)
    path = data / JOURNAL / block.segment
    changed = bytearray(path.read_bytes())
    changed[block.offset + 20] ^= 1
    path.write_bytes(changed)
    report, _, _ = salvaged(data, tmp_path / "made")
    (gap,) = report.gaps
    assert (gap.events, gap.skipped) == (ends - begins, ends - begins - 1)
    assert report.lost_events == 1


def test_a_header_and_an_id_that_are_wrong_are_told(plain: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(plain, data)
    path = middle(data, Random(1))
    path.write_bytes(bytes(4096) + path.read_bytes()[4096:])
    (data / DATA_ID).write_text("00" * 16)
    report, _, _ = salvaged(data, tmp_path / "made")
    assert not report.is_whole
    assert len(report.notes) == 2
    assert path.name in report.notes[0]
    assert "'data-id' says '0000" in report.notes[1]


@pytest.mark.parametrize("where", ["_copied_index", "_write", "_finish"])
def test_a_full_disk_is_not_blamed_on_the_source(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*_: Any) -> None:
        error = OSError(errno.ENOSPC, "No space left on device")
        raise DiskFull("no space") if where == "_write" else error

    told: list[str] = []
    monkeypatch.setattr(salvaging._Salvage, where, full)
    with pytest.raises(SalvageError, match="no space is left for"):
        salvage(indexed, tmp_path / "made", note=told.append)
    assert not told
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_salvaged(tmp_path: Path, plain: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(plain, data)
    for path in (data / JOURNAL).glob("*.seg"):
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(SalvageError, match="no sound block"):
        salvage(data, tmp_path / "made", note=silent)
    (data / "data-id").unlink()
    with pytest.raises(NoJournal, match="no segment has a sound header"):
        salvage(data, tmp_path / "made", note=silent)
    for path in (data / JOURNAL).glob("*.seg"):
        path.unlink()
    with pytest.raises(NoJournal, match="no segments"):
        salvage(data, tmp_path / "made", note=silent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def contents_at(message: int) -> list[int]:
    """Return the events that have the content of a message."""
    detail = decode_detail(ROUTED, EVENTS[message - 1].detail)
    assert isinstance(detail, RoutedDetail)
    return [message, *chunk_lsns(detail)]
