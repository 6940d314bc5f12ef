"""The bench of a cluster measures a failover, a hand-over and a catch-up of real nodes."""

import re

import pytest
from click.testing import CliRunner

from bench.brokers.running import TargetError
from bench.cluster import failover


@pytest.mark.slow
def test_failover_hand_over_and_catch_up_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover.ArtemisTarget, "missing", lambda self: "not here")
    # A machine that is busy keeps a lease of 10 seconds.
    words = ["--runs", "1", "--megabytes", "10", "--lease", "10s"]
    result = CliRunner().invoke(failover.main, words)
    assert result.exit_code == 0, result.output
    found = dict(
        re.findall(r"\| daybook-majority: ([a-z9 -]+) \| [MB/s]+ \| ([\d.]+)", result.output)
    )
    assert found.keys() == {"from kill -9 to a receipt", "hand-over", "catch-up"}
    assert all(float(each) > 0 for each in found.values())
    assert "without artemis-replicated: not here" in result.output


def test_a_cluster_that_confirms_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> float:
        raise TargetError("no message was confirmed")

    monkeypatch.setattr(failover.ArtemisTarget, "missing", lambda self: "not here")
    monkeypatch.setattr(failover, "daybook_failover", fails)
    monkeypatch.setattr(failover, "daybook_hand_over", fails)
    monkeypatch.setattr(failover, "catch_up", fails)
    result = CliRunner().invoke(failover.main, ["--runs", "1"])
    assert result.exit_code == 1
    assert result.output.count("FAILED") == 3
