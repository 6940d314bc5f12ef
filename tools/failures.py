"""How the command lines end: with a sentence and an exit code, never with a traceback.

0: fine. 1: found something wrong. 2: bad use. A reader that goes away (`| head`) is no mistake and
ends the command in silence; one that never was (`>&-`) is like /dev/null. Mistakes of our own code
are not caught here.
"""

import errno
import io
import os
import sys
from typing import Any, Final, NoReturn

import click

from engine.apply import MisfitError
from engine.queues import StoreError
from journal.errors import JournalError
from journal.format import Damage
from paging.base import BaseDamaged
from paging.tables import IndexDamaged, IndexUnwritable
from recovery.directory import RecoveryError
from recovery.fold import FoldError
from server.config import ConfigError
from server.users import UsersError

EXIT_WRONG: Final = 1
EXIT_BAD_USE: Final = 2
STANDARD_OUTPUT: Final = "standard output"


SENTENCES: Final = (
    JournalError, Damage, RecoveryError, FoldError, MisfitError, UsersError, BaseDamaged,
    IndexDamaged, IndexUnwritable, StoreError,
)  # fmt: skip
"""Errors whose text says what, where, and what would be right."""


class Failure(click.ClickException):
    """Something is wrong that is not the user's way of calling: exit code 1."""

    exit_code = EXIT_WRONG


class Commands(click.Group):
    """A group of commands that turns what disks, peers and configurations do into sentences."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise _bad_use(ctx, str(error)) from error
        except SENTENCES as error:
            raise Failure(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                _close_stdout()
                ctx.exit(0)
            raise Failure(describe(error)) from error


class Output(io.TextIOWrapper):
    """Standard output whose errors say so: those of the operating system name no file."""

    def write(self, text: str) -> int:
        """Write as the base class does. Raises OSError."""
        try:
            return super().write(text)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise

    def flush(self) -> None:
        """Flush as the base class does. Raises OSError."""
        try:
            super().flush()
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def run(group: click.Group, name: str) -> NoReturn:
    """Run a command line and exit. Also what is printed last may meet a reader that is gone."""
    _open_standard_files()
    _name_standard_output()
    try:
        group.main(prog_name=name)
    finally:
        refused = _refused_output()
        if refused:
            click.echo(f"Error: {refused}", err=True)
            sys.exit(EXIT_WRONG)
    raise AssertionError("click ends by SystemExit")


def _open_standard_files() -> None:
    """Have what was closed by the caller lead nowhere.

    Else the next file that is opened, a segment perhaps, would get the number of standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == number, f"{os.devnull} was opened as {opened} instead of {number}"
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _name_standard_output() -> None:
    stream = sys.stdout
    assert isinstance(stream, io.TextIOWrapper)
    encoding, errors, by_line = stream.encoding, stream.errors, stream.line_buffering
    sys.stdout = Output(stream.detach(), encoding, errors, line_buffering=by_line)


def _refused_output() -> str:
    """Try to print what is left; what is wrong with standard output, "" if nothing is."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
    except OSError as error:
        _close_stdout()
        return describe(error)
    return ""


def _close_stdout() -> None:
    """Have what is still to be printed go nowhere, in silence."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _bad_use(ctx: click.Context, text: str) -> click.UsageError:
    problem = click.UsageError(text)
    problem.ctx = None  # The usage line would not help: the problem is in a file or in a value.
    assert problem.exit_code == EXIT_BAD_USE
    return problem


def describe(error: OSError) -> str:
    """An error of the operating system as a sentence, with the path that it is about if known."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
