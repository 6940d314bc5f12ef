"""Planning of questions: the scan suffices for the answer, and reads no more than it needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daybook.journal.blocks.block import Block, BlockCodec
from daybook.journal.blocks.format import BLOCK_HEADER_BYTES
from daybook.journal.errors import Corruption
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import Segment
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline import decoding
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.duck import DuckEngine
from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.schema import ALL_COLUMNS
from daybook.pipeline.selection import EVERYTHING, Selection
from daybook.pipeline.sql.asking import Answer, Asking
from daybook.pipeline.sql.errors import SqlError
from daybook.pipeline.sql.planning import Catalog, Need, hull, selection_of, widest
from daybook.pipeline.views import VIEWS, prepare
from daybook.recovery.readonly import journal_disk
from tests.support.histories import some_history, write_history

JOURNAL = some_history(11, 400)
LAST = JOURNAL[-1].lsn
ENTRY_KINDS = ("Routed", "Delivered", "Acknowledged", "Returned", "DeadLettered", "Expired")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_history(tmp_path_factory.mktemp("history") / "data", JOURNAL)


@pytest.fixture(scope="module")
def asking(data: Path) -> Iterator[Asking]:
    with Asking(History(Source(str(data)))) as made:
        yield made


@pytest.fixture(scope="module")
def whole(data: Path) -> Iterator[DuckEngine]:
    """All of history in tables, as an unplanned question reads it."""
    history = History(Source(str(data)))
    with DuckEngine() as engine:
        prepare(engine, history, [view.name for view in VIEWS])
        engine.load("events", history, ALL_COLUMNS)
        yield engine


@pytest.fixture(scope="module")
def catalog() -> Iterator[Catalog]:
    with Catalog() as made:
        yield made


def rows(answer: Answer) -> list[dict[str, Any]]:
    return [row for batch in answer.batches for row in batch.to_pylist()]


def same(asking: Asking, whole: DuckEngine, question: str) -> tuple[str, ...]:
    """Assert that the answer is the one from everything; returns the notes."""
    expected = whole.ask(question).to_pylist()
    with asking.answer(question) as answer:
        assert rows(answer) == expected
        return answer.notes


QUESTIONS = (
    "SELECT * FROM events ORDER BY lsn",
    "SELECT count(*) FROM events",
    "SELECT 1 + 1 AS two",
    "SELECT lsn, body FROM events WHERE queue = 'orders' AND kind = 'Routed' ORDER BY lsn",
    "SELECT lsn FROM events WHERE queue = 'größe/kg' OR address = 'news' ORDER BY lsn",
    "SELECT kind, count(*) AS n FROM events WHERE kind IN ('Routed', 'Expired') GROUP BY kind "
    "ORDER BY kind",
    "SELECT lsn FROM events WHERE 20 < lsn AND lsn <= 40 AND lsn <> 30 ORDER BY lsn",
    "SELECT lsn FROM events WHERE NOT (lsn > 9) ORDER BY lsn",
    "SELECT lsn FROM events WHERE lsn IN (3, 5, 700) ORDER BY lsn",
    "SELECT count(*) FROM events WHERE message = 0",
    "SELECT count(*) FROM events WHERE message >= 50 AND message < 60",
    "SELECT count(*) FROM events WHERE kind = 'routed'",
    "SELECT count(*) FROM events WHERE kind = 'Routed' AND kind = 'Expired'",
    "SELECT count(*) FROM events WHERE queue = 'nobody''s' OR lsn = 5",
    "SELECT count(*) FROM events WHERE queue = 'nobody''s'",
    "SELECT count(*) FROM events WHERE queue LIKE 'o%' AND persistent",
    "SELECT count(*) FROM events WHERE list_contains(queues, 'press')",
    "SELECT count(*) FROM events WHERE lsn = (SELECT max(lsn) FROM events)",
    "SELECT count(*) FROM events WHERE lsn < '30'",
    "SELECT count(*) FROM events WHERE lsn + 1 < 30",
    "SELECT count(*) FROM events WHERE time > (SELECT min(time) FROM events)",
    "SELECT count(*) FROM events WHERE time BETWEEN '1970-01-01' AND '2100-01-01 12:30+02'",
    "SELECT count(*) FROM events WHERE address = E'line\\nfeed'",
    "SELECT a.lsn, b.lsn FROM events a JOIN events b ON a.message = b.message WHERE "
    "a.kind = 'Routed' AND b.kind = 'Acknowledged' AND a.queue = 'orders' ORDER BY ALL",
    "SELECT a.lsn, b.kind FROM events a LEFT JOIN events b ON a.message = b.message AND "
    "b.kind = 'Expired' WHERE a.kind = 'Routed' ORDER BY ALL",
    "SELECT count(*) FROM events WHERE lsn < 50 UNION ALL SELECT count(*) FROM events "
    "WHERE kind = 'Delivered'",
    "SELECT m.message, e.headers FROM messages m JOIN events e ON e.lsn = m.message "
    "WHERE m.state = 'ready' ORDER BY ALL",
    "SELECT * FROM messages ORDER BY message",
    "SELECT * FROM entries WHERE queue = 'orders' ORDER BY message",
    "SELECT * FROM deliveries WHERE queue = 'mails' ORDER BY delivered_lsn",
    "SELECT * FROM queues ORDER BY created_lsn",
    "SELECT * FROM milestones WHERE kind = 'BrokerStarted' ORDER BY lsn",
    "SELECT state, count(*) AS n FROM entries GROUP BY state HAVING count(*) > 1 ORDER BY state",
    "WITH x AS (SELECT * FROM events WHERE kind = 'Routed') SELECT count(*) FROM x, x AS y "
    "WHERE x.lsn = y.related",
    "SELECT lsn, sum(body_bytes) OVER (ORDER BY lsn) AS so_far FROM events WHERE lsn < 90 "
    "ORDER BY lsn",
    "SELECT count(*) FILTER (WHERE kind = 'Routed') AS n, max(lsn) AS last FROM events",
    "SELECT count(*) FROM events e WHERE EXISTS (SELECT 1 FROM events r WHERE r.lsn = e.message)",
    "SELECT e.lsn, r.lsn FROM events e LEFT JOIN LATERAL (SELECT lsn FROM events r "
    "WHERE r.lsn = e.message) r ON true ORDER BY ALL",
    "SELECT lsn, (SELECT max(r.lsn) FROM events r WHERE r.message = e.lsn) AS last FROM events e "
    "WHERE kind = 'Routed' ORDER BY lsn",
    "SELECT lsn, (SELECT count(*) FROM unnest(e.queues)) AS n FROM events e ORDER BY lsn",
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT (SELECT min(lsn) FROM events WHERE lsn > n) "
    "FROM c WHERE n < 20) SELECT * FROM c ORDER BY n",
    "SELECT message FROM messages m WHERE NOT EXISTS (SELECT 1 FROM events r "
    "WHERE r.message = m.message AND r.kind = 'Acknowledged') ORDER BY message",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_read_suffices(asking: Asking, whole: DuckEngine, question: str) -> None:
    same(asking, whole, question)


LSNS = st.integers(-3, LAST + 3)
IDS = st.integers(-1, LAST)
NAMES = st.sampled_from(("orders", "mails", "größe/kg", "press", "dead", "a+b", "no one", "#3", ""))


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def listed(values: list[Any]) -> str:
    return ", ".join(quoted(each) if isinstance(each, str) else str(each) for each in values)


COMPARISONS = st.one_of(
    st.builds("lsn {} {}".format, st.sampled_from(("<", "<=", ">", ">=", "=", "<>")), LSNS),
    st.builds("{} {} lsn".format, LSNS, st.sampled_from(("<", "<=", ">", ">=", "="))),
    st.builds("lsn BETWEEN {} AND {}".format, LSNS, LSNS),
    st.lists(IDS, min_size=1, max_size=9).map(lambda ids: f"message IN ({listed(ids)})"),
    st.builds("related = {}".format, IDS),
    st.lists(st.sampled_from((*ENTRY_KINDS, "routed", "#99")), min_size=1).map(
        lambda names: f"kind IN ({listed(names)})"
    ),
    st.builds("{} = {}".format, st.sampled_from(("queue", "address")), NAMES.map(quoted)),
    st.lists(NAMES, min_size=1, max_size=3).map(lambda names: f"queue IN ({listed(names)})"),
    st.sampled_from(("persistent", "queue IS NULL", "priority = 4", "delivery_count > 1")),
    st.builds(
        "time {} to_timestamp({})".format,
        st.sampled_from(("<", ">=", "<=", "=")),
        st.sampled_from(sorted({event.row[-1] / 1e6 for event in JOURNAL[:: LAST // 20]})),
    ),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=5,
)
PARTS = ("lsn, kind, queue", "count(*) AS n", "kind, max(message) AS last", "lsn, body", "*")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(conditions=st.lists(CONDITIONS, min_size=1, max_size=2), part=st.sampled_from(PARTS))
def test_whatever_is_asked_the_answer_is_the_one_from_everything(
    asking: Asking, whole: DuckEngine, conditions: list[str], part: str
) -> None:
    group = " GROUP BY kind" if part.startswith("kind") else ""
    questions = [
        f"(SELECT {part} FROM events WHERE {each}{group} ORDER BY ALL)" for each in conditions
    ]
    same(asking, whole, " UNION ALL ".join(questions))


def test_a_name_that_nobody_had_is_an_empty_answer_and_a_note(
    asking: Asking, whole: DuckEngine
) -> None:
    notes = same(asking, whole, "SELECT * FROM events WHERE kind = 'routed' AND queue = 'order'")
    assert notes == (
        "history has no kind of event 'routed'; did you mean 'Routed'?",
        "history has no queue 'order'; did you mean 'orders'?",
    )


class Counts:
    """How many blocks were decoded, and how many of them with their heap."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks = self.heaps = 0
        block_at = decoding._block_at

        def count(segment: Segment, codec: BlockCodec, offset: int, lsn: int, heaps: bool) -> Block:
            self.blocks += 1
            self.heaps += heaps
            return block_at(segment, codec, offset, lsn, heaps)

        monkeypatch.setattr(decoding, "_block_at", count)


