"""The page SQL: answers like those of `journal sql`, for users who may see the history, and no more
than the history.
"""

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.interop.console.using import send
from tests.support import nursery
from tests.support.console import Browser, ConsoleProcess, Shown
from tests.support.process import JOURNAL, BrokerProcess

pytestmark = pytest.mark.interop

Visit = Callable[[str], Browser]
ASKED = """-- The routed messages, and where 'it' is.
SELECT address, count(*) AS "how many", sum(octet_length(body)) AS bytes,
       NULL AS nothing, '<b>' || min(kind) AS kind, '\\' AS backslash
FROM events WHERE kind = 'Routed' AND address LIKE 'asked%' GROUP BY ALL ORDER BY ALL"""


def answer_on(shown: Shown) -> list[list[str | None]]:
    """Return the rows of the answer that a page shows; null is None."""
    table = re.search(r'<table id="answer">.*?<tbody>(.*?)</tbody>', shown.text, re.DOTALL)
    assert table, shown.error or shown.words
    return [
        [
            None if mark else unescape(re.sub(r"<[^>]*>", "", text))
            for mark, text in re.findall(r"<td( data-null)?[^>]*>(.*?)</td>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)
    ]


def run_in_a_shell(shown: Shown, *words: str) -> str:
    """Run the command that a page shows as people do: copied into a shell."""
    found = re.search(r'<code id="command">([^<]*)</code>', shown.text)
    assert found, shown.words
    command = unescape(found[1])
    assert command.startswith("journal sql ")
    command = command.replace("journal sql", f"{JOURNAL} sql {' '.join(words)}", 1)
    done = nursery.run(["bash", "-c", command], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def asked(broker: BrokerProcess) -> None:
    """Messages that the queries ask about."""
    send(broker, "asked.a", "one", "--count", "3")
    send(broker, "asked.b", "three")


@pytest.mark.usefixtures("asked")
def test_the_answer_is_that_of_the_command(visit: Visit) -> None:
    browser = visit("ada")
    shown = browser.get("/b/data/sql")
    assert shown.status == 200, shown.error
    assert 'id="command"' not in shown.text
    led = browser.submit(shown, q=ASKED.replace("\n", "\r\n"))
    assert led.status == 303
    shown = browser.get(led.headers["location"])
    rows = answer_on(shown)
    assert rows == [
        ["asked.a", "3", "9", None, "<b>Routed", "\\"],
        ["asked.b", "1", "5", None, "<b>Routed", "\\"],
    ]
    assert "<b>Routed" not in shown.text
    assert "VARCHAR" in shown.words
    lines = run_in_a_shell(shown, "--format", "jsonl").splitlines()
    assert [
        [None if value is None else str(value) for value in json.loads(line).values()]
        for line in lines
    ] == rows
    one = browser.get("/b/data/sql", q="SELECT 1 AS one")
    assert " 1 row." in one.words
    for statement in ("COPY events TO '/tmp/x'", "EXPORT DATABASE '/tmp/x'", "ATTACH 'x'"):
        words = browser.get("/b/data/sql", q=statement).words
        assert "SUMMARIZE are possible" in words
        assert not re.search("--(output|parquet)", words)
    assert json.loads(run_in_a_shell(one, "--format", "jsonl")) == {"one": 1}
    assert answer_on(visit("rea").get("/b/data/sql", q="SELECT 1 AS one")) == [["1"]]


@pytest.mark.usefixtures("asked")
def test_files_have_all_of_the_answer(visit: Visit) -> None:
    browser = visit("ada")
    shown = browser.get(
        "/b/data/sql", q="SELECT range AS n, '=1+' || range AS text FROM range(3000)"
    )
    assert len(answer_on(shown)) == 1000
    assert "1,000 rows are shown, 2,000 more are not" in shown.words
    file = browser.submit(shown, form="csv")
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-disposition"] == 'attachment; filename="answer.csv"'
    assert file.headers["x-content-type-options"] == "nosniff"
    found = list(csv.reader(io.StringIO(file.text)))
    assert found[:2] == [["n", "text"], ["0", "'=1+0"]]
    assert len(found) == 3001
    told = json.loads(browser.submit(shown, form="json").text)
    assert len(told) == 3000
    assert told[-1] == {"n": 2999, "text": "=1+2999"}
    assert "form must be one of" in browser.submit(shown, form="exe").error
    long = browser.get("/b/data/sql", q="SELECT repeat('x', 1000) FROM range(100000)")
    assert "longer than 16 MiB" in browser.submit(long, form="csv").error
    assert "(1,000 characters)" in long.words
    forged = browser.post("/b/data/sql/file", {"q": "SELECT 1", "form": "csv"})
    assert forged.status == 403


def test_long_queries_are_answered_without_a_url(visit: Visit) -> None:
    browser = visit("ada")
    long = "SELECT 7 AS n -- " + "x" * 5000
    shown = browser.submit(browser.get("/b/data/sql"), q=long)
    assert shown.status == 200
    assert answer_on(shown) == [["7"]]
    assert "too long for a URL" in shown.words
    assert json.loads(browser.submit(shown, form="json").text) == [{"n": 7}]
    assert browser.post("/b/data/sql", {"q": long}).status == 403


@pytest.mark.parametrize(
    ("question", "place", "said"),
    [
        ("SELECT kin FROM events", "Line 1, character 8", "Candidate bindings:"),
        ("SELECT 1\nFROM evnts", "Line 2, character 6", 'Did you mean "events"'),
        ("SELECT *\n\nFROM read_text('/etc/passwd')", "Line 3, character 6", "read only history"),
        ("COPY events TO '/tmp/x'", "", "history can be read, not changed"),
        ("SELECT 1; SELECT 2", "", "run one at a time"),
        ("SELECT CAST(kind AS INT) FROM events", "Line 1, character 8", "Could not convert"),
        ("SELECT '\x00", "", "this is not SQL that can be read"),
        ("SELEC 1", "Line 1, character 1", "this is not SQL that can be read"),
        ("PIVOT events ON kind USING count(*)", "", "PIVOT events ON queue IN ('orders',"),
    ],
)
def test_a_mistake_is_shown_with_its_place(
    visit: Visit, question: str, place: str, said: str
) -> None:
    shown = visit("ada").get("/b/data/sql", q=question)
    assert shown.status == 400
    assert place in shown.words
    assert said in shown.words
    assert "Traceback" not in shown.text
    assert 'name="q"' in shown.text
    if "\x00" not in question:
        area = re.search(r'<textarea id="question"[^>]*>(.*?)</textarea>', shown.text, re.DOTALL)
        assert area
        assert unescape(area[1]) == question


def test_the_files_of_the_machine_and_other_brokers_stay_out_of_reach(
    broker: BrokerProcess, visit: Visit
) -> None:
    browser = visit("ada")
    users = broker.data / "users.toml"
    secret = next(iter(broker.directory.rglob("users.toml")), users)
    for question in (
        f"FROM read_text('{secret}')", f"FROM '{secret}'", f"FROM read_csv('{secret}')",
        "FROM read_text('/proc/self/environ')", f"FROM glob('{broker.data}/*')",
        "FROM duckdb_settings()", "SELECT current_setting('temp_directory')",
        f"ATTACH '{secret}'", f"COPY events TO '{broker.data}/x'",
    ):  # fmt: skip
        shown = browser.get("/b/data/sql", q=question)
        assert shown.status == 400, question
        assert "argon2" not in shown.text
    assert not (broker.data / "x").exists()


def test_only_users_who_may_see_the_history_ask(visit: Visit) -> None:
    for login in ("sam", "nil"):
        browser = visit(login)
        shown = browser.get("/b/data/sql", q="SELECT count(*) FROM events")
        assert shown.status == 403
        assert f"user '{login}' may not see the history" in shown.error


@pytest.mark.usefixtures("asked")
def test_saved_queries_are_about_the_last_hour(visit: Visit) -> None:
    browser = visit("ada")
    page = browser.get("/b/data/sql")
    links = re.findall(r'<a href="(/b/data/sql\?q=[^"]*)">([^<]*)</a>', page.text)
    assert len(links) >= 6
    for link, question in links:
        shown = browser.get(unescape(link))
        assert shown.status == 200, (question, shown.words)
        asked = parse_qs(urlsplit(unescape(link)).query)
        assert asked["q"][0].split()[0] in ("SELECT", "WITH")
        is_of_messages = question.startswith("Which messages ")
        assert (asked.get("chart") == ["none"]) is is_of_messages, question
    shown = browser.get(unescape(links[0][0]))
    assert sum(int(row[1] or "") for row in answer_on(shown)) >= 4
    assert ('data-chart="lines"' in shown.text) == (len(answer_on(shown)) > 1)


@pytest.mark.usefixtures("asked")
def test_a_message_of_an_answer_leads_to_its_story(visit: Visit) -> None:
    browser = visit("ada")
    question = "SELECT message, lsn, 'x' AS other FROM events WHERE kind = 'Routed' LIMIT 1"
    shown = browser.get("/b/data/sql", q=question)
    [[message, lsn, _]] = answer_on(shown)
    assert message == lsn
    [link] = re.findall(r'href="([^"]*/story[?][^"]*)"', shown.text)
    assert f"Story of message {message}" in browser.get(unescape(link)).words


@pytest.mark.usefixtures("asked")
def test_a_chart_is_offered_where_there_is_one(visit: Visit) -> None:
    browser = visit("ada")
    kinds = "SELECT kind, count(*) AS n FROM events GROUP BY ALL"

    def chart(question: str, **more: str) -> str:
        shown = browser.get("/b/data/sql", q=question, **more)
        found = re.search(r'data-chart="(\w+)"', shown.text)
        return found[1] if found else ""

    assert chart(kinds) == "bars"
    assert chart(kinds, chart="lines") == "lines"
    assert chart(kinds, chart="none") == ""
    assert chart("SELECT lsn, message FROM events LIMIT 9") == "lines"
    assert chart("SELECT lsn, kind FROM events LIMIT 9") == ""
    assert chart("SELECT 1 AS a, 2 AS b") == ""
    assert browser.get("/b/data/sql", q=kinds, chart="pie").status == 400
    why = "No chart: a chart needs two rows, and a column of numbers behind the first one."
    for question in (
        "SELECT 'a', 2", "SELECT 'a', 'b' FROM range(9)", "SELECT NULL::BIGINT, 2 FROM range(9)",
    ):  # fmt: skip
        for chosen in ("", "lines", "bars"):
            assert why in browser.get("/b/data/sql", q=question, chart=chosen).words, question
        assert "No chart" not in browser.get("/b/data/sql", q=question, chart="none").words
    wide = "SELECT range, " + ", ".join(f"range + {n}" for n in range(7)) + " FROM range(9)"
    assert "choose lines or bars" in browser.get("/b/data/sql", q=wide).words
    assert chart(wide, chart="lines") == "lines"
    assert "No chart" not in browser.get("/b/data/sql", q=kinds).words


@pytest.mark.usefixtures("asked")
def test_a_text_behind_the_first_column_makes_a_series_of_each_value(visit: Visit) -> None:
    browser = visit("ada")
    rows = "SELECT TIMESTAMP '2026-11-30' + INTERVAL 1 HOUR * (n % 2) AS hour, 'q' || n AS queue, n"
    shown = browser.get("/b/data/sql", q=f"{rows} FROM range(4) t(n)")
    plot = re.search(r'data-chart="lines" data-plot="([^"]*)"', shown.text)
    assert plot, shown.words
    assert json.loads(unescape(plot[1]))["names"] == ["q3", "q2", "q1", "q0"]
    assert "n of each queue, by hour" in shown.words
    one = browser.get("/b/data/sql", q=f"{rows} FROM range(0, 4, 2) t(n)")
    assert 'data-chart="bars"' in one.text
    assert "All rows have the same hour, 2026-11-30" in one.words
    again = browser.get(
        "/b/data/sql", q=f"{rows} FROM (FROM range(4) UNION ALL FROM range(4)) t(n)"
    )
    assert "No chart: several rows have the same hour and queue" in again.words
    listed = "PIVOT events ON kind IN ('Routed', 'Delivered') USING count(*)"
    assert browser.get("/b/data/sql", q=listed).status == 200


def test_an_answer_that_its_limit_cuts_says_so(visit: Visit) -> None:
    browser = visit("ada")
    cut = "as many as the LIMIT of the query lets through, so there may be others"
    for question, is_cut in (
        ("FROM range(50) LIMIT 20", True), ("FROM range(50) limit 20 offset 3 ;\n", True),
        ("FROM range(5000) LIMIT 2000", True), ("FROM range(50) LIMIT 51", False),
        ("FROM range(20)", False), ("FROM range(50) WHERE range IN (FROM range(9) LIMIT 9)", False),
    ):  # fmt: skip
        shown = browser.get("/b/data/sql", q=question)
        assert shown.status == 200, shown.words
        assert (cut in shown.words) is is_cut, question


def test_tables_are_explained_beside_the_editor(visit: Visit) -> None:
    words = visit("ada").get("/b/data/sql").words
    for text in (
        "one row for each event",
        "deliveries",
        "why the broker decided so",
        "TIMESTAMPTZ",
    ):
        assert text in words


def test_wide_and_hostile_answers_are_bounded(visit: Visit) -> None:
    browser = visit("ada")
    wide = browser.get("/b/data/sql", q="SELECT " + ", ".join(f"{n} AS c{n}" for n in range(101)))
    assert "the answer has 101 columns" in wide.words
    hostile = browser.get(
        "/b/data/sql",
        q="SELECT '<script>alert(1)</script>\u202e' AS \"<img src=x onerror=alert(1)>\"",
    )
    assert hostile.status == 200
    for mark in ("<script>alert", "<img src=x", "\u202e"):
        assert mark not in hostile.text
    large = browser.get("/b/data/sql", q="SELECT repeat('x', 290) AS a, * FROM range(100000) t(b)")
    assert len(large.text) < 2_000_000
    assert "more than" in large.words or "99,000 more" in large.words


def test_a_broker_that_does_not_run_has_its_history(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        broker.start()
        broker.cut_power()
        with ConsoleProcess(tmp_path, "--data", str(broker.data)) as console:
            browser = Browser(console)
            browser.get(console.link)
            shown = browser.get("/b/data/sql", q="SELECT count(*) > 0 AS there FROM events")
            assert answer_on(shown) == [["true"]]
