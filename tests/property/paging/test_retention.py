"""Whenever history leaves, no queued message leaves with it.

The index that retention leaves behind, and one that is made anew from the base and the segments
that are left, are the state that all events make; every queued message has its content; and archive
and live journal are one history.
"""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from daybook.engine.administration.carried_content import large_before
from daybook.engine.state.digest import digest
from daybook.history.verification.verification import verify_data
from daybook.journal.archive.archive import Archive
from daybook.journal.pins import NO_PIN
from daybook.paging.content.store import IndexStore
from daybook.paging.snapshots.base import restore
from daybook.paging.tables.tables import open_for_reading
from tests.support.scenario import RESTART, RETENTION, Step, play, steps
from tests.support.stored.queued import entries_of
from tests.support.stored.retention_world import RetentionWorld
from tests.support.stored.written_index import DATA_ID
from tests.support.world import World, fold

LARGE_STEP = (0, 0, 6, 13)
"""Sends a large message, so that each scenario has some."""


def check_contents(retention: RetentionWorld) -> None:
    """Every queued message comes back as it was sent, chunks and all."""
    world = retention.world
    store = IndexStore(open_for_reading(retention.data / "index"), retention.disk)
    with closing(store):
        found = entries_of(store, store.checkpoint())
        expected = fold(world.journal)
        queued = {(queue.id, each) for queue in expected.queues.values() for each in queue.entries}
        assert found.keys() == queued
        for (_, message_id), entry in found.items():
            sent = world.journal[message_id - 1]
            message = entry.message
            assert (message.headers, message.body) == (sent.headers, sent.body)
            if message.chunks:
                assert message.chunks[0] > retention.removed_lsn
                bodies = b"".join(store.content.chunks(message.chunks, 0))
                original = sent.decoded.chunks
                assert len(message.chunks) == len(original)
                lsns = [sum(original[: place + 1]) for place in range(len(original))]
                assert bodies == b"".join(world.journal[lsn - 1].body for lsn in lsns)


def check_resident(retention: RetentionWorld) -> None:
    """Messages that stayed in memory do not refer to segments that left."""
    resident = large_before(retention.world.state, retention.removed_lsn)
    assert [entry.message.id for part in resident for entry in part] == []


@given(
    scenario=steps, more=steps, between=steps,
    rounds=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 3)), min_size=1, max_size=5),
)  # fmt: skip
@settings(max_examples=settings().max_examples // 4)
def test_nothing_queued_leaves(
    scenario: list[Step], more: list[Step], between: list[Step], rounds: list[tuple[int, int]]
) -> None:
    """`between` happens between the steps of rounds."""
    world = World()
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        retention = RetentionWorld(data, world, Path(folder) / "archive")
        due = dict(rounds)
        turn = 0
        rest = [step for step in between if step[0] not in RETENTION | {RESTART}]

        def meanwhile(_: object) -> None:
            if rest:
                play(world, [rest.pop()])

        def now_and_then() -> None:
            nonlocal turn
            turn += 1
            if turn in due:
                retention.round(due[turn], meanwhile)

        with closing(retention):
            played = [LARGE_STEP, *scenario, LARGE_STEP, *more]
            play(world, [step for step in played if step[0] not in RETENTION], now_and_then)
            retention.round(2)
            check_resident(retention)
            # What has no body in the journal must not be asked for it: a start drops it first.
            world.restart()
            retention.write()
            expected = digest(fold(world.journal))
            assert retention.index() == expected
            check_contents(retention)
            if retention.removed_lsn:
                check_rebuilt(retention, expected)


def check_rebuilt(retention: RetentionWorld, expected: str) -> None:
    """Delete the index and rebuild it, then verify everything with the archive."""
    for file in (retention.data / "index").rglob("*.*"):
        file.unlink()
    first = retention.removed_lsn + 1
    assert restore(retention.data / "base", DATA_ID, retention.data / "index", first) < NO_PIN
    assert retention.index() == expected
    check_contents(retention)
    assert retention.archive is not None
    archive = Archive(str(retention.archive))
    assert archive.verify(retention.disk).ok
    with archive.reading(retention.disk) as whole:
        verdict = verify_data(whole, lambda done: None)
    assert verdict.report.ok, verdict.report.faults
    assert verdict.digest == expected
    live = verify_data(retention.disk, lambda done: None, base=retention.data / "base")
    assert live.report.ok
    assert live.digest == expected
