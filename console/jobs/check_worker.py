"""A process that carries out one check: it says how far it is by a pipe, and ends with its result.

It is nice to everything else, limited in memory, writes only below a folder of its own (and the
report), and ends when the console is gone, whatever it does then. Must never know pages.
"""

import os
import resource
import signal
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import click

from daybook.console.jobs.checks import CHECKS
from daybook.console.jobs.worker import NO_MEMORY
from daybook.errors import DaybookError, describe
from daybook.history.workers import NICENESS
from daybook.scratch_folders import remove_for_another

TELL_SECONDS: Final = 0.25
"""How often it says how far it is."""


def carry_out(
    pipe: Connection,
    memory_bytes: int,
    scratch: str,
    kind: str,
    directory: str,
    arguments: dict[str, Any],
    by: str,
) -> None:
    """Carry out a check, and answer by a pipe."""
    # The console ends it; Ctrl-C in its terminal reaches all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = scratch
    progress = _Progress(pipe, scratch)
    answer: tuple[str, Any]
    try:
        answer = "done", CHECKS[kind](Path(directory), arguments, by, progress.note)
    except click.ClickException as error:
        answer = "error", error.format_message()
    except DaybookError as error:
        answer = "error", str(error)
    except OSError as error:
        answer = "error", describe(error)
    except MemoryError:
        answer = "error", NO_MEMORY
    progress.say(*answer)


class _Progress:
    """Says how far the check is, from a thread: also while the check waits for a disk."""

    def __init__(self, pipe: Connection, scratch: str) -> None:
        self._pipe: Final = pipe
        self._scratch: Final = scratch
        self._speaking: Final = threading.Lock()
        self._now = (0, 0)
        threading.Thread(target=self._run, daemon=True).start()

    def note(self, done: int, total: int) -> None:
        """Note how much is done."""
        self._now = (done, total)

    def say(self, kind: str, value: Any) -> None:
        """Send something to the console."""
        with self._speaking:
            self._pipe.send((kind, value))

    def _run(self) -> None:
        """Say what is new until the console is gone, which never says anything; then end."""
        said = self._now
        try:
            while not self._pipe.poll(TELL_SECONDS):
                if self._now != said:
                    said = self._now
                    self.say("progress", said)
        except OSError:
            pass
        remove_for_another(Path(self._scratch))
        os._exit(1)
