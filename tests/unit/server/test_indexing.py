"""Keeping an indexer: what it is told, what its words lead to, and what its death does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from paging.messages import Indexed, Trouble
from paging.process import IndexerFailed
from server import indexing
from server.indexing import RESTART_US, TRUSTED_US, URGENT_BYTES, Indexing

SECOND = 1_000_000


class FakeProcess:
    """An indexer that says what a test wants."""

    made: ClassVar[list["FakeProcess"]] = []

    def __init__(self, data: Path) -> None:
        self.told: list[tuple[int, bool, bool]] = []
        self.words: list[Any] = []
        self.closed = False
        self.pid = 4711
        FakeProcess.made.append(self)

    def fileno(self) -> int:
        return 99

    def tell(self, lsn: int, *, urgent: bool = False, digest: bool = False) -> None:
        self.told.append((lsn, urgent, digest))

    def hear(self) -> list[Any]:
        words, self.words = self.words, []
        if words and isinstance(words[0], IndexerFailed):
            raise words[0]
        return words

    def close(self) -> None:
        self.closed = True


class FakeHub:
    """What indexing needs of a hub."""

    def __init__(self) -> None:
        self.outbox = self
        self.broker = self
        self.durable_lsn = 0
        self.lsn = 0
        self.unindexed_bytes = 0
        self.journaled_bytes = 0
        self.failure = None
        self.stopping = False
        self.indexed_calls: list[tuple[int, int | None]] = []
        self.requests: list[Any] = []

    def indexed(self, lsn: int, indexed_bytes: int | None) -> None:
        self.indexed_calls.append((lsn, indexed_bytes))

    def request(self, command: Any) -> None:
        self.requests.append(command)
        self.lsn += 1


class FakeStore:
    """A store that only counts how far it was told to look."""

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
        self.indexing = Indexing(
            self.hub,  # type: ignore[arg-type]
            self.loop,
            path,
            bytes(16),
            store=self.store,  # type: ignore[arg-type]
            process=self.process,  # type: ignore[arg-type]
            checkpoint_us=10 * SECOND,
            on_failure=self.failures.append,
        )

    def say(self, *words: Any) -> None:
        self.process.words.extend(words)
        self.loop.readers[99]()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(indexing, "IndexerProcess", FakeProcess)
    FakeProcess.made.clear()
    (tmp_path / "index").mkdir()
    return Scene(tmp_path)


def test_news_is_told_once(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    scene.indexing.tick(SECOND)
    scene.indexing.tick(SECOND + 1)
    assert scene.process.told == [(5, False, True)]


def test_much_in_memory_is_urgent(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    scene.hub.unindexed_bytes = URGENT_BYTES + 1
    scene.indexing.tick(SECOND)
    assert scene.process.told[0][:2] == (5, True)


def test_a_commit_lets_the_hub_page_out(scene: Scene) -> None:
    scene.hub.durable_lsn, scene.hub.journaled_bytes = 5, 700
    scene.indexing.tick(SECOND)
    scene.hub.durable_lsn, scene.hub.journaled_bytes = 9, 900
    scene.indexing.tick(SECOND)
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
    assert scene.process.told[-1][2] is False


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
    now = SECOND
    waits = []
    for _ in range(3):
        running = FakeProcess.made[-1]
        running.words = [IndexerFailed("signal 9", index=False)]
        scene.loop.readers[99]()
        assert running.closed
        begun = now
        while FakeProcess.made[-1] is running:
            now += SECOND // 10
            scene.indexing.tick(now)
        waits.append(now - begun)
    assert waits[0] <= waits[1] <= waits[2]
    assert waits[2] >= RESTART_US
    assert scene.indexing.status()["indexer_restarts"] == 3
    assert not scene.failures


def test_damaged_tables_stop_the_broker_and_are_deleted(scene: Scene, tmp_path: Path) -> None:
    scene.say(IndexerFailed("a page", index=True))
    (failure,) = scene.failures
    assert "a page" in str(failure)
    assert "made anew" in str(failure)
    assert not (tmp_path / "index").exists()


def test_an_index_that_served_for_a_while_is_trusted(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "index-starting").touch()
    scene.indexing.tick(SECOND)
    assert (tmp_path / "index-starting").exists()
    scene.indexing.tick(SECOND + TRUSTED_US)
    assert not (tmp_path / "index-starting").exists()


def test_the_end_waits_only_for_what_is_missing(scene: Scene) -> None:
    scene.hub.durable_lsn = 5
    assert not scene.indexing.hurry()
    assert scene.process.told[-1] == (5, True, False)
    scene.say(Indexed(5))
    assert scene.indexing.hurry()
    scene.indexing.close()
    assert scene.process.closed
