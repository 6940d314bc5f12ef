"""The catalogs of a data directory, for the owner of its index: makes them when there is time (ADR
64).

It works in slices of some milliseconds between two requests for commits, and rests many times as
long, so that commits do not wait for it. Fault model: segments may be damaged, the disk may be
full, the process may be killed; catalogs that cannot be made are left out, and `trouble` says why.
Must never know the queries.
"""

import shutil
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

from daybook.journal.blocks.block import Block
from daybook.journal.blocks.format import Damage, segment_first_lsn
from daybook.journal.disk import Disk
from daybook.journal.errors import JournalError
from daybook.journal.segments.segment import segment_names
from daybook.paging.catalogs.catalog_making import (
    HeaderChoice,
    Job,
    catalogued,
    is_piece,
    missing_catalogs,
    next_piece,
    remove_others,
    remove_work,
    write_catalog,
)

SLICE_SECONDS: Final = 0.005
REST: Final = 9
"""The rest after a slice, as a multiple of its duration: a tenth of a core at most."""
FREE_TIMES: Final = 10
"""A catalog needs so many times its size of free space: the disk is for messages first."""
RETRY_SECONDS: Final = 60.0

Making = Generator[None, None, bytes]


class CatalogKeeper:
    """The missing catalogs, and the one being made. `trouble` says why the last one failed."""

    def __init__(self, directory: Path, disk: Disk, data_id: bytes) -> None:
        self._directory: Final = directory
        self._disk: Final = disk
        self._data_id: Final = data_id
        self._headers: str | None = None
        self._making: tuple[Job, Making] | None = None
        self._newest: Block | None = None
        # Where the last piece ends, as an offset and as an event; estimates until one is made.
        self._piece_end = 0
        self._piece_lsn = 0
        # Earlier segments have their catalogs, or cannot be read.
        self._looked_until = ""
        self._waiting: list[Job] = []
        self._resume_at = 0.0
        self._gave_up = False
        self.trouble = ""

    def note(self, block: Block, headers: str | None) -> None:
        """Note the newest durable block, and which headers are wanted; None makes no catalogs."""
        self._newest = block
        if self._gave_up:
            return
        if headers != self._headers:
            self._headers = headers
            self._making = None

    def work(self) -> float | None:
        """Do a slice of work, if it is time; return after how many seconds there is more to do.

        None if there is nothing to do before there are new blocks.
        """
        if self._headers is None or self._newest is None:
            return None
        begun = time.monotonic()
        if begun < self._resume_at:
            return self._resume_at - begun
        rest = 0.0
        try:
            while time.monotonic() - begun < SLICE_SECONDS:
                if not self._step():
                    return None
        except (JournalError, Damage) as error:
            # It is not tried again; reading says the same.
            self.trouble = str(error)
            self._making = None
        except OSError as failure:
            self.trouble = f"a catalog cannot be written: {failure}"
            self._making = None
            self._looked_until = ""
            rest = RETRY_SECONDS
        # Whatever events that make no sense cause in the code that reads them: the index must live.
        except Exception as mistake:
            self.trouble = f"no more catalogs are made, because of {mistake!r}"
            self._gave_up = True
            self._headers = None
            return None
        self._resume_at = time.monotonic() + max(rest, REST * (time.monotonic() - begun))
        return self._resume_at - time.monotonic()

    def _step(self) -> bool:
        """Do a step of some milliseconds; return whether there was anything to do."""
        if self._making is None:
            job = self._next_job()
            if job is None:
                return False
            assert self._headers is not None
            choice = HeaderChoice(self._headers)
            self._making = job, catalogued(self._disk, self._data_id, choice, job)
            return True
        job, making = self._making
        try:
            next(making)
        except StopIteration as done:
            self._making = None
            self._write(job, done.value)
        return True

    def _write(self, job: Job, content: bytes) -> None:
        if not content:
            return
        self._directory.mkdir(mode=0o700, exist_ok=True)
        free = shutil.disk_usage(self._directory).free
        if free < FREE_TIMES * len(content):
            raise OSError(
                f"{len(content)} bytes need {FREE_TIMES} times as much free space, and {free} are "
                "free"
            )
        write_catalog(self._directory, job.from_lsn, content)
        self.trouble = ""
        if job.is_one_piece:
            # There may be another one behind it.
            self._piece_end = self._piece_lsn = 0
        if not self._waiting:
            remove_others(self._directory, self._disk)

    def _next_job(self) -> Job | None:
        """Return the most useful job: a piece of the newest segment, or the newest sealed one."""
        assert self._newest is not None
        if self._newest.segment != self._looked_until:
            self._look()
        newest = self._newest
        if self._has_piece():
            piece = next_piece(self._disk, self._data_id, self._directory, newest.last_lsn)
            self._piece_end = max(piece.offset, self._piece_end)
            self._piece_lsn = max(piece.from_lsn - 1, self._piece_lsn)
            if piece.segment == newest.segment and self._has_piece():
                self._piece_end = newest.offset + newest.header.block_bytes
                self._piece_lsn = newest.last_lsn
                return piece
        return self._waiting.pop(0) if self._waiting else None

    def _has_piece(self) -> bool:
        """Whether there is a piece behind the last one."""
        assert self._newest is not None
        size = self._newest.offset + self._newest.header.block_bytes - self._piece_end
        return is_piece(size, self._newest.last_lsn - self._piece_lsn)

    def _look(self) -> None:
        """Find missing catalogs, now that the newest block is in another segment."""
        assert self._newest is not None
        with suppress(OSError):
            remove_work(self._directory)
        known = {job.segment for job in self._waiting}
        found = missing_catalogs(self._disk, self._data_id, self._directory, self._looked_until)
        self._waiting = [*(job for job in found if job.segment not in known), *self._waiting]
        there = set(segment_names(self._disk))
        self._waiting = [job for job in self._waiting if job.segment in there]
        self._looked_until = self._newest.segment
        self._piece_end = 0
        self._piece_lsn = (segment_first_lsn(self._newest.segment) or 1) - 1
        if not self._waiting:
            remove_others(self._directory, self._disk)
