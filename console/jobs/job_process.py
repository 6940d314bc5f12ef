"""A process that works for the console: begun with a pipe to it and a folder for its files, and
ended with both.

Invariants: ending holds the event loop up for no time: the process is killed at once, and a thread
waits for its end and removes its files, which may be large. Must never know what it works on.
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

from daybook.scratch_folders import ScratchFolder

JOIN_SECONDS: Final = 1.0


class JobProcess:
    """A process; `pipe` leads to it."""

    def __init__(
        self, target: Callable[..., None], memory_bytes: int, *arguments: Any, kind: str
    ) -> None:
        """Begin it: `target` gets its end of the pipe, how much memory it may use, the folder of
        its temporary files, and the arguments. `kind` names that folder. Raises OSError."""
        self._scratch: Final = ScratchFolder(kind)
        scratch = str(self._scratch.path)
        context = multiprocessing.get_context("forkserver")
        ours, theirs = context.Pipe()
        self.pipe: Final[Connection] = ours
        self._process: Final = context.Process(
            target=target,
            args=(theirs, memory_bytes, scratch, *arguments),
            daemon=True,
        )
        try:
            self._process.start()
        except OSError:
            self.pipe.close()
            self._scratch.remove()
            raise
        finally:
            theirs.close()

    @property
    def id(self) -> int | None:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    async def end(self) -> None:
        """End it at once, and remove its temporary files."""
        self._process.kill()
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        """Wait for its end, and leave nothing of it."""
        self._process.join(JOIN_SECONDS)
        self.pipe.close()
        self._scratch.remove()
