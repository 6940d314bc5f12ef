"""The programs of `docs/examples` that ask the history, as a reader would run them on a broker that
runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.using import daybook, queues
from tests.pipeline.conftest import QUICK_JAVA
from tests.support import nursery
from tests.support.process import DAYBOOK, BrokerProcess

EXAMPLES: Final = Path(__file__).parents[2] / "docs" / "examples"
RUN_SECONDS: Final = 240.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a queue of three orders: two were acknowledged, one was rejected once."""
    with BrokerProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        process.start()
        for words in (
            ("send", "orders", "an order", "--count", "3"),
            ("receive", "orders", "--count", "2"),
            ("receive", "orders", "--count", "1", "--reject"),
        ):
            command = [DAYBOOK, *words, "--url", url_of(process)]
            nursery.run(command, capture_output=True, check=True)
        found = queues(process)["orders"]
        assert (found["acknowledged"], found["ready"]) == (2, 1)
        yield process


def url_of(broker: BrokerProcess) -> str:
    return f"stomp://guest:guest@127.0.0.1:{broker.port}"


def run(name: str, *words: object) -> str:
    """Run an example, and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, words)], capture_output=True, check=False,
        env=os.environ | QUICK_JAVA, text=True, timeout=RUN_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def bodies(broker: BrokerProcess, queue: str) -> list[str]:
    """Return the bodies of the messages in a queue."""
    told: dict[str, Any] = json.loads(daybook(broker, "browse", queue, "--json"))
    return [each["body"] for each in told["messages"]]


def test_the_orders_that_waited_longest(broker: BrokerProcess) -> None:
    lines = run("late_orders.py", broker.data, "orders").splitlines()
    assert len(lines) == 2
    assert all(line.startswith("message ") and line.endswith(" ms") for line in lines)


@pytest.mark.slow
def test_a_summary_of_every_queue(java: str, broker: BrokerProcess) -> None:
    assert "orders" in run("spark_summary.py", broker.data, url_of(broker))
    rows = [json.loads(body) for body in bodies(broker, "summaries")]
    [orders] = [row for row in rows if row["queue"] == "orders"]
    # A consumer that ends may give back another message than the one that was rejected.
    returned, delivered = orders.pop("Returned"), orders.pop("Delivered")
    assert returned >= 1
    assert delivered == returned + 2
    assert orders == {"queue": "orders", "Routed": 3, "Acknowledged": 2, "DeadLettered": 0}


@pytest.mark.slow
def test_a_stream_of_what_was_rejected(java: str, broker: BrokerProcess, tmp_path: Path) -> None:
    for _ in range(2):
        run("spark_stream.py", broker.data, url_of(broker), tmp_path / "checkpoint")
        [alert] = bodies(broker, "alerts")
        assert alert.endswith(" was rejected in orders, delivery 1")
