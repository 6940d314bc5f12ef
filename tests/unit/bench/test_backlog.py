"""The backlog benchmark: its messages, and that it notices faults."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.backlog import BODY_BYTES, KEY, Load, main, measure
from bench.brokers.targets import DaybookTarget

SMALL = ("broker.global-max-size=1MiB",)


def test_the_load_is_the_same_for_each_run_and_uneven() -> None:
    first, second = Load(10), Load(10)
    assert first.frames(0, 300) == second.frames(0, 300)
    assert sum(first.sent) == 300
    assert first.sent[0] > 2 * first.sent[9]


def test_bodies_say_what_they_are() -> None:
    frames = Load(3).frames(0, 5).split(b"\0")[:-1]
    bodies = [frame.partition(b"\n\n")[2] for frame in frames]
    assert {len(body) for body in bodies} == {BODY_BYTES}
    assert all(KEY.match(body) for body in bodies)


@pytest.mark.usefixtures("own_interpreter")
def test_a_backlog_larger_than_memory_is_drained_in_order(tmp_path: Path) -> None:
    found = measure(DaybookTarget("daybook", SMALL, None), tmp_path, 12_000, 7, 100, busy=(0, 1))
    assert [phase.name for phase in found.phases] == ["fill", "rest", "drain"]
    assert all(set(phase.peak_mib) == {"broker", "writer", "indexer"} for phase in found.phases)
    assert [restart.busy for restart in found.restarts] == [0, 1]
    assert all(restart.ready_s > 0 for restart in found.restarts)
    assert found.restarts[-1].ready_s == found.ready_s <= found.first_message_s


def test_a_broker_that_cannot_start_is_said() -> None:
    answer = CliRunner().invoke(main, ["--messages", "10", "--set", "broker.nonsense=1"])
    assert answer.exit_code == 1
    assert "nonsense" in answer.output
