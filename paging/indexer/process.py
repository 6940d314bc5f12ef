"""The handle of the indexer in the broker: starting it, sending to it and receiving from it.

A process is started by `exec`, not forked: it must not share the broker's memory. Fault model: it
may die at any moment, which ends the connection; the owner of the handle starts another. It may
hang (stopped, or waiting for a disk that does not answer), and then neither reads nor ends: here
only calls with a time limit wait for it.
"""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.errors import DaybookError
from daybook.paging.checks.usability import DEADLY
from daybook.paging.tables.child_processes import child_command
from daybook.paging.tables.messages import Damaged, Durable, Ended, Indexed, Line, Said, Trouble

CLOSE_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.2
USER_TIME: Final = 11
SYSTEM_TIME: Final = 12
"""Places in /proc/PID/stat, behind the name."""
SILENT_SECONDS: Final = 60.0
"""How long a start waits for a silent indexer."""


class IndexerFailed(DaybookError):
    """The indexer ended; the text is the reason, `index` whether its tables are at fault.

    `corrupt` means that the journal is at fault: it was read, and is damaged.
    """

    def __init__(self, text: str, *, index: bool, corrupt: bool = False) -> None:
        super().__init__(text)
        self.index: Final = index
        self.corrupt: Final = corrupt


class IndexerStuck(DaybookError):
    """The indexer runs without progress: its disk is full, or hangs. It continues when it can."""


class IndexerHandle:
    """A running indexer of a data directory, at the other end of a line; see the subclasses."""

    def __init__(self, line: Line) -> None:
        self._line: Final = line

    @property
    def pid(self) -> int:
        """Id of the process that it runs in."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name in the log."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it if that is possible, and do not wait for its end: the next one folds uncommitted
        events. An indexer that waits for a disk ends when the disk answers.
        """
        raise NotImplementedError

    def processor_seconds(self) -> float:
        """Return how much processor time it has used, 0 if that is unknown.

        It answers after a commit, and a large one may take minutes on a machine that is busy with
        other work: one that makes progress uses the processor, one that is stopped or waits for a
        disk does not.
        """
        raise NotImplementedError

    def _wait(self, seconds: float) -> int | None:
        """Return how it ended, None if it has not after the wait."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Descriptor that becomes readable when the indexer sends something, or ends."""
        return self._line.fileno()

    def tell(
        self,
        lsn: int,
        *,
        digest: bool = False,
        snapshot_every: int = 0,
        catalog_headers: str | None = None,
    ) -> None:
        """Request a commit up to a durable LSN, now or when it reads again."""
        self._line.offer(Durable(lsn, digest, snapshot_every, catalog_headers))

    def flush(self) -> None:
        """Send the messages that did not fit before."""
        self._line.flush()

    def hear(self, timeout_seconds: float | None = 0.0) -> list[Indexed | Trouble]:
        """Return received messages; wait for the first one up to the timeout.

        Raises IndexerFailed if it reports that it cannot continue, and Ended, see `fate`.
        """
        return [_checked(message) for message in self._line.hear(timeout_seconds)]

    def fate(self, timeout_seconds: float = 0.0) -> IndexerFailed | None:
        """Return how it ended without giving a reason; None if it has not ended after the wait."""
        code = self._wait(timeout_seconds)
        if code is None:
            return None
        return IndexerFailed(
            f"the indexer ended unexpectedly ({_cause(code)})", index=-code in DEADLY
        )

    def catch_up(
        self, lsn: int, progress: Callable[[int, int], None] | None, snapshot_every: int = 0
    ) -> None:
        """Wait until everything up to `lsn` is indexed; snapshots are left on the way, as `tell`
        says. Raises IndexerFailed, and IndexerStuck."""
        self.tell(lsn, snapshot_every=snapshot_every)
        try:
            self._catch_up(lsn, progress)
        except Ended as ended:
            fate = self.fate(CLOSE_SECONDS)
            text = "the indexer closed its connection and does not end"
            raise fate or IndexerFailed(text, index=False) from ended

    def _catch_up(self, lsn: int, progress: Callable[[int, int], None] | None) -> None:
        silent_seconds = 0.0
        while True:
            heard = self.hear(STEP_SECONDS)
            silent_seconds = 0.0 if heard else silent_seconds + STEP_SECONDS
            if silent_seconds >= SILENT_SECONDS:
                raise IndexerStuck(
                    f"{self.name} has not answered for {SILENT_SECONDS:.0f} s: it is stopped, or "
                    "its disk hangs"
                )
            for message in heard:
                if isinstance(message, Trouble):
                    raise IndexerStuck(message.text)
                if progress is not None:
                    progress(message.lsn, lsn)
                if message.lsn >= lsn:
                    return

    def hang_up(self) -> None:
        """Close the connection."""
        self._line.close()

    def close(self) -> bool:
        """End it, whatever it is doing; return whether it has ended, which a hung disk delays."""
        self._line.close()
        self.kill()
        return self._wait(CLOSE_SECONDS) is not None


class IndexerProcess(IndexerHandle):
    """An indexer in a process of its own; the directory must have its journal and `data-id`."""

    def __init__(self, data: Path) -> None:
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), str(data.absolute()), str(os.getpid())]
        try:
            self._process: Final = subprocess.Popen(
                child_command("daybook.paging.indexer.indexer", *words),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        super().__init__(Line(ours))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"the indexer (process {self.pid})"

    def processor_seconds(self) -> float:
        """Return the kernel's counters for the process."""
        return used_seconds(Path(f"/proc/{self.pid}/stat"))

    def kill(self) -> None:
        """Kill it, and do not wait for its end."""
        self._process.kill()

    def _wait(self, seconds: float) -> int | None:
        if not seconds:
            return self._process.poll()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def used_seconds(stat: Path) -> float:
    """Return the processor time of a process or thread from its file in /proc, 0 if unknown."""
    try:
        text = stat.read_text("utf-8", errors="replace")
    except OSError:
        return 0.0
    # The name before may contain anything; the times are the 12th and 13th field behind it.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= SYSTEM_TIME or not (fields[USER_TIME] + fields[SYSTEM_TIME]).isdigit():
        return 0.0
    return (int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / os.sysconf("SC_CLK_TCK")


def _checked(message: Said) -> Indexed | Trouble:
    if isinstance(message, Damaged):
        raise IndexerFailed(message.text, index=message.index, corrupt=message.corrupt)
    assert isinstance(message, Indexed | Trouble)
    return message


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
