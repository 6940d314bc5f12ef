"""A flipped bit in the small files of a data directory or an archive: told, or harmless.

The segments with their headers and footers have such tests of their own (`tests/unit/journal`), and
so have the index, the base and the clusters (`test_damage_at_rest`). Pins have nothing in them.
"""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from daybook.engine.broker import Broker
from daybook.engine.commands import Start
from daybook.engine.state.digest import digest
from daybook.engine.state.state import State
from daybook.journal.archive.archive import Archive
from daybook.journal.data_directory import DATA_ID
from daybook.journal.disk import RealDisk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import segment_names
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.recovery.directory import RecoveryError, open_directory
from daybook.server.users.passcode_hashes import CannotCheck
from daybook.server.users.users import Users, UsersError
from tests.support.stored.folded import folded_state
from tests.support.stored.retention_world import RetentionWorld
from tests.support.world import World

FLIPS: Final = int(os.environ.get("DAYBOOK_DAMAGES", "60"))
SEED: Final = int(os.environ.get("DAYBOOK_SEED", "0")) or random.SystemRandom().randrange(1 << 32)


def start(data: Path) -> None:
    """Open a data directory as a broker does when it starts, and stop it."""
    open_directory(data, indexers=ThreadIndexers()).close()


def flipped(file: Path, use: Callable[[], None], flips: int = FLIPS) -> None:
    """Use a file once for each of some bits that are flipped in it, and put it back."""
    sound = file.read_bytes()
    bits = range(8 * len(sound))
    for bit in random.Random(SEED).sample(bits, min(flips, len(bits))):
        spoiled = bytearray(sound)
        spoiled[bit // 8] ^= 1 << bit % 8
        file.write_bytes(spoiled)
        print(f"DAYBOOK_SEED={SEED} bit {bit}: {bytes(spoiled)!r}")
        use()
    file.write_bytes(sound)
    use()


def refusal(work: Callable[[], object], kind: type[Exception]) -> str:
    """Return the error of an operation, empty if it succeeds."""
    try:
        work()
    except kind as error:
        return str(error)
    return ""


def test_the_id_of_a_data_directory(tmp_path: Path) -> None:
    """The segments prove theirs: a start says what to do, and who only reads is not disturbed."""
    directory = open_directory(tmp_path, indexers=ThreadIndexers())
    broker = Broker(State())
    broker.handle(Start(version="test"), 1)
    batch = broker.take()
    assert batch is not None
    directory.recovered.journal.append(batch)
    directory.close()
    expected = digest(folded_state(tmp_path)[0])
    known = (tmp_path / DATA_ID).read_text()

    def use() -> None:
        content = (tmp_path / DATA_ID).read_bytes()
        assert digest(folded_state(tmp_path)[0]) == expected
        said = refusal(lambda: start(tmp_path), RecoveryError)
        if said:
            assert content != known.encode()
            assert f"'{DATA_ID}' is damaged: delete that file" in said
            (tmp_path / DATA_ID).unlink()
            start(tmp_path)
            assert (tmp_path / DATA_ID).read_text() == known

    flipped(tmp_path / DATA_ID, use, FLIPS // 3)


def lets_in(users: Users, passcode: str) -> bool:
    """Whether alice is let in; a hash that cannot be checked lets nobody in."""
    with suppress(CannotCheck):
        return users.verify("alice", passcode)
    return False


def test_the_users(tmp_path: Path) -> None:
    """Nobody is let in by another passcode; a file that makes no sense is refused by name."""
    file = tmp_path / "users.toml"
    Users.load(file).add("alice", "right")

    def use() -> None:
        said = refusal(lambda: Users.load(file), UsersError)
        if said:
            assert str(file) in said
            return
        users = Users.load(file)
        assert not lets_in(users, "wrong")
        assert lets_in(users, "right") or file.read_bytes() != sound

    sound = file.read_bytes()
    flipped(file, use)


@pytest.fixture
def archived(tmp_path: Path) -> Archive:
    """An archive with some segments."""
    world = World()
    retention = RetentionWorld(tmp_path / "data", world, tmp_path / "archive")
    for number in range(60):
        world.send("q", b"%d" % number * 100)
        retention.write_journal()
    retention.close()
    archive = Archive(str(tmp_path / "archive"))
    disk = RealDisk(tmp_path / "data" / "journal")
    for name in segment_names(disk)[:2]:
        archive.put(disk, name, now=1)
    return archive


def test_the_manifest_of_an_archived_segment(archived: Archive, tmp_path: Path) -> None:
    """Its content is compared with the segment: verifying names it, or it says the same."""
    sound = archived.entries()
    first = sound[0]
    (manifest,) = [
        file
        for file in (tmp_path / "archive").rglob("*")
        if file.is_file() and first.sha256.encode() in file.read_bytes()
    ]
    seen = 0

    def use() -> None:
        nonlocal seen
        said = refusal(archived.verify, JournalError) or refusal(archived.entries, JournalError)
        if said:
            assert manifest.name in said or first.segment in said, said
        elif archived.verify().ok:
            # When it was archived is told by the manifest alone.
            found = [entry.as_of(1) for entry in archived.entries()]
            assert found == [entry.as_of(1) for entry in sound]
            return
        seen += 1

    flipped(manifest, use)
    assert seen > FLIPS // 2
