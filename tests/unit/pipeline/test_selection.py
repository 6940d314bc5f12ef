"""Options become a selection, or a sentence that says what would be right."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.pipeline.selection import (
    EVERYTHING,
    Selection,
    SelectionError,
    from_options,
)
from daybook.times import parse_time


def test_nothing_selects_everything() -> None:
    assert from_options({}) == EVERYTHING == Selection()
    assert from_options({"kinds": "", "lsn": "", "time": " , "[:1].strip()}) == EVERYTHING
    assert not EVERYTHING.needs_names
    assert Selection(queues=("a",)).needs_names
    assert Selection(addresses=("a",)).needs_names


def test_every_option() -> None:
    found = from_options(
        {
            "kinds": "routed, DeadLettered", "queues": "größe/kg, a b", "addresses": "news",
            "message": "17,4711", "lsn": "5..90", "time": "2026-11-20..2026-11-20T12:00:30+02:00",
        }
    )  # fmt: skip
    assert found.kinds == ("Routed", "DeadLettered")
    assert found.queues == ("größe/kg", "a b")
    assert found.addresses == ("news",)
    assert found.messages == (17, 4711)
    assert (found.from_lsn, found.to_lsn) == (5, 90)
    midnight = 1_795_132_800_000_000
    assert (found.since, found.until) == (midnight, midnight + 36_030_000_000)


@pytest.mark.parametrize(
    ("text", "span"), [("5", (5, 5)), ("5..", (5, None)), ("..5", (1, 5)), (" 5 .. 6 ", (5, 6))]
)
def test_spans_may_be_open(text: str, span: tuple[int, int | None]) -> None:
    found = from_options({"lsn": text})
    assert (found.from_lsn, found.to_lsn) == span


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"kinds": "Route"}, r"no kind of event 'Route'; did you mean Routed\?"),
        ({"kinds": "x"}, "no kind of event 'x'; kinds: BrokerStarted, "),
        ({"lsn": "0"}, "'0' is not an LSN; write a whole number from 1 on"),
        ({"lsn": "a..b"}, "'a' is not an LSN"),
        ({"lsn": "²"}, "is not an LSN"),
        ({"lsn": "9..5"}, r"lsn '9\.\.5' ends before it begins; write FROM\.\.TO"),
        ({"message": "-1"}, "'-1' is not the id of a message"),
        ({"time": "noon"}, "'noon' is not a time; write it like 2026-11-20T14:05, 14:05:30, "),
        ({"time": "999999999 weeks ago"}, "'999999999 weeks ago' is before the year 1"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], what: str) -> None:
    with pytest.raises(SelectionError, match=what):
        from_options(options)


def test_times_are_written_as_on_the_command_line() -> None:
    before = datetime.now(UTC)
    found = from_options({"time": "10 minutes ago .. now"})
    assert found.since is not None
    assert found.until is not None
    assert found.until - found.since == 600_000_000, "both ends are of the same now"
    assert found.until >= parse_time(before.isoformat(), before)
    assert from_options({"time": "-10m.."}).until is None
    zoned = from_options({"time": "2026-11-20T12:00 Europe/Berlin..2026-11-20T11:00"})
    assert zoned.since == zoned.until


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_exact(when: datetime) -> None:
    found = from_options({"time": f"{when.isoformat()}..{when.replace(tzinfo=None).isoformat()}"})
    micros = found.since
    assert micros is not None
    assert micros == found.until
    assert micros % 1_000_000 == when.microsecond
    assert (micros - when.microsecond) // 1_000_000 == int(when.replace(microsecond=0).timestamp())
