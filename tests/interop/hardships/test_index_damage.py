"""Damage to the files of the index costs time but no message, and is reported.

A real broker with a backlog that lies in the index alone. Damaged while it is stopped or while it
runs, the index must be used if it is right, and made anew if it is not; the broker may stop with a
clear sentence, and then the next start must work. DAYBOOK_DAMAGES=200 tries so many random ones.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from daybook.history.verification.verification import verify_data
from daybook.journal.data_directory import INDEX, JOURNAL, TABLES
from daybook.journal.disk import RealDisk
from daybook.paging.tables.checked import Transaction
from daybook.paging.tables.structure import LEAF
from daybook.paging.tables.tables import PAGES, open_for_writing
from tests.interop.wire import Closed, Wire, frame
from tests.support import nursery
from tests.support.process import BrokerProcess, NotReady, wait_for
from tests.support.stored.folded import folded_state
from tests.support.stored.stored_rows import flip as flip_row
from tests.support.suite.chance import seed_of

MESSAGES: Final = 2_000
NAME: Final = "backlog"
QUEUE: Final = f"/queue/{NAME}"
CONFIG: Final = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
max-size-messages = 0
max-read-page-messages = 100
"""
SETTINGS: Final = ("journal.checkpoint-period=200",)
DEATHS_MAX: Final = 3
"""How often one damage may end a broker before it is taken for a crash loop."""

Damage = Callable[[Path, random.Random], None]


def new_broker(directory: Path) -> BrokerProcess:
    """A broker that pages everything."""
    return BrokerProcess(directory, settings=SETTINGS, config=CONFIG)


def send(broker: BrokerProcess, first: int, end: int) -> None:
    """Send messages with these numbers for bodies, and wait for the receipt of the last."""
    with Wire(broker.port) as producer:
        producer.connect()
        for number in range(first, end):
            receipt = {"receipt": "all"} if number == end - 1 else {}
            body = f"{number}".encode()
            producer.send("SEND", body, destination=QUEUE, persistent="true", **receipt)
        producer.expect("RECEIPT")


