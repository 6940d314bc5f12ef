"""The page of the integrity of a broker, where a check ends while the page is made."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from daybook.console.brokers import NotRunning
from daybook.console.pages.integrity import integrity


def shown(job: SimpleNamespace | None, *, ends: bool) -> dict[str, Any]:
    """Return what the page gets; the check ends while reports are read for the first time."""
    reads = 0

    async def history(name: str) -> str:
        nonlocal reads
        assert name == "integrity"
        reads += 1
        if job is not None and ends:
            job.is_running = False
        return f"read {reads}"

    async def look(*_: Any) -> Any:
        raise NotRunning("no broker runs")

    visit: Any = SimpleNamespace(
        at="", history=history, url=str, journal=lambda *words: " ".join(words), identity=None,
        broker=SimpleNamespace(name="data", directory="data", look=look),
        console=SimpleNamespace(long_jobs=SimpleNamespace(of=lambda name: job)),
        page=lambda template, **values: values,
    )  # fmt: skip
    visit.identity = SimpleNamespace(is_operator=True)
    values: Any = asyncio.run(integrity(visit))
    return dict(values)


def test_a_page_with_the_result_of_a_check_has_its_report() -> None:
    page = shown(SimpleNamespace(is_running=True), ends=True)
    assert not page["job"].is_running
    assert page["told"] == "read 2"


@pytest.mark.parametrize("job", [None, SimpleNamespace(is_running=False)])
def test_reports_are_read_once_where_no_check_runs(job: SimpleNamespace | None) -> None:
    assert shown(job, ends=True)["told"] == "read 1"


def test_reports_are_read_once_while_a_check_runs() -> None:
    page = shown(SimpleNamespace(is_running=True), ends=False)
    assert page["job"].is_running
    assert page["told"] == "read 1"
