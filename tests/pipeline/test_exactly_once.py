"""Exactly once under kill -9: of the broker, of Spark's driver, and of the replay job.

What is killed is started again, and in the end every message is there once. Nothing depends on the
moments of the kills: they come when so many messages are there.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec
import pytest

from daybook.client.control import ControlError, ask
from daybook.client.endpoint import parse_url
from daybook.client.stomp import Frame, StompClient
from daybook.engine.facts import reasons
from daybook.pipeline.decoding import read_plan
from daybook.pipeline.jobs.replay import FROM_HEADER
from daybook.pipeline.planning import Source
from daybook.pipeline.reading import reading
from daybook.pipeline.selection import Selection
from tests.pipeline.conftest import QUICK_JAVA
from tests.support.histories import write_history
from tests.support.process import BrokerProcess, wait_for
from tests.support.world import World

pytestmark = [pytest.mark.slow, pytest.mark.crash]

Job: TypeAlias = "subprocess.Popen[str]"
ROOT: Final = Path(__file__).parents[2]
MESSAGES: Final = 800
QUEUE: Final = "/queue/copies"
CONFIG: Final = """
[[address-setting]]
match = "#"
max-delivery-attempts = -1
"""
DRIVER: Final = """
import sys
from daybook.pipeline.spark.session import session

history, checkpoint, url = sys.argv[1:]
spark = session("local[2]")
rows = (
    spark.readStream.format("journal")
    .options(columns="lsn,body", kinds="Routed", maxRowsPerBatch="400", splitBytes="4000")
    .load(history)
)
query = (
    rows.writeStream.format("daybook")
    .options(url=url, id="copy", address="/queue/copies", maxRowsPerTransaction="50", rate="200")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with so many messages, numbered in their bodies."""
    world = World()
    for number in range(MESSAGES):
        world.send("orders", b"%d" % number)
    directory = tmp_path_factory.mktemp("history") / "data"
    return write_history(directory, world.journal, segment_bytes=1 << 16)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A started broker that has the same port whenever it is started again."""
    with BrokerProcess(tmp_path / "data", config=CONFIG) as process:
        process.start()
        process.listen[:] = [f"stomp://127.0.0.1:{process.port}"]
        yield process


def url_of(broker: BrokerProcess) -> str:
    return f"stomp://guest:guest@127.0.0.1:{broker.port}"


def count(broker: BrokerProcess) -> int:
    """How many messages are in the queue."""
    try:
        answer = ask(broker.data, {"do": "addresses"}) or {"addresses": []}
    except ControlError:
        return 0
    return sum(row["messages"] for row in answer["addresses"] if row["address"] == "copies")


def wait_until_there(broker: BrokerProcess, process: Job, least: int) -> None:
    """Wait until so many messages are there; their sender must not end before."""

    def are_there() -> bool:
        found = count(broker) >= least
        assert found or process.poll() is None, process.communicate()
        return found

    wait_for(are_there, f"{least} messages", 240, 0.05)


def drained(broker: BrokerProcess, number: int) -> list[Frame]:
    """All messages, which must be so many and no more."""
    with StompClient(parse_url(url_of(broker))) as client:
        client.send("SUBSCRIBE", [("destination", QUEUE), ("id", "1"), ("credit", "100000")])
        frames = []
        for _ in range(number):
            frame = client.message(30)
            assert frame is not None, f"{len(frames)} of {number} came"
            frames.append(frame)
        client.wait_for(client.request_receipt("UNSUBSCRIBE", [("id", "1")]))
        assert client.message(0) is None, "there were more"
    return frames


def refused_commits(broker: BrokerProcess) -> int:
    """How many transactions the broker refused because it had them."""
    selection = Selection(kinds=("TransactionRolledBack",))
    with reading(Source(str(broker.data)), selection, names=False) as plan:
        found = [
            reason
            for batch in read_plan(plan, ("reason",))
            for reason in batch.column(0).to_pylist()
        ]
    return found.count(reasons.REASONS[reasons.COMMIT_REFUSED][0])


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    """Starts processes of their own, each with a group that can be killed whole."""
    started = []

    def begin(*arguments: str, environment: dict[str, str] | None = None) -> Job:
        job = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
            start_new_session=True,
        )
        started.append(job)
        return job

    yield begin
    for job in started:
        if job.poll() is None:
            kill(job)


def kill(process: Job) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def finish(process: Job) -> str:
    """Wait for an end that must be good."""
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    return said


def test_a_stream_of_spark_whose_driver_and_broker_are_killed(
    java: str,
    broker: BrokerProcess,
    history: Path,
    tmp_path: Path,
    start: Callable[..., Job],
) -> None:
    checkpoint = tmp_path / "checkpoint"
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    arguments = (str(script), str(history), str(checkpoint), url_of(broker))
    driver = start(*arguments, environment=QUICK_JAVA)
    wait_until_there(broker, driver, 100)
    broker.kill()
    broker.start()
    wait_until_there(broker, driver, 500)
    # In the middle of the second micro-batch or behind it.
    kill(driver)
    commits = sorted(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    # As if Spark had been killed just before it wrote that a batch was done.
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    finish(start(*arguments, environment=QUICK_JAVA))
    numbers = [int(frame.body) for frame in drained(broker, MESSAGES)]
    assert sorted(numbers) == list(range(MESSAGES))
    before = refused_commits(broker)
    assert before > 0, "nothing was sent twice, so nothing was proved"
    print(f"{before} transactions were refused as duplicates")


def test_a_replay_whose_job_and_broker_are_killed(
    broker: BrokerProcess, history: Path, tmp_path: Path, start: Callable[..., Job]
) -> None:
    chance = Random(11)
    arguments = (
        "-m", "daybook", "pipeline", "replay", "--data", str(history), "--id", "again",
        "--into", QUEUE, "--rate", "1000", "--transaction-messages", "50", "--json",
    )  # fmt: skip
    environment = {
        "XDG_STATE_HOME": str(tmp_path), "DAYBOOK_URL": url_of(broker), "DAYBOOK_ARCHIVE": "",
    }  # fmt: skip
    for least in (chance.randrange(50, 200), chance.randrange(250, 400)):
        job = start(*arguments, environment=environment)
        wait_until_there(broker, job, least)
        kill(job)
    there = count(broker)
    job = start(*arguments, environment=environment)
    # The job gives up where it cannot connect at first.
    wait_until_there(broker, job, max(600, there + 1))
    broker.kill()
    broker.start()
    report = msgspec.json.decode(finish(job).splitlines()[-1])
    assert report["omitted"] == report["incomplete"] == 0
    assert report["published"] + report["already"] == report["messages"] < 600
    frames = drained(broker, MESSAGES)
    assert [int(frame.body) for frame in frames] == list(range(MESSAGES))
    ids = [int(frame.headers[FROM_HEADER]) for frame in frames]
    assert ids == sorted(set(ids))
    assert msgspec.json.decode(finish(start(*arguments, environment=environment)))["messages"] == 0
