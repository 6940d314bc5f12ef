"""The contract of every archive. Mix in, and give a fixture `place`."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Protocol

import msgspec
import pytest
import zstandard

from daybook.journal.archive.archive import Archive
from daybook.journal.archive.manifest import ArchiveEntry
from daybook.journal.archive.snapshots import SnapshotEntry, decode_entry, snapshots_in
from daybook.journal.blocks.format import manifest_name, segment_name, snapshot_name
from daybook.journal.disk import MemoryDisk
from daybook.journal.errors import ArchiveError, Corruption, JournalError
from daybook.journal.journal import Journal
from daybook.journal.retention import remove
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.verify import verify
from tests.suites.journal_rows import (
    DATA_ID,
    LAYOUT,
    SEGMENT_BYTES,
    append_some,
    create,
    read_all,
)

NOW = 1_763_640_000_000_000


class Place(Protocol):
    """Where an archive is, and a way to its objects behind its back."""

    url: str
    options: dict[str, Any]

    def names(self) -> list[str]:
        """Names of all objects."""
        ...

    def read(self, name: str) -> bytes:
        """Content of an object."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace an object."""
        ...

    def remove(self, name: str) -> None:
        """Remove an object."""
        ...


def some_journal(data_id: bytes = DATA_ID) -> MemoryDisk:
    """A journal of four sealed segments and a newest one."""
    disk = MemoryDisk()
    journal = Journal.create(disk, LAYOUT, data_id=data_id, segment_bytes=SEGMENT_BYTES)
    while len(segment_names(disk)) < 5:
        append_some(journal, 1, count=40)
    return disk


def forks() -> Iterator[MemoryDisk]:
    """Journals with the same data id and LSNs and another past."""
    for first in range(1, 40):
        disk = MemoryDisk()
        journal = create(disk)
        append_some(journal, 1, count=first)
        append_some(journal, 1, count=40 - first)
        while len(segment_names(disk)) < 5:
            append_some(journal, 1, count=40)
        yield disk


def put_all(archive: Archive, disk: MemoryDisk) -> list[ArchiveEntry]:
    """Archive all sealed segments."""
    return [archive.put(disk, name, now=NOW) for name in segment_names(disk)[:-1]]


