"""An archive in Parquet proves itself, and every manipulation is found and named."""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from struct import calcsize
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybook.journal.blocks.format import Damage
from daybook.journal.blocks.rows_frame import narrow_first
from daybook.journal.disk import RealDisk
from daybook.journal.errors import ArchiveError, JournalError
from daybook.journal.segments.segment import open_segment, segment_names
from daybook.journal.segments.verify import verify
from daybook.paging.tables.layout import LAYOUT
from daybook.pipeline import proof as proof_module
from daybook.pipeline import proving
from daybook.pipeline.jobs.archive import archive
from daybook.pipeline.parquet.archive import ABOUT, ArchivedSegment, ParquetArchive
from daybook.pipeline.planning import Source
from daybook.pipeline.proof import (
    PROOF_BLOCK_FIELDS,
    PROOF_HEADER_FIELDS,
    PROOF_MAGIC,
    Proof,
    decode_proof,
    encode_proof,
    make_proof,
)
from daybook.pipeline.proving import ProofReport, prove, restore
from tests.support.histories import some_history, write_history
from tests.support.stored.older import write_as_before

PAGE = (Path(__file__).parents[2] / "docs" / "journal-format.md").read_text("utf-8")
BLOCK_EVENTS = 40
TYPES = {"H": "u16", "I": "u32", "Q": "u64"}


