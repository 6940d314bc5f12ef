"""Everything that reads a journal refuses a feature level that it does not know.

It names the release and the feature, and leaves the directory as it was.
"""

import hashlib
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from daybook.journal.blocks.format import (
    SEGMENT_CRC_OFFSET,
    SEGMENT_HEADER_BYTES,
    peek_segment_header_bytes,
    unpack_segment_header,
)
from daybook.journal.data_directory import DATA_ID, JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of, segment_names
from daybook.levels import LEVEL
from daybook.tools.daybook import cli as daybook
from daybook.tools.journal_cli import cli as journal

NEEDS: Final = '\n{"release":"9.1.0","features":["time travel"]}'
SAYS: Final = f"format version {LEVEL + 1}, this release reads up to {LEVEL}"
NAMES: Final = "it needs Daybook 9.1.0 or later (time travel)"


@pytest.fixture
def newer(history: Any, tmp_path: Path) -> Path:
    """A data directory whose newest segment is of a level that only later releases know."""
    data = tmp_path / "data"
    shutil.copytree(history.data, data)
    disk = RealDisk(data / JOURNAL)
    (data / DATA_ID).write_text(data_id_of(disk).hex() + "\n")
    name = segment_names(disk)[-1]
    path = data / JOURNAL / name
    content = bytearray(path.read_bytes())
    size = peek_segment_header_bytes(bytes(content))
    layout = unpack_segment_header(bytes(content[:size])).layout
    end = SEGMENT_HEADER_BYTES + len(layout)
    content[end:size] = NEEDS.encode().ljust(size - end, b"\0")
    content[8] = LEVEL + 1
    content[SEGMENT_CRC_OFFSET : SEGMENT_CRC_OFFSET + 4] = bytes(4)
    crc = crc32c(bytes(content[:size]))
    content[SEGMENT_CRC_OFFSET : SEGMENT_CRC_OFFSET + 4] = crc.to_bytes(4, "little")
    path.write_bytes(content)
    return data


def content_of(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and (path.parent.name == JOURNAL or path.name == DATA_ID)
    }


def run(cli: Any, *arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], env={"DAYBOOK_DATA": None})


@pytest.mark.parametrize(
    "command",
    [
        ("verify",), ("verify", "--index"), ("inspect",), ("inspect", "--at", "2100-01-01"),
        ("stat",), ("trail", "6"), ("diff", "1", "2100-01-01"), ("audit",), ("catalog",),
        ("sql", "SELECT count(*) FROM events"), ("salvage", "made"), ("fork", "made"),
        ("export", "made"), ("replay", "/queue/orders"), ("anchor", "--unsigned"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_command_refuses_it(command: tuple[str, ...], newer: Path, tmp_path: Path) -> None:
    before = content_of(newer)
    name, *rest = command
    made = tmp_path / "made"
    done = run(journal, name, newer, *(made if each == "made" else each for each in rest))
    assert done.exit_code != 0, done.output
    assert SAYS in " ".join(done.output.split()), done.output
    assert NAMES in " ".join(done.output.split()), done.output
    assert content_of(newer) == before
    assert not made.exists()


def test_a_broker_refuses_it(newer: Path) -> None:
    before = content_of(newer)
    done = run(daybook, "serve", "--data", newer, "--listen", "stomp://127.0.0.1:0")
    assert done.exit_code != 0
    assert NAMES in done.output
    assert content_of(newer) == before
