"""Tables and progress bars on a terminal, plain text otherwise, JSON for programs.

A terminal that is too narrow for a table gets one with fewer columns, if some can be done without
and it is said which, else a card for each row. Nothing is left out in silence.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from daybook.tools.layout import GAP, LINES_MOST, NARROW_GAP, fit, folded, shortened
from daybook.tools.story import printable

PADDED_MOST: Final = 40
"""Plain text is not padded beyond this: one long name must not widen every line."""


def print_line(text: str) -> None:
    """Print one of very many lines: unlike `click.echo` it does not flush each."""
    sys.stdout.write(for_output(text) + "\n")


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(for_output(msgspec.json.encode(value).decode()))


def show_json_pretty(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(for_output(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def for_output(text: str) -> str:
    """Text for standard output: as it is, or harmless where that is a terminal.

    Peers choose bodies and names, and terminals obey control characters and change the order of
    what is shown for bidirectional ones. Escaped as in JSON, so that JSON stays what it is.
    """
    if not sys.stdout.isatty() or all(map(str.isprintable, text.split("\n"))):
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text
    )


def _escaped(character: str) -> str:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))


def show_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    optional: Sequence[str] = (),
) -> None:
    """Print a table; numbers are set to the right. A narrow terminal may omit `optional` columns.

    Texts are shown as they are, so whatever is not printable in them is escaped.
    """
    texts = [[shown(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(headings))
    ]
    if sys.stdout.isatty():
        _show_on_terminal(headings, texts, numeric, title, optional)
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
    return printable(str(value))


def _show_on_terminal(
    headings: Sequence[str],
    texts: list[list[str]],
    numeric: list[bool],
    title: str,
    optional: Sequence[str],
) -> None:
    console = Console()
    widths = fit(headings, texts, numeric, console.width)
    if widths is not None:
        _show_rich(console, headings, texts, numeric, title, widths)
        return
    kept = [at for at, heading in enumerate(headings) if heading not in optional]
    fewer = [headings[at] for at in kept]
    fewer_texts = [[row[at] for at in kept] for row in texts]
    fewer_numeric = [numeric[at] for at in kept]
    widths = fit(fewer, fewer_texts, fewer_numeric, console.width)
    if widths is None:
        _show_cards(console, headings, texts, title)
        return
    _show_rich(console, fewer, fewer_texts, fewer_numeric, title, widths)
    click.echo(
        f"not shown, because the terminal is narrow: {', '.join(optional)}; --json prints all",
        err=True,
    )


def _show_rich(
    console: Console,
    headings: Sequence[str],
    texts: list[list[str]],
    numeric: list[bool],
    title: str,
    widths: list[int],
) -> None:
    roomy = sum(widths) + GAP * (len(widths) - 1) <= console.width
    table = Table(
        title=title or None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, (GAP if roomy else NARROW_GAP) - 1, 0, 0),
    )
    for heading, right, width in zip(headings, numeric, widths, strict=True):
        justify: JustifyMethod = "right" if right else "left"
        table.add_column(heading, justify=justify, overflow="fold", width=width)
    for row in texts:
        # Text, not markup: a queue may be called [bold].
        cells = zip(row, widths, strict=True)
        table.add_row(*[Text(shortened(text, LINES_MOST * width)) for text, width in cells])
    console.print(table)


def _show_cards(
    console: Console, headings: Sequence[str], texts: list[list[str]], title: str
) -> None:
    """Each row as a paragraph of its own, a line for each column."""
    if title:
        console.print(Text(title, style="italic"))
    margin = max(len(heading) for heading in headings) + GAP
    room = max(console.width - margin, 1)
    for position, row in enumerate(texts):
        if position:
            console.print()
        for heading, text in zip(headings, row, strict=True):
            first, *more = folded(text, room)
            line = Text(heading.ljust(margin), style="bold").append(Text(first, style="not bold"))
            for each in more:
                line.append("\n" + " " * margin + each, style="not bold")
            console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _show_plain(
    headings: Sequence[str], texts: list[list[str]], numeric: list[bool], title: str
) -> None:
    if title:
        click.echo(title)
    lines = [list(headings), *texts]
    widths = [
        min(max(len(line[column]) for line in lines), PADDED_MOST)
        for column in range(len(headings))
    ]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def adding_up(told: Callable[[int], None]) -> Callable[[int], None]:
    """Make of who is told an amount done one who is told what came to it."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        told(done)

    return advance


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal; yields what is told the amount done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    # It goes when the work is done: a bar that stands at some percent would be a lie.
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        task = bars.add_task(label, total=total)
        yield lambda done: bars.update(task, completed=done)