class Place:
    """A history of several segments, and its Parquet archive."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.folder = folder / "parquet"

    @property
    def archive(self) -> ParquetArchive:
        return ParquetArchive(str(self.folder))

    @property
    def segments(self) -> tuple[ArchivedSegment, ...]:
        return self.archive.segments()

    def prove(self, live: Source | None = None) -> ProofReport:
        return prove(self.archive, live, progress=lambda _: None)

    def faults(self) -> list[tuple[str, int, str]]:
        """A fault: the file's name, the LSN, and a description."""
        report = self.prove()
        assert report.ok == (not report.faults)
        return [(fault.url.rpartition("/")[2], fault.lsn, fault.what) for fault in report.faults]

    def file(self, number: int) -> Path:
        (file,) = self.segments[number].files
        return self.folder / file.path

    def about(self, number: int, suffix: str) -> Path:
        return self.folder / ABOUT / f"{self.segments[number].segment}{suffix}"

    def rewrite(self, number: int, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of a file, and its manifest so that nothing shows of it there."""
        path = self.file(number)
        pq.write_table(change(pq.ParquetFile(path).read()), path)
        self.list_again(number)

    def list_again(self, number: int, **changes: object) -> None:
        """Have a manifest say what is there."""
        segment = self.segments[number]
        content = self.file(number).read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        (file,) = segment.files
        file = msgspec.structs.replace(file, bytes=len(content), sha256=sha256)
        proof = self.about(number, ".proof").read_bytes()
        changed = msgspec.structs.replace(
            segment, files=(file,), proof_sha256=hashlib.sha256(proof).hexdigest(), **changes
        )
        self.about(number, ".json").write_bytes(msgspec.json.encode(changed))


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        place = Place(Path(folder))
        history = some_history(7, 400)
        cuts = range(BLOCK_EVENTS, len(history), BLOCK_EVENTS)
        write_history(place.data, history, cuts=cuts, segment_bytes=1 << 14)
        assert archive(Source(str(place.data)), str(place.folder)).ok
        yield Path(folder)


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    """A copy that a test may tamper with."""
    shutil.copytree(made, tmp_path / "copy")
    return Place(tmp_path / "copy")


def with_cell(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    column = table.schema.get_field_index(name)
    cells = table.column(name).to_pylist()
    assert cells[row] != value
    cells[row] = value
    field = table.schema.field(name)
    return table.set_column(column, field, pa.chunked_array([pa.array(cells, field.type)]))


def a_proof(place: Place) -> Proof:
    return decode_proof(place.about(1, ".proof").read_bytes())


def test_padded_blocks_are_proven_by_hash(tmp_path: Path) -> None:
    """Padding is made again like the frames, from the sizes in the header."""
    place = Place(tmp_path)
    history = some_history(7, 400)
    cuts = range(20, len(history), 20)
    write_history(place.data, history, cuts=cuts, segment_bytes=1 << 14, device_block_bytes=512)
    assert archive(Source(str(place.data)), str(place.folder)).ok
    report = place.prove(Source(str(place.data)))
    assert report.faults == []
    assert report.blocks == report.exact > 10


def test_everything_is_proven_by_hash(place: Place) -> None:
    report = place.prove(Source(str(place.data)))
    segments = place.segments
    assert report.faults == []
    assert len(segments) > 3
    assert (report.segments, report.files) == (len(segments), len(segments))
    assert report.blocks == report.exact == sum(segment.blocks for segment in segments) > 0
    assert (report.alike, report.events) == (0, segments[-1].last_lsn)
    chain = verify(RealDisk(place.data / "journal"))
    assert segments[-1].last_lsn < chain.last_lsn
    for segment in segments:
        opened = open_segment(RealDisk(place.data / "journal"), segment.segment)
        assert segment.last_hash == opened.footer().last_hash.hex()
        opened.close()
    assert report.last_hash == segments[-1].last_hash


def test_blocks_as_they_were_written_once_are_proven_and_restored(
    place: Place, tmp_path: Path
) -> None:
    older = Place(tmp_path / "older")
    shutil.copytree(place.data, older.data)
    write_as_before(older.data / "journal", segments=2)
    assert archive(Source(str(older.data)), str(older.folder)).ok
    report = older.prove(Source(str(older.data)))
    assert report.ok
    assert report.exact == report.blocks == place.prove().blocks
    restore(older.archive, tmp_path / "restored", now=0)
    for segment in older.segments:
        restored = (tmp_path / "restored" / "journal" / segment.segment).read_bytes()
        assert restored == (older.data / "journal" / segment.segment).read_bytes()


@pytest.mark.parametrize(
    ("column", "value"),
    [("body", b"less"), ("time", 5), ("delivery_count", 77), ("headers_raw", b"a:b\n"),
     ("detail_raw", b"\x80"), ("queue_id", 3_000), ("message", 1 << 40)],
)  # fmt: skip
def test_a_changed_cell_of_a_raw_column_is_found(place: Place, column: str, value: object) -> None:
    place.rewrite(1, lambda table: with_cell(table, column, 30, value))
    name = place.file(1).name
    first = place.segments[1].first_lsn
    ((found, lsn, what),) = place.faults()
    assert found == name
    assert lsn <= first + 30 < lsn + BLOCK_EVENTS
    assert what.startswith(f"rows, details, headers or bodies of LSN {lsn} to ")


@pytest.mark.parametrize(
    ("column", "value"),
    [("kind", "Expired"), ("address", "elsewhere"), ("queues", ["a", "b"]), ("detail", "{}"),
     ("headers", [("a", "b")]), ("reason", "why"), ("body_bytes", 9_999), ("segment", "x.seg"),
     ("block_offset", 1), ("persistent", None)],
)  # fmt: skip
def test_a_changed_cell_of_a_derived_column_is_found(
    place: Place, column: str, value: object
) -> None:
    place.rewrite(1, lambda table: with_cell(table, column, 30, value))
    lsn = place.segments[1].first_lsn + 30
    ((found, at, what),) = place.faults()
    assert (found, at) == (place.file(1).name, lsn)
    assert what.startswith(f"column {column} is {value!r}"[:20])
    assert "its block says" in what


def test_a_wrapped_number_is_found(place: Place) -> None:
    """Values that do not fit the narrower type of the journal are not lost."""
    kind = pq.ParquetFile(place.file(0)).read().column("kind_id")[3].as_py()
    place.rewrite(0, lambda table: with_cell(table, "kind_id", 3, kind + 256))
    (fault,) = place.faults()
    assert fault[1:] == (4, f"column kind_id is {kind + 256}, its block says {kind}")


def test_a_dropped_row_is_found(place: Place) -> None:
    first = place.segments[2].first_lsn
    place.rewrite(2, lambda table: table.filter(pc.not_equal(table.column("lsn"), first + 9)))
    assert place.faults() == [
        (place.file(2).name, first, f"LSN {first + 9} should follow, but LSN {first + 10} does")
    ]


def test_rows_dropped_at_the_end_are_found(place: Place) -> None:
    segment = place.segments[2]
    place.rewrite(2, lambda table: table.slice(0, table.num_rows - 1))
    assert place.faults() == [
        (place.file(2).name, segment.first_lsn, f"its rows end before LSN {segment.last_lsn}")
    ]


def test_an_invented_row_is_found(place: Place) -> None:
    last = place.segments[2].last_lsn

    def more(table: pa.Table) -> pa.Table:
        row = with_cell(table.slice(table.num_rows - 1), "lsn", 0, last + 1)
        return pa.concat_tables([table, row])

    place.rewrite(2, more)
    ((_, _, what),) = place.faults()
    assert what == f"it continues after LSN {last}, the segment's last"


def test_other_columns_are_found(place: Place) -> None:
    place.rewrite(0, lambda table: table.drop_columns(["body"]))
    ((found, _, what),) = place.faults()
    assert (found, what) == (place.file(0).name, "it has other columns than events")


def test_nulls_where_none_can_be_are_found(place: Place) -> None:
    place.rewrite(0, lambda table: with_cell(table, "body", 3, None))
    ((found, _, what),) = place.faults()
    assert (found, what) == (place.file(0).name, "column body has nulls, which it must not have")


def test_swapped_files_are_found(place: Place) -> None:
    one, other = place.file(0), place.file(1)
    keep = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(keep)
    told = place.faults()
    changed = "it was changed since it was written: its SHA-256 differs from the manifest's"
    assert [(name, what) for name, _, what in told if what == changed] == [
        (one.name, changed), (other.name, changed),
    ]  # fmt: skip
    place.list_again(0)
    place.list_again(1)
    assert {name for name, _, _ in place.faults()} == {one.name, other.name}


def test_a_file_that_is_missing_or_no_parquet_is_found(place: Place) -> None:
    place.file(0).unlink()
    place.file(1).write_bytes(b"PAR1 is all that there is")
    told = place.faults()
    assert [name for name, _, _ in told] == [
        place.file(0).name, place.file(1).name, place.file(1).name,
    ]  # fmt: skip
    assert "there is no such object" in told[0][2]
    assert told[1][2].startswith("it was changed since it was written")
    assert told[2][2].startswith("it cannot be read as Parquet: ")


def test_a_missing_proof_is_found(place: Place) -> None:
    path = place.about(1, ".proof")
    path.unlink()
    ((found, lsn, what),) = place.faults()
    assert (found, lsn) == (path.name, place.segments[1].first_lsn)
    assert "there is no such object" in what


def test_a_missing_manifest_is_a_gap_and_its_files_are_not_listed(place: Place) -> None:
    gone = place.segments[1]
    place.about(1, ".json").unlink()
    report = place.prove()
    (fault,) = report.faults
    assert fault.what == (
        f"LSN {gone.first_lsn} to {gone.last_lsn} are missing between the segments"
    )
    assert report.unlisted == [gone.files[0].path]


def test_changed_names_are_found(place: Place) -> None:
    path = place.folder / ABOUT / "names.json"
    path.write_text(path.read_text().replace('"orders"', '"others"'))
    told = [what for _, _, what in place.faults()]
    assert "column address is 'orders', its block says 'others'" in told
    path.write_text("[]")
    with pytest.raises(ArchiveError, match="it is not a table of names"):
        place.prove()


def test_damaged_manifests_are_found(place: Place) -> None:
    place.about(1, ".json").write_bytes(b"{")
    with pytest.raises(ArchiveError, match="it is not a manifest of a segment"):
        assert place.segments
    first, gap = place.faults()
    assert first[2].startswith("it is not a manifest of a segment: ")
    assert "are missing between" in gap[2]


def test_a_manifest_that_says_otherwise_than_the_proof_is_found(place: Place) -> None:
    place.list_again(1, last_hash="00" * 16)
    told = [what for _, _, what in place.faults()]
    assert "its manifest contradicts its proof" in told
    assert f"it does not carry the hash of the last block of {place.segments[1].segment}" in told


@given(st.data())
def test_a_proof_with_any_bit_changed_is_refused(made: Path, data: st.DataObject) -> None:
    packed = bytearray(Place(made).about(1, ".proof").read_bytes())
    bit = data.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Damage):
        decode_proof(bytes(packed))


@given(st.data())
def test_an_edited_proof_that_is_sealed_again_is_refused_or_found(
    made: Path, data: st.DataObject
) -> None:
    """Whoever edits the sidecar and its checksums meets the crcs, the chain, or the rows."""
    place = Place(made)
    packed = bytearray(place.about(1, ".proof").read_bytes()[:-32])
    bit = data.draw(st.integers(0, len(packed) * 8 - 1))
    packed[bit // 8] ^= 1 << bit % 8
    sealed = bytes(packed) + hashlib.sha256(packed).digest()
    try:
        edited = decode_proof(sealed)
    except Damage:
        return
    original = a_proof(place)
    changed = [
        number for number, (one, other) in enumerate(
            zip(original.blocks, edited.blocks, strict=True)
        ) if one != other
    ]  # fmt: skip
    if not changed:
        assert original._replace(sha256=b"") == edited._replace(sha256=b"") or bit // 8 in (10, 11)
        return
    rebuilder = proof_module.Rebuilder(edited, place.archive.name_tables())
    for table in proving.tables_of(place.file(1)):
        rebuilder.feed(table)
    assert rebuilder.faults
    assert edited.blocks[changed[0]].header.first_lsn == rebuilder.faults[0].lsn


def test_rows_and_proof_changed_together_are_found_by_the_chain(place: Place) -> None:
    """A forger replaces a body, its digest and all checksums; the block's hash stays."""
    proof = a_proof(place)
    block = next(each for each in proof.blocks if each.header.heap_raw_bytes)
    table = pq.ParquetFile(place.file(1)).read()
    start = block.header.first_lsn - proof.header.first_lsn
    row = next(
        number for number in range(start, start + block.header.event_count)
        if len(table.column("body")[number].as_py()) > 3
    )  # fmt: skip
    body = table.column("body")[row].as_py()
    forged_body = body[:-2] + bytes([body[-2] ^ 1]) + body[-1:]
    forged = with_cell(table, "body", row, forged_body)
    raw = proof_module._RawRows(forged.combine_chunks())
    end = start + block.header.event_count
    codes = [code for _, code, _ in LAYOUT.stored()]
    content = raw.rows(narrow_first(LAYOUT), codes, start, end) + raw.heap(start, end)
    digest = hashlib.sha256(content).digest()
    blocks = tuple(each._replace(digest=digest) if each is block else each for each in proof.blocks)
    pq.write_table(forged, place.file(1))
    place.about(1, ".proof").write_bytes(encode_proof(proof._replace(blocks=blocks)))
    place.list_again(1)
    (fault,) = place.faults()
    exact = place.segments[1].exact
    assert fault[2].startswith(f"{exact - 1} blocks have their hash instead of {exact}")
    with pytest.raises(ArchiveError, match="cannot be restored bit for bit"):
        restore(place.archive, place.data.parent / "restored", now=0)


def test_another_zstd_proves_by_digest_and_restores_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_module, "COMPRESSION_LEVEL", 19)
    report = place.prove()
    assert "rows and proof were changed together" in report.faults[0].what
    monkeypatch.setattr(proving, "zstd_version", lambda: "9.9.9")
    report = place.prove()
    assert report.ok
    assert report.alike > 0
    assert report.exact + report.alike == report.blocks
    with pytest.raises(
        ArchiveError, match=r"another version of zstd wrote it than the installed 9\.9\.9"
    ):
        restore(place.archive, place.data.parent / "restored", now=0)
    assert segment_names(RealDisk(place.data.parent / "restored" / "journal")) == []