def copy(source: Path, target: Path) -> BrokerProcess:
    """A broker on a copy of a data directory."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.sock"))
    return new_broker(target)


class Backlog:
    """The messages as their consumer knows them; an ACK without receipt is in doubt."""

    def __init__(self) -> None:
        self.acked: set[int] = set()
        self.asked: set[int] = set()
        self.in_doubt: set[int] = set()
        self.seen: set[int] = set()

    @property
    def settled(self) -> int:
        """How many need not come any more."""
        return len(self.acked | self.in_doubt)

    def drain(self, broker: BrokerProcess, until: int = MESSAGES) -> None:
        """Take and acknowledge messages until so many are settled, or the broker is gone."""
        try:
            with Wire(broker.port) as consumer:
                consumer.connect()
                consumer.send("SUBSCRIBE", destination=QUEUE, id="1", ack="client-individual")
                self._take(consumer, until)
        except (Closed, ConnectionError):
            self.in_doubt |= self.asked
            self.asked.clear()

    def _take(self, consumer: Wire, until: int) -> None:
        newest = -1
        while self.asked or self.settled < until:
            heard = consumer.read()
            if heard.command == "RECEIPT":
                number = int(heard.headers["receipt-id"])
                self.asked.remove(number)
                self.acked.add(number)
                continue
            assert heard.command == "MESSAGE", heard
            number = int(heard.body)
            assert number > newest, f"{number} came after {newest}"
            assert number not in self.acked, f"{number} came back after the receipt for its ACK"
            is_flagged = heard.headers.get("redelivered") == "true"
            assert is_flagged or number not in self.seen, f"{number} came again without a flag"
            newest = number
            self.seen.add(number)
            self.in_doubt.discard(number)
            if self.settled + len(self.asked) < until:
                self.asked.add(number)
                consumer.send("ACK", id=heard.headers["ack"], receipt=number)


def prove(broker: BrokerProcess, backlog: Backlog) -> int:
    """Start as often as need be, drain everything, and check; return how often it ended itself."""
    deaths = 0
    while backlog.settled < MESSAGES:
        assert deaths <= DEATHS_MAX, f"a crash loop:\n{broker.log_text()}"
        if not broker.is_running:
            try:
                broker.start()
            except NotReady:
                broker.wait()
                deaths += 1
                continue
        backlog.drain(broker)
        if backlog.settled < MESSAGES:
            broker.wait()
            deaths += 1
    assert backlog.seen == set(range(MESSAGES))
    code = broker.stop() if broker.is_running else 0
    if code:
        # Damage was met before the stop was durable, or the file shrank below a map.
        ended = {1, -signal.SIGBUS, -signal.SIGSEGV}
        if "the broker stops" in broker.log_text():
            # It was ending by itself, and no longer listened to signals.
            ended.add(-signal.SIGTERM)
        assert code in ended, broker.log_text()
        deaths += 1
        broker.start()
        assert broker.stop() == 0, broker.log_text()
    check_log(broker)
    state, _ = folded_state(broker.directory)
    left = {int(entry.message.body) for entry in state.queue_by_name[NAME].ready()}
    assert left <= backlog.in_doubt
    verdict = verify_data(RealDisk(broker.directory / JOURNAL), lambda done: None)
    assert verdict.ok, (verdict.faults, verdict.wrong)
    return deaths


def check_log(broker: BrokerProcess) -> None:
    """All faults were reported in sentences."""
    said = broker.log_text()
    assert "Traceback" not in said, said
    assert '"exception"' not in said, said


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose backlog is in the index; `older` beside it has half of it."""
    folder = tmp_path_factory.mktemp("backlog")
    with new_broker(folder / "data") as broker:
        broker.start()
        send(broker, 0, MESSAGES // 2)
        assert broker.stop() == 0
        OLDER[:] = [folder / "older"]
        shutil.copytree(folder / "data" / INDEX, OLDER[0])
        broker.start()
        send(broker, MESSAGES // 2, MESSAGES)
        assert broker.stop() == 0
    return folder / "data"


@pytest.fixture
def broker(directory: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker on a copy of it, not started."""
    with copy(directory, tmp_path / "data") as process:
        yield process


def index_file(broker: BrokerProcess) -> Path:
    """The file with the tables."""
    return broker.directory / INDEX / TABLES


# ---- what befalls the files of a broker that is stopped


def delete(broker: BrokerProcess) -> None:
    """The folder is gone."""
    shutil.rmtree(broker.directory / INDEX)


def delete_file(broker: BrokerProcess) -> None:
    """The folder is there, and empty."""
    index_file(broker).unlink()


def empty(broker: BrokerProcess) -> None:
    """The file has no bytes."""
    os.truncate(index_file(broker), 0)


def garble(broker: BrokerProcess) -> None:
    """The file has other bytes."""
    index_file(broker).write_bytes(random.Random(7).randbytes(300_000))


def make_older(broker: BrokerProcess) -> None:
    """A copy from before the second half was sent."""
    delete(broker)
    shutil.copytree(OLDER[0], broker.directory / INDEX)


def make_foreign(broker: BrokerProcess) -> None:
    """The index of another data directory."""
    with new_broker(broker.directory.with_name("other")) as other:
        other.start()
        assert other.stop() == 0
        delete(broker)
        shutil.copytree(other.directory / INDEX, broker.directory / INDEX)


def put_folder(broker: BrokerProcess) -> None:
    """There is a folder where the file should be."""
    index_file(broker).unlink()
    index_file(broker).mkdir()


OLDER: Final[list[Path]] = []
"""Where the fixture `directory` keeps the older copy."""

STOPPED: Final[tuple[tuple[Callable[[BrokerProcess], None], str], ...]] = (
    (delete, "there is none"),
    (delete_file, "there is none"),
    (empty, "the index is rebuilt"),
    (garble, "is damaged"),
    (make_older, ""),
    (make_foreign, "is of another journal"),
    (put_folder, "the index is rebuilt"),
)


@pytest.mark.parametrize(("damage", "told"), STOPPED, ids=[one.__name__ for one, _ in STOPPED])
def test_damaged_while_stopped(
    broker: BrokerProcess, damage: Callable[[BrokerProcess], None], told: str
) -> None:
    damage(broker)
    assert prove(broker, Backlog()) == 0
    said = broker.log_text()
    assert told in said
    assert ("is rebuilt" in said) == bool(told)


def test_deleted_while_it_runs(broker: BrokerProcess) -> None:
    backlog = Backlog()
    broker.start()
    backlog.drain(broker, MESSAGES // 4)
    delete(broker)
    prove(broker, backlog)


def test_a_file_where_the_folder_should_be(broker: BrokerProcess) -> None:
    """Nothing can be indexed: all is in memory, and the broker says so and serves."""
    delete(broker)
    (broker.directory / INDEX).write_text("in the way")
    assert prove(broker, Backlog()) == 0
    assert "no index for now, so everything stays in memory" in broker.log_text()


@pytest.mark.parametrize(("ending", "kind"), [("stopped", LEAF), ("killed", LEAF), ("killed", 0)])
def test_an_index_that_would_kill_who_reads_it(
    broker: BrokerProcess, ending: str, kind: int
) -> None:
    """Its structure is judged by who cannot die of it, however the last run ended."""
    if ending == "killed":
        broker.start()
        broker.kill()
    zero(index_file(broker), kind)
    assert prove(broker, Backlog()) == 0
    said = broker.log_text()
    assert "the index is rebuilt: " in said
    assert "is not the one that should be there" in said


def zero(file: Path, kind: int) -> None:
    """Zero the pages of a kind, as LMDB marks them; 0: all of them but those with the roots."""
    content = bytearray(file.read_bytes())
    for at in range(2 * 4096, len(content), 4096):
        if not kind or int.from_bytes(content[at + 10 : at + 12], "little") == kind:
            content[at : at + 4096] = bytes(4096)
    file.write_bytes(content)


def test_a_broker_that_died_of_a_signal(broker: BrokerProcess) -> None:
    """The next start has all of the index read by a process apart; twice in a row is enough."""
    for number in range(3):
        broker.start()
        os.kill(broker.process.pid, signal.SIGSEGV)
        assert broker.wait() == -signal.SIGSEGV
        said = broker.log_text()
        assert said.count("the whole index is read first") == number
        assert ("the index is rebuilt" in said) == (number > 1)
    assert "the last run ended with 'Fatal Python error: Segmentation fault'" in said
    assert "one broker after the other fails with it, although all of it can be read" in said
    assert prove(broker, Backlog()) == 0


def test_a_row_that_is_damaged_fails_one_broker(broker: BrokerProcess) -> None:
    """The broker that meets it logs why and stops; the next start rebuilds the index."""
    with closing(open_for_writing(broker.directory / INDEX, data_id_of(broker))) as tables:
        table = tables.db(PAGES)

        def spoil(txn: Transaction) -> None:
            for key in [key for key, _ in txn.rows(table)][3:]:
                flip_row(txn, table, key, 200)

        tables.write(spoil)
    assert prove(broker, Backlog()) == 1
    said = broker.log_text()
    assert "the crc of a row of table 'pages' does not fit" in said
    assert "the whole index is read first" in said
    assert "the index is rebuilt: " in said


def data_id_of(broker: BrokerProcess) -> bytes:
    return bytes.fromhex((broker.directory / "data-id").read_text().strip())


@pytest.fixture
def immutable(broker: BrokerProcess) -> Iterator[Path]:
    """The file of the index, which not even root may change."""
    file = index_file(broker)
    if subprocess.run(["chattr", "+i", file], capture_output=True, check=False).returncode:
        pytest.skip("this file system knows no immutable files")
    yield file
    subprocess.run(["chattr", "-i", file], check=True)


def test_an_index_that_cannot_be_written(broker: BrokerProcess, immutable: Path) -> None:
    backlog = Backlog()
    broker.start()
    backlog.drain(broker)
    assert "no index for now, so everything stays in memory" in broker.log_text()
    assert broker.stop() == 0
    check_log(broker)
    subprocess.run(["chattr", "-i", immutable], check=True)
    assert prove(broker, backlog) == 0


# ---- an indexer that is slow, stuck or dead


def status(broker: BrokerProcess) -> dict[str, Any]:
    """Return the output of `daybook status`."""
    command = [sys.executable, "-m", "daybook", "status", "--json"]
    command += ["--data", str(broker.directory)]
    # The exit code says how the broker is, and it may be in any state here.
    done = nursery.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found


def test_a_full_disk_below_the_index(broker: BrokerProcess) -> None:
    """No room for a commit: the broker logs it and continues; the index continues with new room."""
    broker.start()
    [indexer] = wait_for(broker.indexers, "an indexer")
    _, most = resource.prlimit(indexer, resource.RLIMIT_FSIZE)
    resource.prlimit(indexer, resource.RLIMIT_FSIZE, (4096, most))
    with Wire(broker.port) as producer:
        producer.connect()
        producer.send("SEND", b"x", destination="/queue/other", receipt="there")
        producer.expect("RECEIPT")
    wait_for(lambda: status(broker)["index_trouble"], "trouble", every=0.2)
    assert "the index cannot be written; the broker continues" in broker.log_text()
    resource.prlimit(indexer, resource.RLIMIT_FSIZE, (most, most))
    wait_for(lambda: not status(broker)["index_trouble"], "the end of trouble", every=0.2)
    assert broker.indexers() == [indexer]
    assert prove(broker, Backlog()) == 0


SMALL: Final = ("broker.max-unindexed-bytes=1MiB", "journal.checkpoint-period=0")


def test_an_indexer_that_stands_still(tmp_path: Path) -> None:
    """Producers are slowed at the bound, as `daybook status` shows, and continue with the index."""
    with BrokerProcess(tmp_path / "data", settings=SMALL, config=CONFIG) as broker:
        broker.start()
        [indexer] = wait_for(broker.indexers, "an indexer")
        os.kill(indexer, signal.SIGSTOP)
        flood = Flood(broker.port)
        wait_for(lambda: status(broker)["producers_blocked"], "a blocked producer", every=0.2)
        found = status(broker)
        assert flood.is_alive()
        # Not much more than the bound: the bytes read at once, and those on their way.
        assert 1 << 20 < found["unindexed_bytes"] < 8 << 20, found
        os.kill(indexer, signal.SIGCONT)
        flood.join(60)
        assert not flood.is_alive()
        wait_for(lambda: not status(broker)["producers_blocked"], "the end of it", every=0.2)
        wait_for(lambda: status(broker)["unindexed_bytes"] < 1 << 20, "the index", every=0.2)
        os.kill(indexer, signal.SIGKILL)
        wait_for(lambda: broker.indexers() not in ([], [indexer]), "another indexer")
        assert status(broker)["indexer_restarts"] == 1
        assert "the indexer ended and is started again" in broker.log_text()
        assert broker.stop() == 0
        check_log(broker)


class Flood(threading.Thread):
    """A producer that sends without a pause, until the broker has a receipt for the last."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.start()

    def run(self) -> None:
        with Wire(self._port) as producer:
            producer.connect()
            data = frame("SEND", bytes(10_000), destination=QUEUE, persistent="true")
            for _ in range(1_000):
                producer.write(data)
            producer.send("SEND", b"last", destination=QUEUE, receipt="last")
            producer.expect("RECEIPT")


# ---- random damage of the file


def flip(file: Path, chance: random.Random) -> None:
    """Turn one bit."""
    at = chance.randrange(file.stat().st_size)
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 1 << chance.randrange(8)]))


