"""An fsspec file system in memory whose n-th call fails, or is the last one of its process.

`fail_at(n, error)` lets the n-th call from now raise. An Exception is raised once; anything else
stands for the death of the process: it is raised by that call and by all later ones, so that
nothing is tidied up. `drop_writes` takes what is written and keeps half of it, without a word.
"""

from typing import Any, Final

from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]


class Killed(BaseException):
    """The process died here."""


class BrokenFile:
    """An open file of BrokenFiles."""

    def __init__(self, files: "BrokenFiles", file: Any) -> None:
        self._files: Final = files
        self._file: Final = file

    def read(self, count: int) -> bytes:
        self._files.step()
        return bytes(self._file.read(count))

    def write(self, piece: bytes) -> int:
        self._files.step()
        # Half of it arrives before the call fails, or is all that ever arrives.
        kept = piece[: len(piece) // 2] if self._files.drop_writes else piece
        self._file.write(kept)
        return len(piece)

    def discard(self) -> None:
        self._files.step()

    def close(self) -> None:
        self._files.step()
        self._file.close()

    def __enter__(self) -> "BrokenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BrokenFiles:
    """The file system operations that an ObjectStore needs."""

    def __init__(self) -> None:
        self.files: Final[Any] = MemoryFileSystem(skip_instance_cache=True)
        self.files.store = {}
        self.drop_writes = False
        self._left = 0
        self._error: BaseException | None = None
        self.met = False

    def fail_at(self, call: int, error: BaseException) -> None:
        self._left, self._error, self.met = call, error, False

    def heal(self) -> None:
        self._left, self._error, self.drop_writes = 0, None, False

    def step(self) -> None:
        if self._error is None:
            return
        self._left -= 1
        if self._left == 0 or (self._left < 0 and not isinstance(self._error, Exception)):
            self.met = True
            raise self._error

    def unstrip_protocol(self, path: str) -> str:
        return f"broken:/{path}"

    def invalidate_cache(self) -> None:
        self.step()

    def ls(self, path: str, detail: bool) -> Any:
        self.step()
        return self.files.ls(path, detail)

    def cat(self, paths: list[str], on_error: str) -> Any:
        self.step()
        return self.files.cat(paths, on_error=on_error)

    def open(self, path: str, mode: str, block_size: int) -> BrokenFile:
        self.step()
        return BrokenFile(self, self.files.open(path, mode, block_size=block_size))
