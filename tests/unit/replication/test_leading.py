"""A node and its broker hear what the other one said last, and notice its end."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybook.journal.places import Place
from daybook.replication import leading
from daybook.replication.leading import (
    ENVIRONMENT,
    OTHERS_MAX,
    Acked,
    Alive,
    BrokerEnd,
    Forgotten,
    LeadLost,
    NodeEnd,
    Opened,
    Prepared,
    Told,
    Wrote,
    boot_time_us,
)

DATA_ID = bytes(range(16))


@pytest.fixture
def node() -> Iterator[NodeEnd]:
    end = NodeEnd("a:b")
    end.lead(7)
    yield end
    end.close()


@pytest.fixture
def broker(node: NodeEnd) -> Iterator[BrokerEnd]:
    """The other end, in this process."""
    end = other_end(node)
    yield end
    end.close()


def other_end(node: NodeEnd) -> BrokerEnd:
    """Return the end of the broker of a node that leads."""
    descriptor, word = map(os.dup, node.descriptors)
    end = BrokerEnd(socket.socket(fileno=descriptor), word, "a:b")
    end.wait()
    end._socket.setblocking(False)
    node.started()
    return end


def hear(node: NodeEnd, timeout: float = 10) -> list[Told]:
    select.select([node], [], [], timeout)
    return node.receive()


def test_a_process_that_no_node_started_has_no_end() -> None:
    assert BrokerEnd.inherited({}) is None


def test_a_broker_of_a_node_that_has_ended_does_not_begin(
    node: NodeEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "end_with", lambda parent: parent != 1234567)
    given = node.environment[ENVIRONMENT].split(":", 1)
    with pytest.raises(LeadLost, match="has ended"):
        BrokerEnd.inherited({ENVIRONMENT: f"1234567:{given[1]}"})


def test_the_first_block_waits_for_the_node(node: NodeEnd, tmp_path: Path) -> None:
    """In another process, which gets its descriptors as a broker does."""
    done = tmp_path / "done"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from daybook.journal.places import Place\n"
        "from daybook.replication.leading import BrokerEnd\n"
        "end = BrokerEnd.inherited(os.environ)\n"
        "end.wait()\n"
        "assert (end.epoch, end.node) == (7, 'a:b')\n"
        f"end.begin({DATA_ID!r}, Place(1, 72), 0)\n"
        "Path(sys.argv[1]).write_text('begun')\n"
        "end.wrote(Place(1, 200), 3)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(done)],
        pass_fds=node.descriptors, env=os.environ | node.environment,
    )  # fmt: skip
    node.started()
    # That it is prepared is said in no epoch.
    while not (told := hear(node, 60)):
        pass
    assert told == [Opened(DATA_ID, Place(1, 72), 0)]
    time.sleep(0.1)
    assert not done.exists()
    node.leads()
    assert hear(node, 60) == [Wrote(Place(1, 200), 3)]
    assert done.read_text() == "begun"
    assert process.wait(60) == 0
    with pytest.raises(LeadLost):
        hear(node)


def test_a_broker_ends_with_the_process_of_its_node() -> None:
    code = (
        "import os, subprocess, sys, time\n"
        "from daybook.replication.leading import NodeEnd\n"
        "node = NodeEnd('a')\n"
        "broker = subprocess.Popen([sys.executable, '-c', 'import os, time; from"
        " daybook.replication.leading import BrokerEnd; end = BrokerEnd.inherited(os.environ);"
        " print(os.getpid(), flush=True); time.sleep(600)'], pass_fds=node.descriptors,"
        " env=os.environ | node.environment)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        broker = int(node.stdout.readline())
        node.send_signal(signal.SIGKILL)
        node.wait()
        deadline = time.monotonic() + 30
        while _is_alive(broker):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_newest_of_each_kind_is_heard(node: NodeEnd, broker: BrokerEnd) -> None:
    confirmed: list[int] = []
    broker.on_durable = confirmed.append
    for number in range(10_000):
        broker.wrote(Place(1, number), number)
        node.durable(number)
    told = []
    while not told or told[-1] != Wrote(Place(1, 9_999), 9_999):
        told += hear(node)
        broker.flush()
    while not confirmed or confirmed[-1] != 9_999:
        broker.receive()
        node.flush()
    assert confirmed == sorted(confirmed)
    node.beat()
    broker.receive()
    assert hear(node) == [Alive()]


def test_what_followers_acknowledged_is_heard_of_each_and_first(
    node: NodeEnd, broker: BrokerEnd
) -> None:
    hear(node)
    broker.wrote(Place(1, 100), 5)
    for number in (0, OTHERS_MAX - 1, 0):
        broker.acked(number, Place(1, 90 + number), number)
    last = OTHERS_MAX - 1
    assert hear(node) == [
        Acked(0, Place(1, 90), 0), Acked(last, Place(1, 90 + last), last), Wrote(Place(1, 100), 5),
    ]  # fmt: skip


def test_before_a_follower_joins_the_broker_says_what_is_written(
    node: NodeEnd, broker: BrokerEnd
) -> None:
    hear(node)

    def forget(number: int) -> int:
        broker.wrote(Place(1, 300), 9)
        broker.acked(1, Place(1, 300), 9)
        return 8

    node.forget(2)
    broker.receive()
    # Without lanes nothing is to be forgotten.
    assert hear(node) == [Forgotten(2, 0)]
    broker.on_forget = forget
    node.forget(OTHERS_MAX - 1)
    broker.receive()
    assert hear(node) == [
        Acked(1, Place(1, 300), 9), Wrote(Place(1, 300), 9), Forgotten(OTHERS_MAX - 1, 8),
    ]  # fmt: skip


def test_room_is_watched_for_only_when_something_was_not_taken(
    node: NodeEnd, broker: BrokerEnd
) -> None:
    watched: list[bool] = []
    broker.watch = watched.append
    for number in range(10_000):
        broker.wrote(Place(1, number), number)
    assert watched == [True]
    node.receive()
    broker.flush()
    assert watched == [True, False]


def test_nothing_is_confirmed_when_the_lease_has_ended(node: NodeEnd, broker: BrokerEnd) -> None:
    assert not broker.may_confirm()
    node.hold(boot_time_us() + 60_000_000)
    assert broker.may_confirm()
    assert broker.valid_until > boot_time_us()
    node.hold(boot_time_us())
    assert not broker.may_confirm()


def test_the_end_of_the_node_is_told_once(node: NodeEnd, broker: BrokerEnd) -> None:
    lost: list[bool] = []
    broker.on_lost = lambda: lost.append(True)
    node.hold(boot_time_us() + 60_000_000)
    node.close()
    broker.receive()
    broker.receive()
    broker.wrote(Place(1, 1), 1)
    assert lost == [True]
    assert not broker.may_confirm()


def test_a_broker_waits_for_the_word_to_lead_and_answers_meanwhile(tmp_path: Path) -> None:
    node = NodeEnd("a")
    code = (
        "import os, sys\n"
        "from daybook.replication.leading import BrokerEnd\n"
        "end = BrokerEnd.inherited(os.environ)\n"
        "assert end.epoch == 0\n"
        "end.wait()\n"
        "sys.exit(end.epoch)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=node.descriptors, env=os.environ | node.environment
    )
    node.started()
    assert hear(node, 60) == [Prepared()]
    node.beat()
    assert hear(node, 60) == [Alive()]
    assert process.poll() is None
    node.lead(9)
    assert process.wait(60) == 9
    node.close()


def test_what_is_of_another_epoch_is_not_heard(node: NodeEnd, broker: BrokerEnd) -> None:
    broker._say(2, 6, 1, Place(1, 1))
    assert hear(node) == []
