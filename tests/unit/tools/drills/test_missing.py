"""A drill names the promise that is broken: lost messages are P1, whatever the start says."""

import random
from pathlib import Path

import pytest

from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import segment_names
from daybook.tools.drills.campaigns.campaign import missing_messages
from daybook.tools.drills.clients.ledger import Ledger
from tests.support.histories import write_history
from tests.support.world import World


@pytest.fixture
def data(tmp_path: Path) -> Path:
    world = World()
    chance = random.Random(1)
    for _ in range(100):
        world.send("orders", chance.randbytes(400))
    cuts = range(10, len(world.journal), 10)
    return write_history(tmp_path / "data", world.journal, cuts=cuts, segment_bytes=1 << 13)


def test_a_journal_that_has_all_lacks_nothing(data: Path) -> None:
    assert missing_messages(data / JOURNAL, 100) == ""


def test_a_journal_without_its_end_lacks_messages(data: Path) -> None:
    names = segment_names(RealDisk(data / JOURNAL))
    assert len(names) > 1
    for name in names[1:]:
        (data / JOURNAL / name).unlink()
    assert "of 100 messages with a receipt are not in the journal" in missing_messages(
        data / JOURNAL, 100
    )


@pytest.mark.parametrize("harm", ["emptied", "zeroed", "removed"])
def test_a_journal_that_cannot_be_read_lacks_all(data: Path, harm: str) -> None:
    """As after a power cut of a broker that does not sync."""
    for path in (data / JOURNAL).iterdir():
        if harm == "removed":
            path.unlink()
        else:
            path.write_bytes(b"" if harm == "emptied" else bytes(path.stat().st_size))
    assert missing_messages(data / JOURNAL, 7).startswith("7 of 7 messages")
    assert missing_messages(data / JOURNAL, 0) == ""


def test_a_journal_whose_beginning_left_says_nothing(data: Path) -> None:
    (data / JOURNAL / segment_names(RealDisk(data / JOURNAL))[0]).unlink()
    assert missing_messages(data / JOURNAL, 100) == ""


def test_clients_say_which_promise_is_broken() -> None:
    ledger = Ledger()
    ledger.sending("a")
    ledger.delivered("a", 1, is_flagged=False)
    ledger.delivered("a", 1, is_flagged=False)
    assert len(ledger.violations) == 2
    assert ledger.broken == "P5"
    ledger.sending("b")
    ledger.sent_receipted(["b"])
    ledger.check_drained()
    assert ledger.broken == "P1"


def test_a_dead_letter_without_its_flag_is_no_second_one() -> None:
    ledger = Ledger()
    ledger.sending("a")
    ledger.buried("a", 7, is_flagged=False)
    ledger.buried("a", 7, is_flagged=True)
    assert not ledger.violations
    ledger.buried("a", 7, is_flagged=False)
    assert ledger.broken == "P5"
    ledger.buried("a", 8, is_flagged=True)
    assert ledger.violations[1:] == ["a became a dead letter twice"]
    assert ledger.broken == "P1"
