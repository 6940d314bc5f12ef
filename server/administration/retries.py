"""Retries with a limit of rate: messages of a queue go back to where they came from, a few at a
time.

The broker does it, in order, part by part on a timer; the asker need not wait. A queue has one at a
time. It ends when nothing is left, when somebody stops it, when the rights of its user do not
suffice any more, or with the broker: the rest of the messages stays where it is, and another retry
begins with it. One that its broker did not end is still named after the next start, as cut off,
until another retry of its queue begins. Must never know how requests are transported.
"""

import asyncio
import contextlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from daybook.engine.commands import ActOnMessages
from daybook.engine.names.names import plain
from daybook.engine.refusals import Code, Refusal
from daybook.server.administration.request_rows import Answer
from daybook.server.administration.unfinished_retries import UnfinishedRetries, UnfinishedRetry
from daybook.server.process import logs

RUNNING_MAX: Final = 100
ENDED_MAX: Final = 100
"""How many that are over are still shown."""
PART_SECONDS: Final = 0.1
"""About the time between two parts, if that is one message or more."""
RATE_MAX: Final = 1_000_000
UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_RATE: Final = re.compile(r"([0-9]{1,7})(?:/([smh]))?")

RUNNING: Final = "running"
DONE: Final = "done"
STOPPED: Final = "stopped"
FAILED: Final = "failed"
CUT_OFF: Final = "cut off"
WHY_CUT_OFF: Final = (
    "the broker ended before; the rest is in the queue, and `daybook queue retry` continues"
)
NOTE_SECONDS: Final = 1.0
"""How often it is noted how far retries are, for the broker that starts after a crash. That one can
only say how many messages were sent at least: counting them exactly would mean reading the whole
journal since the beginning of the retry."""

Part: TypeAlias = Callable[[], Awaitable[Answer | Refusal]]
"""Carries out the next part of a retry."""

log = logs.logger("retries")


def rate_in(text: str) -> float | Refusal:
    """Return the messages per second in a text: `50`, `50/s`, `30/m` or `100/h`."""
    found = _RATE.fullmatch(text.strip())
    count = int(found[1]) if found is not None else 0
    if found is None or not 1 <= count <= RATE_MAX:
        return Refusal(
            Code.INVALID,
            f"'{text[:40]}' is not a rate; write 50/s, 30/m or 100/h, from 1 to {RATE_MAX:,}",
        )
    return count / UNITS[found[2] or "s"]


class Retry(msgspec.Struct):
    """A retry; `begun` and `ended` are in milliseconds since 1970, `first` is what becomes of its
    first part. `of` is how many messages there were at its beginning, None if that was not counted,
    and `durable` how many it had sent when its last part was durable."""

    queue: str
    filter: str
    rate: str
    by: str
    begun: int
    command: ActOnMessages
    first: "asyncio.Future[Answer | Refusal]"
    of: int | None = None
    durable: int = 0
    state: str = RUNNING
    ended: int | None = None
    why: str = ""

    def row(self) -> Answer:
        """Return it as a row of a list."""
        return {
            "queue": self.queue,
            "state": self.state,
            "rate": self.rate,
            "acted": self.command.acted,
            "at_least": False,
            "of": self.of,
            "passed_over": self.command.passed_over,
            "begun": self.begun,
            "ended": self.ended,
            "by": self.by,
            "filter": self.filter,
            "why": self.why or self._stayed(),
        }

    def _stayed(self) -> str:
        return "; ".join(f"{count:,} stayed: {why}" for why, count in self.command.whys.items())


def _cut_off(unfinished: UnfinishedRetry) -> Answer:
    """Return one that the broker before did not end as a row of a list."""
    row: Answer = msgspec.to_builtins(unfinished)
    return row | {"state": CUT_OFF, "ended": None, "why": WHY_CUT_OFF}