def flip_many(file: Path, chance: random.Random) -> None:
    """Turn a bit here and there."""
    for _ in range(chance.randint(2, 200)):
        flip(file, chance)


def truncate(file: Path, chance: random.Random) -> None:
    """Cut the end off."""
    os.truncate(file, chance.randrange(file.stat().st_size))


def overwrite(file: Path, chance: random.Random) -> None:
    """Write garbage over a part."""
    size = file.stat().st_size
    at = chance.randrange(size)
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(chance.randbytes(min(size - at, chance.choice((100, 5_000, 1 << 20)))))


def swap_pages(file: Path, chance: random.Random) -> None:
    """Put a page where another belongs, as a disk that writes to the wrong place."""
    pages = file.stat().st_size // 4096
    with file.open("r+b") as opened:
        opened.seek(chance.randrange(pages) * 4096)
        page = opened.read(4096)
        opened.seek(chance.randrange(pages) * 4096)
        opened.write(page)


def zero_pages(file: Path, chance: random.Random) -> None:
    """Pages that were never written."""
    pages = file.stat().st_size // 4096
    with file.open("r+b") as opened:
        opened.seek(chance.randrange(pages) * 4096)
        opened.write(bytes(4096 * chance.randint(1, 4)))


RANDOM: Final[tuple[Damage, ...]] = (
    flip, flip, flip_many, truncate, overwrite, swap_pages, zero_pages,
)  # fmt: skip
DAMAGES: Final = int(os.environ.get("DAYBOOK_DAMAGES", "4"))
FIRST: Final = seed_of(__name__)


@pytest.mark.parametrize("number", range(DAMAGES))
def test_random_damage(broker: BrokerProcess, number: int) -> None:
    seed = FIRST + number
    chance = random.Random(seed)
    damage = chance.choice(RANDOM)
    is_running = chance.random() < 0.3
    print(f"DAYBOOK_SEED={seed} {damage.__name__} {'running' if is_running else 'stopped'}")
    backlog = Backlog()
    if is_running:
        broker.start()
        backlog.drain(broker, MESSAGES // 4)
    damage(index_file(broker), chance)
    deaths = prove(broker, backlog)
    print(f"ended {deaths} times")
