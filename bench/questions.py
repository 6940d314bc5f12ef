"""How long the questions of docs/forensics.md take: `python -m bench.questions SHOP`.

Runs each command of the section on the history that `bench.incident` made, as a user would: a new
process each. The page asks about moments of nine hours; of a shorter history they are the moments
at the same parts of it. Prints a table of elapsed seconds, processor seconds and the peak of
memory. Fault model: a command that fails ends the run with its output.
"""

import os
import re
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import click

from bench.incident import BEGIN_US
from bench.load.frames import LoadError
from daybook.engine.facts.events import TIME
from daybook.history.event_finder import EventFinder
from daybook.history.moments import last_lsn
from daybook.journal.data_directory import JOURNAL
from daybook.journal.disk import RealDisk
from daybook.journal.segments.segment import first_lsn_of

PAGE: Final = Path(__file__).absolute().parent.parent / "docs" / "forensics.md"
SECTION: Final = "## Questions of an incident"
_QUESTION: Final = re.compile(r"^\*\*(.*?)\*\*.*?^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MOMENT: Final = re.compile(r"(2023-11-1[45])([T ])(\d\d:\d\d)")
_ORDER: Final = re.compile(r"order=(\d+)")
BEGIN: Final = datetime.fromtimestamp(BEGIN_US // 1_000_000, UTC)
LENGTH: Final = timedelta(hours=9)
EVENTS: Final = 100_000_000
"""When the history of the page begins, how long it is, and how many events it has."""
KIB: Final = 1024
MICROSECONDS: Final = 1_000_000


class Span(NamedTuple):
    """When a history begins and ends, and how many events it has."""

    begin: datetime
    end: datetime
    events: int


class Answered(NamedTuple):
    """A question, and the cost of its answer: seconds, processor seconds, and MiB at most."""

    question: str
    seconds: float
    processor: float
    mib: float


def questions() -> list[tuple[str, str]]:
    """Return the questions of the page, and their commands."""
    return _QUESTION.findall(PAGE.read_text("utf-8").partition(SECTION)[2])


def span_of(data: Path) -> Span:
    """Return the span of the history in a data directory. Raises JournalError, LoadError."""
    disk = RealDisk(data / JOURNAL)
    found = [EventFinder(disk).at(lsn) for lsn in (first_lsn_of(disk), last_lsn(disk))]
    times = [event.row[TIME] / MICROSECONDS for event in found if event is not None]
    if len(times) < len(found):
        raise LoadError(f"the journal in {data} has no events")
    begin, end = (datetime.fromtimestamp(each, UTC) for each in times)
    return Span(begin, end, last_lsn(disk))


def fitted(command: str, span: Span) -> str:
    """Return a command of the page with moments, and orders, that a history has."""
    newest = max((_moment(*each) for each in _MOMENT.findall(command)), default=BEGIN)
    part = min((span.end - span.begin) / LENGTH, 1.0)
    of_events = min(span.events / EVENTS, 1.0)

    def moment(found: re.Match[str]) -> str:
        there = span.begin + (_moment(*found.groups()) - BEGIN) * part
        return there.replace(tzinfo=None).isoformat(found[2], "milliseconds")

    command = _MOMENT.sub(moment, command) if newest > span.end else command
    return _ORDER.sub(lambda found: f"order={int(int(found[1]) * of_events)}", command)


def _moment(day: str, _: str, minute: str) -> datetime:
    return datetime.fromisoformat(f"{day}T{minute}").replace(tzinfo=UTC)


def ask(question: str, command: str, folder: Path) -> Answered:
    """Run a command in a folder. Raises LoadError if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    begin = time.perf_counter()
    shell = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert shell.stdout is not None
    with shell.stdout:
        said = shell.stdout.read()
    _, status, used = os.wait4(shell.pid, 0)
    shell.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    if status:
        raise LoadError(f"{question} {said[-2000:]}")
    return Answered(question, seconds, _processor(used), used.ru_maxrss / KIB)


def _processor(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


@click.command()
@click.argument("shop", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(shop: Path) -> None:
    """Ask every question of SHOP, a directory of that name."""
    if shop.absolute().name != "shop":
        raise click.UsageError("the page calls the directory 'shop', so it must have that name")
    click.echo("| question | seconds | processor seconds | MiB |\n|---|---|---|---|")
    span = span_of(shop)
    for question, command in questions():
        done = ask(question, fitted(command, span), shop.absolute().parent)
        click.echo(
            f"| {done.question} | {done.seconds:.1f} | {done.processor:.1f} | {done.mib:,.0f} |"
        )


if __name__ == "__main__":
    main()
