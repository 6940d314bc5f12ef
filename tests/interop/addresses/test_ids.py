"""Ids on a real broker: an id that a client saw names nothing else, whatever was lost."""

import os
import signal
from collections.abc import Iterator

import pytest

from daybook.engine.core.core import LSNS_RESERVED
from tests.interop.wire import Wire
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.interop


@pytest.fixture
def broker(tmp_path: object) -> Iterator[BrokerProcess]:
    """A started broker, on its defaults."""
    with BrokerProcess(tmp_path / "data", config="") as process:  # type: ignore[operator]
        yield process.start()


def consumer(broker: BrokerProcess, seconds: float = 60.0) -> tuple[Wire, int]:
    """A connection that takes what it sends, and its id."""
    wire = Wire(broker.port, seconds=seconds)
    session = int(wire.connect().headers["session"])
    wire.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto", receipt="s")
    wire.expect("RECEIPT")
    return wire, session


def ids(wire: Wire, count: int) -> list[int]:
    """Ids of so many non-persistent messages, sent and received."""
    for _ in range(count):
        wire.send("SEND", b"x", destination="/queue/q", persistent="false")
    return [int(wire.expect("MESSAGE").headers["message-id"]) for _ in range(count)]


def test_no_id_is_given_twice_over_kills(broker: BrokerProcess) -> None:
    """The writer is stopped, so that what clients hear of is lost with the kill."""
    told: list[int] = []
    for _ in range(3):
        wire, session = consumer(broker)
        for pid in broker.writers():
            os.kill(pid, signal.SIGSTOP)
        told += [session, *ids(wire, 20)]
        broker.cut_power()
        wire.close()
        broker.start()
    wire, session = consumer(broker)
    told += [session, *ids(wire, 200)]
    wire.close()
    assert len(set(told)) == len(told)


def test_a_clean_stop_skips_nothing(broker: BrokerProcess) -> None:
    wire, session = consumer(broker)
    wire.close()
    assert broker.stop() == 0
    broker.start()
    wire, later = consumer(broker)
    wire.close()
    assert session < later < session + 100


def test_ids_are_not_told_beyond_what_a_start_skips(tmp_path: object) -> None:
    """However long the disk takes: deliveries wait where the next ids could be given again."""
    with BrokerProcess(tmp_path / "data", config="") as broker:  # type: ignore[operator]
        broker.start()
        wire, session = consumer(broker, seconds=5)
        for pid in broker.writers():
            os.kill(pid, signal.SIGSTOP)
        count = LSNS_RESERVED // 2
        for _ in range(count):
            wire.send("SEND", b"x", destination="/queue/q", persistent="false")
        told: list[int] = []
        with pytest.raises(TimeoutError):
            told.extend(int(wire.expect("MESSAGE").headers["message-id"]) for _ in range(count))
        assert session < told[-1] < session + LSNS_RESERVED + 100
        for pid in broker.writers():
            os.kill(pid, signal.SIGCONT)
        wire.expect("MESSAGE")
        wire.close()
