"""How values are shown."""

from types import SimpleNamespace

import pytest

from daybook.console.rendering import render, span
from daybook.server.monitoring.health import Problem, problems


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.4, "0 s"), (12, "12 s"), (60, "1 min 0 s"), (725, "12 min 5 s"), (11_100, "3 h 5 min"),
        (86_400, "1 d 0 h"), (190_000, "2 d 4 h"),
    ],
)  # fmt: skip
def test_a_span_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("docs", "shown"),
    [
        ("", "Runbook: docs/operations.md, When the disk is full."),
        (
            "https://docs.example",
            'Runbook: <a href="https://docs.example/docs/operations.html#when-the-disk-is-full"'
            ' rel="noreferrer">docs/operations.md, When the disk is full</a>.',
        ),
    ],
)
def test_a_problem_leads_to_its_runbook(docs: str, shown: str) -> None:
    console = SimpleNamespace(config=SimpleNamespace(docs=docs))
    page = render(
        "figures.html", visit=SimpleNamespace(console=console), status={"running": True}, counts=(),
        problems=[Problem(5, "the disk is full: 3 MiB", "disk")], warnings=[], newest={}, at=0,
        full_in=None, sampled=None, age=0.0, trouble="",
    )  # fmt: skip
    assert f"the disk is full: 3 MiB <small>{shown}</small>" in page


def test_a_problem_leads_to_the_queues_that_it_names() -> None:
    paused = {"queue": "a&b", "address": "a&b", "messages": 2, "paused": "queue"}
    status = {"running": True, "queues_paused": {"count": 1, "queues": [paused]}}
    console = SimpleNamespace(config=SimpleNamespace(docs=""))
    page = render(
        "figures.html", visit=SimpleNamespace(console=console, url=lambda path: f"/b/x/{path}"),
        status={"running": True}, counts=(), problems=[], warnings=problems(status), newest={},
        at=0, full_in=None, sampled=None, age=0.0, trouble="",
    )  # fmt: skip
    assert 'queue a&amp;b is paused, and 2 messages wait in it (see <a href="/b/x/queue' in page
    assert '?queue=a%26b">a&amp;b</a>)' in page


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
