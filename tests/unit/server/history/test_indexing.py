"""Supervising an indexer: orders to it, effects of its reports, and its death."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from daybook.journal.data_directory import LAST_WORDS
from daybook.paging.indexer.indexers import ProcessIndexers
from daybook.paging.indexer.process import IndexerFailed, IndexerHandle
from daybook.paging.tables.messages import Ended, Indexed, Trouble
from daybook.recovery.last_words import last_words
from daybook.server.history.indexing import BUSY_TIMES, RESTART_US, SILENT_US, TRUSTED_US, Indexing
from daybook.server.hub.index_pacing import EARLY_BYTES, PERIOD_US

SECOND = 1_000_000


SNAPSHOT_EVERY = 4096
CATALOG_HEADERS = "order, customer"


class FakeProcess:
    """An indexer that says what a test wants."""

    made: ClassVar[list["FakeProcess"]] = []

    def __init__(self, data: Path) -> None:
        self.told: list[tuple[int, bool]] = []
        self.words: list[Any] = []
        self.closed = False
        self.killed = False
        self.worked = 0.0
        self.end: IndexerFailed | None = None
        self.pid = 4711
        self.name = "the indexer (process 4711)"
        FakeProcess.made.append(self)

    def fileno(self) -> int:
        return 99

    def tell(
        self,
        lsn: int,
        *,
        digest: bool = False,
        snapshot_every: int = 0,
        catalog_headers: str | None = None,
    ) -> None:
        assert snapshot_every == SNAPSHOT_EVERY
        assert catalog_headers == CATALOG_HEADERS
        self.told.append((lsn, digest))

    def hear(self) -> list[Any]:
        words, self.words = self.words, []
        if words and isinstance(words[0], IndexerFailed | Ended):
            raise words[0]
        return words

    def flush(self) -> None:
        pass

    def fate(self) -> IndexerFailed | None:
        return self.end

    def processor_seconds(self) -> float:
        return self.worked

    def kill(self) -> None:
        self.killed = True

    def hang_up(self) -> None:
        self.closed = True

    def close(self) -> bool:
        self.closed = self.killed = True
        return True


class FakeIndexers(ProcessIndexers):
    """Starts indexers of this module."""

    def start(self, data: Path, data_id: bytes) -> IndexerHandle:
        return cast(IndexerHandle, FakeProcess(data))


class FakeHub:
    """A hub with only the methods that indexing needs."""

    def __init__(self) -> None:
        self.outbox = self
        self.broker = self
        self.durable_lsn = 0
        self.lsn = 0
        self.unindexed = self
        self.journaled = 0
        self.indexed_bytes = 0
        self.options = self
        self.max_unindexed_bytes = 8 * EARLY_BYTES
        self.state = self
        self.addresses: dict[int, Any] = {}
        self.failure = None
        self.stopping = False
        self.indexed_calls: list[tuple[int, int | None]] = []
        self.requests: list[Any] = []

    @property
    def unindexed_bytes(self) -> int:
        return self.journaled - self.indexed_bytes

    def indexed(self, lsn: int, indexed_bytes: int | None) -> None:
        self.indexed_calls.append((lsn, indexed_bytes))
        self.indexed_bytes = indexed_bytes or self.indexed_bytes

    def request(self, command: Any) -> None:
        self.requests.append(command)
        self.lsn += 1


class FakeStore:
    """A store that only counts how far it may look."""

    def __init__(self) -> None:
        self.indexed_lsn = 0

    def refresh(self, lsn: int) -> int:
        self.indexed_lsn = lsn
        return lsn

    def take_notes(self) -> list[str]:
        return []


class FakeLoop:
    """A loop that remembers who listens."""

    def __init__(self) -> None:
        self.readers: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)


class Scene:
    """Indexing among fakes."""

    def __init__(self, path: Path) -> None:
        self.hub = FakeHub()
        self.loop = FakeLoop()
        self.process = FakeProcess(path)
        self.store = FakeStore()
        self.failures: list[Exception] = []
        self.damages: list[str] = []
        self.now = SECOND
        self.indexing = Indexing(
            self.hub,  # type: ignore[arg-type]
            self.loop,
            path,
            bytes(16),
            indexers=FakeIndexers(),
            store=self.store,  # type: ignore[arg-type]
            process=self.process,  # type: ignore[arg-type]
            checkpoint_us=10 * SECOND,
            snapshot_every=SNAPSHOT_EVERY,
            catalog_headers=CATALOG_HEADERS,
            timeout_us=60 * SECOND,
            on_failure=self.failures.append,
            on_damage=self.damages.append,
        )

    def say(self, *words: Any) -> None:
        self.process.words.extend(words)
        self.loop.readers[99]()

    def wait(self, seconds: float) -> None:
        """Tick for so long."""
        for _ in range(int(seconds * 10)):
            self.now += SECOND // 10
            self.indexing.tick(self.now)

    def wait_for_another(self) -> int:
        """Tick until another indexer was started; return how long that took."""
        running, begun = FakeProcess.made[-1], self.now
        while FakeProcess.made[-1] is running:
            self.wait(0.1)
        self.process = FakeProcess.made[-1]
        return self.now - begun

    def end(self, code: int = 9) -> None:
        """The process ends, without a word."""
        self.say(Ended())
        self.process.end = IndexerFailed(f"signal {code}", index=False)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    FakeProcess.made.clear()
    (tmp_path / "index").mkdir()
    return Scene(tmp_path)


def test_news_is_told_once(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    scene.indexing.tick(SECOND)
    scene.indexing.tick(SECOND + 1)
    assert scene.process.told == [(5, True)]


def test_news_waits_for_the_period_and_an_idle_broker_says_nothing(scene: Scene) -> None:
    scene.indexing.checkpoint_us = 0
    scene.wait(5)
    assert scene.process.told == []
    scene.hub.durable_lsn = 5
    scene.wait(PERIOD_US / SECOND)
    assert scene.process.told == []
    scene.wait(0.1)
    assert scene.process.told == [(5, False)]
    scene.say(Indexed(5))
    scene.wait(60)
    assert scene.process.told == [(5, False)]


def test_what_an_address_that_pages_waits_for_is_committed_at_once(scene: Scene) -> None:
    scene.indexing.checkpoint_us = 0
    scene.say(Indexed(0, seconds=0.25))
    scene.hub.durable_lsn, scene.hub.journaled = 5, EARLY_BYTES + 1
    scene.hub.addresses[1] = SimpleNamespace(paging=False)
    scene.wait(3)
    assert scene.process.told == []
    scene.hub.addresses[1].paging = True
    scene.wait(0.1)
    assert scene.process.told == [(5, False)]


def test_only_what_no_commit_was_asked_for_counts(scene: Scene) -> None:
    """A commit that is under way is not asked for again and again."""
    scene.indexing.checkpoint_us = 0
    scene.hub.durable_lsn, scene.hub.journaled = 5, 4 * EARLY_BYTES + 1
    scene.wait(0.1)
    assert scene.process.told == [(5, False)]
    scene.hub.durable_lsn, scene.hub.journaled = 6, scene.hub.journaled + 100
    scene.wait(0.5)
    assert scene.process.told == [(5, False)]


def test_a_commit_lets_the_hub_page_out(scene: Scene) -> None:
    scene.hub.durable_lsn, scene.hub.journaled = 5, 700
    scene.indexing.tick(SECOND)
    scene.hub.durable_lsn, scene.hub.journaled = 9, 900
    assert not scene.indexing.hurry()
    scene.say(Indexed(5))
    assert scene.store.indexed_lsn == 5
    assert scene.hub.indexed_calls == [(5, 700)]
    scene.say(Indexed(9))
    assert scene.hub.indexed_calls[-1] == (9, 900)


def test_a_digest_becomes_a_checkpoint_and_is_no_news_itself(scene: Scene) -> None:
    scene.hub.durable_lsn = scene.hub.lsn = 5
    scene.indexing.tick(SECOND)
    scene.say(Indexed(5, "d" * 32))
    (checkpoint,) = scene.hub.requests
    assert (checkpoint.lsn, checkpoint.digest) == (5, "d" * 32)
    scene.hub.durable_lsn = scene.hub.lsn
    scene.indexing.tick(60 * SECOND)
    scene.indexing.tick(62 * SECOND)
    assert scene.process.told == [(5, True), (6, False)]


def test_digests_take_a_hundredth_of_the_time_at_most(scene: Scene) -> None:
    """The period is 10 s; one that took a second is not asked for again before 100."""
    scene.hub.durable_lsn = scene.hub.lsn = 5
    scene.wait(0.1)
    scene.say(Indexed(5, "d" * 32, digest_seconds=1.0))
    scene.hub.durable_lsn = scene.hub.lsn = 50
    scene.wait(1)
    scene.say(Indexed(50))
    scene.wait(98)
    assert not any(digest for _, digest in scene.process.told[1:])
    scene.wait(2)
    assert scene.process.told[-1][1]


def test_a_broker_that_stops_records_no_checkpoint(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    scene.indexing.tick(SECOND)
    scene.hub.stopping = True
    scene.say(Indexed(5, "d" * 32))
    assert scene.hub.requests == []


def test_trouble_is_shown_until_it_is_over(scene: Scene) -> None:
    scene.say(Trouble("no room"))
    assert scene.indexing.status()["index_trouble"] == "no room"
    assert scene.indexing.hurry()
    scene.say(Indexed(1))
    assert scene.indexing.status()["index_trouble"] == ""


def test_a_dead_indexer_is_started_again_later_each_time(scene: Scene) -> None:
    waits = []
    for _ in range(3):
        scene.end()
        assert scene.process.closed
        waits.append(scene.wait_for_another())
        # Running is not progress: it would be started over and over.
        scene.say(Indexed(0))
    assert waits[0] < waits[1] < waits[2]
    assert waits[2] >= RESTART_US
    assert scene.indexing.status()["indexer_restarts"] == 3
    assert not scene.failures
    scene.hub.durable_lsn = 7
    scene.say(Indexed(7))
    scene.end()
    scene.wait_for_another()
    scene.end()
    assert scene.wait_for_another() <= 2 * RESTART_US


def test_no_other_begins_before_one_has_ended(scene: Scene) -> None:
    scene.say(Ended())
    scene.wait(SILENT_US / SECOND + 1)
    assert FakeProcess.made == [scene.process]
    assert scene.process.killed
    assert "does not end" in scene.indexing.status()["index_trouble"]
    scene.process.end = IndexerFailed("signal 9", index=False)
    scene.wait_for_another()


def test_one_that_works_on_a_large_commit_is_no_silent_one(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    for _ in range(5 * scene.indexing.timeout_us // SECOND):
        scene.process.worked += 0.01
        scene.wait(1)
    status = scene.indexing.status()
    assert status["index_trouble"] == ""
    assert status["indexer_silent_seconds"] < 3
    assert not scene.process.killed
    # Then it is stopped.
    scene.wait(SILENT_US / SECOND + 3)
    assert "does not answer" in scene.indexing.status()["index_trouble"]
    assert not scene.process.killed
    scene.wait(51)
    assert scene.process.killed


def test_one_that_works_for_ever_and_gets_nowhere_is_killed(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    for _ in range((BUSY_TIMES + 2) * scene.indexing.timeout_us // SECOND):
        scene.process.worked += 0.5
        scene.wait(1)
    assert scene.process.killed


def test_one_that_does_not_answer_is_told_of_and_killed(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    scene.wait(SILENT_US / SECOND + 1)
    status = scene.indexing.status()
    assert "does not answer" in status["index_trouble"]
    assert status["indexer_silent_seconds"] >= 10
    assert scene.indexing.hurry()
    assert not scene.process.killed
    scene.wait(51)
    assert scene.process.killed
    scene.process.end = IndexerFailed("signal 9", index=False)
    scene.wait_for_another()
    scene.say(Indexed(5))
    assert scene.indexing.status()["index_trouble"] == ""


def test_one_that_owes_nothing_is_let_alone(scene: Scene) -> None:
    scene.hub.durable_lsn = scene.hub.lsn = 5
    scene.wait(1)
    scene.say(Indexed(5, "d" * 32))
    scene.hub.durable_lsn = scene.hub.lsn
    scene.wait(1)
    scene.say(Indexed(scene.hub.lsn))
    scene.wait(200)
    assert not scene.process.killed
    assert scene.indexing.status()["index_trouble"] == ""


def test_a_loop_that_stood_still_does_not_count(scene: Scene) -> None:
    """While the loop was away, nobody could have been heard."""
    scene.hub.durable_lsn = 5
    scene.wait(1)
    scene.now += 3600 * SECOND
    scene.wait(1)
    assert not scene.process.killed
    assert scene.indexing.status()["index_trouble"] == ""


def test_damage_of_the_journal_is_told_once_until_it_is_gone(scene: Scene) -> None:
    damage = IndexerFailed("segment 7, offset 9", index=False, corrupt=True)
    for _ in range(3):
        scene.say(damage)
        scene.process.end = IndexerFailed("exit code 1", index=False)
        scene.wait_for_another()
        scene.say(Indexed(0))
    assert scene.damages == ["segment 7, offset 9"]
    assert scene.indexing.status()["journal_damage"] == "segment 7, offset 9"
    scene.hub.durable_lsn = 5
    scene.say(Indexed(5))
    assert scene.damages[-1] == ""
    assert scene.indexing.status()["journal_damage"] == ""


def test_damaged_tables_stop_the_broker_and_are_read_by_the_next(
    scene: Scene, tmp_path: Path
) -> None:
    scene.say(IndexerFailed("a page", index=True))
    (failure,) = scene.failures
    assert "a page" in str(failure)
    assert "rebuilds it if it is damaged" in str(failure)
    assert (tmp_path / "index").exists()
    assert last_words(tmp_path).text == "a page"


def test_an_index_that_served_for_a_while_is_trusted(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / LAST_WORDS).write_bytes(b"!once more")
    scene.indexing.tick(SECOND)
    assert last_words(tmp_path).again
    scene.indexing.tick(SECOND + TRUSTED_US)
    assert not last_words(tmp_path).again


def test_the_end_waits_only_for_what_is_missing(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    assert not scene.indexing.hurry()
    assert scene.process.told[-1] == (5, False)
    scene.say(Indexed(5))
    assert scene.indexing.hurry()
    scene.indexing.close()
    assert scene.process.closed
