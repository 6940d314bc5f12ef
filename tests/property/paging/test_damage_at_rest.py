"""A flipped bit anywhere in what is derived: what comes of it is right, or is refused.

Each damage is met by a process of its own, which does what a start, consumers and the indexer would
do, with the product's own code. It may die of a signal only if the next start sees why: all of the
index is read then, and must be found wrong. DAYBOOK_DAMAGES=2000 tries so many; the seed is said.
"""

import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from daybook.engine.queues.queue import StoreError
from daybook.engine.state.digest import digest
from daybook.engine.state.timers import EXPIRY, NEVER, NOTHING
from daybook.journal.data_directory import BASE_DESCRIPTION, CLUSTERS_DIRECTORY, TABLES
from daybook.journal.disk import RealDisk
from daybook.paging.checks.usability import DEADLY, check_apart, judge
from daybook.paging.content import cluster_writer
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.snapshots.base import BaseDamaged, restore
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import IndexDamaged, open_for_reading
from tests.support.compiled import replaces_parts
from tests.support.scenario import RETENTION, Step, play
from tests.support.stored.queued import entries_of
from tests.support.stored.retention_world import RetentionWorld
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World, fold

DAMAGES: Final = int(os.environ.get("DAYBOOK_DAMAGES", "40"))
FIRST: Final = int(os.environ.get("DAYBOOK_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
PAGE_BYTES: Final = 4096

RIGHT: Final = 0
REFUSED: Final = 3
WRONG: Final = 4

Contents = dict[tuple[int, int], tuple[bytes, bytes, bytes, int, int]]


class Sound:
    """A data directory with everything in it, at `lsn`, and what it holds; more follows."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        chance = random.Random(11)
        steps: list[Step] = [
            (chance.randrange(24), chance.randrange(21), chance.randrange(21), chance.randrange(21))
            for _ in range(400)
        ]
        world = World()
        with closing(RetentionWorld(self.data, world)) as retention, small_clusters():
            connection = world.connect()
            for number in range(8):
                world.send(
                    "orders", b"waits %d " % number * 40, routing_type="anycast",
                    duplicate_id=str(number), expires=1_900_000_000_000 + number,
                )  # fmt: skip
            play(world, [(0, 0, 6, 13)] * 3, retention.write)
            retention.round(2)
            play(world, [step for step in steps if step[0] not in RETENTION], lambda: None)
            for number in range(600):
                world.send(f"mixed.{number % 9}", b"%d " % number * 20, routing_type="anycast")
            retention.round(9)
            world.restart()
            retention.write()
            world.attach(world.connect(), "orders", credit_messages=2, credit_bytes=0)
            retention.write()
            self.lsn = len(world.journal)
            self.removed_lsn = retention.removed_lsn
            self.contents = self._contents(world)
            shutil.copytree(self.data / "index", folder / "index")
            # What the indexer does next.
            self._go_on(world, connection)
            retention.write()
            self.last_lsn = len(world.journal)
            self.digest = digest(fold(world.journal))
        shutil.rmtree(self.data / "index")
        shutil.move(folder / "index", self.data / "index")

    def _contents(self, world: World) -> Contents:
        found: Contents = {}
        for queue in fold(world.journal).queues.values():
            for number, entry in queue.entries.items():
                message = entry.message
                chunks = b"".join(world.journal[lsn - 1].body for lsn in message.chunks)
                found[queue.id, number] = (
                    message.headers, message.body, chunks, entry.delivery_count, message.expires,
                )  # fmt: skip
        return found

    def _go_on(self, world: World, connection: int) -> None:
        del connection
        other = world.connect()
        for name in ("orders", "mixed.1", "mixed.2"):
            world.attach(other, name, credit_messages=30, acknowledges=False)
        for number in range(30):
            world.send("orders", b"later %d" % number, routing_type="anycast")
        world.turn()


def small_clusters() -> Any:
    """Clusters of few bytes and of any queue, so that there are some."""
    return patch.multiple(cluster_writer, CLUSTER_BYTES_MIN=1000, SPARSE=0)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


def use(sound: Sound, data: Path) -> int:
    """Do with a data directory what a broker and its indexer would; answers what came of it."""
    index, disk = data / "index", RealDisk(data / "journal")
    try:
        check_structure(index)
        if not judge(index, DATA_ID, disk).usable:
            return REFUSED
        with closing(IndexStore(open_for_reading(index, DATA_ID), disk)) as store:
            state = store.checkpoint()
            found: Contents = {}
            for key, entry in entries_of(store, state).items():
                message = entry.message
                chunks = b"".join(store.content.chunks(message.chunks, 0))
                found[key] = (
                    message.headers, message.body, chunks, entry.delivery_count, message.expires,
                )  # fmt: skip
            due = store.due(EXPIRY, NOTHING, NEVER, 1 << 20)
        if found != sound.contents:
            return WRONG
        ready = {(kept[4], key[1], key[0]) for key, kept in found.items() if kept[4]}
        if not set(due) <= ready:
            return WRONG
        return follow(sound, index, disk)
    except (IndexDamaged, StoreError):
        return REFUSED


def follow(sound: Sound, index: Path, disk: RealDisk) -> int:
    """Fold what follows; the state must be that of all events."""
    with closing(Index(index, DATA_ID)) as opened:
        for batch in batches(disk, opened.lsn, sound.last_lsn):
            opened.advance(batch)
        return RIGHT if opened.digest() == sound.digest else WRONG


def in_a_process(work: Callable[[], int]) -> int:
    """The exit code of a process that does some work; negative if it died of a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            for number in DEADLY:
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = work()
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def flip(file: Path, chance: random.Random, start: int, stop: int) -> int:
    """Flip a bit between two places; answers which."""
    bit = chance.randrange(8 * start, 8 * stop)
    with file.open("r+b") as opened:
        opened.seek(bit // 8)
        byte = opened.read(1)[0]
        opened.seek(bit // 8)
        opened.write(bytes([byte ^ 1 << bit % 8]))
    return bit


@replaces_parts
def test_an_undamaged_one_is_right(sound: Sound, tmp_path: Path) -> None:
    """And there is some of everything in it."""
    assert in_a_process(lambda: use(sound, copied(sound, tmp_path / "data"))) == RIGHT
    assert list((sound.data / "index" / CLUSTERS_DIRECTORY).iterdir())
    assert any(kept[2] for kept in sound.contents.values())
    assert any(kept[4] for kept in sound.contents.values())
    assert sound.removed_lsn > 0


def copied(sound: Sound, data: Path) -> Path:
    shutil.copytree(sound.data, data, ignore=shutil.ignore_patterns("journal"))
    (data / "journal").symlink_to(sound.data / "journal")
    return data


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_bit_in_the_index(sound: Sound, tmp_path: Path, part: int) -> None:
    chance = random.Random(f"{FIRST} {part}")
    came: dict[int, int] = {}
    for number in range(DAMAGES // 4):
        data = copied(sound, tmp_path / str(number))
        file = data / "index" / TABLES
        page = chance.randrange(file.stat().st_size // PAGE_BYTES)
        # Half of them in what is the structure: the heads of pages, and their nodes.
        stop = page * PAGE_BYTES + chance.choice((64, PAGE_BYTES))
        bit = flip(file, chance, page * PAGE_BYTES, stop)
        what = f"DAYBOOK_SEED={FIRST} part {part} number {number}: bit {bit} of page {page}"
        code = in_a_process(lambda data=data: use(sound, data))  # type: ignore[misc]
        if -code in DEADLY:
            wrong = check_apart(data / "index", data / "journal")
            assert wrong, f"{what}: it kills who reads it, and nobody sees why"
            code = REFUSED
        assert code in (RIGHT, REFUSED), f"{what}: {code}"
        came[code] = came.get(code, 0) + 1
        shutil.rmtree(data)
    print(f"DAYBOOK_SEED={FIRST} {came}")


@replaces_parts
def test_a_flipped_bit_in_a_cluster(sound: Sound, tmp_path: Path) -> None:
    """The journal has everything, so nothing is refused."""
    chance = random.Random(FIRST)
    for number in range(DAMAGES // 4):
        data = copied(sound, tmp_path / str(number))
        file = chance.choice(sorted((data / "index" / CLUSTERS_DIRECTORY).iterdir()))
        bit = flip(file, chance, 0, file.stat().st_size)
        code = in_a_process(lambda data=data: use(sound, data))  # type: ignore[misc]
        assert code == RIGHT, f"DAYBOOK_SEED={FIRST} number {number}: bit {bit} of {file.name}"


def test_a_flipped_bit_in_the_base(sound: Sound, tmp_path: Path) -> None:
    """It is primary data: unproven parts are refused, and used parts are right."""
    chance = random.Random(FIRST)
    refused = 0
    for number in range(DAMAGES // 2):
        data = copied(sound, tmp_path / str(number))
        shutil.rmtree(data / "index")
        (tables,) = (data / "base").glob("*.mdb")
        file = tables if number % 2 else data / "base" / BASE_DESCRIPTION
        bit = flip(file, chance, 0, file.stat().st_size)
        code = in_a_process(lambda data=data: begin_anew(sound, data))  # type: ignore[misc]
        assert code in (RIGHT, REFUSED), f"DAYBOOK_SEED={FIRST} {number}: bit {bit} of {file.name}"
        assert code == REFUSED or file.name == BASE_DESCRIPTION
        refused += code == REFUSED
    assert refused >= DAMAGES // 4


def begin_anew(sound: Sound, data: Path) -> int:
    """An index is made from the base, and the journal."""
    try:
        restore(data / "base", DATA_ID, data / "index", sound.removed_lsn + 1)
    except BaseDamaged:
        return REFUSED
    return follow(sound, data / "index", RealDisk(data / "journal"))
