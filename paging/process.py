"""The indexer as the broker sees it: a process to be started, told and heard.

It is started by `exec`, not forked: it must not share the broker's memory. Fault model: it may die
at any moment, which shows as the end of the line; whoever holds the handle starts another.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from paging.messages import Damaged, Durable, Ended, Indexed, Line, Said, Trouble

CLOSE_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.2
_ROOT: Final = Path(__file__).resolve().parent.parent


class IndexerFailed(Exception):
    """The indexer ended; the text says why, `index` whether its tables are what is wrong."""

    def __init__(self, text: str, *, index: bool) -> None:
        super().__init__(text)
        self.index: Final = index


class IndexerProcess:
    """A running indexer of a data directory, which must have its journal and `data-id`."""

    def __init__(self, data: Path) -> None:
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        paths = [str(_ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        try:
            command = [sys.executable, "-m", "paging.indexer", str(theirs.fileno())]
            self._process: Final = subprocess.Popen(
                [*command, str(data.resolve()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
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
        """Say what is durable. Raises IndexerFailed."""
        try:
            self._line.say(Durable(lsn, urgent, digest))
        except Ended as ended:
            raise self._failed() from ended

    def hear(self, timeout_seconds: float | None = 0.0) -> list[Indexed | Trouble]:
        """What it said; waits for the first word as long as is said. Raises IndexerFailed."""
        try:
            return [_checked(message) for message in self._line.hear(timeout_seconds)]
        except Ended as ended:
            raise self._failed() from ended

    def catch_up(self, lsn: int, progress: Callable[[int, int], None] | None) -> None:
        """Wait until everything up to `lsn` is indexed. Raises IndexerFailed."""
        self.tell(lsn, urgent=True)
        while True:
            for message in self.hear(STEP_SECONDS):
                if isinstance(message, Trouble):
                    raise IndexerFailed(message.text, index=False)
                if progress is not None:
                    progress(message.lsn, lsn)
                if message.lsn >= lsn:
                    return

    def _failed(self) -> IndexerFailed:
        code = self._end()
        # What a damaged map does to whoever looks at it.
        suspect = -code in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
        return IndexerFailed(f"the indexer ended unexpectedly ({_cause(code)})", index=suspect)

    def _end(self) -> int:
        try:
            return self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def close(self) -> None:
        """End it, whatever it is doing: what is not committed is folded by the next."""
        self._line.close()
        self._process.terminate()
        self._end()


def _checked(message: Said) -> Indexed | Trouble:
    if isinstance(message, Damaged):
        raise IndexerFailed(message.text, index=message.index)
    assert isinstance(message, Indexed | Trouble)
    return message


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
