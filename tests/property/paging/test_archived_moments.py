"""The state at any archived event, from whatever archived snapshot, is the fold up to it."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check
from daybook.journal.archive.archive import Archive
from daybook.journal.blocks.format import snapshot_name
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import first_lsn_of
from daybook.paging.fold import fold
from daybook.paging.snapshots.archived_snapshots import archived_lsns
from daybook.recovery import moments
from daybook.recovery.moments import state_at
from tests.support.scenario import Step, play, steps
from tests.support.stored.archived import SEGMENT_BYTES, archived_history
from tests.support.world import World
from tests.support.world import fold as fold_events

FILLER = Random(1).randbytes(2 * SEGMENT_BYTES)
"""It does not compress."""


@settings(max_examples=30)
@given(
    scenario=steps,
    cuts=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    asked=st.lists(st.integers(1, 400), min_size=1, max_size=6),
    rotten=st.integers(0, 20),
    few=st.sampled_from((0, moments.FEW_EVENTS)),
)
def test_the_state_at_an_archived_event_is_the_fold_up_to_it(
    scenario: list[Step], cuts: list[int], asked: list[int], rotten: int, few: int
) -> None:
    world = World()
    # Something fills the first segment, and something follows it.
    world.send("filler", FILLER)
    play(world, scenario)
    world.send("filler", FILLER)
    world.turn()
    journal = world.journal
    notes: list[str] = []
    with (
        TemporaryDirectory() as folder,
        patch.object(fold, "PLAIN_MIN", 1),
        patch.object(moments, "FEW_EVENTS", few),
    ):
        data, archive = Path(folder) / "data", Path(folder) / "archive"
        assert archived_history(Path(folder), journal, sorted(set(cuts))) == []
        live = RealDisk(data / JOURNAL)
        with Archive(str(archive)).reading(live) as disk:
            known = archived_lsns(disk)
            assert bool(known) == any(cut < first_lsn_of(live) for cut in cuts)
            if rotten < len(known):
                # Of one only half is left: the one before it is taken.
                damaged = archive / snapshot_name(known[rotten])
                damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
            near = {lsn + step for lsn in known for step in (-1, 0, 1)}
            for lsn in sorted(near | {min(each, len(journal)) for each in asked}):
                if not 0 < lsn <= len(journal):
                    continue
                with state_at(data, disk, lsn, note=notes.append) as state:
                    assert digest(state) == digest(fold_events(journal[:lsn]))
                    assert check(state) == []
        assert all("is passed over" in note for note in notes)
        assert not notes or rotten < len(known)
