"""Options of several benchmarks, and types of options: lists of names and of numbers."""

import tempfile
from pathlib import Path

import click

from bench.brokers.targets import TARGETS


class Names(click.ParamType["tuple[str, ...]"]):
    """A comma-separated list of names out of a fixed set."""

    name = "names"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        """Allow only the names in `allowed`."""
        self._allowed = allowed

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split and check the list; part of click's interface."""
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        for name in names:
            if name not in self._allowed:
                self.fail(f"{name!r} is not one of {', '.join(self._allowed)}", param, ctx)
        if not names:
            self.fail(f"give at least one of {', '.join(self._allowed)}", param, ctx)
        return tuple(dict.fromkeys(names))


class Counts(click.ParamType["tuple[int, ...]"]):
    """A comma-separated list of whole numbers from 0 to a limit."""

    name = "numbers"

    def __init__(self, limit: int) -> None:
        """Allow no number above `limit`."""
        self._limit = limit

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Split and check the list; part of click's interface."""
        texts = [text.strip() for text in str(value).split(",") if text.strip()]
        for text in texts:
            if not (text.isascii() and text.isdigit() and int(text) <= self._limit):
                self.fail(f"{text!r} is not a number from 0 to {self._limit}", param, ctx)
        if not texts:
            self.fail(f"give at least one number from 0 to {self._limit}", param, ctx)
        return tuple(dict.fromkeys(map(int, texts)))


def other_versions(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Read NAME=PYTHON of other versions of Daybook."""
    found = []
    for value in values:
        name, equals, python = value.partition("=")
        if not name or not equals or not python or name in TARGETS:
            raise click.BadParameter(f"{value!r} is no NAME=PYTHON with a name of its own")
        found.append((name, python))
    return tuple(found)


python_option = click.option("--python", help="Interpreter whose installed Daybook is measured.")
also_option = click.option(
    "--also",
    multiple=True,
    callback=other_versions,
    metavar="NAME=PYTHON",
    help="Another version of Daybook, installed with this interpreter; may be repeated.",
)
data_option = click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(tempfile.gettempdir()),
    help="Where data directories are made: the disk that is measured.",
)
