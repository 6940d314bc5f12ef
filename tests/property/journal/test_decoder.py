"""The invariants of the decoder (ADR 14): exactly what is selected, whatever else is asked for.

What is right is said here once more in plain Python, event by event, from what the world journaled.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts.reasons import REASONS
from daybook.engine.messages.annotations import unpacked
from daybook.engine.messages.content import View
from daybook.engine.messages.conversions import as_json
from daybook.engine.messages.headers import as_dict
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.verify import verify
from daybook.pipeline.decoding import read_plan, read_split
from daybook.pipeline.planning import Plan, Source, make_plan
from daybook.pipeline.schema import ALL_COLUMNS, NAMED_COLUMNS, arrow_schema
from daybook.pipeline.selection import Selection
from daybook.pipeline.typed_headers import DERIVED
from tests.support.histories import some_history, write_history
from tests.support.scenario import play, steps
from tests.support.stored.older import write_as_before
from tests.support.world import Event, World

SMALLEST_SEGMENT = 8192
Rows = list[dict[str, Any]]


@cache
def history(seed: int, messages: int) -> list[Event]:
    return some_history(seed, messages)


def _as_in_json(detail: Any) -> Any:
    """Return a detail with keys as JSON has them, and annotations as a map."""
    if isinstance(detail.get("annotations"), bytes):
        detail["annotations"] = as_json(unpacked(detail["annotations"]))
    return msgspec.to_builtins(detail, str_keys=True, builtin_types=(bytes,))


def _derived_of(event: Event) -> dict[str, Any]:
    """The derived columns of one event, made of it alone (`tests/unit/pipeline` says of what)."""
    headers, flags = pa.array([event.headers], pa.binary()), pa.array([event.row[6]])
    return {name: make(headers, flags).to_pylist()[0] for name, make in DERIVED.items()}


class Plainly:
    """The columns of a history, and the events of a selection, computed the long way."""

    def __init__(self, directory: Path, journal: Sequence[Event]) -> None:
        self.journal = journal
        self.addresses: dict[int, str] = {}
        self.queues: dict[int, str] = {}
        for event in journal:
            if event.name in ("AddressCreated", "AddressUpdated"):
                self.addresses[event.row[3]] = event.decoded.name
            if event.name in ("QueueCreated", "QueueUpdated"):
                self.queues[event.row[4]] = event.decoded.name
        self.places: dict[int, tuple[str, int]] = {}
        for block in read_blocks(RealDisk(directory / "journal")):
            for lsn, row, *strings in block.events():
                assert (lsn, row, *strings) == tuple(journal[lsn - 1])
                self.places[lsn] = (block.segment, block.offset)

    def queue_ids(self, event: Event) -> tuple[int, ...]:
        if event.name == "Routed" and event.row[4] == 0:
            found: tuple[int, ...] = event.decoded.queues
            return found
        return (event.row[4],) if event.row[4] else ()

    def is_selected(self, event: Event, selection: Selection) -> bool:
        message, related, time = event.row[7], event.row[10], event.row[11]
        family = event.name in ("Routed", "DeadLettered", "Expired")
        queues = {self.queues[number] for number in self.queue_ids(event)}
        return (
            (not selection.kinds or event.name in selection.kinds)
            and (not selection.queues or not queues.isdisjoint(selection.queues))
            and (not selection.addresses or self.addresses.get(event.row[3]) in selection.addresses)
            and (
                not selection.messages
                or message in selection.messages
                or (family and related in selection.messages)
            )
            and selection.from_lsn <= event.lsn
            and (selection.to_lsn is None or event.lsn <= selection.to_lsn)
            and (selection.since is None or selection.since <= time)
            and (selection.until is None or time <= selection.until)
        )

    def row(self, event: Event) -> dict[str, Any]:
        row, names = event.row, self.queues
        segment, offset = self.places[event.lsn]
        return {
            "lsn": event.lsn, "time": row[11], "kind": event.name, "reason": REASONS[row[1]][0],
            "address": self.addresses[row[3]] if row[3] else None,
            "queue": names[row[4]] if row[4] else None,
            "queues": [names[number] for number in self.queue_ids(event)],
            "message": row[7], "consumer": row[8], "connection": row[9], "related": row[10],
            "delivery_count": row[2], "priority": row[5], "persistent": row[6] % 2 == 1,
            "detail": _as_in_json(msgspec.msgpack.decode(event.detail)) if event.detail else None,
            "headers": as_dict(View(row[6], event.headers).lines()) if event.headers else None,
            "body": event.body, "headers_bytes": len(event.headers),
            "body_bytes": len(event.body),
            "kind_id": row[0], "reason_id": row[1], "address_id": row[3], "queue_id": row[4],
            "flags": row[6], "detail_raw": event.detail, "headers_raw": event.headers,
            "segment": segment, "block_offset": offset, **_derived_of(event),
        }  # fmt: skip

    def rows(self, selection: Selection) -> Rows:
        return [self.row(event) for event in self.journal if self.is_selected(event, selection)]


def rows_of(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> Rows:
    """The rows of batches, in the terms of `Plainly`."""
    rows: Rows = []
    for batch in batches:
        assert batch.schema.names == list(columns)
        batch.validate(full=True)
        values = []
        for name, array in zip(columns, batch.columns, strict=True):
            plain = (array.cast(pa.int64()) if name == "time" else array).to_pylist()
            if name == "detail":
                plain = [json.loads(text) if text is not None else None for text in plain]
            if name == "headers":
                plain = [None if pairs is None else dict(pairs) for pairs in plain]
            values.append(plain)
        rows += [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    return rows


def whole_commands(journal: Sequence[Event], cuts: Sequence[int]) -> list[int]:
    """The cuts that leave a message and what it was made from in one block, as brokers do."""
    kept = set(cuts)
    for event in journal:
        if event.name in ("DeadLettered", "Expired") and event.row[10]:
            kept -= set(range(min(event.row[10], event.lsn), max(event.row[10], event.lsn)))
    return sorted(kept)


def selections(journal: Sequence[Event]) -> st.SearchStrategy[Selection]:
    """Selections by what there is in a history, and a bit by what there is not."""
    names = {
        name: sorted({event.decoded.name for event in journal if event.name == f"{name}Created"})
        for name in ("Queue", "Address")
    }
    lsns = st.integers(0, len(journal) + 2)
    times = st.sampled_from([event.row[11] for event in journal])
    messages = sorted({event.row[7] for event in journal if event.row[7]})
    # Copies and what they were made from are few, and easily missed.
    families = sorted({event.row[10] for event in journal if event.row[10]} & set(messages))
    filters: dict[str, st.SearchStrategy[Any]] = {
        "kinds": some(sorted({event.name for event in journal} | {"AddressDeleted"})),
        "queues": some(names["Queue"]),
        "addresses": some(names["Address"]),
        "messages": some(messages) | some(families),
        "from_lsn": lsns,
        "to_lsn": lsns,
        "since": times,
        "until": times,
    }
    chosen = st.lists(st.sampled_from(sorted(filters)), max_size=3, unique=True)
    return chosen.flatmap(
        lambda fields: st.builds(Selection, **{field: filters[field] for field in fields})
    )


def some(options: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Some of the options; none where there are none."""
    if not options:
        return st.just(())
    return st.lists(st.sampled_from(options), min_size=1, max_size=3, unique=True).map(tuple)


