"""Questions to the data directory of a node: about what is confirmed, with how far it is behind."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from daybook.history.moments import last_lsn
from daybook.journal.confirmed import ConfirmedMark
from daybook.journal.data_directory import JOURNAL, NODE
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from daybook.recovery.readonly import journal_disk
from daybook.tools.daybook import cli as daybook
from daybook.tools.journal_cli import cli as journal
from tests.interop.replication.nodes import Client, running
from tests.interop.replication.test_failover import all_follow
from tests.support.histories import some_history, write_history
from tests.support.process import DAYBOOK, wait_for
from tests.support.process import JOURNAL as JOURNAL_COMMAND


def run(cli: Any, *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command; return what it prints, and what it says on standard error."""
    environment = {"DAYBOOK_DATA": None, "DAYBOOK_ARCHIVE": None}
    result = CliRunner().invoke(cli, [str(each) for each in arguments], env=environment)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """A directory of a node that does not run; its last confirmed event, and its last event."""
    data = write_history(
        tmp_path_factory.mktemp("standby") / "data", some_history(5, 2_000), segment_bytes=1 << 15
    )
    RealDisk(data / NODE).create()
    disk = RealDisk(data / JOURNAL)
    last = last_lsn(disk)
    ends = [block.last_lsn for block in read_blocks(disk) if block.count]
    confirmed = ends[len(ends) * 2 // 3]
    ConfirmedMark(data).raise_to(confirmed)
    return data, confirmed, last


def test_answers_end_where_the_cluster_confirmed_last(standby: tuple[Path, int, int]) -> None:
    data, confirmed, last = standby
    assert confirmed < last
    assert last_lsn(journal_disk(data)) == confirmed
    told, note = run(journal, "inspect", data, "--json")
    assert max(json.loads(line)["lsn"] for line in told.splitlines()) == confirmed
    assert "no node of the cluster runs here" in note
    _, note = run(daybook, "queue", "list", "--data", data)
    assert f"state at LSN {confirmed}" in note
    run(journal, "inspect", data, "--at", confirmed)
    run(journal, "inspect", data, "--at", confirmed + 1, code=1)
    # The history is drawn, and no broker's.
    told, _ = run(journal, "audit", data, "--json", code=1)
    assert json.loads(told)["last"] == confirmed
    told, note = run(journal, "sql", data, "SELECT max(lsn) AS last FROM events", "--format", "csv")
    assert str(confirmed) in told.split()
    assert "no node of the cluster runs here" in note


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_all_bytes_are_verified(standby: tuple[Path, int, int], options: tuple[str, ...]) -> None:
    data, _, last = standby
    told, _ = run(journal, "verify", data, "--json", *options)
    assert json.loads(told)["report"]["last_lsn"] == last


def test_changes_are_for_the_node_that_leads(standby: tuple[Path, int, int]) -> None:
    _, said = run(daybook, "queue", "pause", "q", "--data", standby[0], code=1)
    assert "Ask the node that leads" in said


def test_a_node_that_follows_says_whom_and_how_far_it_is_behind(tmp_path: Path) -> None:
    with running(tmp_path) as cluster, Client(cluster) as client:
        client.send(10)
        leader = cluster.wait_for_leader()
        wait_for(lambda: all_follow(cluster), "the followers", 120.0)
        node = next(each for each in cluster.nodes.values() if each is not leader)

        def has_all() -> bool:
            said = _run(JOURNAL_COMMAND, "inspect", node.data, "--kind", "Routed")
            # A busy machine may be silent for longer than a lease lasts.
            has_leader = f"follows '{leader.name}', which leads" in said.stderr
            assert "s behind" in said.stderr
            return has_leader and len(said.stdout.splitlines()) >= 10

        wait_for(has_all, "what is confirmed", 120.0)
        (first, *_) = _run(JOURNAL_COMMAND, "inspect", node.data, "--kind", "Routed").stdout.split()
        assert "Routed" in _run(JOURNAL_COMMAND, "trail", node.data, first).stdout
        said = _run(DAYBOOK, "queue", "list", "--data", node.data)
        assert said.stdout.count(" q ") == 1, said
        assert f"follows '{leader.name}'" in said.stderr
        # The leader's own directory needs no note.
        assert "note" not in _run(JOURNAL_COMMAND, "inspect", leader.data).stderr


def _run(command: Path | str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(command), *map(str, arguments)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said
    return said
