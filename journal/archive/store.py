"""Stores: where the objects of an archive are, on a local file system or behind any fsspec URL.

There are two kinds, because durability has two meanings. A local store writes a file under another
name, syncs it, renames it and syncs the directory. An object store can neither rename nor append:
it accepts whole objects, and `Archive` proves that one was stored by reading it back.

Fault model: every error of the packages behind fsspec (missing objects, refused access, networks
that are down, a package that is not installed) becomes an ArchiveError with the object's URL. An
interrupted upload may leave part of an object or none. Listings may be outdated, so none is cached.

Must never know the meaning of an object.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from daybook.journal.disk import Disk, RealDisk, write_content
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.extras import install_command

CHUNK_BYTES: Final = 1 << 20
TRANSFER_BYTES: Final = 8 << 20
"""How much of an object a package buffers in memory; also the size of an upload's part."""
_READ_TOGETHER: Final = 256
_URL_PROTOCOLS: Final = ("s3", "s3a", "gs", "gcs", "az", "abfs", "sftp", "ftp", "http", "https")
PART_SUFFIX: Final = ".part"


Content: TypeAlias = bytes | ArchiveError
"""The content of a small object, or why it cannot be read."""


class Store(Protocol):
    """A flat folder of objects. Every method raises ArchiveError, naming the object's URL."""

    @property
    def url(self) -> str:
        """The URL of the folder, without passwords."""
        ...

    def url_of(self, name: str) -> str:
        """Return the URL of an object, without passwords."""
        ...

    def exists(self) -> bool:
        """Return whether the folder exists; in an object store, whether it contains anything."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of every object by name; {} if the folder does not exist."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Read an object in pieces of at most CHUNK_BYTES."""
        ...

    def read_range(self, name: str, offset: int, count: int) -> bytes:
        """Read up to `count` bytes of an object from `offset` on; fewer only at its end."""
        ...

    def read_small(self, names: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Read small objects in order; yields the content or the error of each and never raises."""
        ...

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Write an object durably, replacing one of the same name."""
        ...

    def settle(self) -> None:
        """Make durable what a process wrote that may have been killed in `write`."""
        ...


@contextmanager
def _reporting(url: str, expected: type[Exception] = OSError) -> Iterator[None]:
    """Turn the expected errors of a store into an ArchiveError with this URL."""
    try:
        yield
    except (JournalError, AssertionError):
        raise
    except FileNotFoundError as error:
        raise ArchiveError(url, "there is no such object, bucket or folder") from error
    except PermissionError as error:
        raise ArchiveError(url, f"access was refused ({reason_of(error)})") from error
    except expected as error:
        raise ArchiveError(url, f"it cannot be used: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return the reason that an exception of any package gives, on one line."""
    text = getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split()) or type(error).__name__


class LocalStore:
    """A store in a folder of the operating system, or on any other Disk."""

    def __init__(self, disk: Disk, path: str, *, folder: RealDisk | None = None) -> None:
        """`folder` is created with the first object, if it does not exist."""
        self._disk: Final = disk
        self._path: Final = path
        self._folder: Final = folder

    @property
    def url(self) -> str:
        """The path of the folder."""
        return self._path

    def url_of(self, name: str) -> str:
        """The path of a file."""
        return f"{self._path}/{name}"

    def exists(self) -> bool:
        """Whether there is such a folder."""
        return Path(self._path).is_dir()

    def sizes(self) -> dict[str, int]:
        """Size in bytes of every file by name."""
        with _reporting(self._path):
            return {name: self._size(name) for name in self._disk.names()}

    def _size(self, name: str) -> int:
        try:
            file = self._disk.open(name)
        except FileNotFoundError:
            # A part that was renamed since the listing.
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file, in pieces."""
        with _reporting(self.url_of(name)):
            file = self._disk.open(name)
            try:
                offset = 0
                while piece := file.pread(CHUNK_BYTES, offset):
                    yield piece
                    offset += len(piece)
            finally:
                file.close()

    def read_range(self, name: str, offset: int, count: int) -> bytes:
        """Part of a file."""
        with _reporting(self.url_of(name)):
            file = self._disk.open(name)
            try:
                return file.pread(count, offset)
            finally:
                file.close()

    def read_small(self, names: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Small files with their content, or the error."""
        for name in names:
            try:
                yield name, b"".join(self.read(name))
            except ArchiveError as error:
                yield name, error

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Write a file under another name, sync it, give it its name and sync the folder."""
        part = name + PART_SUFFIX
        with _reporting(self.url_of(name)):
            if self._folder is not None:
                self._folder.create()
            try:
                write_content(self._disk, part, pieces)
            except BaseException:
                with suppress(OSError):
                    self._disk.remove(part)
                raise
            self._disk.rename(part, name)
            self._disk.sync_directory()

    def settle(self) -> None:
        """Sync the folder."""
        with _reporting(self._path):
            self._disk.sync_directory()


class ObjectStore:
    """A store in a folder of an fsspec file system.

    Its packages raise their own exception classes, which cannot be named without importing them, so
    every Exception counts as expected.
    """

    def __init__(self, files: Any, path: str) -> None:
        """`files` is an `fsspec.AbstractFileSystem`, `path` the folder in its notation."""
        self._files: Final = files
        self._path: Final = path.rstrip("/")

    @property
    def url(self) -> str:
        """The URL of the folder."""
        return str(self._files.unstrip_protocol(self._path))

    def url_of(self, name: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{name}"

    def exists(self) -> bool:
        """Whether anything is in the folder."""
        with _reporting(self.url, Exception):
            self._files.invalidate_cache()
            return bool(self._files.exists(self._path or "/"))

    def sizes(self) -> dict[str, int]:
        """Size in bytes of every object by name."""
        with _reporting(self.url, Exception):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._path or "/", detail=True)
            except FileNotFoundError:
                return {}
            return {
                str(each["name"]).rstrip("/").rpartition("/")[2]: int(each["size"] or 0)
                for each in found
                if each["type"] == "file"
            }

    def read(self, name: str) -> Iterator[bytes]:
        """The content of an object, in pieces."""
        with _reporting(self.url_of(name), Exception):
            self._files.invalidate_cache()
            path = f"{self._path}/{name}"
            with self._files.open(path, "rb", block_size=TRANSFER_BYTES) as file:
                while piece := file.read(CHUNK_BYTES):
                    yield piece

    def read_range(self, name: str, offset: int, count: int) -> bytes:
        """Part of an object, by one request."""
        with _reporting(self.url_of(name), Exception):
            path = f"{self._path}/{name}"
            return bytes(self._files.cat_file(path, start=offset, end=offset + count))

    def read_small(self, names: Sequence[str]) -> Iterator[tuple[str, Content]]:
        """Read small objects, many with one request where possible; yields contents or errors."""
        for start in range(0, len(names), _READ_TOGETHER):
            some = names[start : start + _READ_TOGETHER]
            paths = {name: f"{self._path}/{name}" for name in some}
            try:
                with _reporting(self.url, Exception):
                    self._files.invalidate_cache()
                    found = self._files.cat(list(paths.values()), on_error="return")
            except ArchiveError as error:
                yield from ((name, error) for name in some)
                continue
            for name in some:
                yield name, self._content(name, found.get(paths[name], FileNotFoundError()))

    def _content(self, name: str, found: bytes | Exception) -> Content:
        """Return the result of `cat`, with its error as an ArchiveError."""
        try:
            with _reporting(self.url_of(name), Exception):
                if isinstance(found, Exception):
                    raise found
        except ArchiveError as error:
            return error
        return found

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Upload an object; the caller must check that all of it arrived."""
        with _reporting(self.url_of(name), Exception):
            # A missing bucket is not created: its name is more likely a typing mistake.
            path = f"{self._path}/{name}"
            file = self._files.open(path, "wb", block_size=TRANSFER_BYTES)
            try:
                for piece in pieces:
                    file.write(piece)
            except BaseException:
                # Closing the file, also by garbage collection, would complete the upload of half an
                # object.
                with suppress(Exception):
                    file.discard()
                    file.closed = True
                raise
            file.close()
            self._files.invalidate_cache()

    def settle(self) -> None:
        """Do nothing: an object exists once all of it is durable."""


def open_store(url: str, storage_options: dict[str, Any]) -> Store:
    """Return the store of a URL or local path; raises ArchiveError. Accesses nothing yet."""
    if not url:
        raise ArchiveError("archive", "the URL is empty; name a directory or a URL")
    protocol, colon, rest = url.partition(":")
    if colon and protocol in _URL_PROTOCOLS and not rest.startswith("//"):
        # Otherwise it would be taken for the name of a local directory.
        shown = f"{protocol}:..." if "@" in url else url
        raise ArchiveError(shown, f"a URL has two slashes after the colon: {protocol}://...")
    # This import costs more than all others of the command line, and most commands need no archive.
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415
    from fsspec.implementations.local import (  # type: ignore[import-untyped]  # noqa: PLC0415
        LocalFileSystem,
    )

    shown = without_password(url)
    try:
        files, path = url_to_fs(url, **storage_options)
    except ImportError as error:
        raise ArchiveError(shown, _package_is_missing(url, error)) from error
    except ValueError as error:
        raise ArchiveError(
            shown, f"{reason_of(error)}; name a directory, or a URL like s3://bucket/path"
        ) from error
    except Exception as error:
        raise ArchiveError(shown, f"it cannot be opened: {reason_of(error)}") from error
    if isinstance(files, LocalFileSystem):
        folder = RealDisk(Path(path))
        return LocalStore(folder, str(path), folder=folder)
    return ObjectStore(files, path)


def _package_is_missing(url: str, error: ImportError) -> str:
    protocol = url.partition(":")[0]
    if protocol == "s3":
        return f"the package s3fs is not installed; run: {install_command('s3')}"
    return f"the package for {protocol}:// is not installed ({reason_of(error)})"


def without_password(url: str) -> str:
    """Return a URL without its login; a local path as it is."""
    protocol, separator, rest = url.partition("://")
    if not separator:
        return url
    login, at, _ = rest.partition("@")
    if at and ":" in login:
        # A secret key may contain slashes; it is safer to show too little than too much.
        return f"{protocol}://{rest.rpartition('@')[2]}"
    host, slash, path = rest.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path}"
