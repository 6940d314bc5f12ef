"""The indexer as the broker sees it: a process to be started, told and heard.

It is started by `exec`, not forked: it must not share the broker's memory. Fault model: it may die
at any moment, which shows as the end of the line; whoever holds the handle starts another. It may
hang (stopped, or in a disk that does not answer), and then neither hears nor ends: nothing here
waits for it but what says how long.
"""

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daybook.errors import DaybookError
from daybook.paging.children import child_command
from daybook.paging.judging import DEADLY
from daybook.paging.messages import Damaged, Durable, Ended, Indexed, Line, Said, Trouble

CLOSE_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.2
SILENT_SECONDS: Final = 60.0
"""How long a start waits for an indexer that says nothing."""


class IndexerFailed(DaybookError):
    """The indexer ended; the text says why, `index` whether its tables are what is wrong.

    `corrupt` says that it is the journal: it was read, and is damaged.
    """

    def __init__(self, text: str, *, index: bool, corrupt: bool = False) -> None:
        super().__init__(text)
        self.index: Final = index
        self.corrupt: Final = corrupt


class IndexerStuck(DaybookError):
    """The indexer runs and does not get on: its disk is full, or hangs. It goes on when it can."""


class IndexerProcess:
    """A running indexer of a data directory, which must have its journal and `data-id`."""

    def __init__(self, data: Path) -> None:
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), str(data.absolute()), str(os.getpid())]
        try:
            self._process: Final = subprocess.Popen(
                child_command("daybook.paging.indexer", *words),
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
        self._line: Final = Line(ours)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Descriptor that becomes readable when the indexer says something, or ends."""
        return self._line.fileno()

    def tell(self, lsn: int, *, urgent: bool = False, digest: bool = False) -> None:
        """Say what is durable, now or when it listens again. Raises Ended, see `fate`."""
        self._line.offer(Durable(lsn, urgent, digest))

    def flush(self) -> None:
        """Say what it had no room for. Raises Ended, see `fate`."""
        self._line.flush()

    def hear(self, timeout_seconds: float | None = 0.0) -> list[Indexed | Trouble]:
        """What it said; waits for the first word as long as is said.

        Raises IndexerFailed if it says that it cannot go on, and Ended, see `fate`.
        """
        return [_checked(message) for message in self._line.hear(timeout_seconds)]

    def fate(self, timeout_seconds: float = 0.0) -> IndexerFailed | None:
        """How it ended, without having said why; None if it has not, after so long a wait."""
        code = self._wait(timeout_seconds)
        if code is None:
            return None
        return IndexerFailed(
            f"the indexer ended unexpectedly ({_cause(code)})", index=-code in DEADLY
        )

    def catch_up(self, lsn: int, progress: Callable[[int, int], None] | None) -> None:
        """Wait until everything up to `lsn` is indexed. Raises IndexerFailed, and IndexerStuck."""
        try:
            self._catch_up(lsn, progress)
        except Ended as ended:
            fate = self.fate(CLOSE_SECONDS)
            text = "the indexer hung up and does not end"
            raise fate or IndexerFailed(text, index=False) from ended

    def _catch_up(self, lsn: int, progress: Callable[[int, int], None] | None) -> None:
        self.tell(lsn, urgent=True)
        silent_seconds = 0.0
        while True:
            heard = self.hear(STEP_SECONDS)
            silent_seconds = 0.0 if heard else silent_seconds + STEP_SECONDS
            if silent_seconds >= SILENT_SECONDS:
                raise IndexerStuck(
                    f"the indexer (process {self.pid}) has not answered for {SILENT_SECONDS:.0f} "
                    "s: it is stopped, or its disk hangs"
                )
            for message in heard:
                if isinstance(message, Trouble):
                    raise IndexerStuck(message.text)
                if progress is not None:
                    progress(message.lsn, lsn)
                if message.lsn >= lsn:
                    return

    def kill(self) -> None:
        """Have it end at once, and do not wait for that: what is not committed is folded by the
        next. One that waits for a disk ends when the disk answers."""
        self._process.kill()

    def hang_up(self) -> None:
        """Hear it no more."""
        self._line.close()

    def _wait(self, seconds: float) -> int | None:
        if not seconds:
            return self._process.poll()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> bool:
        """End it, whatever it is doing; answers whether it is gone, which a hung disk delays."""
        self._line.close()
        self._process.kill()
        return self._wait(CLOSE_SECONDS) is not None


def _checked(message: Said) -> Indexed | Trouble:
    if isinstance(message, Damaged):
        raise IndexerFailed(message.text, index=message.index, corrupt=message.corrupt)
    assert isinstance(message, Indexed | Trouble)
    return message


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
