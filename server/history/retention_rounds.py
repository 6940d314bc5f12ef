"""Executes the steps of a round of retention, while clients are served.

`paging.retention.retention_round` decides the next step. Long work is done in processes
(`paging.retention.retirement`), files are examined in a thread, and content is read in the event
loop a little at a time, because the broker's reader of content serves only one thread. Must never
know the order of the steps.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from daybook.engine.administration.carried_content import large_before
from daybook.engine.queues.entry import Entry
from daybook.errors import DaybookError
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.pins import lowest_pinned_lsn
from daybook.journal.retention import SegmentTable, choose, remove_unpinned
from daybook.paging.content.content import ContentReader
from daybook.paging.content.store import IndexStore
from daybook.paging.retention import retention_round as steps
from daybook.paging.retention.retirement import FIND, RETIRE, WEIGH, Order, command
from daybook.paging.retention.survey import Place, Weight
from daybook.paging.tables.layout import LAYOUT
from daybook.server.hub.hub import Hub
from daybook.server.process import logs
from daybook.server.process.supervision import Fatal

STEP_SECONDS: Final = 0.002
"""How long one slice of reading and carrying content takes."""
REST_STEPS: Final = 2
"""After each slice there is a pause of so many times its duration."""
POLL_SECONDS: Final = 0.05
CACHE_BYTES: Final = 4 * 1024 * 1024
"""A cache of decoded blocks of its own, so that carrying does not evict those of consumers."""
LINE_BYTES_MAX: Final = 1 << 20

log = logs.logger("retention")
T = TypeVar("T")
_places: Final = msgspec.json.Decoder(list[Place])
_weights: Final = msgspec.json.Decoder(list[Weight])


class StepError(DaybookError):
    """A step cannot be executed; the text says why."""


class Performer:
    """Executes the steps of one round on a data directory."""

    def __init__(
        self, hub: Hub, path: Path, store: IndexStore, segments: SegmentTable, order: Order
    ) -> None:
        """Execute one round; `order` has the URL of the archive, with its password. Must be
        closed."""
        self._hub: Final = hub
        self._path: Final = path
        self._store: Final = store
        self._segments: Final = segments
        self._order: Final = order
        self._disk: Final = RealDisk(path / JOURNAL)
        self._pace: Final = Pace()
        self._reader: Final = ContentReader(
            self._disk, LAYOUT, store.locate, cache_bytes=CACHE_BYTES
        )
        self._found: AsyncGenerator[bytes, None] | None = None
        self._resident: Iterator[list[Entry]] | None = None

    async def close(self) -> None:
        """End the work that is still running."""
        self._reader.close()
        if self._found is not None:
            await self._found.aclose()

    async def perform(self, step: steps.Step) -> None:
        """Execute a step. Raises StepError, JournalError, StoreError, OSError and Fatal."""
        match step:
            case steps.Look():
                await self._look(step)
            case steps.ChooseSegments():
                await self._in_thread(self._choose, step)
            case steps.Weigh():
                step.weights = _weights.decode(await self._ask(WEIGH, step.last_lsn))
            case steps.Find():
                await self._find(step)
            case steps.Where():
                step.lsns = self._store.where(step.messages)
            case steps.Read():
                await self._pause()
                step.event = self._reader.event(step.lsn, step.message)
            case steps.ReadChunk():
                await self._pause()
                (step.body,) = self._reader.chunks([step.lsn], step.before)
            case steps.Do():
                self._do(step)
            case steps.AwaitIndex():
                await self._await_index(step)
            case steps.FindResident():
                await self._find_resident(step)
            case steps.Retire():
                told = msgspec.json.encode(self._order).decode()
                step.left = int(await self._ask(RETIRE, step.last_lsn, told))
            case steps.AskFirstChunk():
                step.lsn = self._hub.first_chunk() or steps.NO_CHUNK
            case steps.Remove():
                await self._remove(step)
            case steps.Warn():
                log.error("the body of a message is lost", message=step.message, why=step.text)

    # ---- choosing

    async def _look(self, step: steps.Look) -> None:
        pinned = await self._in_thread(lowest_pinned_lsn, self._path, _now())
        step.situation = steps.Situation(
            self._store.indexed_lsn, pinned, self._hub.first_chunk() or steps.NO_CHUNK
        )

    def _choose(self, step: steps.ChooseSegments) -> None:
        """Choose segments; runs in a thread, because it opens new segments."""
        step.now = _now()
        sealed, live_bytes = self._segments.look()
        if sealed:
            step.first_lsn = sealed[0].first_lsn
        step.choice = choose(
            sealed,
            step.limits,
            live_bytes=live_bytes,
            now=step.now,
            lowest_kept_lsn=step.lowest_kept_lsn,
        )

    # ---- carrying

    async def _find(self, step: steps.Find) -> None:
        if self._found is None:
            self._found = self._lines(FIND, step.last_lsn)
        line = await anext(self._found, None)
        step.places = _places.decode(line) if line is not None else None

    async def _find_resident(self, step: steps.FindResident) -> None:
        await self._pause()
        if self._resident is None:
            self._resident = large_before(self._hub.broker.state, step.last_lsn)
        step.entries = next(self._resident, None)

    def _do(self, step: steps.Do) -> None:
        try:
            self._hub.request(step.command)
        except Exception as error:
            # A half-finished decision of the engine must not be written.
            raise Fatal from error
        step.lsn = self._hub.broker.lsn

    async def _await_index(self, step: steps.AwaitIndex) -> None:
        step.lsn = self._hub.broker.lsn
        while self._store.indexed_lsn < step.lsn:
            self._check_journal()
            await asyncio.sleep(POLL_SECONDS)

    async def _pause(self) -> None:
        """Let clients be served, and wait while much is pending for disk and index."""
        hub = self._hub
        await self._pace.pause()
        while (
            hub.writer.pending_bytes + hub.broker.pending.raw_bytes
            > hub.options.max_pending_bytes // 4
            or hub.unindexed_bytes > hub.options.max_unindexed_bytes // 2
        ):
            self._check_journal()
            await asyncio.sleep(POLL_SECONDS)
            self._pace.begin()

    def _check_journal(self) -> None:
        if self._hub.failure is not None:
            raise StepError("the journal failed")

    # ---- leaving

    async def _remove(self, step: steps.Remove) -> None:
        step.removed = await self._in_thread(
            remove_unpinned, self._disk, self._path, step.segments, _now()
        )
        # Open files would keep their space on the disk.
        self._store.content.close()
        if isinstance(self._hub.chunks, ContentReader):
            self._hub.chunks.close()
        if step.removed:
            last_lsn = step.segments[len(step.removed) - 1].last_lsn
            log.info("history left the live set", segments=len(step.removed), last_lsn=last_lsn)

    # ---- threads and processes

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    async def _ask(self, work: str, last_lsn: int, told: str = "") -> bytes:
        """Return the only line of a process's answer; raises StepError."""
        async with contextlib.aclosing(self._lines(work, last_lsn, told)) as lines:
            return b"".join([line async for line in lines])

    async def _lines(self, work: str, last_lsn: int, told: str = "") -> AsyncGenerator[bytes, None]:
        """Run work in a process, and yield its answer line by line; raises StepError."""
        # Pipes and protocols of earlier processes are in reference cycles; the collector runs so
        # rarely that thousands would accumulate.
        gc.collect(0)
        process = await asyncio.create_subprocess_exec(
            *command(work, self._path, last_lsn),
            limit=LINE_BYTES_MAX,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors = asyncio.ensure_future(process.stderr.read())
        try:
            process.stdin.write(told.encode())
            process.stdin.close()
            while line := await process.stdout.readline():
                yield line
            said = (await errors).decode("utf-8", "replace").strip()
            code = await process.wait()
        except BaseException:
            errors.cancel()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        last = said.rpartition("\n")[2]
        if code != 0:
            raise StepError(last or f"the process that was to {work} ended with code {code}")
        for note in filter(None, said.split("\n")):
            log.warning(note)


def _now() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


class Pace:
    """Works in short slices with long pauses: content is read in the thread that serves clients."""

    def __init__(self) -> None:
        self._began = 0.0

    def begin(self) -> None:
        """Begin a slice."""
        self._began = time.monotonic()

    async def pause(self) -> None:
        """Pause if the slice has lasted long enough."""
        worked = time.monotonic() - self._began
        if worked >= STEP_SECONDS:
            await asyncio.sleep(REST_STEPS * min(worked, POLL_SECONDS))
            self.begin()
