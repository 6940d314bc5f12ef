"""Every measured way reads back all that was written."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from bench.paging import Drain, Written, main, make_order, measure


def test_everything_comes_back_in_every_way(tmp_path: Path) -> None:
    written, drains = measure(tmp_path, 2000, 10, 256, 100, 60.0)
    assert (written.messages, written.queues) == (2000, 10)
    assert written.indexed_per_second > 0
    order = make_order(2000, 10)
    counts = sorted(order.count(queue) for queue in set(order))
    assert {drain.name: drain.messages for drain in drains} == {
        "content alone, in order": 2000,
        "the largest queue": counts[-1],
        "the smaller half, one by one": sum(counts[:5]),
        "all queues, one by one": 2000,
        "all queues in turn": 2000,
    }
    assert all(drain.per_second > 0 and drain.rss_mib > 0 for drain in drains)
    assert written.clusters > 0


def test_without_clusters_the_same_comes_back(tmp_path: Path) -> None:
    written, drains = measure(tmp_path, 2000, 10, 256, 100, 60.0, commit_blocks=5, clusters=False)
    assert written.clusters == 0
    assert [drain.messages for drain in drains if "all queues" in drain.name] == [2000, 2000]


def test_the_command_measures_and_removes_what_it_made(tmp_path: Path) -> None:
    arguments = ["--messages", "1000", "--directory", str(tmp_path)]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    _, drains = msgspec.json.decode(result.output, type=tuple[Written, list[Drain]])
    assert [drain.messages for drain in drains] == [1000, 1000]
    result = CliRunner().invoke(main, arguments)
    assert "1,000 messages in 1 queues" in result.output
    assert list(tmp_path.iterdir()) == []
