"""Paths on a command line: checks before anything is opened."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

DATA_DEFAULT: Final = Path("data")
DATA_VARIABLE: Final = "DAYBOOK_DATA"


class PathThatIsNamed(click.Path):
    """A path; refuses an empty text, which an unset shell variable leaves."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty; leave it out, or name a path", param, ctx)
        return super().convert(value, param, ctx)


class DataId(click.ParamType[str]):
    """The id of a data directory."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it as it is written in files."""
        found = str(value).strip().lower()
        if not re.fullmatch(r"[0-9a-f]{32}", found):
            self.fail(
                f"{value!r} is not an id of a data directory: such an id has 32 hexadecimal "
                f"digits, as in the"
                " file data-id and in each anchor",
                param,
                ctx,
            )
        return found


DIRECTORY: Final = PathThatIsNamed(path_type=Path)


def chosen(ctx: click.Context, directory: Path | None, data: Path | None) -> Path:
    """Return the data directory of a command: the argument overrides the environment and the
    default.

    If both are given on the command line they must be the same. Raises click.UsageError.
    """
    given = ctx.get_parameter_source("data") is click.core.ParameterSource.COMMANDLINE
    if directory is not None and data is not None and given and directory != data:
        raise click.UsageError(
            f"the argument says {directory} and --data says {data}; name one data directory", ctx
        )
    return directory or data or DATA_DEFAULT


def all_chosen(directory: Path | None, named: Sequence[Path]) -> list[Path]:
    """Return the data directories of a command that takes several: the argument and those that are
    named by options, each once; without any, that of the environment, or the default."""
    given = dict.fromkeys([*([directory] if directory is not None else []), *named])
    by_environment = os.environ.get(DATA_VARIABLE)
    return list(given) or [Path(by_environment) if by_environment else DATA_DEFAULT]
