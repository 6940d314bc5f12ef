"""Processes that carry out pieces of long work, such as checking one segment of many.

Each worker is a fresh interpreter that waits for pieces on a pipe. Results come in any order. A
worker that dies, or gives no sign of life, is reported as an error; an interrupted command kills
all of them, without leftovers, because temporary files lie in a folder of the parent. Workers are
nice to the others on the machine: a broker may be one of them. Must never know the work.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

from daybook.errors import DaybookError, describe
from daybook.journal.blocks.trust import current_limit, limit_blocks

NICENESS: Final = 10
ALIVE_SECONDS: Final = 5.0
"""How often a worker gives a sign of life, whatever its work is."""
SILENT_SECONDS: Final = 300.0
"""After so long without one a worker hangs: it is stopped, or waits for a disk that does not
answer."""
ONE_PROCESS_BYTES: Final = 256 * 1024 * 1024
"""Up to so many bytes of work are done in one process, unless more were asked for."""


class WorkerFailed(DaybookError):
    """A worker died, hangs, or could not do its piece; the text is the error in the worker."""


class Done(NamedTuple):
    """A piece that was carried out: its key, and the result."""

    key: Any
    result: Any


def chosen_processes(asked: int | None, total_bytes: int) -> int:
    """Return how many processes to use: the requested number, else one that suits the work."""
    if asked is not None:
        return asked
    return 1 if total_bytes <= ONE_PROCESS_BYTES else len(os.sched_getaffinity(0))


def adding_up(told: Callable[[int], None]) -> Callable[[int], None]:
    """Turn a function that takes the amount done so far into one that takes each increment."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        told(done)

    return advance


def carried_out(
    pieces: Iterable[tuple[Any, Callable[..., Any], tuple[Any, ...]]],
    processes: int,
    progress: Callable[[int], None],
) -> Iterator[Done]:
    """Carry out pieces of work, each a key, a function of a module and its arguments.

    The function also gets `progress`, to be called with the work just done. With one process the
    work is done here, in order, and what the functions raise is raised; else WorkerFailed with the
    same text, also if a worker dies.
    """
    if processes <= 1:
        for key, function, arguments in pieces:
            yield Done(key, function(*arguments, progress=progress))
        return
    waiting = list(pieces)[::-1]
    team = [_Worker() for _ in range(min(processes, len(waiting)))]
    try:
        busy = {}
        for worker in team:
            worker.give(*waiting.pop())
            busy[worker.pipe] = worker
        while busy:
            ready = wait(list(busy), ALIVE_SECONDS)
            for worker in busy.values():
                worker.must_be_alive()
            for pipe in ready:
                worker = busy[pipe]  # type: ignore[index]
                kind, value = worker.hear()
                if kind == "alive":
                    continue
                if kind == "progress":
                    progress(value)
                    continue
                if kind == "error":
                    raise WorkerFailed(value)
                yield Done(worker.key, value)
                if waiting:
                    worker.give(*waiting.pop())
                else:
                    del busy[worker.pipe]
    finally:
        for worker in team:
            worker.end()


class _Worker:
    """A process of the team, for its parent."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.key: Any = None
        self._heard_at = time.monotonic()
        arguments = theirs, current_limit()
        self._process: BaseProcess = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def give(self, key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.key = key
        self._heard_at = time.monotonic()
        with suppress(OSError):
            self.pipe.send((function, arguments))

    def hear(self) -> tuple[str, Any]:
        try:
            heard: tuple[str, Any] = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(1)
            code = self._process.exitcode
            raise WorkerFailed(
                f"a process of this command died (exit code {code}) before its work was done; "
                "maybe there is too little memory: try again with --processes 1"
            ) from None
        self._heard_at = time.monotonic()
        return heard

    def must_be_alive(self) -> None:
        """Raise WorkerFailed if nothing was heard for long."""
        silent = time.monotonic() - self._heard_at
        # Its messages may be unread, because this process was stopped.
        if silent > SILENT_SECONDS and not self.pipe.poll():
            raise WorkerFailed(
                f"a process of this command (pid {self._process.pid}) has not answered for "
                f"{silent:.0f} s: it was stopped, or waits for a disk that does not answer"
            )

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _work(pipe: Connection, bytes_max: int | None) -> None:
    """Carry out requests until the parent ends."""
    # The parent ends its workers; a key that was pressed reaches all of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    limit_blocks(bytes_max)

    speaking = threading.Lock()

    def say(kind: str, value: Any) -> None:
        with speaking:
            pipe.send((kind, value))

    def live() -> None:
        with suppress(OSError):
            while True:
                time.sleep(ALIVE_SECONDS)
                say("alive", None)

    def advance(count: int) -> None:
        say("progress", count)

    threading.Thread(target=live, daemon=True).start()
    with suppress(EOFError, BrokenPipeError):
        while True:
            function, arguments = pipe.recv()
            try:
                answer: tuple[str, Any] = "done", function(*arguments, progress=advance)
            except DaybookError as error:
                answer = "error", str(error)
            except OSError as error:
                answer = "error", describe(error)
            say(*answer)
