"""The demo: a real broker, real clients, two kill -9 in the middle, and a table of the results.

Run it with `python -m daybook.tools.demos.demo` or `make demo`. Exit code 0 if no message was lost
or invented, 1 if any number is wrong.
"""

import logging
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from daybook.client.control import ControlError, ask
from daybook.tools.demos.demo_clients import Client, Consumer, Desk, Ledger, Producer
from daybook.tools.demos.demo_proof import History, Row, as_objects, judge
from daybook.tools.terminal.exit_codes import EXIT_WRONG
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.printing import show_json, show_table

PRODUCERS: Final = 4
CONSUMERS: Final = 4
DIES_AFTER: Final = 150
WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.01


class Broker:
    """A broker process on a data directory; may be killed and started again."""

    def __init__(self, data: Path, settings: tuple[str, ...] = ()) -> None:
        """`settings` are KEY=VALUE, as for `daybook serve --set`."""
        self.data: Final = data
        self.port = 0
        self._settings: Final = settings
        self._process: subprocess.Popen[str] | None = None
        self._log: Final = data.parent / "broker.log"

    def start(self) -> None:
        """Start, and wait until it accepts connections. Raises Failure."""
        command = [
            sys.executable, "-P", "-m", "daybook", "serve", "--data", str(self.data),
            "--listen", f"stomp://127.0.0.1:{self.port}",
        ]  # fmt: skip
        command += [word for setting in self._settings for word in ("--set", setting)]
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=_root()
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready"):
            log_text = self._log.read_text("utf-8")
            raise Failure(f"the broker did not start; its log:\n{log_text}")
        self.port = int(line.split()[1].rpartition(":")[2])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        """Stop it cleanly; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=WAIT_SECONDS)
        return self._process.returncode

    def messages(self) -> int:
        """How many messages are in its queues, ready or in flight."""
        try:
            status = ask(self.data, {"do": "status"})
        except ControlError as error:
            raise Failure(f"the broker does not answer: {error}") from error
        if status is None:
            raise Failure("the broker is gone")
        return int(status["messages_ready"]) + int(status["messages_in_flight"])

    def end(self) -> None:
        """Make sure that no process is left running."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


def _root() -> Path:
    return Path(__file__).resolve().parents[2]


def wait_until(what: str, condition: Callable[[], bool], clients: list[Client]) -> None:
    """Wait for a condition. Raises Failure when it takes too long or a client failed."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        broken = [client.failure for client in clients if client.failure]
        if broken:
            raise Failure("a client of the demo failed: " + "; ".join(broken))
        if time.monotonic() > deadline:
            raise Failure(f"waited {WAIT_SECONDS:.0f} s without success until {what}")
        time.sleep(POLL_SECONDS)


class Demo:
    """One run, from the first order to the table."""

    def __init__(
        self,
        data: Path,
        orders: int,
        say: Callable[[str], None],
        settings: tuple[str, ...] = (),
    ) -> None:
        self.broker: Final = Broker(data, settings)
        self.ledger: Final = Ledger()
        self._orders: Final = orders
        self._say: Final = say
        self._clients: list[Client] = []

    def run(self) -> None:
        """Send, kill twice, drain, stop. Raises Failure."""
        try:
            self._run()
        finally:
            for client in self._clients:
                client.stopping.set()
            self.broker.end()

    def _run(self) -> None:
        self.broker.start()
        self._say(f"a broker runs on stomp://127.0.0.1:{self.broker.port}, journal in "
                  f"{self.broker.data}")  # fmt: skip
        producers, consumers, desk = self._make_clients()
        self._clients = [*producers, *consumers, desk]
        for client in self._clients:
            client.thread.start()
        self._say(
            f"{PRODUCERS} producers send {self._orders:,} orders; {CONSUMERS} consumers "
            "acknowledge, reject and die; a review desk holds its orders"
        )
        for thirds in (1, 2):
            self._crash(thirds * self._orders // 3)
        wait_until(
            "all orders are sent", lambda: all(each.done for each in producers), self._clients
        )
        desk.finish()
        self._say("all orders are sent; draining")
        wait_until("all queues are empty", lambda: self.broker.messages() == 0, self._clients)
        self._part(consumers, desk)
        code = self.broker.stop()
        if code:
            raise Failure(f"the broker stopped with exit code {code}")

    def _make_clients(self) -> tuple[list[Producer], list[Consumer], Desk]:
        port, ledger = self.broker.port, self.ledger
        producers = [
            Producer(f"producer-{each}", port, ledger, range(each, self._orders, PRODUCERS))
            for each in range(PRODUCERS)
        ]
        consumers = [
            # The first one never dies, so that there is always a consumer.
            Consumer(f"consumer-{each}", port, ledger, dies_after=DIES_AFTER * each)
            for each in range(CONSUMERS)
        ]
        return producers, consumers, Desk("desk", port, ledger)

    def _crash(self, after: int) -> None:
        """Kill the broker when this many orders have their receipts, and start it again."""
        ledger = self.ledger
        wait_until(
            f"{after} orders have receipts",
            lambda: ledger.count(lambda order: order.receipted) >= after,
            self._clients,
        )
        self.broker.kill()
        receipts = ledger.count(lambda order: order.receipted)
        begun = time.perf_counter()
        self.broker.start()
        self._say(
            f"kill -9 after {receipts:,} receipts; serving again after "
            f"{time.perf_counter() - begun:.2f} s"
        )

    def _part(self, consumers: list[Consumer], desk: Desk) -> None:
        """Close the consumers; the receipts of their last acks come before they are gone."""
        for client in (*consumers, desk):
            client.stopping.set()
            with client.changed:
                client.changed.notify_all()
            client.thread.join(WAIT_SECONDS)


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """A new directory, kept only if asked for. Raises Failure if it is not empty."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="daybook-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise Failure(f"{keep} is not empty; name a directory that is, or that does not exist")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