def test_the_live_journal_must_go_on_where_the_archive_ends(place: Place, tmp_path: Path) -> None:
    other = write_history(tmp_path / "other", some_history(8, 400), segment_bytes=1 << 14)
    told = place.prove(Source(str(other))).faults
    assert told
    assert all("the live segment" in fault.what for fault in told)
    mine = RealDisk(place.data / "journal")
    for name in segment_names(mine)[:-1]:
        mine.remove(name)
    assert place.prove(Source(str(place.data))).ok
    place.about(-1, ".json").unlink()
    assert place.prove(Source(str(place.data))).ok


def test_segments_are_restored_bit_for_bit(place: Place) -> None:
    target = place.data.parent / "restored"
    told: list[int] = []
    names = restore(place.archive, target, now=9, progress=told.append)
    assert names == [segment.segment for segment in place.segments]
    assert sum(told) == sum(segment.bytes for segment in place.segments)
    for name in names:
        original = (place.data / "journal" / name).read_bytes()
        assert (target / "journal" / name).read_bytes() == original
    report = verify(RealDisk(target / "journal"))
    assert report.ok
    assert report.archived
    before = {path.name: path.stat().st_mtime_ns for path in (target / "journal").iterdir()}
    assert restore(place.archive, target, now=10) == names
    after = {path.name: path.stat().st_mtime_ns for path in (target / "journal").iterdir()}
    assert after == before


