"""A journal of every format version that was ever released still opens."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daybook.journal.blocks.layout import RowLayout
from daybook.journal.disk import RealDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.journal.segments.segment import segment_names
from daybook.journal.segments.stat import stat
from daybook.journal.segments.verify import verify
from tests.golden.make_v1 import VARIANTS, write
from tests.golden.plain_reader import read_segment

GOLDEN = Path(__file__).parents[2] / "golden"
VERSIONS = sorted(GOLDEN.glob("v[0-9]*"))


def expected_of(folder: Path) -> dict[str, Any]:
    return msgspec.json.decode((folder / "expected.json").read_bytes(), type=dict[str, Any])


def listed(disk: RealDisk) -> list[list[object]]:
    return [
        [lsn, list(row), *(text.hex() for text in strings)]
        for block in read_blocks(disk)
        for lsn, row, *strings in block.events()
    ]


def test_there_are_golden_journals() -> None:
    assert [folder.name for folder in VERSIONS] == ["v1", "v1-narrow-first", "v1-padded", "v1-wide"]


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_golden_journal_is_read_and_verified(folder: Path) -> None:
    expected = expected_of(folder)
    disk = RealDisk(folder)
    assert segment_names(disk) == expected["segments"]
    assert len(expected["segments"]) >= 3
    assert listed(disk) == expected["events"]
    report = verify(disk)
    assert report.ok
    assert report.tail is None
    assert report.last_hash == expected["last_hash"]
    assert report.marks == expected["marks"]
    assert stat(disk).data_id == expected["data_id"]


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_golden_journal_is_opened_and_gone_on_with(folder: Path, tmp_path: Path) -> None:
    expected = expected_of(folder)
    copy = RealDisk(shutil.copytree(folder, tmp_path / "copy"))
    layout = msgspec.convert(expected["layout"], RowLayout)
    journal, repair = Journal.open(copy, layout, segment_bytes=8192)
    assert repair.cut_bytes == 0
    assert journal.last_hash.hex() == expected["last_hash"]
    assert journal.next_lsn == len(expected["events"]) + 1
    journal.close()


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_golden_journal_is_what_its_script_says(folder: Path, tmp_path: Path) -> None:
    """The bytes may differ with the compressor's version, what they say may not."""
    written = write(tmp_path, *VARIANTS[folder.name])
    expected = msgspec.json.decode(msgspec.json.encode(written), type=dict[str, Any])
    golden = expected_of(folder)
    for each in (expected, golden):
        each.pop("last_hash")
        each.pop("segments")
    assert expected == golden


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_reader_written_from_the_page_alone_reads_the_same(folder: Path) -> None:
    expected = expected_of(folder)
    events: list[list[object]] = []
    last_hash = bytes(16)
    for name in expected["segments"]:
        for block_hash, block in read_segment(folder / name, last_hash):
            last_hash = block_hash
            events += block
    assert events == expected["events"]
    assert last_hash.hex() == expected["last_hash"]
