"""Retries with a limit of rate: their pace, their end, and what is shown of them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from daybook.engine.commands import ActOnMessages
from daybook.engine.refusals import Code, Refusal
from daybook.engine.settings.permissions import Permissions
from daybook.server.administration import retries
from daybook.server.administration.admin_rights import AdminRights
from daybook.server.administration.message_requests import RetriesList
from daybook.server.administration.request_rows import Answer, ViewSource
from daybook.server.administration.retries import Retries, rate_in
from tests.support.topology import create_queue
from tests.support.world import World


@pytest.mark.parametrize(
    ("text", "rate"), [("50", 50), ("50/s", 50), (" 30/m ", 0.5), ("36/h", 0.01)]
)
def test_rates_as_people_write_them(text: str, rate: float) -> None:
    assert rate_in(text) == rate


@pytest.mark.parametrize(
    "text", ["0", "-1", "x", "5/d", "9999999", "1.5/s", "\u0663/s", "\uff15/s", "5 0/s"]
)
def test_what_is_no_rate_is_said_so(text: str) -> None:
    told = rate_in(text)
    assert isinstance(told, Refusal)
    assert "is not a rate; write 50/s" in told.text


class Queue:
    """A queue with dead letters, and the parts of its retry."""

    def __init__(self, count: int, name: str = "DLQ") -> None:
        self.left = count
        self.command = ActOnMessages(name, "retry")
        self.parts: list[int] = []
        self.refusal: Refusal | None = None

    async def part(self) -> Answer | Refusal:
        """Send so many back as the command allows."""
        await asyncio.sleep(0)
        if self.refusal is not None:
            return self.refusal
        now = min(self.left, self.command.most)
        self.left -= now
        self.command.acted += now
        self.command.is_done = not self.left
        self.parts.append(now)
        return {"lsn": 1}


def run(scenario: Callable[[Retries], Awaitable[None]]) -> None:
    async def whole() -> None:
        made = Retries()
        try:
            await scenario(made)
        finally:
            await made.close()

    asyncio.run(whole())


async def over(made: Retries, name: str) -> Answer:
    for _ in range(500):
        [row] = [each for each in made.rows() if each["queue"] == name]
        if row["state"] != retries.RUNNING:
            return row
        await asyncio.sleep(0.01)
    raise AssertionError(made.rows())


def test_messages_go_back_at_the_rate() -> None:
    async def scenario(made: Retries) -> None:
        queue = Queue(30)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        told = await made.begin(queue.command, "100/s", "ada", queue.part)
        assert told == {"begun": True, "queue": "DLQ", "rate": "100/s"}
        row = await over(made, "DLQ")
        assert (row["state"], row["acted"], row["by"]) == ("done", 30, "ada")
        assert loop.time() - begun >= 0.2
        assert queue.parts == [10, 10, 10]

    run(scenario)


def test_a_queue_has_one_at_a_time_and_it_can_be_stopped() -> None:
    async def scenario(made: Retries) -> None:
        queue = Queue(100)
        await made.begin(queue.command, "1/s", "ada", queue.part)
        again = await made.begin(queue.command, "1/s", "ada", queue.part)
        assert isinstance(again, Refusal)
        assert "daybook queue stop-retry DLQ" in again.text
        assert made.stop("DLQ", "bob") == {"acted": 1}
        [row] = made.rows()
        assert (row["state"], row["why"]) == ("stopped", "stopped by bob")
        gone = made.stop("DLQ", "bob")
        assert isinstance(gone, Refusal)
        assert gone.code is Code.NOT_FOUND
        assert not isinstance(await made.begin(queue.command, "1/s", "x", queue.part), Refusal)

    run(scenario)


def test_what_the_first_part_is_refused_is_refused_at_once() -> None:
    async def scenario(made: Retries) -> None:
        queue = Queue(5)
        queue.refusal = Refusal(Code.INVALID, "the filter is wrong")
        assert await made.begin(queue.command, "1", "ada", queue.part) is queue.refusal
        assert made.rows() == []

    run(scenario)


def test_it_ends_when_a_later_part_is_refused() -> None:
    async def scenario(made: Retries) -> None:
        lost, gone = Queue(50), Queue(50, "gone")
        for each in (lost, gone):
            await made.begin(each.command, "50", "ada", each.part)
        lost.refusal = Refusal(Code.NOT_ALLOWED, "ada may not manage it any more")
        gone.refusal = Refusal(Code.NOT_FOUND, "there is no queue")
        row = await over(made, "DLQ")
        assert (row["state"], row["why"]) == ("failed", "ada may not manage it any more")
        assert (await over(made, "gone"))["state"] == "done"

    run(scenario)


def test_they_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RUNNING_MAX", 2)
    monkeypatch.setattr(retries, "ENDED_MAX", 2)

    async def scenario(made: Retries) -> None:
        queues = [Queue(10, str(number)) for number in range(3)]
        told = [await made.begin(each.command, "1", "ada", each.part) for each in queues]
        assert isinstance(told[2], Refusal)
        for _ in range(3):
            made.stop("0", "ada")
            await made.begin(queues[0].command, "1", "ada", queues[0].part)
        assert [row["state"] for row in made.rows()] == ["running", "running", "stopped", "stopped"]

    run(scenario)


def test_one_that_its_broker_did_not_end_is_named_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "retries.json"

    async def first() -> None:
        made = Retries(file)
        queues = [Queue(100), Queue(1, "short"), Queue(100, "stopped")]
        for each in queues:
            await made.begin(each.command, "1/s", "ada", each.part, each.left)
        await over(made, "short")
        made.stop("stopped", "ada")
        await made.close()

    async def second() -> None:
        made = Retries(file)
        [row] = made.rows()
        assert (row["queue"], row["state"], row["acted"]) == ("DLQ", retries.CUT_OFF, 1)
        assert (row["of"], row["at_least"]) == (100, False), "its broker ended, and noted all"
        assert (row["rate"], row["by"], row["ended"]) == ("1/s", "ada", None)
        assert "`daybook queue retry` continues" in row["why"]
        refused = Queue(5)
        refused.refusal = Refusal(Code.INVALID, "the filter is wrong")
        await made.begin(refused.command, "1", "ada", refused.part)
        assert [each["state"] for each in made.rows()] == [retries.CUT_OFF]
        await made.close()

    async def third() -> None:
        made = Retries(file)
        queue = Queue(1)
        await made.begin(queue.command, "1/s", "ada", queue.part)
        await over(made, "DLQ")
        assert [each["state"] for each in made.rows()] == [retries.DONE]
        await made.close()
        assert not file.exists()

    for part in (first, second, third):
        asyncio.run(part())


def test_how_far_one_is_is_noted_for_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "NOTE_SECONDS", 0.0)

    async def scenario() -> None:
        made = Retries(tmp_path / "retries.json")
        queue = Queue(10_000)
        await made.begin(queue.command, "1000/s", "ada", queue.part, queue.left)
        for _ in range(500):
            await asyncio.sleep(0.01)
            noted = Retries(tmp_path / "retries.json").rows()
            if any(each["acted"] > 200 for each in noted):
                break
        else:
            raise AssertionError(made.rows())
        assert [(each["at_least"], each["of"]) for each in noted] == [(True, 10_000)]
        assert [each["at_least"] for each in made.rows()] == [False]
        await made.close()

    asyncio.run(scenario())


def test_only_what_is_durable_is_noted_for_a_crash(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = Retries(tmp_path / "retries.json")
        queue, other = Queue(100), Queue(1, "other")
        is_durable = asyncio.Event()
        is_durable.set()

        async def part() -> Answer | Refusal:
            told = await queue.part()
            await is_durable.wait()
            return told

        await made.begin(queue.command, "100/s", "ada", part)
        is_durable.clear()
        while queue.command.acted < 20:
            await asyncio.sleep(0.01)
        await made.begin(other.command, "1/s", "ada", other.part)
        await over(made, "other")
        for _ in range(100):
            noted = Retries(tmp_path / "retries.json").rows()
            if [each["queue"] for each in noted] == ["DLQ"]:
                break
            await asyncio.sleep(0.01)
        assert [(each["acted"], each["at_least"]) for each in noted] == [(10, True)]
        await made.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("acted", "of", "at_least", "shown"),
    [
        (12, None, False, 12),
        (12, 1500, False, "12 of 1,500"),
        (1, 56, True, "at least 1 of 56"),
        (1, None, True, "at least 1"),
    ],
)
def test_people_read_how_far_it_is(acted: int, of: int | None, at_least: bool, shown: Any) -> None:
    [way] = RetriesList.ways
    assert way.table is not None
    assert way.table.shape is not None
    row = {"acted": acted, "of": of, "at_least": at_least, "begun": 1, "ended": None}
    assert way.table.shape(row)["acted"] == shown


@pytest.mark.parametrize("content", [b"", b"[{]", b"\xff", b'[{"queue": 1}]', b"{}"])
def test_a_damaged_file_names_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "retries.json").write_bytes(content)
    assert Retries(tmp_path / "retries.json").rows() == []
    assert Retries(tmp_path / "none" / "retries.json").rows() == []


def test_retries_are_listed_for_those_who_may_browse_the_queue() -> None:
    world = World()
    for name in ("mine.q", "other"):
        world.ok(create_queue(name, name))
    rows = [{"queue": name} for name in ("mine.q", "other", "mine.gone")]

    def listed(rules: dict[str, Any]) -> list[tuple[str, int | None]]:
        permissions = Permissions(rules)
        rights = AdminRights(world.state, permissions, "dan", "peer", lambda _: None)
        source = ViewSource(world.state, permissions, rights=rights, retries=lambda: rows)
        told = RetriesList().look(source)["retries"]
        return [(row["queue"], row["in_queue"]) for row in told]

    reader = {"browse": ("user:dan",)}
    assert listed({"#": reader}) == [("mine.q", 0), ("other", 0), ("mine.gone", None)]
    assert listed({"mine.#": reader}) == [("mine.q", 0)]
    assert listed({"#": {}}) == []
