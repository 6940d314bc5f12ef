"""How long the trail of a message takes: `python -m bench.trails DATA --header order`.

Draws messages from anywhere in a history and asks `journal trail` for each, by its id and by the
value of one of its headers: the same command as a user's, in this process, with all that it opens,
reads and prints, and without the start of an interpreter. Prints milliseconds of the clock and of
the processor. Fault model: an answer that fails ends the run with its output.
"""

import random
import time
from pathlib import Path
from typing import Final

import click
from click.testing import CliRunner

from bench.load.frames import LoadError
from bench.load.honest import percentile
from daybook.engine.facts.events import KIND, MESSAGE, ROUTED
from daybook.engine.messages.headers import first
from daybook.history.event_finder import EventFinder
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.tools.journal_cli import trail_command

SEED: Final = 15
SHARES: Final = (
    (0.5, "half within"), (0.95, "95 % within"), (0.99, "99 % within"), (1.0, "all within"),
)  # fmt: skip


def drawn(data: Path, count: int, header: str) -> list[tuple[int, str]]:
    """Draw messages that have a header: ids, and values of the header.

    One with more events is drawn more often. Raises LoadError.
    """
    disk = RealDisk(data / JOURNAL)
    newest = last_lsn(disk)
    chance = random.Random(SEED)
    found: list[tuple[int, str]] = []
    for _ in range(100 * count):
        event = EventFinder(disk).at(chance.randint(1, newest))
        if event is None or not event.row[MESSAGE]:
            continue
        routed = EventFinder(disk).at(event.row[MESSAGE])
        if routed is None or routed.row[KIND] != ROUTED:
            continue
        value = first(routed.headers, header)
        if value is not None:
            found.append((routed.lsn, value))
        if len(found) == count:
            return found
    raise LoadError(f"fewer than {count} messages drawn from {data} have the header '{header}'")


def ask(words: list[str]) -> tuple[float, float]:
    """Ask for a trail; return milliseconds of the clock and of the processor. Raises LoadError."""
    begin, used = time.perf_counter(), time.process_time()
    answer = CliRunner().invoke(trail_command, words)
    taken = time.perf_counter() - begin, time.process_time() - used
    if answer.exit_code:
        raise LoadError(f"journal trail {' '.join(words)}: {answer.output[-2000:]}")
    return taken[0] * 1000, taken[1] * 1000


def report(how: str, taken: list[tuple[float, float]]) -> None:
    """Print how long the answers took, by the clock and by the processor."""
    clock, processor = zip(*taken, strict=True)
    for name, times in (("clock", clock), ("processor", processor)):
        told = ", ".join(
            f"{what} {percentile(list(times), share):.0f} ms" for share, what in SHARES
        )
        click.echo(f"by {how}, {len(times)} trails, {name}: {told}")


@click.command()
@click.argument("data", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--header", default="order", show_default=True, help="A header that messages have.")
@click.option("--count", type=click.IntRange(1), default=200, show_default=True)
def main(data: Path, header: str, count: int) -> None:
    """Time trails of messages of DATA, which must have catalogs (`journal catalog`)."""
    try:
        asked = drawn(data, count, header)
        by_id = [[str(data), str(message)] for message, _ in asked]
        by_header = [[str(data), "--header", f"{header}={value}"] for _, value in asked]
        # The first one imports the modules of the others.
        ask(by_id[0])
        report("message id", list(map(ask, by_id)))
        report(f"header {header}", list(map(ask, by_header)))
    except LoadError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
