"""The file that names the retries that run: a broker that starts after a crash says by it which did
not end.

It is written by a thread, so that a disk that hangs holds nothing else up. Fault model: the file
may be missing, old or damaged; then it says less, and nothing else depends on it.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import msgspec

from daybook.server.process import logs

FILE_BYTES_MAX: Final = 1 << 20
END_SECONDS: Final = 1.0
"""How long the end of a broker waits for the file."""

log = logs.logger("retries")


class UnfinishedRetry(msgspec.Struct, frozen=True):
    """A retry that runs, or ran when its broker ended: `acted` is how many messages it had sent
    when this was written, `at_least` whether more may have followed, and `of` how many there were
    at its beginning, None if that was not counted."""

    queue: str
    filter: str
    rate: str
    by: str
    begun: int
    acted: int = 0
    passed_over: int = 0
    of: int | None = None
    at_least: bool = True


class UnfinishedRetries:
    """The file; without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path: Final = path
        self._wanted: list[UnfinishedRetry] | None = None
        self._writing: asyncio.Task[None] | None = None

    def read(self) -> list[UnfinishedRetry]:
        """Return the retries that the file names; none if there is no sound file."""
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX)
            return msgspec.json.decode(content, type=list[UnfinishedRetry])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("it is not known which retries did not end", error=str(error))
            return []

    def write(self, retries: list[UnfinishedRetry]) -> None:
        """Have the file name these retries soon."""
        if self._path is None:
            return
        self._wanted = retries
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_wanted())

    async def _write_wanted(self) -> None:
        while self._wanted is not None:
            retries, self._wanted = self._wanted, None
            try:
                await asyncio.to_thread(self._replace, retries)
            except OSError as error:
                log.warning("the file of retries cannot be written", error=str(error))

    def _replace(self, retries: list[UnfinishedRetry]) -> None:
        assert self._path is not None
        if not retries:
            self._path.unlink(missing_ok=True)
            return
        temporary = self._path.with_name(f"{self._path.name}.new")
        temporary.write_bytes(msgspec.json.encode(retries))
        temporary.replace(self._path)

    async def close(self) -> None:
        """Wait until the file is written, but not for a disk that hangs."""
        if self._writing is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await asyncio.shield(self._writing)
