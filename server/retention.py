"""Retention: history leaves the live set by whole segments, and nothing that is queued with it.

A round: choose the oldest segments that limits want gone and nothing holds; carry forward what is
queued in them, and wait until that is indexed; have it proven that nothing is left, and the
segments archived and folded into the base; remove them; record it (ADR 13). What takes long is done
by processes (`paging.retiring`). Fault model: a round may end anywhere, and the next one does again
what was not finished; nothing is removed before its archive and the base are durable. Must never
know how the index finds what is queued.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.carrying import with_chunks_before
from engine.commands import Carry, CarryChunk, NoteSegmentsRemoved
from engine.events import LARGE, CarriedDetail, RoutedDetail, chunk_lsns, decode_detail
from engine.queues import StoreError
from journal.archive_store import without_password
from journal.disk import RealDisk
from journal.errors import JournalError
from journal.format import segment_first_lsn
from journal.pins import lowest_pinned_lsn
from journal.retention import (
    Choice,
    Limits,
    SealedSegment,
    choose,
    live_bytes_of,
    remove_unpinned,
    sealed_segments,
)
from journal.segment import segment_names
from paging.content import ContentReader
from paging.layout import LAYOUT
from paging.retiring import FIND, RETIRE, WEIGH, command, environment
from paging.store import IndexStore
from paging.surveying import Place, Weight
from recovery.directory import JOURNAL
from server import logs
from server.config import JournalConfig
from server.hub import Hub

ROUND_SEGMENTS: Final = 16
"""How many segments leave in one round, so that each makes room soon."""
STEP_SECONDS: Final = 0.002
"""How long content is read and carried at a time."""
REST_STEPS: Final = 2
"""How many times as long clients have for themselves after each step."""
POLL_SECONDS: Final = 0.05
CACHE_BYTES: Final = 4 * 1024 * 1024
"""Of decoded blocks: carrying must not push out what consumers need."""
SEEN_MAX: Final = 100_000
"""Of how many messages it is remembered that they were carried, for those in several queues."""
LINE_BYTES_MAX: Final = 1 << 20

log = logs.logger("retention")
_places: Final = msgspec.json.Decoder(list[Place])
_weights: Final = msgspec.json.Decoder(list[Weight])


class RetentionError(Exception):
    """A round cannot go on; the text says why."""


def worth_leaving(
    leaving: tuple[SealedSegment, ...], by_age: int, weights: list[Weight]
) -> tuple[SealedSegment, ...]:
    """How many of the segments may leave, with what is queued in them carried forward.

    The first `by_age` are too old and leave whatever that takes; `weights` are those of all. For
    the sake of the size alone, no more than half of what leaves may come back: else the same
    messages would be carried for ever. At most ROUND_SEGMENTS leave, or as few more as it takes.
    """
    by_first = {weight.first_lsn: weight for weight in weights}
    queued = total = found = 0
    for number, segment in enumerate(leaving, 1):
        weight = by_first[segment.first_lsn]
        if number > by_age:
            queued += weight.queued_bytes
            total += weight.bytes
        if 2 * queued <= total:
            found = number
        if found and number >= ROUND_SEGMENTS:
            break
    return leaving[:found]


class Retention:
    """Rounds of retention, one at a time, as long as the broker serves."""

    def __init__(
        self,
        hub: Hub,
        path: Path,
        store: Callable[[], IndexStore | None],
        config: JournalConfig,
    ) -> None:
        self.config = config
        self._hub: Final = hub
        self._path: Final = path
        self._disk: Final = RealDisk(path / JOURNAL)
        self._store: Final = store
        self._doing = ""
        self._trouble = ""
        self._held_back = ""
        self._warned = False
        self._carried = 0
        self._removed_segments = 0
        self._pace: Final = Pace()
        self._task: asyncio.Task[None] | None = None

    @property
    def limits(self) -> Limits:
        """How much stays, as the configuration says."""
        return Limits(
            self.config.retention_max_age or None, self.config.retention_max_bytes or None
        )

    @property
    def is_wanted(self) -> bool:
        """Whether there is any limit."""
        return bool(self.config.retention_max_age or self.config.retention_max_bytes)

    def start(self) -> None:
        """Begin with the rounds, in the event loop that runs."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End, whatever it is doing: the next broker does it again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self) -> dict[str, Any]:
        """For `daybook status`."""
        names = segment_names(self._disk)
        first = {"history_from_lsn": segment_first_lsn(names[0]) if names else None}
        if not self.is_wanted:
            return first
        return first | {
            "archive": without_password(self.config.archive_directory),
            "retention_doing": self._doing,
            "retention_carried_messages": self._carried,
            "retention_removed_segments": self._removed_segments,
            "retention_held_back": self._held_back,
            "retention_trouble": self._trouble,
        }

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.config.retention_scan_period / 1000)
            if not self.is_wanted:
                self._held_back = self._trouble = ""
                continue
            try:
                while await self.round():
                    self._no_trouble()
                self._no_trouble()
            except (RetentionError, JournalError, StoreError, OSError) as error:
                if str(error) != self._trouble:
                    log.error("history stays for now: retention cannot go on", why=str(error))
                self._trouble = str(error)
            self._doing = ""

    def _no_trouble(self) -> None:
        if self._trouble:
            log.info("retention goes on")
        self._trouble = ""

    async def round(self) -> bool:
        """One round; answers whether there is more to do at once.

        Raises RetentionError, JournalError, StoreError and OSError; then nothing has left.
        """
        store = self._store()
        if store is None:
            return False
        choice = self._choose(store)
        leaving = await self._worth_leaving(choice)
        if not leaving:
            return False
        last_lsn = leaving[-1].last_lsn
        reader = ContentReader(self._disk, LAYOUT, store.locate, cache_bytes=CACHE_BYTES)
        try:
            await self._carry(store, reader, last_lsn)
            self._locate_chunks(store, reader, last_lsn)
        finally:
            reader.close()
        # What was decided until now may refer to old content; what is decided from here on cannot.
        await self._until_indexed(store, self._hub.broker.lsn)
        self._doing = f"archiving up to event {last_lsn}"
        left = int(await self._ask(RETIRE, last_lsn, self.config.archive_directory))
        # If there are any they came back from a consumer; the next round carries them.
        return bool(left) or await self._remove(store, leaving)

    # ---- choosing

    def _choose(self, store: IndexStore) -> Choice:
        """What limits want gone and nothing holds."""
        reasons = {
            store.indexed_lsn + 1: "is not indexed yet",
            lowest_pinned_lsn(self._path, _now()): "is being read",
            self._first_chunk(): "is part of a large message on its way",
        }
        kept = min(reasons)
        choice = self._choice(self.limits, kept)
        if not choice.leaving:
            held = choice.held_back
            self._held_back = (
                f"{held.name}: event {kept} {reasons[kept]}" if held is not None else ""
            )
        return choice

    def _choice(self, limits: Limits, kept: int) -> Choice:
        return choose(
            sealed_segments(self._disk),
            limits,
            live_bytes=live_bytes_of(self._disk),
            now=_now(),
            lowest_kept_lsn=kept,
        )

    def _first_chunk(self) -> int:
        """From where on chunks are needed by bodies on their way; above all LSNs if none are."""
        return self._hub.first_chunk() or 1 << 63

    async def _worth_leaving(self, choice: Choice) -> tuple[SealedSegment, ...]:
        """What may leave without the same messages being carried for ever."""
        if not choice.leaving:
            return ()
        by_age = self._choice(Limits(self.limits.max_age_ms), choice.last_lsn + 1)
        if by_age.last_lsn == choice.last_lsn:
            self._held_back = ""
            return choice.leaving[:ROUND_SEGMENTS]
        self._doing = "weighing what is queued"
        weights = _weights.decode(await self._ask(WEIGH, choice.last_lsn))
        leaving = worth_leaving(choice.leaving, len(by_age.leaving), weights)
        if leaving:
            self._warned = False
            self._held_back = ""
            return leaving
        self._held_back = (
            f"{choice.names[0]}: most of what would leave is queued, and would have to be written "
            "again; consume it, purge it, or raise retention-max-bytes"
        )
        if not self._warned:
            log.warning("history stays for now", why=self._held_back)
        self._warned = True
        return ()

    # ---- carrying

    async def _carry(self, store: IndexStore, reader: ContentReader, last_lsn: int) -> None:
        """Carry forward what is queued and has content up to an event."""
        self._doing = f"carrying forward what is queued up to event {last_lsn}"
        seen: set[int] = set()
        async with contextlib.aclosing(self._lines(FIND, last_lsn)) as lines:
            async for line in lines:
                for place in sorted(_places.decode(line), key=lambda place: place.lsn):
                    # It may be in several queues, or have been read before it was carried.
                    if place.message in seen or store.where(place.message) > place.lsn:
                        continue
                    if len(seen) >= SEEN_MAX:
                        seen.clear()
                    seen.add(place.message)
                    await self._carry_one(reader, place)
                    self._carried += 1

    async def _carry_one(self, reader: ContentReader, place: Place) -> None:
        await self._pause()
        ((headers, body),) = reader.fetch([place.lsn])
        chunks: tuple[int, ...] = ()
        body_bytes = 0
        if place.flags & LARGE:
            event = reader.event(place.lsn)
            detail = decode_detail(event.row[0], event.detail)
            assert isinstance(detail, RoutedDetail | CarriedDetail)
            chunks = await self._carry_chunks(reader, chunk_lsns(detail))
            body_bytes = detail.body_bytes
        self._hub.request(
            Carry(
                message=place.message,
                address=place.address,
                priority=place.priority,
                flags=place.flags,
                before=place.lsn,
                headers=headers,
                body=body,
                chunks=chunks,
                body_bytes=body_bytes,
            )
        )

    async def _carry_chunks(self, reader: ContentReader, lsns: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for lsn in lsns:
            await self._pause()
            ((_, body),) = reader.fetch([lsn])
            self._hub.request(CarryChunk(body, found[-1] if found else 0))
            found.append(self._hub.broker.lsn)
        return tuple(found)

    async def _pause(self) -> None:
        """Give way to clients, and wait while much is on its way to disk and index."""
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

    async def _until_indexed(self, store: IndexStore, lsn: int) -> None:
        self._doing = f"waiting until event {lsn} is indexed"
        while store.indexed_lsn < lsn:
            self._check_journal()
            await asyncio.sleep(POLL_SECONDS)

    def _check_journal(self) -> None:
        if self._hub.failure is not None:
            raise RetentionError("the journal failed")

    def _locate_chunks(self, store: IndexStore, reader: ContentReader, last_lsn: int) -> None:
        """Set the chunks of messages that came into memory before their new place was indexed."""
        for message in with_chunks_before(self._hub.broker.state, last_lsn):
            event = reader.event(store.where(message.id))
            detail = decode_detail(event.row[0], event.detail)
            if isinstance(detail, RoutedDetail | CarriedDetail):
                message.chunks = chunk_lsns(detail)

    # ---- leaving

    async def _remove(self, store: IndexStore, leaving: tuple[SealedSegment, ...]) -> bool:
        """Remove what nobody reads, and record it; answers whether anything left."""
        first_chunk = self._first_chunk()
        leaving = tuple(segment for segment in leaving if segment.last_lsn < first_chunk)
        loop = asyncio.get_running_loop()
        removed = set(
            await loop.run_in_executor(
                None, remove_unpinned, self._disk, self._path, leaving, _now()
            )
        )
        gone = [segment for segment in leaving if segment.name in removed]
        if not gone:
            self._held_back = "somebody began to read what could leave"
            return False
        # Files that are held open would keep their room on the disk.
        store.content.close()
        if isinstance(self._hub.chunks, ContentReader):
            self._hub.chunks.close()
        self._removed_segments += len(gone)
        self._hub.request(
            NoteSegmentsRemoved(
                last_lsn=gone[-1].last_lsn,
                segments=len(gone),
                bytes=sum(segment.file_bytes for segment in gone),
                archive=without_password(self.config.archive_directory),
            )
        )
        log.info("history left the live set", segments=len(gone), last_lsn=gone[-1].last_lsn)
        return True

    # ---- processes

    async def _ask(self, work: str, last_lsn: int, told: str = "") -> bytes:
        """The one line that a process answers; raises RetentionError."""
        async with contextlib.aclosing(self._lines(work, last_lsn, told)) as lines:
            return b"".join([line async for line in lines])

    async def _lines(self, work: str, last_lsn: int, told: str = "") -> AsyncGenerator[bytes, None]:
        """Have a process do some work, and give what it says line by line; RetentionError."""
        # Of those before this one, pipes and protocols refer to each other, and the collector looks
        # for such so rarely that thousands would gather.
        gc.collect(0)
        process = await asyncio.create_subprocess_exec(
            *command(work, self._path, last_lsn),
            env=environment(),
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
            raise RetentionError(last or f"the process that was to {work} ended with code {code}")
        if last:
            log.warning(last)


def _now() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


class Pace:
    """Works a little, and rests longer: content is read in the thread that serves clients."""

    def __init__(self) -> None:
        self._began = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._began = time.monotonic()

    async def pause(self) -> None:
        """Rest if the step has lasted long enough."""
        worked = time.monotonic() - self._began
        if worked >= STEP_SECONDS:
            await asyncio.sleep(REST_STEPS * min(worked, POLL_SECONDS))
            self.begin()
