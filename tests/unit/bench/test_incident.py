"""The history that is asked after incidents has what such questions need."""

from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import incident, trails
from daybook.engine.facts.events import BY_NUMBER, KIND
from daybook.engine.state.invariants import check
from daybook.journal.disk import RealDisk
from daybook.journal.segments.reader import read_blocks
from tests.support.stored.folded import folded_state


def test_a_shop_has_bad_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, turns in (("DEATH_TURNS", 30), ("OPERATOR_TURNS", 3), ("OFFER_TURNS", 2)):
        monkeypatch.setattr(incident, name, turns)
    monkeypatch.setattr(incident, "OFFER_US", 10 * incident.TURN_US)
    made = incident.make_incident(tmp_path / "shop", 150_000)
    kinds: Counter[str] = Counter()
    orders = []
    for block in read_blocks(RealDisk(tmp_path / "shop" / "journal")):
        for _, row, _, headers, _ in block.events():
            kinds[BY_NUMBER[row[KIND]].name] += 1
            orders += [headers] if headers.startswith(b"order:") else []
    assert sum(kinds.values()) == made >= 150_000
    assert kinds["BrokerStarted"] > 2
    for name in ("Returned", "DeadLettered", "Expired", "QueuePaused", "Administered"):
        assert kinds[name] > 0, name
    assert len(set(orders)) > 10_000
    state, lsn = folded_state(tmp_path / "shop")
    assert lsn == made
    assert check(state) == []


def test_it_writes_into_no_directory_that_has_something(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = CliRunner().invoke(incident.main, [str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty" in done.output


def test_trails_of_it_are_timed(tmp_path: Path) -> None:
    shop = str(tmp_path / "shop")
    incident.make_incident(tmp_path / "shop", 5_000)
    done = CliRunner().invoke(trails.main, [shop, "--count", "5"])
    assert done.exit_code == 0, done.output
    assert "by message id, 5 trails, clock: half within" in done.output
    assert "by header order, 5 trails, processor: half within" in done.output
    done = CliRunner().invoke(trails.main, [shop, "--header", "none", "--count", "1"])
    assert done.exit_code == 1
    assert "have the header 'none'" in done.output