class Retries:
    """All retries of a broker; used only in the thread of its event loop. `path` is the file that
    names those that run."""

    def __init__(self, path: Path | None = None) -> None:
        self._tasks: Final[dict[str, tuple[Retry, asyncio.Task[None]]]] = {}
        self._ended: Final[OrderedDict[int, Retry]] = OrderedDict()
        self._file: Final = UnfinishedRetries(path)
        self._before: Final = {each.queue: each for each in self._file.read()[:ENDED_MAX]}
        self._noted = 0.0

    def rows(self) -> list[Answer]:
        """Return a row for each: those that run, those that a broker before did not end, then those
        that ended, the last one first."""
        running = [retry.row() for retry, _ in self._tasks.values()]
        before = [_cut_off(each) for each in self._before.values()]
        return [*running, *before, *(retry.row() for retry in reversed(self._ended.values()))]

    def _note(self, *, at_end: bool = False) -> None:
        """Note which retries run, and which are cut off, for the broker that starts after this one.

        After a crash only what was durable was sent for certain; at the end of the broker all that
        was decided becomes durable, and nothing follows.
        """
        self._noted = time.monotonic()
        running = [
            UnfinishedRetry(
                retry.queue, retry.filter, retry.rate, retry.by, retry.begun,
                retry.command.acted if at_end else retry.durable, retry.command.passed_over,
                retry.of, not at_end,
            )
            for retry, _ in self._tasks.values()
        ]  # fmt: skip
        self._file.write([*running, *self._before.values()])

    async def begin(
        self, command: ActOnMessages, rate: str, by: str, part: Part, of: int | None = None
    ) -> Answer | Refusal:
        """Begin to retry the messages of a command; `part` carries out the next part of it, and
        `of` is how many there are, if that is known. A refusal of the first part is the answer."""
        per_second = rate_in(rate)
        if isinstance(per_second, Refusal):
            return per_second
        name = plain(command.queue)
        if command.queue in self._tasks:
            return Refusal(
                Code.INVALID,
                f"a retry of queue '{name}' runs already; `daybook queue retries` shows it, and"
                f" `daybook queue stop-retry {name}` ends it",
            )
        if len(self._tasks) >= RUNNING_MAX:
            return Refusal(Code.LIMIT, f"{RUNNING_MAX} retries run already; stop one, or wait")
        loop = asyncio.get_running_loop()
        retry = Retry(
            command.queue, command.filter, rate, by, _now(), command, loop.create_future(), of
        )
        task = loop.create_task(self._run(retry, per_second, part))
        self._tasks[command.queue] = retry, task
        first = await retry.first
        if isinstance(first, Refusal):
            self._ended.pop(id(retry), None)
            return first
        self._before.pop(command.queue, None)
        self._note()
        return {"begun": True, "queue": command.queue, "rate": rate}

    def stop(self, queue: str, by: str) -> Answer | Refusal:
        """Stop the retry of a queue."""
        if queue not in self._tasks:
            text = f"no retry of queue '{plain(queue)}' runs; `daybook queue retries` shows all"
            return Refusal(Code.NOT_FOUND, text)
        retry, task = self._tasks[queue]
        retry.state, retry.why = STOPPED, f"stopped by {by}"
        task.cancel()
        if not retry.first.done():
            retry.first.set_result({})
        self._end(retry)
        return {"acted": retry.command.acted}

    async def close(self) -> None:
        """Stop all of them, with the broker."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        self._note(at_end=True)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._file.close()

    async def _run(self, retry: Retry, per_second: float, part: Part) -> None:
        """Carry out part after part, each when the messages of those before have had their time."""
        command = retry.command
        command.most = max(1, int(per_second * PART_SECONDS))
        loop = asyncio.get_running_loop()
        due = loop.time()
        while retry.state == RUNNING:
            before = command.acted
            told = await part()
            retry.durable = command.acted
            if time.monotonic() - self._noted > NOTE_SECONDS:
                self._note()
            if not retry.first.done():
                retry.first.set_result(told)
            if isinstance(told, Refusal):
                is_gone = told.code is Code.NOT_FOUND and command.acted > 0
                retry.state, retry.why = (DONE, "") if is_gone else (FAILED, told.text)
            elif command.is_done:
                retry.state = DONE
            else:
                # Time in which the broker was too busy is not made up for.
                due = max(due, loop.time() - PART_SECONDS) + (command.acted - before) / per_second
                await asyncio.sleep(max(0.0, due - loop.time()))
        self._end(retry)

    def _end(self, retry: Retry) -> None:
        with contextlib.suppress(KeyError):
            del self._tasks[retry.queue]
        self._note()
        retry.ended = _now()
        self._ended[id(retry)] = retry
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        told: dict[str, Any] = {"queue": retry.queue, "acted": retry.command.acted}
        log.info("retry is over", state=retry.state, why=retry.why, **told)


def _now() -> int:
    return time.time_ns() // 1_000_000
