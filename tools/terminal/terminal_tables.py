"""Tables on a terminal: in its full width, with fewer columns, or as a card for each row."""

from collections.abc import Sequence

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from daybook.tools.terminal.layout import (
    LINES_MOST,
    NARROW_SPACING,
    SPACING,
    fit,
    folded,
    shortened,
)


def show_on_terminal(
    headings: Sequence[str],
    texts: list[list[str]],
    numeric: list[bool],
    title: str,
    optional: Sequence[str],
) -> None:
    """Print a table of texts in a form that fits; columns in `optional` may be omitted."""
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
    roomy = sum(widths) + SPACING * (len(widths) - 1) <= console.width
    table = Table(
        title=title or None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, (SPACING if roomy else NARROW_SPACING) - 1, 0, 0),
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
    """Print each row as a paragraph of its own, with a line for each column."""
    if title:
        console.print(Text(title, style="italic"))
    margin = max(len(heading) for heading in headings) + SPACING
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