def plan_of(source: Source, selection: Selection, split_bytes: int, columns: Sequence[str]) -> Plan:
    names = not NAMED_COLUMNS.isdisjoint(columns)
    return make_plan(source, selection, names=names, split_bytes=split_bytes)


@given(st.data())
def test_the_decoder_gives_exactly_what_is_selected(data: st.DataObject) -> None:
    journal = history(data.draw(st.integers(1, 4)), data.draw(st.sampled_from([5, 40, 200])))
    cuts = data.draw(st.lists(st.integers(1, len(journal)), max_size=60))
    size = data.draw(st.sampled_from([SMALLEST_SEGMENT, 3 * SMALLEST_SEGMENT, 1 << 20]))
    with TemporaryDirectory() as folder:
        directory = write_history(
            Path(folder), journal, cuts=whole_commands(journal, cuts), segment_bytes=size
        )
        plainly = Plainly(directory, journal)
        for _ in range(4):
            selection = data.draw(selections(journal))
            columns = data.draw(
                st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, max_size=6, unique=True)
            )
            split_bytes = data.draw(st.sampled_from([1, 300, 4000, 1 << 24]))
            expected = [{name: row[name] for name in columns} for row in plainly.rows(selection)]
            plan = plan_of(Source(str(directory)), selection, split_bytes, columns)
            assert rows_of(list(read_plan(plan, columns)), columns) == expected


