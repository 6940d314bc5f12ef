"""The demo of the pipeline: queries the history of a broker that was killed twice, in every way.

Run it with `python -m daybook.tools.demos.pipeline_demo` or `make pipeline-demo`. It shows each
command before running it. Exit code 0 if all results agree; without Java the steps on Spark are
skipped, and the demo reports that.
"""

import logging
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from daybook.client.control import ask
from daybook.tools.demos.demo import Broker, Demo, keep_option, orders_option, workplace
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import show_table

SMALL_SEGMENTS: Final = "journal.segment-bytes=64KiB"
"""Small, so that a demo of seconds has sealed segments."""
EXAMPLES: Final = Path(__file__).resolve().parents[2] / "docs" / "examples"
BY_KIND: Final = (
    "SELECT kind, count(*) AS events, min(lsn) AS first, max(lsn) AS last "
    "FROM events GROUP BY kind ORDER BY events DESC LIMIT 8"
)
BY_QUEUE: Final = (
    "SELECT queue, routed, delivered, returned, acknowledged, dead_lettered FROM queues "
    "ORDER BY routed DESC"
)


class Steps:
    """Commands run one after the other, and their results."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker: Final = broker
        self.folder: Final = folder
        self.data: Final = str(broker.data)
        self.parquet: Final = str(folder / "parquet")
        self.url: Final = f"stomp://guest:guest@127.0.0.1:{broker.port}"
        self.found: Final[list[tuple[str, str, bool]]] = []

    def run(self) -> None:
        """Run all steps. Raises Failure."""
        self._ask()
        self._archive()
        if shutil.which("java"):
            self._on_spark()
        else:
            click.echo("\nno Java: the steps on Spark are left out; install a JRE 17 or newer")
        self._replay()

    def _ask(self) -> None:
        show("journal", "sql", "--data", self.data, BY_KIND)
        show("journal", "sql", "--data", self.data, BY_QUEUE)
        show("daybook", "pipeline", "audit", "--data", self.data)
        show("daybook", "pipeline", "latency", "--data", self.data, "--out", self._in("latency"))
        show("python", str(EXAMPLES / "late_orders.py"), self.data)

    def _archive(self) -> None:
        """Archive the sealed segments as Parquet, verify them, and compare answers with the live
        journal."""
        show("daybook", "pipeline", "archive", "--data", self.data, "--to", self.parquet)
        show("daybook", "pipeline", "archive", "--to", self.parquet, "--verify")
        live = audit("--data", self.data)
        both = audit("--data", self.data, "--parquet", self.parquet)
        self._judge("audit over Parquet and journal, against the journal alone", live == both)

    def _on_spark(self) -> None:
        end = str(max(row["last"] for row in rows_of(self.data)))
        embedded = audit("--data", self.data, "--to", end)
        spark = audit("--data", self.data, "--to", end, "--engine", "spark")
        self._judge("audit on Spark, against DuckDB", embedded == spark)
        show("python", str(EXAMPLES / "spark_summary.py"), self.data, self.url)
        self._judge("a summary of each queue was published", self._waiting("summaries") > 0)
        stream = (str(EXAMPLES / "spark_stream.py"), self.data, self.url, self._in("checkpoint"))
        show("python", *stream)
        once = self._waiting("alerts")
        show("python", *stream)
        repeated = self._waiting("alerts") != once
        self._judge(f"{once:,} alerts were streamed, each once", once > 0 and not repeated)

    def _replay(self) -> None:
        """Send the orders of the first half again, twice under one name: each must arrive once."""
        replay = ("daybook", "pipeline", "replay", "--data", self.data, "--address", "orders")
        show(*replay, "--dry-run")
        again = (
            *("--url", self.url, "--into", "/queue/again", "--id", "demo"),
            *("--state", self._in("replay.json")),
        )
        show(*replay, *again)
        once = self._waiting("again")
        show(*replay, *again)
        self._judge(f"{once:,} orders were sent again, each once", self._waiting("again") == once)

    def _in(self, name: str) -> str:
        return str(self.folder / name)

    def _waiting(self, queue: str) -> int:
        """How many messages are in a queue."""
        answer = ask(self.broker.data, {"do": "queues"})
        if answer is None:
            raise Failure("the broker is gone")
        found = [each for each in answer["queues"] if each["queue"] == queue]
        return int(found[0]["messages"]) if found else 0

    def _judge(self, what: str, right: bool) -> None:
        self.found.append((what, "right" if right else "WRONG", right))


def _command(words: tuple[str, ...]) -> list[str]:
    modules = {
        "journal": ["-P", "-m", "daybook.tools.journal_cli"],
        "daybook": ["-P", "-m", "daybook"],
    }
    return [sys.executable, *modules.get(words[0], []), *words[1:]]


def show(*words: str) -> None:
    """Show a command and run it; raises Failure if it fails."""
    click.secho(f"\n$ {shlex.join(words)}", bold=True)
    sys.stdout.flush()
    code = subprocess.run(_command(words), check=False).returncode
    if code:
        raise Failure(f"{words[0]} {words[1]} ended with exit code {code}")


def told(*words: str) -> bytes:
    """Return the output of a command; raises Failure if it fails."""
    done = subprocess.run(_command(words), check=False, capture_output=True)
    if done.returncode:
        raise Failure(done.stderr.decode().strip() or f"{words[0]} {words[1]} failed")
    return done.stdout


def audit(*options: str) -> bytes:
    """Return the account of each queue."""
    return told("daybook", "pipeline", "audit", *options, "--queue", "orders", "--format", "json")


def rows_of(data: str) -> list[dict[str, Any]]:
    """Return the events by kind."""
    lines = told("journal", "sql", "--data", data, "--format", "jsonl", BY_KIND).splitlines()
    return [msgspec.json.decode(line) for line in lines]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@orders_option
@keep_option
def cli(orders: int, keep: Path | None) -> None:
    """Kill a broker twice under load, and ask its history with SQL, jobs and Spark."""
    # stomp.py reports every connection that breaks, and here they break on purpose.
    logging.disable(logging.CRITICAL)
    begun = time.perf_counter()
    with workplace(keep) as folder:
        data = (folder / "data").resolve()
        Demo(data, orders, lambda text: click.echo(f"- {text}"), (SMALL_SEGMENTS,)).run()
        broker = Broker(data, (SMALL_SEGMENTS,))
        broker.start()
        try:
            steps = Steps(broker, folder.resolve())
            steps.run()
        finally:
            broker.end()
    click.echo("")
    show_table(("what", ""), [row[:2] for row in steps.found], "do all ways agree?")
    click.echo(f"{time.perf_counter() - begun:.0f} s in all")
    if not all(right for *_, right in steps.found):
        sys.exit(EXIT_WRONG)


if __name__ == "__main__":
    cli(prog_name="make pipeline-demo")
