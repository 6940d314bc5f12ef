"""The stages of a round trip are put together rightly, and a real broker has them all."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench.machine.preload import NoCompiler, compile_library
from bench.stages import (
    DAYTIME,
    DIGEST,
    METER,
    NEAR,
    PROCESS,
    PWRITE,
    READ,
    RECEIVE,
    SEND,
    SOURCE,
    STAGES,
    SYNC,
    WRITE,
    Found,
    Note,
    calls_of,
    main,
    ways_of,
)

BROKER, WRITER = 10, 11
BEGIN = (
    (0, 2, READ, BROKER), (3, 3, METER, BROKER), (4, 4, DAYTIME, BROKER), (10, 10, METER, BROKER),
    (12, 12, METER, BROKER), (13, 13, DAYTIME, BROKER), (20, 20, DAYTIME, BROKER),
)  # fmt: skip
HERE = (
    (50, 51, DIGEST, BROKER), (60, 63, PWRITE, BROKER), (64, 164, SYNC, BROKER),
    (190, 200, WRITE, BROKER), (201, 201, METER, BROKER),
)  # fmt: skip
THERE = (
    (30, 40, SEND, BROKER), (15, 45, RECEIVE, WRITER), (46, 47, RECEIVE, WRITER),
    (90, 91, DIGEST, WRITER), (95, 98, PWRITE, WRITER), (99, 199, SYNC, WRITER),
    (210, 215, SEND, WRITER), (220, 230, RECEIVE, BROKER), (250, 260, WRITE, BROKER),
)  # fmt: skip


def notes_of(*trips: tuple[tuple[int, int, int, int], ...]) -> list[Note]:
    """Trips one after the other, 1,000 microseconds for each."""
    return sorted(
        Note((number * 1000 + begin) * 1000, (number * 1000 + end) * 1000, process, kind, 300)
        for number, trip in enumerate(trips)
        for begin, end, kind, process in trip
    )


def test_a_trip_is_cut_into_stages_by_either_way() -> None:
    incomplete = tuple(note for note in HERE if note[2] != SYNC)
    notes = notes_of(BEGIN + HERE, BEGIN + THERE, BEGIN + HERE, BEGIN + incomplete, BEGIN)
    near, process = ways_of(notes, 256)
    assert (near.name, near.trips) == (NEAR, 2)
    assert {stage.name: stage.median_us for stage in near.stages} == {
        "socket read": 2, "parse, decide": 8, "until the turn": 2, "dispatch, close the block": 8,
        "encode the block": 31, "hop to the thread": 9, "write": 3, "fdatasync": 100,
        "hop back": 26, "socket write": 10,
    }  # fmt: skip
    assert (process.name, process.trips) == (PROCESS, 1)
    assert {stage.name: stage.median_us for stage in process.stages} == {
        "socket read": 2, "parse, decide": 8, "until the turn": 2, "dispatch, close the block": 8,
        "hop to the writer": 25, "encode the block": 50, "write": 3, "fdatasync": 100,
        "hop back": 31, "outbox": 20, "socket write": 10,
    }  # fmt: skip
    # A moment between two stages belongs to none.
    assert (near.whole.median_us, process.whole.median_us) == (199, 259)
    assert [stage.name for stage in near.stages] == [
        name for name in STAGES if name not in ("hop to the writer", "outbox")
    ]


def test_calls_are_counted_for_each_message() -> None:
    calls = {call.name: call for call in calls_of(notes_of(BEGIN + THERE, BEGIN + HERE), 4)}
    assert calls["syncs"].often == 500
    assert calls["syncs"].time_us == 50
    assert calls["sends between processes"].often == 500


def test_a_real_broker_has_every_stage(tmp_path: Path) -> None:
    try:
        compile_library(SOURCE, tmp_path)
    except NoCompiler as error:
        pytest.skip(str(error))
    arguments = ["--messages", "1000", "--round-trips", "60", "--data", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    trips, pipe = msgspec.json.decode(result.stdout, type=list[Found])
    assert sum(way.trips for way in trips.ways) >= 50
    named = {stage.name for way in trips.ways for stage in way.stages}
    assert named >= {"parse, decide", "encode the block", "fdatasync", "hop back", "socket write"}
    assert {share.process for share in pipe.shares} >= {"broker", "writer"}
    assert (trips.messages, pipe.messages) == (60, 1000)
