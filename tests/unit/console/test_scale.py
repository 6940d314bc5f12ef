"""What pages ask of a history costs the same in one that is four times as long.

Counted are the bytes that the process reads, which no other load changes.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from bench.console.worlds import Spacing, make_long_history
from daybook.console.jobs import history
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk

EVENTS: Final = 60_000
TIMES: Final = 4
SPACING: Final = Spacing(segment_bytes=1 << 18, snapshot_every=1 << 18)
MORE: Final = 1.6
"""How much more may be read: places differ by a block, and descriptions are read of all."""
PLACES: Final = (0.02, 0.5, 0.97)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("histories")
    return [
        str(make_long_history(folder / f"h{count}", count, lambda _: None, SPACING, processes=1))
        for count in (EVENTS, TIMES * EVENTS)
    ]


def read_by(work: Callable[[], Any]) -> int:
    """Return how many bytes the process reads in files for some work."""

    def so_far() -> int:
        return int(Path("/proc/self/io").read_text("ascii").split()[1])

    def once() -> int:
        before = so_far()
        work()
        return so_far() - before

    # The first one imports modules.
    once()
    return min(once() for _ in range(2))


def message_near(directory: str, share: float) -> int:
    """Return a message that was sent at about that share of a history."""
    lsn = round(last_lsn(RealDisk(Path(directory) / JOURNAL)) * share)
    answer = history.events(directory, {"from_lsn": lsn, "kinds": ("Routed",)}, 1)
    message: int = answer["events"][0]["message"]
    return message


def costs(histories: list[str], ask: Callable[[str, int], Any]) -> list[int]:
    """Return the most bytes that a question reads at any place, for each history."""
    return [
        max(read_by(partial(ask, directory, message_near(directory, share))) for share in PLACES)
        for directory in histories
    ]


@pytest.mark.parametrize(
    "ask",
    [
        history.story,
        history.drawing,
        lambda directory, lsn: history.events(directory, {"from_lsn": lsn}, 100),
        lambda directory, lsn: history.events(directory, {"message": lsn}, 100),
        lambda directory, lsn: history.moment_of(directory, lsn + 1),
        lambda directory, lsn: history.moment_of(directory, 1 << 61),
        lambda directory, lsn: history.look(directory, lsn, {"do": "queues", "limit": 100}),
    ],
    ids=["story", "picture", "events", "message", "moment", "newest", "look"],
)
def test_a_longer_history_costs_no_more(
    histories: list[str], ask: Callable[[str, int], Any]
) -> None:
    short, long = costs(histories, ask)
    assert 0 < long < MORE * short + (64 << 10), (short, long)


def test_the_newest_event_is_found_with_and_without_catalogs(histories: list[str]) -> None:
    for directory in histories:
        last = last_lsn(RealDisk(Path(directory) / JOURNAL))
        assert history.moment_of(directory, 1 << 61)["lsn"] == last
        assert history.span(directory)["last"]["lsn"] == last
