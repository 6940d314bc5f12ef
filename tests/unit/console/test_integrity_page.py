"""The page of the integrity of a broker, where a check ends while the page is made."""

import asyncio
import re
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybook.console.brokers import NotRunning
from daybook.console.console_config import AskerError
from daybook.console.pages.integrity import integrity, live
from daybook.console.rendering import render


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


def test_a_check_of_a_part_is_shown_beside_the_last_whole_one() -> None:
    def told(*partial: bool) -> dict[str, Any]:
        rows = [
            {"kind": "verify", "ok": True, "result": "intact", "begun": number, "by": "ada",
             "name": "x", "findings": 0, "first_findings": [], "is_partial": each}
            for number, each in enumerate(partial)
        ]  # fmt: skip
        return {"newest": rows}

    def headings(*partial: bool) -> list[str]:
        text = render("newest.html", told=told(*partial), visit=SimpleNamespace(url=str))
        return re.findall("<h2>(.*)</h2>|(No report is about the whole journal yet)", text)

    whole, part = ("Last verification", ""), ("Last verification of a part", "")
    assert headings(False, True) == [whole, part]
    assert headings(False) == [whole]
    assert headings(True) == [part, ("", "No report is about the whole journal yet")]


def sent(*, running: bool, shown: int, busy: bool = False) -> list[str]:
    """Return the names of the events that a page gets about a check that began at 7."""

    async def history(name: str) -> dict[str, Any]:
        if busy:
            raise AskerError("too many ask")
        return {"newest": [], "sound": None, "reports": []}

    async def renew() -> None:
        """Nothing is new."""

    changed = asyncio.Condition()
    job = SimpleNamespace(
        is_running=running, begun_us=7, command="verify", by="ada", state="ended", text="cancelled",
        total=0, percent=0,
    )  # fmt: skip
    visit: Any = SimpleNamespace(
        history=history, renew=renew, url=str, sees_history=True, number=lambda name: shown,
        identity=SimpleNamespace(is_operator=False, manages=False),
        session=SimpleNamespace(csrf=""), broker=SimpleNamespace(name="data"),
        console=SimpleNamespace(long_jobs=SimpleNamespace(of=lambda name: job, changed=changed)),
    )  # fmt: skip

    async def read() -> list[str]:
        answer: Any = await live(visit)
        stream = cast("AsyncGenerator[bytes]", answer.body_iterator)
        texts = []
        try:
            async with asyncio.timeout(0.5):
                async for text in stream:
                    texts.append(text.decode())
        except TimeoutError:
            # It waits for a change.
            await stream.aclose()
        lines = "".join(texts).splitlines()
        return [line.partition(": ")[2] for line in lines if line.startswith("event: ")]

    return asyncio.run(read())


def test_the_end_of_a_check_sends_the_parts_that_it_changes() -> None:
    assert sent(running=False, shown=0) == ["job", "newest", "sound", "reports"]
    assert sent(running=False, shown=3) == ["job", "newest", "sound", "reports"]


def test_a_page_that_shows_the_end_already_gets_no_parts() -> None:
    assert sent(running=True, shown=0) == ["job"]
    assert sent(running=False, shown=7) == ["job"]
    assert sent(running=False, shown=0, busy=True) == ["job"]
