"""A base that retention wrote with an older format of tables stays readable."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec
import pytest
import zstandard

from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import TABLES
from daybook.journal.disk import RealDisk
from daybook.paging.checks.index_check import check
from daybook.paging.checks.usability import judge
from daybook.paging.content.store import IndexStore
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.fold.upgrade import upgrade
from daybook.paging.snapshots.base import restore
from daybook.paging.tables.tables import (
    CARRIED,
    LARGE,
    NAMES,
    PAGES,
    QUEUES,
    TIMERS,
    IndexDamaged,
    open_for_reading,
)
from tests.support.stored.queued import entries_of

GOLDEN: Final = Path(__file__).parents[3] / "golden"
EXPECTED: Final = "expected.json"


@pytest.fixture(params=["base-v1", "base-v2"])
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The data directory that a release with tables of that format wrote."""
    golden = GOLDEN / request.param
    for packed in golden.rglob("*.zst"):
        file = tmp_path / packed.relative_to(golden).with_suffix("")
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zstandard.decompress(packed.read_bytes()))
    (tmp_path / EXPECTED).write_bytes((golden / EXPECTED).read_bytes())
    return tmp_path


def expected(data: Path) -> dict[str, Any]:
    """The expected result of reading the data directory."""
    found: dict[str, Any] = msgspec.json.decode((data / EXPECTED).read_bytes())
    return found


def data_id_of(data: Path) -> bytes:
    return bytes.fromhex(expected(data)["data_id"])


def restored(data: Path) -> int:
    """Make an index of the base, beside it; return the LSN that it stands for."""
    first_lsn = expected(data)["removed_lsn"] + 1
    return restore(data / "base", data_id_of(data), data / "made", first_lsn)


def test_the_index_is_not_believed(data: Path) -> None:
    """It is derived, and its rows had no crcs."""
    found = judge(data / "index", data_id_of(data), RealDisk(data / "journal"))
    assert not found.usable
    assert "is not of format 3" in found.why


def test_an_index_from_the_base_is_the_state_of_all_events(data: Path) -> None:
    disk, made = RealDisk(data / "journal"), data / "made"
    assert restored(data) == expected(data)["removed_lsn"]
    assert sorted(path.name for path in made.iterdir()) == [TABLES, "lock.mdb"]
    tables = open_for_reading(made, data_id_of(data))
    with closing(tables), tables.read() as txn:
        assert all(txn.count(tables.db(name)) for name in (CARRIED, TIMERS, LARGE, PAGES))
    assert check(made) == expected(data)["removed_lsn"]
    verdict = verify_data(disk, lambda done: None, base=data / "base")
    assert verdict.ok, (verdict.faults, verdict.wrong)
    assert verdict.digest == expected(data)["digest"]


def test_everything_queued_has_its_content(data: Path) -> None:
    disk, made = RealDisk(data / "journal"), data / "made"
    restored(data)
    with closing(Index(made, data_id_of(data))) as index:
        bring_up(index, disk, expected(data))
    assert check(made) == expected(data)["lsn"]
    with closing(IndexStore(open_for_reading(made, data_id_of(data)), disk)) as store:
        assert contents_of(store) == expected(data)["contents"]


def bring_up(index: Index, disk: RealDisk, told: dict[str, Any]) -> None:
    """Fold the rest of the journal."""
    for batch in batches(disk, index.lsn, told["lsn"]):
        index.advance(batch)
    assert index.digest() == told["digest"]


def contents_of(store: IndexStore) -> dict[str, str]:
    """By queue and message headers and body, as the journal had them."""
    return {
        f"{queue}/{number}": (entry.message.headers + b"|" + entry.message.body).hex()
        for (queue, number), entry in entries_of(store, store.checkpoint()).items()
    }


def test_tables_of_today_stay_as_they_are(data: Path) -> None:
    restored(data)
    before = (data / "made" / TABLES).read_bytes()
    assert not upgrade(data / "made")
    assert (data / "made" / TABLES).read_bytes() == before


def test_a_damaged_row_is_not_made_sound(data: Path) -> None:
    with lmdb.open(str(data / "index"), max_dbs=len(NAMES)) as env:
        table = env.open_db(QUEUES)
        with env.begin(write=True) as txn:
            key, row = next(iter(txn.cursor(table)))
            txn.put(key, row[:-1] + bytes([row[-1] ^ 1]), db=table)
    with pytest.raises(IndexDamaged, match="the crc of a row of table 'queues'"):
        upgrade(data / "index")


def test_half_of_an_upgrade_is_done_again(data: Path) -> None:
    with closing(Index(data / "index" / "upgraded", bytes(16))):
        pass
    assert upgrade(data / "index")
    assert check(data / "index", clusters=False) == expected(data)["lsn"]
    assert not (data / "index" / "upgraded").exists()
