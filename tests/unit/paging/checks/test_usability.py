"""Whether an index belongs to a journal is judged by what both say, and damage never kills."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daybook.engine.facts.rows import pack_wide
from daybook.journal.blocks.batch import Batch
from daybook.journal.blocks.format import segment_first_lsn
from daybook.journal.data_directory import TABLES
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.paging.checks import usability
from daybook.paging.checks.usability import check_apart, judge
from daybook.paging.fold.index import Index
from daybook.paging.tables.layout import LAYOUT
from daybook.paging.tables.tables import IndexUnwritable, open_for_writing
from tests.support.world import Event, World

DATA_ID = bytes(range(16))


@pytest.fixture(autouse=True)
def _started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here who looks at an index is started by an interpreter, as users have it."""
    monkeypatch.setattr(usability, "subprocess", subprocess)


def append(journal: Journal, events: list[Event]) -> None:
    for event in events:
        strings = (event.detail, event.headers, event.body)
        packed = pack_wide(event.row, *map(len, strings))
        heaps = [[text] if text else [] for text in strings]
        journal.append(Batch(event.lsn, [packed], heaps, event.row[11]))


def events_of(messages: int, queue: str = "orders") -> list[Event]:
    world = World()
    for _ in range(messages):
        world.send(queue, b"x" * 100)
    world.turn()
    return world.journal


def journal_of(events: list[Event], data_id: bytes = DATA_ID) -> MemoryDisk:
    disk = MemoryDisk()
    journal = Journal.create(disk, LAYOUT, data_id=data_id, segment_bytes=8192)
    append(journal, events)
    journal.close()
    return disk


def index_of(path: Path, disk: MemoryDisk) -> int:
    index = Index(path, DATA_ID)
    index.advance(list(read_blocks(disk, LAYOUT)))
    index.close()
    return index.lsn


def test_an_index_of_the_journal_can_be_used(tmp_path: Path) -> None:
    events = events_of(60)
    disk = journal_of(events)
    lsn = index_of(tmp_path, disk)
    assert judge(tmp_path, DATA_ID, disk) == (True, lsn, "")
    # Behind the journal it can be used, too.
    longer = journal_of(events_of(70))
    assert judge(tmp_path, DATA_ID, longer) == (True, lsn, "")


def test_a_new_index_can_be_used(tmp_path: Path) -> None:
    open_for_writing(tmp_path, DATA_ID).close()
    assert judge(tmp_path, DATA_ID, MemoryDisk()) == (True, 0, "")


def test_there_may_be_none(tmp_path: Path) -> None:
    assert judge(tmp_path, DATA_ID, MemoryDisk()) == (False, 0, "there is none")


def test_an_index_of_another_journal(tmp_path: Path) -> None:
    index_of(tmp_path, journal_of(events_of(60)))
    usable, lsn, why = judge(tmp_path, bytes(16), journal_of(events_of(60)))
    assert not usable
    assert lsn == 0
    assert "is of another journal: its id is" in why
    usable, _, why = judge(tmp_path, DATA_ID, journal_of(events_of(60, "mails")))
    assert not usable
    assert "its block that ends with event" in why


def test_an_index_that_is_ahead_of_the_journal(tmp_path: Path) -> None:
    lsn = index_of(tmp_path, journal_of(events_of(60)))
    usable, found, why = judge(tmp_path, DATA_ID, journal_of(events_of(30)))
    assert (usable, found) == (False, lsn)
    assert why == f"it ends with event {lsn}, which the journal does not have"


def test_an_index_behind_what_retention_left(tmp_path: Path) -> None:
    events = events_of(300)
    index_of(tmp_path, journal_of(events[:5]))
    disk = journal_of(events)
    disk.remove(segment_names(disk)[0])
    usable, lsn, why = judge(tmp_path, DATA_ID, disk)
    assert (usable, lsn) == (False, 5)
    assert why.startswith("it ends with event 5, and the journal begins with ")


