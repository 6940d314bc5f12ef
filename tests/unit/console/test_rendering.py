"""How values are shown."""

from types import SimpleNamespace
from typing import Any

import pytest

from daybook.console.rendering import linked, render
from daybook.server.administration.units import COUNTED
from daybook.server.monitoring.health import Problem, problems
from daybook.server.monitoring.rates import DiskForecast
from daybook.texts import span


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.4, "0 s"), (12, "12 s"), (60, "1 min 0 s"), (725, "12 min 5 s"), (11_100, "3 h 5 min"),
        (86_400, "1 d 0 h"), (190_000, "2 d 4 h"),
    ],
)  # fmt: skip
def test_a_span_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def figures(docs: str = "", **values: Any) -> str:
    """Return the figures of an overview without any, but for these values."""
    console = SimpleNamespace(config=SimpleNamespace(docs=docs))
    visit = SimpleNamespace(console=console, url=lambda path: f"/b/x/{path}", sees_history=False)
    nothing = {
        "status": {}, "counts": (), "rates": (), "problems": [], "warnings": [], "newest": {},
        "at": 0, "forecast": None, "counted": COUNTED, "sampled": None, "age": 0.0, "trouble": "",
        "documents": {},
    }  # fmt: skip
    told = nothing | values
    told["status"] = {"running": True} | told["status"]
    return render("figures.html", visit=visit, **told)


FULL = "docs/operations.md, When the disk is full"


@pytest.mark.parametrize(
    ("docs", "documents", "shown"),
    [
        ("", (), f"Runbook: {FULL}."),
        (
            "",
            ("operations",),
            f'Runbook: <a href="/b/x/docs/operations#when-the-disk-is-full">{FULL}</a>.',
        ),
        (
            "https://docs.example",
            ("operations",),
            'Runbook: <a href="https://docs.example/docs/operations.html#when-the-disk-is-full"'
            f' rel="noreferrer">{FULL}</a>.',
        ),
    ],
)  # fmt: skip
def test_a_problem_leads_to_its_runbook(docs: str, documents: tuple[str, ...], shown: str) -> None:
    problem = Problem(5, "the disk is full: 3 MiB", "disk")
    page = figures(docs, problems=[problem], documents=documents)
    assert f"the disk is full: 3 MiB <small>{shown}</small>" in page


def test_a_problem_leads_to_the_queues_that_it_names() -> None:
    paused = {"queue": "a&b", "address": "a&b", "messages": 2, "paused": "queue"}
    status = {"running": True, "queues_paused": {"count": 1, "queues": [paused]}}
    page = figures(warnings=problems(status))
    assert 'queue a&amp;b is paused, and 2 messages wait in it (see <a href="/b/x/queue' in page
    assert '?queue=a%26b">a&amp;b</a>)' in page


def test_the_disk_and_its_syncs_are_figures() -> None:
    status = {
        "disk_free_bytes": 3 << 30, "journal_bytes": 5 << 20, "unindexed_bytes": 2048,
        "sync_ms_last": 1.26, "sync_ms_average": 2.5, "sync_ms_max": 1040.0,
    }  # fmt: skip
    page = figures(status=status, forecast=DiskForecast(7300.0, "full in a while"))
    for title, value in (
        ("disk free, full in 2 h 1 min", "3.0 GiB"),
        ("journal", "5.0 MiB"),
        ("not indexed yet", "2.0 KiB"),
        ("sync to disk, last", "1.3 ms"),
        ("sync to disk, average", "2.5 ms"),
        ("sync to disk, longest", "1,040.0 ms"),
    ):
        assert f"<dt>{title}</dt><dd>{value}</dd>" in page
    assert "The disk: full in a while." in page
    unknown = figures(status=status, forecast=DiskForecast(None, "not known"))
    assert "<dt>disk free</dt>" in unknown
    assert "The disk: not known." in unknown
    assert "The disk" not in figures(status=status)


def test_figures_say_since_when_they_count() -> None:
    page = figures(
        status={"messages_dead_lettered": 0, "uptime_seconds": 90.0, "started": "2026-11-30 UTC"},
        counts=(("messages_dead_lettered", ""),),
    )
    assert "<dt>messages dead lettered by queues that exist</dt><dd>0</dd>" in page
    assert "<dt>uptime, since 2026-11-30 UTC</dt><dd>1 min 30 s</dd>" in page
    assert COUNTED in page


def test_the_oldest_message_leads_to_its_queue_and_its_story() -> None:
    status = {
        "oldest_ready": 4711, "oldest_ready_queue": "a&b", "oldest_ready_age_seconds": 725.0
    }  # fmt: skip
    page = figures(status=status)
    assert 'oldest message ready, in <a href="/b/x/queue?queue=a%26b">a&amp;b</a></dt>' in page
    assert '<a href="/b/x/story?message=4711">12 min 5 s</a>' in page


def test_rates_are_shown_as_far_as_they_are_known() -> None:
    page = figures(rates=("in", "out", "expired"), newest={"in": 1.5, "out": 0.0, "expired": None})
    assert "<dt>in per second</dt><dd>1.5</dd>" in page
    assert "<dt>out per second</dt><dd>0.0</dd>" in page
    assert "expired per second" not in page


def test_memory_is_shown_by_kind_and_by_user() -> None:
    users = [
        {"user": "ada<", "bytes": 2048, "short_of": "input"},
        {"user": "rea", "bytes": 1024, "short_of": ""},
    ]
    page = render("memory.html", status={"memory": {"output": 512}, "memory_users": users})
    assert "<dt>output bytes</dt><dd>512 B</dd>" in page
    assert "<dt>user ada&lt;, short of input</dt><dd>2.0 KiB</dd>" in page
    assert "<dt>user rea</dt><dd>1.0 KiB</dd>" in page


@pytest.mark.parametrize("result", ["it is intact", "it is intact.", "it broke. Try again. "])
def test_a_sentence_ends_with_one_full_stop(result: str) -> None:
    job = SimpleNamespace(
        is_running=False, state="done", command="journal audit",
        result={"ok": True, "result": result, "report": "", "trouble": result},
    )  # fmt: skip
    shown = render("job.html", job=job)
    assert shown.count(f"{result.rstrip('. ')}.</p>") == 2
    assert ".." not in shown
    assert "<code>journal audit</code>: " + result.rstrip(". ") + "." in shown
    job.state, job.by, job.text = "failed", "ada", result
    shown = render("job.html", job=job)
    assert f"without a result: {result.rstrip('. ')}.</p>" in shown
    assert ".." not in shown


def test_pages_of_the_documentation_are_linked_in_texts() -> None:
    text = "As in <b> (docs/filters.md), not docs/secret.md.\u202e"
    assert linked(text, {"filters"}, "/b/x/docs") == (
        'As in &lt;b&gt; (<a href="/b/x/docs/filters">docs/filters.md</a>), not docs/secret.md.'
        "\\u202e"
    )
