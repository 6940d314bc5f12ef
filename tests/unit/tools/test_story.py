"""Every event of the table can be described, whatever is in it; times and names are words."""

import json
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.engine.facts import details, events
from daybook.engine.facts.events import COLUMNS, EVENT_TYPES, EventType
from daybook.engine.facts.own_headers import DEATH_TIME
from daybook.engine.facts.reasons import REASONS
from daybook.history.descriptions import as_object, line, sentence
from daybook.history.names import Names
from daybook.history.scan import Event
from daybook.texts import moment, moments_in
from daybook.times import parse_time
from tests.support.worlds.second_format import MAPS, encode, installed

LIMITS = {"B": 255, "H": 65_535, "I": 2**32 - 1, "Q": 2**64 - 1, "q": 2**63 - 1}


def detail_strategy(known: EventType) -> st.SearchStrategy[bytes]:
    if known.detail is None:
        return st.just(b"")
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(known.detail):
        if field.type is str:
            fields[field.name] = st.text(max_size=5)
        elif field.type is bool:
            fields[field.name] = st.booleans()
        elif field.type is int:
            fields[field.name] = st.integers(0, 2**62)
    return st.builds(lambda **given: events.encode_detail(known.detail(**given)), **fields)  # type: ignore[misc]


@st.composite
def any_event(draw: st.DrawFn) -> Event:
    known = draw(st.sampled_from(EVENT_TYPES))
    values = {
        column.name: draw(st.integers(0, LIMITS[column.code]))
        for column in COLUMNS
        if column.name in known.columns or column.name == "time"
    }
    row = events.row(known.number, **values)
    return Event(draw(st.integers(1, 2**63)), row, draw(detail_strategy(known)), b"", 7, b"\xff")


@given(any_event())
def test_any_event_can_be_told(event: Event) -> None:
    names = Names()
    told = line(event, names)
    assert events.BY_NUMBER[event.row[0]].name in told
    assert told.isprintable()
    whole = json.loads(msgspec.json.encode(as_object(event, names)))
    assert {column.name for column in COLUMNS} < whole.keys()
    names.learn(event.row, event.detail)
    names.forget(event.row)


@given(st.sampled_from(EVENT_TYPES), st.sampled_from(sorted(REASONS)))
def test_a_reason_is_given_in_words(known: EventType, reason: int) -> None:
    event = Event(1, events.row(known.number, reason=reason), b"", b"", 0, None)
    text = sentence(event, Names())
    words = REASONS[reason][1]
    if reason:
        assert text.endswith(words if "delivery_count" in known.columns else words.split(";")[0])


def test_a_large_message_is_told_with_its_chunks() -> None:
    chunk = Event(8, events.row(events.CHUNK_RECEIVED, connection=3, related=7), b"", b"", 9, None)
    assert sentence(chunk, Names()) == "connection 3, after chunk 7, 9 bytes"
    for lsns, words in (((7, 8, 12), "in 3 chunks from 7 to 12"), ((7,), "in chunk 7")):
        detail = details.RoutedDetail(chunks=events.chunk_steps(lsns), body_bytes=1000)
        row = events.row(events.ROUTED, message=13, priority=4, flags=5)
        routed = Event(13, row, events.encode_detail(detail), b"a:b\n", 0, None)
        assert sentence(routed, Names()) == f"message 13, 1,004 bytes, {words}"
        assert as_object(routed, Names())["body_bytes"] == 1000


def test_an_id_is_told_with_its_message() -> None:
    detail = events.encode_detail(details.DuplicateIdDetail(duplicate_id="job 7"))
    row = events.row(events.DUPLICATE_ID_RECORDED, address=2, related=7)
    recorded = Event(8, row, detail, b"", 0, None)
    expected = "address '#2', of the message routed by event 7, duplicate id 'job 7'"
    assert sentence(recorded, Names()) == expected


def test_kinds_and_reasons_of_later_versions_are_told_by_number() -> None:
    event = Event(5, events.row(99, reason=250, message=3), b"\x80", b"", 0, None)
    assert "kind 99" in line(event, Names())
    assert sentence(event, Names()) == "message 3, not persistent: reason 250"