class ArchiveSuite:
    """Tests of an archive at the fixture `place`."""

    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return some_journal()

    @pytest.fixture
    def archive(self, place: Place) -> Archive:
        return Archive(place.url, **place.options)

    def test_an_empty_archive_has_nothing(self, archive: Archive, place: Place) -> None:
        assert archive.entries() == ()
        report = archive.verify()
        assert (report.ok, report.archived, report.report.events) == (True, 0, 0)
        assert archive.segment_bytes() == 0
        with pytest.raises(ArchiveError, match="no segment is archived here"):
            archive.fetch(MemoryDisk())

    def test_what_is_put_is_listed_proven_and_fetched(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        everything = read_all(disk)
        entries = put_all(archive, disk)
        names = segment_names(disk)[:-1]
        assert place.names() == sorted([*names, *map(manifest_name, names)])
        assert archive.entries() == tuple(entries)
        for name, entry in zip(names, entries, strict=True):
            assert place.read(name) == disk.files[name]
            assert msgspec.json.decode(place.read(manifest_name(name)), type=ArchiveEntry) == entry
            assert (entry.segment, entry.bytes, entry.archived_at) == (
                name, len(disk.files[name]), NOW,
            )  # fmt: skip
        assert archive.segment_bytes() == sum(entry.bytes for entry in entries)
        checked: list[int] = []
        report = archive.verify(progress=checked.append)
        assert (report.faults, report.unlisted, report.archived) == ([], [], len(names))
        assert (report.first_lsn, report.last_lsn) == (1, entries[-1].last_lsn)
        assert report.report.last_hash == entries[-1].last_hash
        assert sum(checked) > 0
        target = MemoryDisk()
        copied: list[int] = []
        assert archive.fetch(target, progress=copied.append) == tuple(entries)
        assert sum(copied) == archive.segment_bytes()
        assert {name: target.files[name] for name in names} == {
            name: disk.files[name] for name in names
        }
        assert read_all(target) == everything[: entries[-1].last_lsn]
        fetched = verify(target)
        assert fetched.ok
        assert fetched.archived

    def test_archive_and_live_journal_read_as_one(self, archive: Archive, disk: MemoryDisk) -> None:
        everything = read_all(disk)
        put_all(archive, disk)
        names = segment_names(disk)
        for gone in (0, 2, 4):
            remove(disk, names[:gone])
            with archive.reading(disk) as joined:
                assert read_all(joined) == everything
                reports = (archive.verify(disk).report, verify(joined))
            for report in reports:
                assert report.ok
                assert not report.archived
                assert (report.first_lsn, report.last_lsn) == (1, len(everything))

    def test_a_snapshot_is_put_compared_and_read(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        put_all(archive, disk)
        entry = SnapshotEntry(
            1, snapshot_name(7), 7, 0, "", 9, "b" * 64, DATA_ID.hex(), "d" * 32, NOW
        )
        pieces = [b"tables " * 9000, bytes(range(256)) * 5000, b""]
        told = archive.snapshots.put(entry, iter(pieces), lambda: None)
        packed = place.read(snapshot_name(7))
        unpacked = zstandard.ZstdDecompressor().stream_reader(packed).read()
        assert unpacked == b"".join(pieces)
        assert (told.bytes, told.sha256) == (len(packed), sha256(packed).hexdigest())
        assert decode_entry(place.read(manifest_name(snapshot_name(7))), 7) == told
        with archive.reading(disk) as joined:
            assert snapshots_in(joined.names()) == [7]
            file = joined.open(snapshot_name(7))
            assert file.pread(len(packed) + 9, 0) == packed
            file.close()
        assert archive.snapshots.due([(7, 1), (8, 1)], 1 << 30) == []
        # It is not a segment, and old readers pass over it.
        assert len(archive.entries()) == len(segment_names(disk)) - 1
        report = archive.verify(disk)
        assert (report.ok, report.snapshots, report.unlisted) == (True, 1, [])
        target = MemoryDisk()
        assert archive.fetch_snapshots(target, archive.fetch(target)) == []
        assert target.files[snapshot_name(7)] == packed
        # One that is not complete counts for nothing, and is written again.
        place.remove(manifest_name(snapshot_name(7)))
        assert archive.snapshots.due([(7, 1)], 1 << 30) == [7]
        assert archive.verify(disk).unlisted == [snapshot_name(7)]
        with archive.reading(disk) as joined:
            assert snapshots_in(joined.names()) == []
        place.write(snapshot_name(7), packed[:9])
        assert archive.snapshots.put(entry, iter(pieces), lambda: None) == told
        assert place.read(snapshot_name(7)) == packed

    def test_putting_again_changes_nothing(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        entries = put_all(archive, disk)
        before = {name: place.read(name) for name in place.names()}
        again = [archive.put(disk, name, now=NOW + 1) for name in segment_names(disk)[:-1]]
        assert again == entries
        assert {name: place.read(name) for name in place.names()} == before

    def test_another_segment_of_the_same_name_is_refused(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        name = segment_names(disk)[0]
        archive.put(disk, name, now=NOW)
        other = some_journal(b"b" * 16)
        with pytest.raises(ArchiveError, match="another segment is archived under this name"):
            archive.put(other, name, now=NOW)
        assert place.read(name) == disk.files[name]

    def test_segments_of_another_journal_are_refused(
        self, archive: Archive, disk: MemoryDisk
    ) -> None:
        names = segment_names(disk)
        archive.put(disk, names[0], now=NOW)
        other = some_journal(b"b" * 16)
        with pytest.raises(ArchiveError, match="come from different data directories"):
            archive.put(other, names[1], now=NOW)
        forked = MemoryDisk()
        append_some(create(forked), 400, count=7)
        with pytest.raises(ArchiveError, match="begins within"):
            archive.put(forked, segment_names(forked)[1], now=NOW)
        assert len(archive.entries()) == 1

    def test_a_segment_that_does_not_follow_is_refused(
        self, archive: Archive, disk: MemoryDisk
    ) -> None:
        archive.put(disk, segment_names(disk)[1], now=NOW)
        following = segment_name(archive.entries()[0].last_lsn + 1)
        forked = next(fork for fork in forks() if following in segment_names(fork))
        with pytest.raises(ArchiveError, match="does not carry the hash of the last block"):
            archive.put(forked, following, now=NOW)

    def test_what_is_not_whole_is_not_archived(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        names = segment_names(disk)
        with pytest.raises(JournalError, match="only sealed segments can"):
            archive.put(disk, names[-1], now=NOW)
        disk.files[names[0]][4200] ^= 1
        with pytest.raises(Corruption, match=names[0]):
            archive.put(disk, names[0], now=NOW)
        with pytest.raises(JournalError, match=r"99\.seg cannot be read"):
            archive.put(disk, segment_name(99), now=NOW)
        assert place.names() == []

    def test_an_object_that_rotted_is_named_and_put_again(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        entries = put_all(archive, disk)
        name = entries[1].segment
        sound = place.read(name)
        url = place.url.rstrip("/") + "/" + name
        damaged = {
            "its SHA-256 is": bytes([*sound[:5000], sound[5000] ^ 4, *sound[5001:]]),
            f"it has 6000 bytes instead of {len(sound)}": sound[:6000],
            "it has 0 bytes": b"",
        }
        for says, content in damaged.items():
            place.write(name, content)
            faults = archive.verify().faults
            assert faults[0].url.endswith(url.rpartition("://")[2])
            assert says in faults[0].what
            # The blocks are verified, too, and their faults name the same object.
            assert {fault.url for fault in faults[:2]} == {faults[0].url}
            with pytest.raises(ArchiveError, match=f"{name}.*{says}"):
                archive.fetch(MemoryDisk())
            with (
                archive.reading() as archived,
                pytest.raises(ArchiveError, match=f"{name}.*{says}"),
            ):
                read_all(archived)
            archive.put(disk, name, now=NOW)
            assert archive.verify().ok

    def test_a_missing_object_and_a_gap_are_named(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        entries = put_all(archive, disk)
        gone = entries[1]
        place.remove(gone.segment)
        first, second = archive.verify().faults
        assert first.url.endswith(gone.segment)
        assert "is missing, though its manifest is there" in first.what
        assert second.url.endswith(entries[2].segment)
        assert f"LSN {gone.first_lsn} to {gone.last_lsn} should come before" in second.what
        with pytest.raises(ArchiveError, match=f"{gone.segment}.*is missing"):
            archive.entries()
        place.remove(manifest_name(gone.segment))
        (fault,) = archive.verify().faults
        assert fault == second
        with pytest.raises(ArchiveError, match=f"{gone.first_lsn} to {gone.last_lsn} are missing"):
            archive.fetch(MemoryDisk())
        archive.put(disk, gone.segment, now=NOW)
        assert archive.verify().ok

    def test_a_damaged_manifest_is_named_whichever_bit_it_is(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        (entry, *_) = put_all(archive, disk)
        manifest = manifest_name(entry.segment)
        sound = place.read(manifest)
        end = sound.index(b'"archived_at"')
        for position in range(0, end, 1 + len(sound) // 12):
            place.write(
                manifest, sound[:position] + bytes([sound[position] ^ 1]) + sound[position + 1 :]
            )
            faults = archive.verify().faults
            assert entry.segment in faults[0].url, position
        for content in (
            b"",
            sound[:50],
            b"[]",
            b"\xff",
            sound.replace(b'"format": 1', b'"format": 2'),
        ):
            place.write(manifest, content)
            with pytest.raises(ArchiveError, match=manifest):
                archive.entries()
        assert "manifest format 2, this release reads 1" in archive.verify().faults[0].what
        # The object shows that it is ours: archiving it again lists it again.
        archive.put(disk, entry.segment, now=NOW)
        assert place.read(manifest) == sound

    def test_what_an_upload_left_is_completed_and_what_others_left_is_not(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        name = segment_names(disk)[0]
        whole = bytes(disk.files[name])
        for remains in (whole, whole[:5000], whole[:100], b""):
            place.write(name, remains)
            assert archive.entries() == ()
            assert archive.verify().unlisted == [name]
            archive.put(disk, name, now=NOW)
            assert place.read(name) == whole
            assert archive.verify().unlisted == []
            place.remove(manifest_name(name))
        other = bytes(some_journal(b"b" * 16).files[name])
        for remains in (other, other[:60], b"a letter to my aunt"):
            place.write(name, remains)
            with pytest.raises(ArchiveError, match=f"{name}: another object has this name"):
                archive.put(disk, name, now=NOW)
            assert place.read(name) == remains

    def test_other_objects_are_no_part_of_it(
        self, archive: Archive, place: Place, disk: MemoryDisk
    ) -> None:
        put_all(archive, disk)
        for name in ("README.json", "notes", f"{1:020d}.seg.part"):
            place.write(name, b"hello")
        assert len(archive.entries()) == 4
        assert archive.verify().ok

    def test_a_range_is_fetched_by_whole_segments(self, archive: Archive, disk: MemoryDisk) -> None:
        everything = read_all(disk)
        one, two, three, four = put_all(archive, disk)
        target = MemoryDisk()
        archive.fetch(target, from_lsn=two.last_lsn, to_lsn=three.first_lsn)
        assert read_all(target) == everything[two.first_lsn - 1 : three.last_lsn]
        report = verify(target)
        assert (report.ok, report.first_lsn) == (True, two.first_lsn)
        archive.fetch(target, names=[one.segment])
        archive.fetch(target, from_lsn=three.first_lsn)
        assert read_all(target) == everything[: four.last_lsn]
        wrong: list[dict[str, Any]] = [
            {"to_lsn": four.last_lsn + 1},
            {"from_lsn": four.last_lsn + 1},
            {"names": [segment_name(99)]},
        ]
        for each in wrong:
            with pytest.raises(ArchiveError, match=r"does not have (all of )?LSN|is not archived"):
                archive.fetch(MemoryDisk(), **each)

    def test_fetching_goes_on_where_it_was_cut_short_and_overwrites_nothing(
        self, archive: Archive, disk: MemoryDisk
    ) -> None:
        one, two, *_ = put_all(archive, disk)
        target = MemoryDisk()
        archive.fetch(target, names=[one.segment])
        copied: list[int] = []
        archive.fetch(target, names=[one.segment, two.segment], progress=copied.append)
        assert sum(copied) == two.bytes
        target.files[one.segment][5000] ^= 1
        with pytest.raises(ArchiveError, match="its SHA-256 is"):
            archive.fetch(target)
        with pytest.raises(JournalError, match="contains another journal"):
            archive.fetch(disk)
