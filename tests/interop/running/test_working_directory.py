"""The working directory of a broker affects neither its code nor its data."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.journal.data_directory import INDEX, JOURNAL
from tests.interop.hardships.test_index_damage import index_file, send, status
from tests.support.process import BrokerProcess, wait_for

TRAP = "open({marker!r}, 'w')\nraise SystemExit('run from the working directory')\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose data directory is named from its working directory on."""
    (tmp_path / "here").mkdir()
    with BrokerProcess(
        tmp_path / "here" / "d", data=Path("d"), folder=tmp_path / "here"
    ) as process:
        yield process


def fill(broker: BrokerProcess) -> None:
    """Start it, send something, and wait until that is indexed."""
    broker.start()
    send(broker, 0, 100)
    wait_for(lambda: status(broker)["indexed_lsn"] > 100, "the index", every=0.1)


def test_a_relative_data_directory_keeps_its_index(broker: BrokerProcess) -> None:
    fill(broker)
    before = index_file(broker).stat().st_ino
    for _ in range(2):
        broker.cut_power()
        broker.start()
    assert index_file(broker).stat().st_ino == before
    assert "index is" not in broker.log_text()
    assert broker.stop() == 0


def test_a_refused_start_deletes_no_index(broker: BrokerProcess) -> None:
    """Neither a sound one nor a damaged one: who puts the journal right has both as they were."""
    fill(broker)
    broker.cut_power()
    segment = next((broker.directory / JOURNAL).glob("*.seg"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:600] + bytes([whole[600] ^ 1]) + whole[601:])
    assert "Nothing was changed" in broker.refuse()
    assert index_file(broker).exists()
    os.truncate(index_file(broker), 8192)
    broker.refuse()
    assert index_file(broker).stat().st_size == 8192
    segment.write_bytes(whole)
    broker.start()
    assert "the index is rebuilt" in broker.log_text()
    assert broker.stop() == 0


@pytest.mark.usefixtures("own_interpreter")
def test_nothing_in_the_working_directory_is_run(broker: BrokerProcess, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for name in ("paging", "journal", "engine", "select", "json", "lmdb", "msgspec", "selectors"):
        room = tmp_path / "here" / name
        room.mkdir()
        (room / "__init__.py").write_text(TRAP.format(marker=str(marker)))
    fill(broker)
    broker.cut_power()
    # The process that looks at the index is started from here, too.
    broker.start()
    assert broker.stop() == 0
    assert not marker.exists()
    assert (broker.directory / INDEX).exists()
