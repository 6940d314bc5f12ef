"""Soak a broker: `python -m tests.soak.run --minutes 20` (`make soak`).

Everything that clients do, well or badly, at once and for long. At the end nothing may have grown,
no idle connection may have been closed, each message whose receipt came was delivered once, the
broker holds nothing of those who left, and the audit of its history finds no fault.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from daybook.client.control import ask
from tests.soak.crowd import IDLE, Crowd
from tests.soak.watching import MEMORY_SLACK, Sample, Watch, draw, grown
from tests.support.process import DAYBOOK, JOURNAL, BrokerProcess

CONFIG: Final = """
[journal]
segment-bytes = "4MiB"

[broker]
stalled-timeout = "2s"
max-memory = "512MiB"
address-queue-scan-period = "1s"
message-expiry-scan-period = "1s"

[[acceptor]]
listen = "127.0.0.1:0"
body-timeout = "5s"

[[address-setting]]
match = "#"
expiry-address = ""
"""
LEAVE_SECONDS: Final = 60.0
NAMES_MAX: Final = 40
"""More queues or addresses than these are names that nobody uses any more."""


class Soak:
    """One soak: its faults and its measurements."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.samples: list[Sample] = []
        self.counts: dict[str, int] = {}
        self.messages = 0

    def report(self) -> str:
        """Describe the results for people."""
        did = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"{self.messages} receipted messages; {did}"


def soak(
    directory: Path,
    seconds: float,
    seed: int,
    *,
    idle: int = IDLE,
    pace: float = 8.0,
    environment: Mapping[str, str] | None = None,
    slack: int = MEMORY_SLACK,
) -> Soak:
    """Soak a broker on an empty directory for so long."""
    result = Soak()
    with BrokerProcess(
        directory, config=CONFIG, listen=(), environment=environment, open_files=(8192, 8192)
    ) as broker:
        broker.start()
        crowd = Crowd(broker.port, seed, idle=idle, pace=pace)
        asyncio.run(_used(broker, crowd, seconds, result))
        result.counts = crowd.counts
        result.wrong += crowd.wrong
        result.messages = sum(map(len, crowd.stored.values()))
        for pair, stored in crowd.stored.items():
            lost = stored - crowd.settled[pair]
            if lost:
                result.wrong.append(f"{len(lost)} messages of pair {pair} never came: {min(lost)}")
        if broker.is_running:
            result.wrong += left_behind(broker)
            code = broker.stop()
            if code:
                result.wrong.append(f"the broker ended with {code}")
        else:
            result.wrong.append("the broker ended")
        if "Traceback" in broker.log_text():
            result.wrong.append("an exception is in the log")
        result.wrong += audited(broker)
    result.wrong += grown(result.samples, slack)
    return result


async def _used(broker: BrokerProcess, crowd: Crowd, seconds: float, result: Soak) -> None:
    watch = Watch(broker)
    watching = asyncio.create_task(watch.run())
    try:
        await crowd.run(seconds)
    finally:
        watching.cancel()
    result.samples = watch.samples


def left_behind(broker: BrokerProcess) -> list[str]:
    """Resources that the broker still holds for clients that left, a sentence each."""
    until = time.monotonic() + LEAVE_SECONDS
    while True:
        status = ask(broker.directory, {"do": "status"})
        assert status is not None
        left = {**{f"{kind} in memory": status["memory"][kind] for kind in _MEMORY}}
        left |= {name: _count(status[name]) for name in _EMPTY}
        names = {name: status[name] for name in ("queues", "addresses")}
        left |= {name: count for name, count in names.items() if count > NAMES_MAX}
        found = [f"{name} {value}" for name, value in left.items() if value]
        if not found or time.monotonic() > until:
            return [f"left behind by clients that left: {', '.join(found)}"] if found else []
        time.sleep(0.2)


_EMPTY: Final = (
    "messages_ready", "messages_in_flight", "connections", "consumers", "peers_paused",
    "producers_blocked", "peers_waiting_for_turn", "connections_being_closed",
    "queues_being_deleted",
)  # fmt: skip
_MEMORY: Final = ("unacknowledged", "transactions", "output", "input")
"""Figures of `daybook status` that are 0 when nobody is connected and what had a time expired."""


def _count(value: Any) -> int:
    return len(value) if isinstance(value, (list, dict)) else int(value)


def audited(broker: BrokerProcess) -> list[str]:
    """The findings of the audit and of the check of the journal."""
    found = []
    for command in (
        [DAYBOOK, "pipeline", "audit", "--data", str(broker.data), "--format", "json"],
        [JOURNAL, "verify", "--data", str(broker.data)],
    ):
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            found.append(f"{command[1]}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    return found


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="how long")
    parser.add_argument("--seed", type=int, help="what the clients do")
    parser.add_argument("--idle", type=int, default=IDLE, help="idle connections")
    parser.add_argument("--pace", type=float, default=8.0, help="acts of each kind in a second")
    parser.add_argument("--plot", type=Path, help="draw memory and open files into this PNG file")
    parser.add_argument("--samples", type=Path, help="write all samples into this JSON file")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.minutes} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="daybook-soak-") as folder:
        result = soak(
            Path(folder) / "data", arguments.minutes * 60, seed,
            idle=arguments.idle, pace=arguments.pace,
        )  # fmt: skip
    print(result.report())
    if arguments.samples is not None:
        arguments.samples.write_bytes(msgspec.json.encode(result.samples))
    if arguments.plot is not None:
        draw(result.samples, arguments.plot)
    print("\n".join(result.wrong) or "nothing was wrong")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
