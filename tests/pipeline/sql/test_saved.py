"""The saved queries: docs/forensics.md has them as they are, and each has an answer on a history of
a shop with bad days.
"""

import textwrap
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from bench import incident
from bench.questions import span_of
from daybook.console.pages.queries import SHARED_CHARS_MAX
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.sql.asking import Asking
from daybook.pipeline.sql.saved import NO_CHART, SAVED, Saved
from tests.meta import tree
from tests.support.histories import some_history, twice_delivered, write_history
from tests.support.world import World

SINCE = datetime(2023, 11, 15, 1, tzinfo=UTC)
UNTIL = datetime(2023, 11, 15, 2, tzinfo=UTC)
PAGE = tree.ROOT / "docs" / "forensics.md"
OFFERS = " AND address = 'offers'"
"""The page adds it, since there only offers expire."""
PLACE_OF_TEXT = "text to find"
TEXT_OF = "SELECT lsn, substr(CAST(body AS VARCHAR), 1, 60) AS text FROM events "
ALL_KINDS = "SELECT kind, count(*) AS events FROM events GROUP BY kind"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history") / "shop"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("TURN_MESSAGES", 20), ("OFFER_US", 5_000_000), ("DEATH_TURNS", 40),
            ("REJECTED_BY_CARELESS", 0.3), ("POISONOUS", 50), ("IN_FLIGHT", 100),
        ):  # fmt: skip
            patch.setattr(incident, name, value)
        incident.make_incident(directory, 10_000)
    return directory


def rows_of(data: Path, sql: str) -> list[dict[str, Any]]:
    """Return the answer to a query."""
    with Asking(History(Source(str(data)))) as asking, asking.answer(sql) as answer:
        return [row for batch in answer.batches for row in batch.to_pylist()]


@pytest.mark.parametrize("saved", SAVED, ids=lambda each: each.question)
def test_a_saved_query_has_an_answer(shop: Path, saved: Saved) -> None:
    span = span_of(shop)
    since, until = span.begin.replace(second=0), span.end + timedelta(minutes=1)
    rows: list[dict[str, Any]] = []
    [text] = rows_of(shop, TEXT_OF + "WHERE kind = 'Routed' ORDER BY lsn LIMIT 1")
    for only in ("", OFFERS):
        asked = saved.sql(since, until, only).replace(PLACE_OF_TEXT, text["text"])
        found = rows_of(shop, asked)
        assert found
        rows = rows or sorted(found, key=str)
        assert sorted(found, key=str) == rows
    assert len(saved.sql(since, until)) <= SHARED_CHARS_MAX


@pytest.mark.parametrize("saved", SAVED, ids=lambda each: each.question)
def test_the_page_has_a_saved_query_as_it_is(saved: Saved) -> None:
    page = PAGE.read_text("utf-8")
    sql = saved.sql(SINCE, UNTIL, OFFERS)
    command = textwrap.indent(sql, "  ")
    assert f'```sh\njournal sql shop "\n{command}"\n```' in page or f"```sql\n{sql}\n```" in page
    assert saved.question in page


def test_deliveries_that_did_not_count_are_found(tmp_path: Path) -> None:
    data, message = twice_delivered(tmp_path / "data")
    [saved] = [each for each in SAVED if "handed out twice" in each.question]
    span = span_of(data)
    since, until = span.begin.replace(second=0), span.end + timedelta(minutes=1)
    [row] = rows_of(data, saved.sql(since, until))
    assert (row["message"], row["deliveries"], row["attempts"]) == (message, 2, 1)
    assert row["why"] == "closed"


def test_failures_are_counted_by_queue_and_reason(shop: Path) -> None:
    [saved] = [each for each in SAVED if each.question.startswith("What failed")]
    span = span_of(shop)
    rows = rows_of(shop, saved.sql(span.begin.replace(second=0), span.end + timedelta(minutes=1)))
    died = rows_of(
        shop,
        "SELECT queue, count(*) AS died FROM events WHERE kind = 'DeadLettered' GROUP BY ALL",
    )
    counted = {each["queue"]: 0 for each in rows}
    for each in rows:
        counted[each["queue"]] += each["dead_letters"]
    assert counted == {each["queue"]: each["died"] for each in died}
    assert {each["reason"] for each in rows} == {"delivery-limit"}


def test_a_message_is_found_by_its_body_though_that_is_in_pieces(tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", some_history(1, 300))
    [saved] = [each for each in SAVED if "in their body" in each.question]
    span = span_of(data)
    sql = saved.sql(span.begin.replace(second=0), span.end + timedelta(minutes=1))
    large = rows_of(
        data,
        "SELECT message, address, CAST(detail->'chunks' AS BIGINT[]) AS chunks FROM events"
        " WHERE kind = 'Routed' AND len(CAST(detail->'chunks' AS BIGINT[])) > 1",
    )
    assert large
    pieces = {each["lsn"]: each["text"] for each in rows_of(data, TEXT_OF + "WHERE kind LIKE 'C%'")}
    for each in large[:3]:
        for piece in accumulate(each["chunks"]):
            text = pieces[piece].replace("'", "''")
            found = rows_of(data, sql.replace(PLACE_OF_TEXT, text))
            assert each["message"] in [row["message"] for row in found]
            assert each["address"] in [row["address"] for row in found]


def test_counts_by_kind_leave_out_events_that_did_nothing(tmp_path: Path) -> None:
    world = World()
    world.restart(skipped=100)
    data = write_history(tmp_path / "data", world.journal)
    counted = {each["kind"]: each["events"] for each in rows_of(data, ALL_KINDS)}
    assert counted.pop("Skipped") == 100
    [saved] = [each for each in SAVED if each.template.split()[:2] == ["SELECT", "kind,"]]
    since = datetime.fromtimestamp(1_700_000_000 // 60 * 60, UTC)
    rows = rows_of(data, saved.sql(since, since + timedelta(minutes=2)))
    assert {each["kind"]: each["events"] for each in rows} == counted


def test_a_query_about_single_messages_has_no_chart() -> None:
    for each in SAVED:
        first = each.template.split()[1].strip(",")
        assert (each.chart == NO_CHART) == first.endswith("message"), each.question
