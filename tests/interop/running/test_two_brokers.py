"""A second broker on a data directory is refused at once, whatever became of the files of locks."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.journal.data_directory import INDEX_LOCK, LOCK
from daybook.journal.lock import holder_pid
from daybook.paging.indexer.ownership import owning_index
from tests.interop.hardships.test_hanging import stopped
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess, wait_for


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process.start()


@pytest.mark.parametrize("removed", [(), (LOCK,), (LOCK, INDEX_LOCK)])
def test_a_second_broker_is_refused(broker: BrokerProcess, removed: tuple[str, ...]) -> None:
    for name in removed:
        (broker.directory / name).unlink()
    with BrokerProcess(broker.directory.with_name("other"), data=broker.directory) as second:
        begun = time.monotonic()
        said = second.refuse()
        assert f"is locked by process {broker.process.pid}" in said
        assert time.monotonic() - begun < 30
    # The first one has its file again, and serves.
    wait_for(lambda: holder_pid(broker.directory) == broker.process.pid, "the file of the lock")
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/a", persistent="true", receipt=1)
        producer.expect("RECEIPT")
    assert broker.stop() == 0


def test_whoever_waits_for_an_indexer_says_so(broker: BrokerProcess) -> None:
    """A killed broker's indexer goes with it; one that somebody else started may hang."""
    assert broker.stop() == 0
    holder = os.fork()
    if holder == 0:
        with owning_index(broker.directory, print):
            signal.pause()
        os._exit(0)
    try:
        wait_for(
            lambda: (broker.directory / INDEX_LOCK).read_text().strip() == str(holder), "the lock"
        )
        with stopped(holder):
            said = broker.refuse()
        assert f"process {holder} still writes the index" in said
        assert "Nothing was changed" in said
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
    broker.start()
    assert broker.stop() == 0
