"""Group commit in a thread of the broker, for brokers of one process (ADR 42).

It serves the same requests over the same kind of connection as the process, so the event loop waits
for no disk here either: the interpreter is free while the thread compresses, writes and syncs.
Fault model: as for `journal.writing.process_writer`, but that it cannot be killed: one whose disk
does not answer is given up, and ends with the broker.
"""

import os
import socket
from contextlib import suppress
from threading import Thread

from daybook.journal.journal import Journal
from daybook.journal.writing.lifeline import leave_signals_to_others
from daybook.journal.writing.process_writer import (
    KILL_STEPS,
    STEP_SECONDS,
    ProcessWriter,
    Serving,
    connecting,
)


class ThreadWriter(ProcessWriter):
    """Writes batches in a thread, in order. The journal is the thread's from then on.

    `pid` is that of the broker.
    """

    what = "the thread that writes the journal"

    def _start(self, journal: Journal, retry_seconds: float) -> tuple[socket.socket, socket.socket]:
        self.pid = os.getpid()
        with connecting() as (ours, theirs, patience, closing):
            writer = Serving(journal, theirs, closing, retry_seconds)
            self._runner = Thread(
                target=_run, args=(writer, theirs, closing), name="journal-writer", daemon=True
            )
            self._runner.start()
        return ours, patience

    def _await_end(self) -> str:
        self._runner.join(KILL_STEPS * STEP_SECONDS)
        return "ended"

    def _kill_writer(self) -> str:
        """Do nothing: a thread that waits for a disk ends when the disk answers."""
        return "given up"


def _run(writer: Serving, *ends: socket.socket) -> None:
    """Run the writer; its end is the end of its connections."""
    leave_signals_to_others()
    try:
        # A broker that has given up the thread hears no reports.
        with suppress(ConnectionError):
            writer.run()
    finally:
        for end in ends:
            end.close()