def test_headers_are_told_in_whatever_format_they_are() -> None:
    block = encode({"n": 7}, destination="d")
    row = events.row(events.ROUTED, queue=1, message=5, flags=events.PERSISTENT | MAPS)
    event = Event(5, row, b"", block, 0, None)
    with installed():
        assert sentence(event, Names()).endswith("headers are maps of tests")
        assert as_object(event, Names())["headers"] == {"destination": "d", "n": "7"}
    unknown = "headers in content format 5, unknown to this version"
    assert sentence(event, Names()).endswith(unknown)
    told = as_object(event, Names())
    assert (told["headers"], told["headers_format"]) == (None, 5)
    assert b64decode(told["headers_base64"]) == block


def test_an_event_without_headers_has_none_in_any_format() -> None:
    event = Event(5, events.row(events.ACKNOWLEDGED, message=3, flags=MAPS), b"", b"", 0, None)
    assert as_object(event, Names())["headers"] == {}
    assert "format" not in sentence(event, Names())


def test_connections_and_consumers_are_forgotten_when_they_end() -> None:
    names = Names()
    opened = events.row(events.CONNECTION_OPENED, connection=3)
    names.learn(opened, events.encode_detail(details.ConnectionDetail(peer="p", user="u")))
    assert names.connections == {3: "u from p"}
    names.forget(events.row(events.CONNECTION_CLOSED, connection=3))
    assert names.connections == {}
    attached = events.row(events.CONSUMER_ATTACHED, consumer=4, connection=3)
    names.learn(attached, b"")
    names.forget(events.row(events.BROKER_STARTED))
    assert names.consumers == {}


NOW = datetime(2026, 3, 4, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-03-04T14:05:30.5", datetime(2026, 3, 4, 14, 5, 30, 500_000, tzinfo=UTC)),
        ("2026-03-04 14:05", datetime(2026, 3, 4, 14, 5, tzinfo=UTC)),
        ("2026-03-04T14:05+02:00", datetime(2026, 3, 4, 12, 5, tzinfo=UTC)),
        ("2026-03-04", datetime(2026, 3, 4, tzinfo=UTC)),
        ("14:05", datetime(2026, 3, 4, 14, 5, tzinfo=UTC)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2d", NOW - timedelta(days=2)),
        ("-10m", NOW - timedelta(minutes=10)),
        ("10 minutes ago", NOW - timedelta(minutes=10)),
        ("1 Hour ago", NOW - timedelta(hours=1)),
        ("now", NOW),
        ("today", datetime(2026, 3, 4, tzinfo=UTC)),
        ("today 09:00", datetime(2026, 3, 4, 9, tzinfo=UTC)),
        ("Yesterday 09:00:30", datetime(2026, 3, 3, 9, 0, 30, tzinfo=UTC)),
        ("2026-03-04 14:05 UTC", datetime(2026, 3, 4, 14, 5, tzinfo=UTC)),
        ("2026-03-04T14:05Z", datetime(2026, 3, 4, 14, 5, tzinfo=UTC)),
        ("2026-07-04 14:05 Europe/Berlin", datetime(2026, 7, 4, 12, 5, tzinfo=UTC)),
        ("14:05 America/New_York", datetime(2026, 3, 4, 19, 5, tzinfo=UTC)),
    ],
)
def test_times_as_people_write_them(text: str, meant: datetime) -> None:
    microseconds = parse_time(text, NOW)
    assert datetime.fromtimestamp(microseconds / 1e6, UTC) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "25:00",
        "2026-13-01",
        "10 parsecs",
        "today 25:00",
        "ago",
        "9:00 Mars/Base",
        "UTC",
        "today Europe/../x",
    ],
)
def test_what_is_no_time_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it like"):
        parse_time(text, NOW)


def test_moments_round_trip_and_never_fail() -> None:
    assert moment(1_763_640_000_000_001) == "2025-11-20 12:00:00.000001"
    assert parse_time(moment(1_763_640_000_000_001), NOW) == 1_763_640_000_000_001
    assert moment(2**63 - 1).endswith("us")


def test_times_in_filters_of_requests_are_readable() -> None:
    wanted = f"{DEATH_TIME} >= 1795953008853 AND price > 12345678901 AND JMSTimestamp<1795953008853"
    request = json.dumps({"do": "act-on-messages", "queue": "DLQ", "filter": wanted})
    detail = events.encode_detail(details.AdministeredDetail("ada", request))
    event = Event(7, events.row(events.ADMINISTERED, time=1), detail, b"", 0, None)
    said = sentence(event, Names())
    assert said.endswith(f"filter {wanted} (1795953008853 is {moment(1795953008853000)}))")
    assert moments_in(wanted) == {"1795953008853": moment(1795953008853000)}