def test_a_count_decodes_no_bodies_and_skips_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = some_history(4, 700)
    data = write_history(tmp_path / "data", journal, cuts=range(20, len(journal), 20))
    blocks = -(-len(journal) // 20)
    after = journal[-1].lsn - 30
    with Asking(History(Source(str(data)))) as asking:
        counts = Counts(monkeypatch)
        with asking.answer("SELECT count(*) AS n FROM events") as answer:
            assert rows(answer) == [{"n": len(journal)}]
        everything, counts.blocks = counts.blocks, 0
        with asking.answer(f"SELECT count(*) AS n FROM events WHERE lsn > {after}") as answer:
            assert rows(answer) == [{"n": 30}]
        assert everything >= blocks
        assert 0 < counts.blocks < everything / 2
        assert counts.heaps == 0
        with asking.answer("SELECT max(octet_length(body)) FROM events") as answer:
            assert len(rows(answer)) == 1
        assert counts.heaps >= blocks


def last_block(data: Path) -> tuple[Path, Block]:
    """The file of the first segment, and the last block of it."""
    blocks = list(read_blocks(journal_disk(data), LAYOUT))
    segment = blocks[0].segment
    return data / "journal" / segment, [each for each in blocks if each.segment == segment][-1]


def offset_that_a_count_tells(data: Path) -> int:
    """The place of the damage in the error of a count of events."""
    with (
        Asking(History(Source(str(data)))) as asking,
        pytest.raises(Corruption) as caught,
        asking.answer("SELECT count(*) FROM events") as answer,
    ):
        rows(answer)
    return caught.value.offset


@pytest.mark.parametrize("part", ["rows", "heap"])
def test_a_count_tells_of_a_segment_that_was_cut(tmp_path: Path, part: str) -> None:
    data = write_history(tmp_path / "data", JOURNAL, cuts=range(20, 400, 20), segment_bytes=1 << 14)
    file, block = last_block(data)
    header = block.header
    end = block.offset + BLOCK_HEADER_BYTES + header.rows_stored_bytes // 2
    if part == "heap":
        end = block.offset + header.block_bytes - header.heap_stored_bytes // 2
    file.write_bytes(file.read_bytes()[:end])
    assert offset_that_a_count_tells(data) == block.offset


def test_a_count_checks_the_rows_that_it_counts(tmp_path: Path) -> None:
    data = write_history(tmp_path / "data", JOURNAL, cuts=range(20, 400, 20), segment_bytes=1 << 14)
    file, block = last_block(data)
    damaged = bytearray(file.read_bytes())
    damaged[block.offset + BLOCK_HEADER_BYTES + block.header.rows_stored_bytes // 2] ^= 1
    file.write_bytes(damaged)
    assert offset_that_a_count_tells(data) == block.offset


def test_a_limit_ends_the_reading(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled: list[int] = []

    def counting(*args: Any, **options: Any) -> Iterator[Any]:
        for batch in read_plan(*args, **options):
            for start in range(0, batch.num_rows, 10):
                pulled.append(start)
                yield batch.slice(start, 10)

    monkeypatch.setattr("daybook.pipeline.duck.read_plan", counting)
    with (
        Asking(History(Source(str(data)))) as asking,
        asking.answer("SELECT lsn FROM events LIMIT 2") as answer,
    ):
        assert rows(answer) == [{"lsn": 1}, {"lsn": 2}]
    assert len(pulled) < LAST / 10


NEEDS = {
    "SELECT count(*) FROM events": Need(1, ("lsn",), (EVERYTHING,)),
    "SELECT 1": Need(),
    "SELECT lsn FROM events WHERE false": Need(),
    "SELECT body FROM events WHERE lsn = 5": Need(
        1, ("lsn", "body"), (Selection(from_lsn=5, to_lsn=5),)
    ),
    "SELECT kind FROM events WHERE message IN (7, 9) AND queue = 'a'": Need(
        1, ("kind", "queue", "message"), (Selection(queues=("a",), messages=(7, 9)),)
    ),
    "SELECT * FROM milestones": Need(milestones=True),
}


@pytest.mark.parametrize("question", NEEDS)
def test_what_a_question_needs(catalog: Catalog, question: str) -> None:
    assert catalog.need(question) == NEEDS[question]


def test_a_join_by_message_needs_only_that_message(catalog: Catalog) -> None:
    need = catalog.need(
        "SELECT m.state, e.headers FROM messages m JOIN events e ON e.lsn = m.message "
        "WHERE m.message = 5"
    )
    assert need.scans == 2
    assert {(each.messages, each.from_lsn, each.to_lsn) for each in need.selections} == {
        ((5,), 1, None),
        ((), 5, 5),
    }
    assert "body" not in need.columns


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_is_one_scan_of_what_it_says_that_it_needs(catalog: Catalog, view: Any) -> None:
    need = catalog.need(f"SELECT * FROM {view.name}")
    assert (need.scans, need.milestones) == (1, True)
    assert set(need.columns) <= set(view.needs)
    (selection,) = need.selections
    assert set(selection.kinds) == set(view.kinds)


@pytest.mark.parametrize(
    ("conditions", "selection"),
    [
        ([], EVERYTHING),
        (["(lsn > 5)"], Selection(from_lsn=5)),
        (["(lsn BETWEEN 5 AND 9)"], Selection(from_lsn=5, to_lsn=9)),
        (["((lsn = 5) OR (lsn = 9))"], Selection(from_lsn=5, to_lsn=9)),
        (["((lsn = 5) OR (message = 9))"], EVERYTHING),
        (["((lsn = 5) OR (lsn > 9))"], EVERYTHING),
        (["(lsn = 7.5)"], EVERYTHING),
        (["(lsn < -4)"], None),
        (["(kind = 'a' AND kind = 'b')"], None),
        (["(CAST(lsn AS DOUBLE) < 9.0)"], EVERYTHING),
        (["(message IN (4, 0))"], EVERYTHING),
        (["(queue = '#7')"], EVERYTHING),
        (["(queue = 'it''s \\ AND')"], Selection(queues=("it's \\ AND",))),
        (["(time >= '1970-01-01 00:00:01+00'::TIMESTAMP WITH TIME ZONE)"],
         Selection(since=1_000_000)),
        (["(time >= 'infinity'::TIMESTAMP WITH TIME ZONE)"], EVERYTHING),
        (["this is no ( condition", "(lsn = 3)"], Selection(from_lsn=3, to_lsn=3)),
    ],
)  # fmt: skip
def test_conditions_as_a_selection(conditions: list[str], selection: Selection | None) -> None:
    assert selection_of(conditions) == selection


def test_the_hull_of_selections_has_all_of_each() -> None:
    one = Selection(kinds=("Routed",), from_lsn=5, to_lsn=9, since=3)
    other = Selection(kinds=("Expired",), queues=("a",), from_lsn=2, to_lsn=7)
    assert hull([one, other]) == Selection(kinds=("Expired", "Routed"), from_lsn=2, to_lsn=9)
    assert widest([one, None, EVERYTHING, other]) == (EVERYTHING,)
    assert widest([one, other, one]) == (one, other)
    assert widest([None]) == ()


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("SELECT kin FROM events", '"kind"'),
        ("SELECT kin FROM events", "line 1: SELECT kin"),
        ("SELECT *\nFROM evnts", 'Did you mean "events"?\n\nline 2: FROM evnts\n             ^^^'),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT sum(kind) FROM events", "No function matches"),
        ("INSERT INTO events VALUES (1)", "INSERT is not possible: history can be read"),
        ("COPY events TO 'x.csv'", "--output"),
        ("ATTACH 'x.db'", "ATTACH is not possible"),
        ("SET threads = 1", "SET is not possible"),
        ("EXPLAIN SELECT 1", "EXPLAIN is not possible"),
        ("SELECT 1; SELECT 2", "run one at a time"),
        ("-- nothing", "there is no query"),
        ("SELECT * FROM read_text('/etc/passwd')", "queries can read only history"),
        ("SELECT * FROM 'other.parquet'", "queries can read only history"),
        ("SELECT CAST(kind AS INT) FROM events", "Could not convert string"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(asking: Asking, question: str, said: str) -> None:
    with pytest.raises(SqlError) as caught, asking.answer(question) as answer:
        rows(answer)
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "EXPLAIN (" not in str(caught.value)
    assert "Candidate functions" not in str(caught.value)
