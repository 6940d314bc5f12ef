"""Columns of what random histories do not have: later releases, bad bytes."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from daybook.engine.facts import events
from daybook.journal.errors import Corruption
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.planning import Source, make_plan
from daybook.pipeline.selection import EVERYTHING, Selection
from tests.support.histories import write_history
from tests.support.world import Event


def event(lsn: int, kind: int, detail: bytes = b"", **columns: int) -> Event:
    return Event(lsn, events.row(kind, **columns), detail, b"", b"body %d" % lsn)


def rows(
    directory: Path, journal: list[Event], columns: list[str], selection: Selection = EVERYTHING
) -> list[dict[str, Any]]:
    data = write_history(directory, journal, cuts=range(1, len(journal)))
    plan = make_plan(Source(str(data)), selection)
    found: list[dict[str, Any]] = pa.Table.from_batches(read_plan(plan, columns)).to_pylist()
    return found


def test_kinds_of_a_later_release_are_told_by_number(tmp_path: Path) -> None:
    detail = msgspec.msgpack.encode({"what": "new", "bytes": b"\xff"})
    journal = [
        event(1, 190, detail, reason=99),
        event(2, 200, queue=7),
        event(3, events.ROUTED, queue=7, message=3),
    ]
    columns = ["kind", "reason", "detail", "queue", "body", "kind_id"]
    found = rows(tmp_path, journal, columns)
    assert [row["kind"] for row in found] == ["#190", "#200", "Routed"]
    assert [row["kind_id"] for row in found] == [190, 200, events.ROUTED]
    assert found[0]["reason"] == "#99"
    assert json.loads(found[0]["detail"])["what"] == "new"
    # A queue whose events are not there has its number for a name.
    assert [row["queue"] for row in found] == [None, "#7", "#7"]
    assert [row["body"] for row in found] == [b"body 1", b"body 2", b"body 3"]
    assert len(rows(tmp_path / "1", journal, columns, Selection(kinds=("Routed",)))) == 1


def test_fields_of_a_later_release_are_passed_over(tmp_path: Path) -> None:
    detail = msgspec.msgpack.encode({"queues": [1, 2], "later": 5})
    (row,) = rows(tmp_path, [event(1, events.ROUTED, detail, message=1)], ["detail", "queues"])
    assert json.loads(row["detail"]) == {"queues": [1, 2]}
    assert row["queues"] == ["#1", "#2"]


@pytest.mark.parametrize("column", ["detail", "queues"])
def test_a_detail_that_makes_no_sense_is_damage_of_its_block(tmp_path: Path, column: str) -> None:
    journal = [
        event(1, events.ROUTED, message=1, queue=3),
        event(2, events.ROUTED, b"\xc1", message=2),
        event(3, events.ROUTED, message=3, queue=3),
    ]
    with pytest.raises(Corruption, match="the detail of an event cannot be decoded") as caught:
        rows(tmp_path, journal, [column])
    assert caught.value.lsn == 2


def test_the_highest_numbers_fit(tmp_path: Path) -> None:
    top = (1 << 63) - 1
    columns = ["message", "consumer", "queue_id", "delivery_count", "time"]
    (row,) = rows(
        tmp_path,
        [
            event(
                1, events.DELIVERED, message=top, consumer=top, queue=(1 << 32) - 1,
                delivery_count=(1 << 16) - 1, time=0,
            )
        ],
        columns,
    )  # fmt: skip
    assert [row[name] for name in columns[:4]] == [top, top, (1 << 32) - 1, (1 << 16) - 1]
    assert row["time"].timestamp() == 0