orders_option = click.option(
    "--orders", type=click.IntRange(400), default=4000, show_default=True
)  # fmt: skip
keep_option = click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Work in this directory and keep it for inspection.",
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@orders_option
@keep_option
@click.option("--json", "as_json", is_flag=True, help="Print the table alone, for programs.")
def cli(orders: int, keep: Path | None, as_json: bool) -> None:
    """Kill a broker twice under load, and prove that nothing was lost or invented."""  # fmt: skip
    # stomp.py reports every connection that breaks, and here they break on purpose.
    logging.disable(logging.CRITICAL)
    begun = time.perf_counter()
    with workplace(keep) as folder:
        data = (folder / "data").resolve()
        demo = Demo(data, orders, lambda text: None if as_json else click.echo(f"- {text}"))
        demo.run()
        history = History(data)
        rows = judge(demo.ledger, history)
        if as_json:
            show_json(as_objects(rows))
            right = all(row.right for row in rows)
        else:
            right = _show(rows, history, data)
            click.echo(f"{time.perf_counter() - begun:.0f} s in all")
    if not right:
        click.echo("something is wrong; `--keep DIR` keeps the journal for inspection", err=True)
        sys.exit(EXIT_WRONG)


def _show(rows: list[Row], history: History, data: Path) -> bool:
    click.echo("")
    show_table(
        ("what", "number", ""),
        [(row.what, row.value, _mark(row)) for row in rows],
        "the records of the clients, compared with the journal",
    )
    survivor = history.survivor()
    if survivor is None:
        click.echo("no message lived through both crashes, so the demo proved nothing")
        return False
    click.echo(f"\njournal trail {survivor}: a message that lived through both crashes")
    told = _journal("trail", "--data", str(data), str(survivor))
    click.echo("\njournal verify")
    verified = _journal("verify", "--data", str(data))
    return told and verified and all(row.right for row in rows)


def _mark(row: Row) -> str:
    if row.must is None:
        return ""
    return "right" if row.right else f"WRONG, must be {row.must}"


def _journal(*arguments: str) -> bool:
    sys.stdout.flush()
    command = [sys.executable, "-P", "-m", "daybook.tools.journal_cli", *arguments]
    return subprocess.run(command, check=False, cwd=_root()).returncode == 0


if __name__ == "__main__":
    cli(prog_name="make demo")
