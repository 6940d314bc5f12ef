"""Stores that fail, lie or die: the archive lists whole segments, and can always continue."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.store import LocalStore, ObjectStore, open_store
from daybook.journal.blocks.format import manifest_name
from daybook.journal.disk import MemoryDisk, write_content
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.segments.segment import segment_names
from tests.simulation.machine.disk import Faults, FaultyDisk, PowerCut
from tests.suites.archive_suite import NOW, some_journal
from tests.suites.broken_files import BrokenFiles, Killed


@pytest.fixture(scope="module")
def disk() -> MemoryDisk:
    return some_journal()


def local(disk: FaultyDisk) -> Archive:
    return Archive(LocalStore(disk, "/archive"))


def test_a_power_cut_leaves_a_listed_segment_whole_or_none(disk: MemoryDisk) -> None:
    first, second = segment_names(disk)[:2]
    listed = set()
    for seed in range(6):
        for calls in range(1, 22):
            store = FaultyDisk(seed)
            local(store).put(disk, first, now=NOW)
            store.crash_after(calls)
            with suppress(PowerCut, ArchiveError):
                local(store).put(disk, second, now=NOW)
            after = local(store.crash())
            entries = after.entries()
            assert after.verify().ok
            assert entries[0].segment == first
            listed.add(len(entries))
            assert after.put(disk, second, now=NOW).segment == second
            assert after.verify().ok
            assert len(after.entries()) == 2
    assert listed == {1, 2}


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "pread"])
def test_a_local_disk_that_fails_is_named_and_nothing_is_listed(
    disk: MemoryDisk, call: str
) -> None:
    name = segment_names(disk)[0]
    store = FaultyDisk(1)
    store.fail_next(call)
    with pytest.raises(ArchiveError, match=rf"/archive/{name}: it cannot be used: .*"):
        local(store).put(disk, name, now=NOW)
    assert local(store).entries() == ()
    local(store).put(disk, name, now=NOW)
    assert local(store).verify().ok


def test_short_writes_are_gone_on_with(disk: MemoryDisk) -> None:
    name = segment_names(disk)[0]
    store = FaultyDisk(3, faults=Faults(short_write=0.9))
    local(store).put(disk, name, now=NOW)
    assert local(store).verify().ok


@pytest.mark.parametrize("error", [OSError(5, "the wire broke"), Killed()], ids=["fails", "dies"])
def test_an_object_store_may_break_at_any_call(disk: MemoryDisk, error: BaseException) -> None:
    first, second = segment_names(disk)[:2]
    listed = set()
    calls = 0
    while True:
        calls += 1
        files = BrokenFiles()
        archive = Archive(ObjectStore(files, "/a"))
        archive.put(disk, first, now=NOW)
        files.fail_at(calls, error)
        with suppress(ArchiveError, Killed):
            archive.put(disk, second, now=NOW)
        met = files.met
        files.heal()
        again = Archive(ObjectStore(files, "/a"))
        # An unfinished manifest is reported; whatever is listed is whole.
        report = again.verify()
        assert all(fault.url.endswith(manifest_name(second)) for fault in report.faults)
        listed.add((report.archived, report.ok))
        again.put(disk, second, now=NOW)
        assert again.verify().ok
        assert len(again.entries()) == 2
        if not met:
            break
    assert calls > 15
    assert {(1, True), (2, True)} <= listed


def test_a_store_that_keeps_half_is_found_out(disk: MemoryDisk) -> None:
    name = segment_names(disk)[0]
    files = BrokenFiles()
    files.drop_writes = True
    archive = Archive(ObjectStore(files, "/a"))
    with pytest.raises(ArchiveError, match=rf"//a/{name}: after writing it it has \d+ bytes"):
        archive.put(disk, name, now=NOW)
    assert archive.entries() == ()
    files.heal()
    archive.put(disk, name, now=NOW)
    assert archive.verify().ok


def test_refused_access_is_said_of_the_object(disk: MemoryDisk) -> None:
    files = BrokenFiles()
    archive = Archive(ObjectStore(files, "/a"))
    archive.put(disk, segment_names(disk)[0], now=NOW)
    files.fail_at(2, PermissionError(13, "Forbidden"))
    with pytest.raises(ArchiveError, match=r"broken://a: access was refused \(Forbidden\)"):
        archive.entries()
    files.fail_at(4, PermissionError(13, "Forbidden"))
    with pytest.raises(ArchiveError, match=r"broken://a.*: access was refused \(Forbidden\)"):
        archive.entries()


@pytest.mark.parametrize("seed", range(10))
def test_what_a_killed_process_archived_is_durable_once_it_was_put(
    disk: MemoryDisk, seed: int
) -> None:
    """It was killed before the last sync; the next process finds it, and lets the segment leave."""
    first, store = segment_names(disk)[0], FaultyDisk(seed)
    local(store).put(disk, first, now=NOW)
    # As if the names of both files were in the page cache alone.
    again = FaultyDisk(seed)
    for name in store.names():
        content = b"".join(LocalStore(store, "/archive").read(name))
        write_content(again, name, (content,))
    local(again).put(disk, first, now=NOW)
    assert len(local(again.crash()).entries()) == 1


def test_a_segment_that_cannot_be_read_is_not_the_stores_fault() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"begun"
        raise JournalError("segment 1 cannot be read")

    for store in (LocalStore(MemoryDisk(), "/a"), ObjectStore(BrokenFiles(), "/a")):
        with pytest.raises(JournalError, match=r"^segment 1 cannot be read$"):
            store.write("x", pieces())
    memory = MemoryDisk()
    with pytest.raises(JournalError):
        LocalStore(memory, "/a").write("x", pieces())
    assert memory.names() == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "the URL is empty"),
        ("foo://x/y", "foo://x/y: Protocol not known: foo; name a directory, or a URL like s3://"),
        ("gs://x/y", "gs://x/y: the package for gs:// is not installed"),
        ("s3:/x", "s3:/x: a URL has two slashes after the colon: s3://"),
    ],
)
def test_urls_that_lead_nowhere(url: str, says: str) -> None:
    with pytest.raises(ArchiveError) as refused:
        open_store(url, {})
    assert says in str(refused.value)


def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_server_that_is_down_is_said_without_the_password() -> None:
    port = closed_port()
    with pytest.raises(ArchiveError) as refused:
        open_store(f"ftp://joe:hush@127.0.0.1:{port}/a", {})
    assert str(refused.value).startswith(f"ftp://127.0.0.1:{port}/a: it cannot be opened: ")
    assert "hush" not in str(refused.value)


def test_an_object_store_that_is_down_is_said() -> None:
    archive = Archive(
        "s3://history/a",
        key="key",
        secret="secret",
        endpoint_url=f"http://127.0.0.1:{closed_port()}",
        config_kwargs={"retries": {"max_attempts": 0}},
    )
    with pytest.raises(ArchiveError, match=r"^s3://history/a: it cannot be used: .*127\.0\.0\.1"):
        archive.entries()


def test_local_urls_and_paths_are_the_same(tmp_path: Path, disk: MemoryDisk) -> None:
    name = segment_names(disk)[0]
    Archive(f"file://{tmp_path}/deep/archive").put(disk, name, now=NOW)
    archive = Archive(str(tmp_path / "deep" / "archive"))
    assert archive.url == str(tmp_path / "deep" / "archive")
    assert [entry.segment for entry in archive.entries()] == [name]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match=rf"{tmp_path}/file/{name}: it cannot be .*: Not a dir"):
        Archive(str(tmp_path / "file")).put(disk, name, now=NOW)


def test_a_package_that_is_not_installed_is_named() -> None:
    code = (
        "import sys; sys.modules['s3fs'] = None\n"
        "from daybook.journal.archive.archive import Archive\n"
        "try: Archive('s3://history/a')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == (
        "ArchiveError s3://history/a: the package s3fs is not installed; run: "
        f"{sys.executable} -m pip install 's3fs>=2024.6'\n"
    )