def test_an_index_that_ends_where_the_journal_begins(tmp_path: Path) -> None:
    events = events_of(300)
    disk = journal_of(events)
    second = segment_first_lsn(segment_names(disk)[1])
    assert second is not None
    index_of(tmp_path, journal_of(events[: second - 1]))
    disk.remove(segment_names(disk)[0])
    assert judge(tmp_path, DATA_ID, disk) == (True, second - 1, "")
    # Of another journal that begins there, too.
    other = journal_of(events_of(300, "mails"))
    other.remove(segment_names(other)[0])
    begins = segment_first_lsn(segment_names(other)[0])
    assert begins == second
    assert not judge(tmp_path, DATA_ID, other).usable


def test_damage_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / TABLES).write_bytes(b"nonsense" * 4096)
    usable, _, why = judge(tmp_path, DATA_ID, MemoryDisk())
    assert not usable
    assert "is damaged" in why


def test_a_process_apart_says_what_is_wrong(tmp_path: Path) -> None:
    index_of(tmp_path, journal_of(events_of(60)))
    assert check_apart(tmp_path) == ""
    os.truncate(tmp_path / TABLES, 8192)
    assert f"{TABLES} has 8192 bytes of" in check_apart(tmp_path)


def test_a_process_apart_may_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = subprocess.CompletedProcess([], -signal.SIGBUS, "", "")
    monkeypatch.setattr(usability.subprocess, "run", lambda *a, **k: died)
    assert check_apart(tmp_path).endswith("the process that reads it dies (exit code -7)")


def test_a_process_apart_that_could_not_look_has_found_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed for want of memory, say: that is not the fault of the index."""
    died = subprocess.CompletedProcess([], -signal.SIGKILL, "", "")
    monkeypatch.setattr(usability.subprocess, "run", lambda *a, **k: died)
    with pytest.raises(IndexUnwritable, match="ended with exit code -9"):
        check_apart(tmp_path)


def test_a_process_apart_looks_where_this_one_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(tmp_path / "index", journal_of(events_of(60)))
    monkeypatch.chdir(tmp_path)
    assert check_apart(Path("index")) == ""


# Damages a copy of the tables in many ways, each looked at by a child of its own.
DAMAGE = """
import os, random, shutil, sys
from pathlib import Path
from daybook.paging.checks import index_check
from daybook.journal.data_directory import TABLES
made, copy, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
whole = (made / TABLES).read_bytes()
draw = random.Random(seed)
for number in range(40):
    data = bytearray(whole)
    at = draw.randrange(len(data))
    if number % 4 == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif number % 4 == 1:
        del data[at:]
    elif number % 4 == 2:
        data[at : at + 3000] = draw.randbytes(len(data[at : at + 3000]))
    else:
        other = draw.randrange(len(data) // 4096) * 4096
        start = at // 4096 * 4096
        data[start : start + 4096] = data[other : other + 4096]
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    (copy / TABLES).write_bytes(data)
    child = os.fork()
    if not child:
        code = 99
        try:
            code = index_check.main([str(copy)])
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Sound all the same (nothing of it was in use), damaged, or LMDB gave up.
    print(code)
"""


def test_whatever_happens_to_the_file_is_damage_and_no_traceback(tmp_path: Path) -> None:
    index_of(tmp_path / "made", journal_of(events_of(600)))
    seed = random.randrange(1 << 30)
    command = [sys.executable, "-c", DAMAGE, tmp_path / "made", tmp_path / "copy", str(seed)]
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    codes = [int(line) for line in done.stdout.split()]
    assert len(codes) == 40, done.stderr
    assert all(code in (0, usability.DAMAGED) or code < 0 for code in codes), (seed, codes)
    assert "reading it fails with" not in done.stderr, (seed, done.stderr)
    assert codes.count(usability.DAMAGED) > 15, (seed, codes)
    assert "Traceback" not in done.stderr
