"""Tables and progress bars on a terminal, plain text otherwise, JSON for programs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def print_line(text: str) -> None:
    """Print one of very many lines: unlike `click.echo` it does not flush each."""
    sys.stdout.write(text + "\n")


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(msgspec.json.encode(value).decode())


def show_json_pretty(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_table(headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table; numbers are set to the right."""
    texts = [[shown(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(headings))
    ]
    if sys.stdout.isatty():
        _show_rich(headings, texts, numeric, title)
    else:
        _show_plain(headings, texts, numeric, title)


def shown(value: Any) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return str(value)


def _show_rich(
    headings: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str
) -> None:
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)
    for heading, right in zip(headings, numeric, strict=True):
        justify: JustifyMethod = "right" if right else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=right)
    for row in texts:
        # Text, not markup: a queue may be called [bold].
        table.add_row(*[Text(text) for text in row])
    Console().print(table)


def _show_plain(
    headings: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str
) -> None:
    if title:
        click.echo(title)
    lines = [list(headings), *texts]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal; yields what is told the amount done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        task = bars.add_task(label, total=total)
        yield lambda done: bars.update(task, completed=done)
