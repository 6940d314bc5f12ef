"""The archive suite on a local directory, in fsspec's memory, and in a local S3."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

from daybook.journal.archive.store import CHUNK_BYTES, TRANSFER_BYTES, open_store
from daybook.journal.errors import JournalError
from tests.suites.archive_suite import ArchiveSuite
from tests.support.stored.object_store import object_store


class LocalPlace:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.options: dict[str, Any] = {}
        self._folder = folder

    def names(self) -> list[str]:
        return sorted(path.name for path in self._folder.iterdir()) if self._folder.exists() else []

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        self._folder.mkdir(exist_ok=True)
        (self._folder / name).write_bytes(content)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink()


class FsspecPlace:
    """A folder of an fsspec file system."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.options = options
        self._files, self._path = fsspec.core.url_to_fs(url, **options)

    def names(self) -> list[str]:
        self._files.invalidate_cache()
        try:
            return sorted(each.rpartition("/")[2] for each in self._files.ls(self._path, False))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        return bytes(self._files.cat_file(f"{self._path}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        self._files.pipe_file(f"{self._path}/{name}", content)

    def remove(self, name: str) -> None:
        self._files.rm_file(f"{self._path}/{name}")


class TestLocalArchive(ArchiveSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> LocalPlace:
        return LocalPlace(tmp_path / "archive")


class TestArchiveInMemory(ArchiveSuite):
    @pytest.fixture
    def place(self, tmp_path: Path) -> FsspecPlace:
        return FsspecPlace(f"memory:/{tmp_path}/archive", {})


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """A local server that speaks S3, with the bucket `history`."""
    with object_store("history") as url:
        yield url


class TestArchiveInS3(ArchiveSuite):
    @pytest.fixture
    def place(self, s3_server: str, tmp_path: Path) -> FsspecPlace:
        options = {"key": "key", "secret": "secret", "endpoint_url": s3_server}
        return FsspecPlace(f"s3://history{tmp_path}", options)

    def test_a_large_upload_goes_in_parts_and_leaves_nothing_when_it_breaks_off(
        self, place: FsspecPlace
    ) -> None:
        def pieces(*, whole: bool) -> Iterator[bytes]:
            for number in range(2 * TRANSFER_BYTES // CHUNK_BYTES + 1):
                yield bytes([number]) * CHUNK_BYTES
            if not whole:
                raise JournalError("the segment cannot be read")

        store = open_store(place.url, place.options)
        with pytest.raises(JournalError, match=r"^the segment cannot be read$"):
            store.write("large", pieces(whole=False))
        gc.collect()
        assert store.sizes() == {}
        store.write("large", pieces(whole=True))
        assert store.sizes() == {"large": 2 * TRANSFER_BYTES + CHUNK_BYTES}
        for read, written in zip(store.read("large"), pieces(whole=True), strict=True):
            assert read == written
