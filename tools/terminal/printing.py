"""Tables and progress bars on a terminal, plain text otherwise, JSON for programs.

On a terminal that is too narrow for a table, optional columns are omitted, with a note that names
them; if that is not enough, each row is printed as a card.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec

from daybook.texts import printable

PADDED_MOST: Final = 40
"""Plain text is padded at most to this width: one long name must not widen every line."""


def print_line(text: str) -> None:
    """Print one of many lines: unlike `click.echo` it does not flush each."""
    sys.stdout.write(for_output(text) + "\n")


def show_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(for_output(msgspec.json.encode(value).decode()))


def show_json_pretty(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(for_output(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def dim_with_kind(text: str) -> str:
    """Return a line of `journal inspect` or `journal trail`, on a terminal with the kind in
    colour."""
    if not sys.stdout.isatty():
        return text
    head, kind, rest = text[:38], text[38:60], text[60:]
    return click.style(head, dim=True) + click.style(kind, fg="cyan") + rest


def for_output(text: str) -> str:
    """Return text for standard output: unchanged, or with escapes if that is a terminal.

    Peers choose bodies and names, and terminals obey control characters and reorder text for
    bidirectional ones. Escaped as in JSON, so that JSON stays valid.
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

    Texts are shown as they are, with escapes for characters that cannot be printed.
    """
    texts = [[shown(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows)
        for column in range(len(headings))
    ]
    if sys.stdout.isatty():
        from daybook.tools.terminal.terminal_tables import show_on_terminal  # noqa: PLC0415 (slow to import)

        show_on_terminal(headings, texts, numeric, title, optional)
    else:
        _show_plain(headings, texts, numeric, title)


def shown(value: Any) -> str:
    """Return a value as shown in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return printable(str(value))


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


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error if it is a terminal; yield a function that takes the amount
    done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console  # noqa: PLC0415 (slow to import)
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )  # fmt: skip

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    console = Console(stderr=True)
    # The bar disappears when the work is done: one that stays at some percent would be wrong.
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        task = bars.add_task(label, total=total)
        yield lambda done: bars.update(task, completed=done)
