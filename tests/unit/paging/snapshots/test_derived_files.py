"""Whatever happens to derived files, a start removes what is bad and says so, and then all is
intact; meanwhile `journal verify` says that only derived files are damaged."""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from daybook.journal.data_directory import (
    CATALOGS,
    DATA_ID,
    INDEX,
    JOURNAL,
    SNAPSHOTS,
    TABLES,
)
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import data_id_of
from daybook.paging.content import cluster_writer
from daybook.paging.fold.batches import batches
from daybook.paging.fold.index import Index
from daybook.paging.indexer.indexers import ThreadIndexers
from daybook.paging.snapshots.derived_files import remove_damaged
from daybook.paging.snapshots.snapshots import Snapshots
from daybook.recovery.directory import open_directory
from daybook.tools.drills.campaigns.derived_files import HARMS
from daybook.tools.journal_cli import cli
from daybook.tools.terminal.exit_codes import EXIT_DERIVED, EXIT_WRONG
from tests.support.compiled import replaces_parts
from tests.support.histories import write_history
from tests.support.stored.releases import unpacked
from tests.support.world import World

pytestmark = replaces_parts
"""Its clusters are smaller than any of the product."""

FOLDERS = {"a snapshot": SNAPSHOTS, "a catalog": CATALOGS, "a cluster": f"{INDEX}/clusters"}
LEFT_ALONE = ("removed",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with files of each derived kind."""
    world = World()
    for number in range(300):
        world.send(f"mixed.{number % 3}", b"%d" % number * 50, routing_type="anycast")
    data = tmp_path_factory.mktemp("whole") / "data"
    ends = range(10, len(world.journal), 10)
    write_history(data, world.journal, cuts=ends, segment_bytes=1 << 13)
    disk = RealDisk(data / JOURNAL)
    data_id = data_id_of(disk)
    (data / DATA_ID).write_text(data_id.hex() + "\n")
    middle = ends[len(ends) // 2]
    with patch.multiple(cluster_writer, CLUSTER_BYTES_MIN=500, SPARSE=0):
        with closing(Index(data / INDEX, data_id)) as index:
            snapshots = Snapshots(data / SNAPSHOTS, data_id)
            for batch in batches(disk, 0, len(world.journal), {middle}):
                index.advance(batch)
                snapshots.follow(index, disk, 1 << 40, 1)
        assert run("catalog", data).exit_code == 0
        for folder in FOLDERS.values():
            assert files(data, folder), folder
        assert verified(data).exit_code == 0, verified(data).output
        yield data


def cleaned(data: Path, bytes_max: int = 1 << 30) -> list[str]:
    """Remove what is damaged; return what is said."""
    disk = RealDisk(data / JOURNAL)
    said: list[str] = []
    remove_damaged(data, disk, data_id_of(disk), said.append, bytes_max=bytes_max)
    return said


def run(*arguments: object) -> Result:
    words = [str(each) for each in arguments]
    return CliRunner().invoke(cli, words, env={"DAYBOOK_DATA": None})


def verified(data: Path) -> Result:
    return run("verify", data, "--index")


def files(data: Path, folder: str) -> list[Path]:
    return sorted(each for each in (data / folder).iterdir() if each.is_file())


def started(data: Path) -> list[str]:
    """Open a directory as a broker does; return what it says."""
    said: list[str] = []
    open_directory(data, indexers=ThreadIndexers(0), notice=said.append).close()
    return said


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("what", FOLDERS)
def test_a_start_removes_what_is_damaged(what: str, harm: str, whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    # In every second damage the newest file: of snapshots, a file of either half of a pair.
    number = -1 - [*HARMS].index(harm) % 2
    victim = files(data, FOLDERS[what])[number]
    HARMS[harm](victim, random.Random(number))
    before = verified(data)
    assert before.exit_code in (0, EXIT_DERIVED), before.output
    if harm not in LEFT_ALONE:
        assert before.exit_code == EXIT_DERIVED, (victim, before.output)
        assert "DERIVED" in before.output
    said = cleaned(data)
    if before.exit_code:
        assert said, victim
        # A snapshot is a pair, and either may be the one that is named.
        assert all(victim.stem.partition(".")[0] in each for each in said)
    after = verified(data)
    assert after.exit_code == 0, after.output


def test_a_broker_does_it_when_it_starts(whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    victims = [files(data, folder)[-1] for folder in FOLDERS.values()]
    for victim in victims:
        victim.write_bytes(b"")
    said = started(data)
    for victim in victims:
        assert any(victim.stem in each and "was removed" in each for each in said), (victim, said)
    assert verified(data).exit_code == 0
    assert not any("was removed" in each for each in started(data))


def test_only_so_much_is_read(whole: Path, tmp_path: Path) -> None:
    """A turned bit in an old file is found by `journal verify`; a wrong size always."""
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    bit, short = [each for each in files(data, SNAPSHOTS) if each.suffix == ".mdb"][:2]
    HARMS["a bit turned"](bit, random.Random(1))
    HARMS["cut to half"](short, random.Random(1))
    said = cleaned(data, bytes_max=0)
    assert [short.name in each for each in said] == [True]
    assert verified(data).exit_code == EXIT_DERIVED


def test_damage_of_the_journal_counts_more(whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    files(data, SNAPSHOTS)[0].write_bytes(b"")
    segment = files(data, JOURNAL)[0]
    content = bytearray(segment.read_bytes())
    content[len(content) // 3] ^= 1
    segment.write_bytes(content)
    assert verified(data).exit_code == EXIT_WRONG


def test_a_damaged_index_is_derived(whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    (data / INDEX / TABLES).write_bytes(b"")
    done = run("verify", data, "--index", "--json")
    assert done.exit_code == EXIT_DERIVED
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert len(told["derived"]) == 1
    assert any("the index is rebuilt" in each for each in started(data))
    assert verified(data).exit_code == 0


@pytest.mark.parametrize("release", ["5be76f7", "ddb7ab0"])
def test_an_index_of_an_older_release_is_called_older(release: str, tmp_path: Path) -> None:
    data = unpacked(release, tmp_path / "data")
    done = verified(data)
    assert done.exit_code == 0, done.output
    assert "is of an older release (format 1" in done.output
    assert "the first start rebuilds it" in done.output
    assert any("the index is rebuilt: it is of an older release" in each for each in started(data))