@given(steps, st.lists(st.integers(1, 300), max_size=30))
def test_every_scenario_comes_out_as_it_was_journaled(
    scenario: list[tuple[int, int, int, int]], cuts: list[int]
) -> None:
    world = World()
    play(world, scenario)
    journal = world.journal
    with TemporaryDirectory() as folder:
        directory = write_history(Path(folder), journal, cuts=cuts, segment_bytes=SMALLEST_SEGMENT)
        plan = make_plan(Source(str(directory)), Selection())
        assert (plan.first_lsn, plan.last_lsn) == (1, len(journal))
        expected = Plainly(directory, journal).rows(Selection())
        assert rows_of(list(read_plan(plan, ALL_COLUMNS)), ALL_COLUMNS) == expected


@given(st.integers(1, 4), st.integers(0, 4), st.sets(st.sampled_from(ALL_COLUMNS), min_size=1))
def test_blocks_as_they_were_written_once_give_the_same(
    seed: int, older: int, chosen: set[str]
) -> None:
    journal = history(seed, 200)
    columns = sorted(chosen - {"block_offset"} | {"lsn"})
    with TemporaryDirectory() as folder:
        directory = write_history(Path(folder), journal, segment_bytes=1 << 15)
        source = Source(str(directory))
        expected = rows_of(list(read_plan(make_plan(source, Selection()), columns)), columns)
        write_as_before(directory / JOURNAL, older)
        assert verify(RealDisk(directory / JOURNAL)).ok
        found = rows_of(list(read_plan(make_plan(source, Selection()), columns)), columns)
        assert found == expected


@given(st.data())
def test_a_column_is_the_same_whatever_else_is_asked_for(data: st.DataObject) -> None:
    journal = history(data.draw(st.integers(1, 4)), 40)
    selection = data.draw(selections(journal))
    with TemporaryDirectory() as folder:
        directory = write_history(Path(folder), journal, segment_bytes=SMALLEST_SEGMENT)
        plan = make_plan(Source(str(directory)), selection)
        schema = arrow_schema(ALL_COLUMNS)
        together = pa.Table.from_batches(read_plan(plan, ALL_COLUMNS), schema)
        for name, column in zip(ALL_COLUMNS, together.columns, strict=True):
            alone = [batch.column(0) for batch in read_plan(plan, [name])]
            assert pa.chunked_array(alone, schema.field(name).type).equals(column)


@given(st.integers(1, 4), st.sampled_from([1, 500, 5000, 1 << 24]), st.integers(0, 1000))
def test_splits_cover_everything_once_and_are_read_alone(
    seed: int, split_bytes: int, from_lsn: int
) -> None:
    journal = history(seed, 200)
    with TemporaryDirectory() as folder:
        directory = write_history(Path(folder), journal, segment_bytes=SMALLEST_SEGMENT)
        source = Source(str(directory))
        plan = make_plan(source, Selection(from_lsn=from_lsn), split_bytes=split_bytes)
        found: list[int] = []
        for split in plan.splits:
            # As in another process: with nothing but what travels.
            batches = read_split(source.disk(), split, plan.selection, ["lsn"], plan.names)
            lsns = [lsn for batch in batches for lsn in batch.column(0).to_pylist()]
            assert split.rows == split.last_lsn - split.first_lsn + 1 >= len(lsns)
            assert lsns == list(range(max(split.first_lsn, from_lsn), split.last_lsn + 1))
            found += lsns
        assert found == list(range(max(from_lsn, 1), len(journal) + 1))