def test_nothing_is_restored_into_a_journal(place: Place) -> None:
    before = segment_names(RealDisk(place.data / "journal"))
    with pytest.raises(JournalError, match=rf"journal of its own \({before[-1]} has no manifest"):
        restore(place.archive, place.data, now=0)
    names = RealDisk(place.data / "journal").names()
    assert [name for name in names if name.endswith(".json")] == []


def test_restoring_a_range_and_over_something_else(place: Place) -> None:
    target = place.data.parent / "restored"
    one = place.segments[1]
    assert restore(place.archive, target, now=0, from_lsn=one.first_lsn, to_lsn=one.last_lsn) == [
        one.segment
    ]
    with pytest.raises(ArchiveError, match="no segment of this range is archived here"):
        restore(place.archive, target, now=0, from_lsn=10_000_000)
    (target / "journal" / one.segment).write_bytes(b"something else")
    with pytest.raises(JournalError, match="exists, but is not the segment that was archived"):
        restore(place.archive, target, now=0, from_lsn=one.first_lsn, to_lsn=one.last_lsn)


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_of_files_never_goes_unnoticed(place: Place, seed: int) -> None:
    random = Random(seed)
    files = [path for path in place.folder.rglob("*") if path.is_file()]
    path = random.choice([path for path in files if path.suffix in (".parquet", ".proof")])
    content = bytearray(path.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    assert path.name in {name for name, _, _ in place.faults()}


def test_a_proof_comes_back_as_it_was_made(place: Place) -> None:
    disk = RealDisk(place.data / "journal")
    for name in segment_names(disk)[:-1]:
        segment = open_segment(disk, name)
        proof = make_proof(segment)
        segment.close()
        assert decode_proof(encode_proof(proof)) == proof
        assert proof.sha256 == hashlib.sha256((place.data / "journal" / name).read_bytes()).digest()
    newest = open_segment(disk, segment_names(disk)[-1])
    with pytest.raises(Damage):
        make_proof(newest)
    newest.close()


def test_a_proof_of_a_later_version_is_refused(place: Place) -> None:
    packed = bytearray(place.about(0, ".proof").read_bytes()[:-32])
    packed[len(PROOF_MAGIC)] = 2
    with pytest.raises(Damage, match="the proof has format version 2, this release reads 1"):
        decode_proof(bytes(packed) + hashlib.sha256(packed).digest())
    with pytest.raises(Damage, match="it is not a proof"):
        decode_proof(b"something else")


@pytest.mark.parametrize(
    ("structure", "fields"),
    [("PROOF_HEADER", PROOF_HEADER_FIELDS), ("PROOF_BLOCK", PROOF_BLOCK_FIELDS)],
)
def test_the_page_describes_the_proof(structure: str, fields: tuple[tuple[str, str], ...]) -> None:
    table = PAGE.split(f"<!-- proof: {structure} -->", 1)[1].split("\n\n", 1)[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\S+) \| `(\w+)` \|", table, re.MULTILINE)
    expected = []
    offset = 0
    for name, code in fields:
        size = calcsize("<" + code)
        expected.append((str(offset), str(size), TYPES.get(code, f"bytes[{size}]"), name))
        offset += size
    assert rows == expected
