"""A program beside the broker: heard within bounds, and never left behind."""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from daybook.server.process import companion as companions
from daybook.server.process.companion import Companion


def made(script: str) -> Companion:
    companion = Companion("console")
    companion.command = (sys.executable, "-c", script)
    return companion


async def until(companion: Companion, text: str) -> int:
    """Wait until it has said where it is; return its process."""
    while companion.status()["console"] != text:
        await asyncio.sleep(0.01)
    return int(companion.status()["console_pid"])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that nobody has waited for is there, and is not alive.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companions, "LOOK_SECONDS", 0.02)


def test_its_last_words_are_the_reason_of_its_end() -> None:
    for script, why in (
        ("print('one'); print('Error: the port is in use'); raise SystemExit(1)", "the port is in"),
        ("raise SystemExit(3)", "it ended with the exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by SIGKILL"),
    ):
        with pytest.raises(ChildProcessError, match=why):
            asyncio.run(made(script).run())


def test_without_a_program_there_is_nothing_to_say() -> None:
    assert Companion("console").status() == {}


def test_a_program_that_is_missing_is_an_error_of_the_system() -> None:
    companion = Companion("console")
    companion.command = ("/nowhere/program",)
    with pytest.raises(FileNotFoundError):
        asyncio.run(companion.run())


def test_it_ends_with_all_its_processes_whatever_it_does() -> None:
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child: print('ready', child, flush=True)\n"
        "time.sleep(60)"
    )

    async def scenario() -> None:
        companion = made(script)
        task = asyncio.create_task(companion.run())
        while not companion.status()["console"]:
            await asyncio.sleep(0.01)
        pids = int(companion.status()["console"]), int(companion.status()["console_pid"])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert companion.status() == {"console": "", "console_pid": None}
        while any(map(is_alive, pids)):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_it_is_hung_up_when_it_is_ready_and_not_its_processes() -> None:
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGHUP, lambda *_: print('ready again', flush=True))\n"
        "child = os.fork()\n"
        "if child: print('ready', child, flush=True)\n"
        "else: signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "while True: time.sleep(0.01)"
    )

    async def scenario() -> None:
        companion = made(script)
        assert not companion.hang_up()
        running = asyncio.ensure_future(companion.run())
        while not companion.status()["console"]:
            await asyncio.sleep(0.01)
        child = int(companion.status()["console"])
        assert companion.hang_up()
        await until(companion, "again")
        assert is_alive(child)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert not companion.hang_up()

    asyncio.run(scenario())


def test_the_next_one_begins_when_the_one_before_has_ended() -> None:
    async def scenario() -> None:
        companion = made("import time; print('ready here', flush=True); time.sleep(60)")
        first = asyncio.create_task(companion.run())
        before = await until(companion, "here")
        second = asyncio.create_task(companion.run())
        first.cancel()
        while companion.status()["console_pid"] in (None, before):
            await asyncio.sleep(0.01)
            assert not (
                is_alive(before) and companion.status()["console_pid"] not in (None, before)
            )
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_program_that_writes_without_end_costs_a_bounded_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Log:
        lines: list[str] = []  # noqa: RUF012

        def warning(self, event: str, **_: object) -> None:
            self.lines.append(event)

        info = warning

    monkeypatch.setattr(companions, "log", Log())

    async def scenario() -> None:
        task = asyncio.create_task(made("while True: print('x' * 10_000)").run())
        begun, rounds = time.process_time(), 0
        while rounds < 20:
            await asyncio.sleep(0.02)
            rounds += 1
        assert time.process_time() - begun < 2
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert 0 < len(Log.lines) <= 30 * (companions.LINES_MAX + 1)
