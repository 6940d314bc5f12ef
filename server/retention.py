"""Retention: history leaves the live set by whole segments, and nothing that is queued with it.

A round: choose the oldest segments that limits want gone and nothing holds; carry forward what is
queued in them, and wait until that is durable and indexed; archive them and bring the base up to
their end (in a process of its own); look again; remove them; record it. Fault model: a round may
end anywhere, and the next one does again what was not finished; nothing is removed before its
archive and the base are durable.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.commands import Carry, CarryChunk, NoteSegmentsRemoved
from engine.events import LARGE, CarriedDetail, RoutedDetail, chunk_lsns, decode_detail
from engine.queues import StoreError
from journal.disk import RealDisk
from journal.errors import JournalError
from journal.pins import lowest_pinned_lsn
from journal.retention import (
    Choice,
    Limits,
    choose,
    live_bytes_of,
    remove_unpinned,
    sealed_segments,
)
from paging.carrying import Place, Position, flights_to_carry, large_to_carry, to_carry
from paging.store import IndexStore
from recovery.directory import JOURNAL
from server import logs
from server.config import JournalConfig
from server.hub import Hub

BATCH_MESSAGES: Final = 200
"""How many messages are carried between two looks at how much waits for the disk."""
POLL_SECONDS: Final = 0.05
ROUNDS_MAX: Final = 3
"""How often it is looked again for what is to be carried, before a round is given up."""

log = logs.logger("retention")


class RetentionError(Exception):
    """A round cannot go on; the text says why."""


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
        self._trouble = ""
        self._held_back = ""
        self._removed_lsn = 0
        self._carried = 0
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
        if not self.is_wanted:
            return {}
        return {
            "retention_removed_lsn": self._removed_lsn,
            "retention_carried_messages": self._carried,
            "retention_held_back": self._held_back,
            "retention_trouble": self._trouble,
        }

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.config.retention_scan_period / 1000)
            if not self.is_wanted:
                continue
            try:
                while await self.round():
                    pass
                self._trouble = ""
            except (RetentionError, JournalError, StoreError, OSError) as error:
                if str(error) != self._trouble:
                    log.error("history stays for now: retention cannot go on", why=str(error))
                self._trouble = str(error)

    async def round(self) -> bool:
        """One round; answers whether segments left. Raises RetentionError and what reading does."""
        store = self._store()
        if store is None:
            return False
        choice = self._choose(store)
        if not choice.leaving:
            return False
        for _ in range(ROUNDS_MAX):
            if not await self._carry(store, choice.last_lsn):
                break
        else:
            raise RetentionError(
                f"messages in the segments up to event {choice.last_lsn} keep coming back"
            )
        await self._retire(choice.last_lsn)
        if await self._carry(store, choice.last_lsn):
            # They came back from a consumer meanwhile; the next round finds them carried.
            return True
        removed = remove_unpinned(self._disk, self._path, choice.leaving)
        gone = [segment for segment in choice.leaving if segment.name in set(removed)]
        if not gone:
            self._held_back = f"{choice.names[0]} is being read"
            return False
        self._removed_lsn = gone[-1].last_lsn
        self._hub.request(
            NoteSegmentsRemoved(
                last_lsn=self._removed_lsn,
                segments=len(gone),
                bytes=sum(segment.file_bytes for segment in gone),
                archive=self.config.archive_directory,
            )
        )
        log.info("history left the live set", segments=len(gone), last_lsn=self._removed_lsn)
        return True

    def _choose(self, store: IndexStore) -> Choice:
        kept = min(store.indexed_lsn + 1, lowest_pinned_lsn(self._path))
        in_use = self._hub.first_chunk()
        if in_use:
            kept = min(kept, in_use)
        choice = choose(
            sealed_segments(self._disk),
            self.limits,
            live_bytes=live_bytes_of(self._disk),
            now=time.time_ns() // 1000,
            lowest_kept_lsn=kept,
        )
        self._held_back = (
            f"{choice.held_back.name}: something from event {kept} on must stay"
            if choice.held_back is not None and not choice.leaving
            else ""
        )
        return choice

    # ---- carrying

    async def _carry(self, store: IndexStore, last_lsn: int) -> int:
        """Carry what is queued and has its content up to an event; return how many messages.

        When this returns, what was carried is durable and indexed.
        """
        carried = 0
        position: Position | None = Position()
        seen: set[int] = set()
        while position is not None:
            with store.tables.read() as txn:
                places, position = to_carry(store.tables, txn, last_lsn, position, BATCH_MESSAGES)
            carried += await self._carry_all(store, places, seen)
        with store.tables.read() as txn:
            places = flights_to_carry(store.tables, txn, last_lsn)
            large = list(large_to_carry(store.tables, txn, last_lsn))
        places += [place for number in large if (place := self._large(store, number)) is not None]
        carried += await self._carry_all(store, places, seen)
        if carried:
            self._carried += carried
            await self._until_indexed(store, self._hub.broker.lsn)
        return carried

    async def _carry_all(self, store: IndexStore, places: list[Place], seen: set[int]) -> int:
        """Carry messages, once each however many queues have them."""
        new = [place for place in places if place.message not in seen]
        carried = 0
        for place in new:
            if place.message in seen:
                continue
            seen.add(place.message)
            await self._carry_one(store, place)
            carried += 1
        return carried

    async def _carry_one(self, store: IndexStore, place: Place) -> None:
        event = store.content.event(place.lsn)
        chunks: tuple[int, ...] = ()
        body_bytes = 0
        if place.flags & LARGE:
            detail = decode_detail(event.row[0], event.detail)
            assert isinstance(detail, RoutedDetail | CarriedDetail)
            chunks = await self._carry_chunks(store, chunk_lsns(detail))
            body_bytes = detail.body_bytes
        await self._until_there_is_room()
        self._hub.request(
            Carry(
                message=place.message,
                address=place.address,
                priority=place.priority,
                flags=place.flags,
                before=place.lsn,
                headers=event.headers,
                body=event.body,
                chunks=chunks,
                body_bytes=body_bytes,
            )
        )

    async def _carry_chunks(self, store: IndexStore, lsns: tuple[int, ...]) -> tuple[int, ...]:
        found: list[int] = []
        for lsn in lsns:
            await self._until_there_is_room()
            ((_, body),) = store.content.fetch([lsn])
            self._hub.request(CarryChunk(body, found[-1] if found else 0))
            found.append(self._hub.broker.lsn)
        return tuple(found)

    def _large(self, store: IndexStore, message_id: int) -> Place | None:
        """The place of a large message whose chunks began before it, if a queue still has it."""
        event = store.content.event(message_id)
        queue_ids = [event.row[4]]
        detail = decode_detail(event.row[0], event.detail)
        if isinstance(detail, RoutedDetail) and detail.queues:
            queue_ids = list(detail.queues)
        for queue_id in queue_ids:
            queue = self._hub.broker.state.queues.get(queue_id)
            if queue is not None and queue.find(message_id) is not None:
                row = event.row
                return Place(message_id, message_id, row[3], row[5], row[6], 0)
        return None

    async def _until_there_is_room(self) -> None:
        """Let others go on, and wait while much is on its way to the disk."""
        hub = self._hub
        await asyncio.sleep(0)
        while (
            hub.writer.pending_bytes + hub.broker.pending.raw_bytes
            > hub.options.max_pending_bytes // 4
            or hub.unindexed_bytes > hub.options.max_unindexed_bytes // 2
        ):
            await asyncio.sleep(POLL_SECONDS)

    async def _until_indexed(self, store: IndexStore, lsn: int) -> None:
        while store.indexed_lsn < lsn:
            if self._hub.failure is not None:
                raise RetentionError("the journal failed")
            await asyncio.sleep(POLL_SECONDS)

    # ---- archive and base

    async def _retire(self, last_lsn: int) -> None:
        """Have the segments archived and folded into the base, by a process of its own."""
        command = [sys.executable, "-m", "paging.retiring", str(self._path), str(last_lsn)]
        command.append(str(os.getpid()))
        process = await asyncio.create_subprocess_exec(
            *command,
            *([self.config.archive_directory] if self.config.archive_directory else []),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, said = await process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        if process.returncode != 0:
            text = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise RetentionError(text or f"archiving ended with code {process.returncode}")
