"""Say of indexes what a start would make of them: one line of JSON for each path that is read.

Run with the word DATA by the test of power cuts, in a process of its own, because an index that is
damaged may end its reader. A start judges the structure first and compares the index with the
journal. A refused index has a reason; of a sound one each row is read, and its digest computed.
"""

import json
import sys
from pathlib import Path

from daybook.engine.state.digest import digest
from daybook.journal.data_directory import DATA_ID, JOURNAL, TABLES
from daybook.journal.disk import RealDisk
from daybook.paging.checks.index_check import check
from daybook.paging.checks.usability import judge
from daybook.paging.content.store import IndexStore
from daybook.paging.tables.checked import IndexDamaged
from daybook.paging.tables.structure import check_structure
from daybook.paging.tables.tables import open_for_reading


def verdict(index: Path, data: Path) -> dict[str, str | int]:
    """A start's view of an index: why it is refused, or its LSN and digest."""
    data_id = bytes.fromhex((data / DATA_ID).read_text("ascii"))
    disk = RealDisk(data / JOURNAL)
    if not (index / TABLES).is_file():
        return {"refused": "there is none"}
    try:
        check_structure(index)
    except IndexDamaged as damage:
        return {"refused": str(damage)}
    judgement = judge(index, data_id, disk)
    if not judgement.usable:
        return {"refused": judgement.why}
    lsn = check(index, journal=disk)
    store = IndexStore(open_for_reading(index, data_id), disk)
    try:
        return {"lsn": lsn, "digest": digest(store.checkpoint())}
    finally:
        store.close()


def main(data: Path) -> None:
    """Judge path after path."""
    for line in sys.stdin:
        try:
            found: dict[str, str | int] = verdict(Path(line.strip()), data)
        except Exception as error:
            found = {"wrong": repr(error)}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
