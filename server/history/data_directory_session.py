"""The data directory of a broker, from before its event loop to after it.

Opening may take long: a terminal shows a progress bar, otherwise the log gets a line now and then.
Fault model: errors of recovery are raised as JournalError or RecoveryError, after closing all
files. Must never know decisions about messages.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.writing.commit_writer import CommitWriter
from daybook.journal.writing.process_writer import ProcessWriter
from daybook.journal.writing.thread_writer import ThreadWriter
from daybook.paging.indexer.indexers import ProcessIndexers, ThreadIndexers
from daybook.recovery.directory import DataDirectory, open_directory
from daybook.server.configuration.config import Config
from daybook.server.process import logs

QUIET_SECONDS: Final = 0.5
"""A start that is shorter shows no bar."""
REFRESH_SECONDS: Final = 0.1
LINE_SECONDS: Final = 2.0
"""The time between lines about progress in the log."""

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep the interpreter while another waits for it. It is less than most
slices of long work last: each time an event loop that never waits looks at its sockets, a thread
that waits for the interpreter starts its count again; with 5 ms it could wait for all slices."""

log = logs.logger("service")


class Progress:
    """Shows the progress of index and fold: a bar on a terminal, lines in the log otherwise."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`stream` is standard error unless given; `clock` counts seconds."""
        self._stream: Final = stream if stream is not None else sys.stderr
        self._clock: Final = clock
        self._is_terminal: Final = not self._stream.closed and self._stream.isatty()
        self._next = clock() + (QUIET_SECONDS if self._is_terminal else LINE_SECONDS)
        self._bars: Bars | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` events are processed."""
        if self._clock() < self._next:
            return
        if not self._is_terminal:
            self._next = self._clock() + LINE_SECONDS
            log.info("reading the journal", events=done, of=total)
            return
        self._next = self._clock() + REFRESH_SECONDS
        # A closed terminal must not prevent a start.
        with suppress(OSError):
            self._draw(done, total)

    def _draw(self, done: int, total: int) -> None:
        if self._bars is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            console = Console(file=self._stream, force_terminal=True)
            # The bar is removed at the end, and before a notice. No thread draws it, because
            # processes are forked meanwhile.
            self._bars = Bars(
                *columns, TimeRemainingColumn(), console=console, transient=True, auto_refresh=False
            )
            self._bars.add_task("reading the journal")
            self._bars.start()
        self._bars.update(self._bars.task_ids[0], completed=done, total=total, refresh=True)

    def notice(self, text: str) -> None:
        """Log a sentence; removes the bar before."""
        self.close()
        log.warning(text)

    def close(self) -> None:
        """Remove the bar; it appears again with the next progress."""
        bars, self._bars = self._bars, None
        if bars is not None:
            with suppress(OSError):
                bars.stop()


class Journaling:
    """The data directory, and the process or thread that writes its journal.

    The writer is forked when the journal is open and before it is folded, so that it does not share
    the memory of the state.
    """

    def __init__(self, config: Config, disk_of: Callable[[Path], RealDisk] = RealDisk) -> None:
        """Open the directory of a configuration; `disk_of` makes the disk of its journal. Raises
        JournalError and RecoveryError."""
        path = Path(config.broker.data_directory)
        begun = time.perf_counter()
        self._is_alone: Final = config.broker.processes == 1
        self._writer: ProcessWriter | None = None
        # The event loop shares the interpreter with threads of the journal: alone with two, which
        # must give it back soon; else with one, which must get it while work is done in slices.
        sys.setswitchinterval(SWITCH_SECONDS)
        progress = Progress()
        indexers = ThreadIndexers if self._is_alone else ProcessIndexers
        try:
            self.directory = open_directory(
                path,
                segment_bytes=config.journal.segment_bytes,
                device_block_bytes=config.journal.device_block_size,
                progress=progress,
                on_journal=self._start_writer,
                notice=progress.notice,
                indexers=indexers(config.journal.snapshot_every),
                disk_of=disk_of,
            )
        except BaseException:
            self._close_writer()
            raise
        finally:
            progress.close()
        recovered = self.directory.recovered
        if recovered.repair is not None and recovered.repair.cut_bytes:
            log.warning(
                "cut a torn tail: bytes without proof that they were durable",
                segment=recovered.repair.segment,
                offset=recovered.repair.cut_offset,
                bytes=recovered.repair.cut_bytes,
            )
        log.info(
            "created a data directory" if recovered.created else "recovered",
            directory=str(path),
            events=recovered.events,
            folded=recovered.events - recovered.indexed,
            seconds=round(time.perf_counter() - begun, 3),
        )

    @property
    def writer(self) -> ProcessWriter:
        """The writer; its callbacks are not set yet."""
        assert self._writer is not None
        return self._writer

    def _start_writer(self, journal: Journal) -> None:
        self._writer = ThreadWriter(journal) if self._is_alone else CommitWriter(journal)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> "Journaling":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_writer()
        self.directory.close()


def attach(writer: ProcessWriter, loop: asyncio.AbstractEventLoop) -> None:
    """Let an event loop call a writer when there is something to receive, to send or to see."""

    def watch(wanted: bool) -> None:
        if wanted:
            loop.add_writer(writer.fileno(), writer.flush)
        else:
            loop.remove_writer(writer.fileno())

    writer.watch = watch
    loop.add_reader(writer.fileno(), writer.receive)
    if isinstance(writer, CommitWriter):
        look = writer.look

        def wake() -> None:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(look)

        writer.set_wake(wake)


def look_at_lock(directory: DataDirectory) -> None:
    """Restore the lock file if somebody removed it."""
    if directory.renew_lock():
        log.warning("somebody removed the file 'lock': it is there again, and was held all along")
