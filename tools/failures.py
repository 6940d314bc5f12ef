"""How the command lines end: with a sentence and an exit code, never with a traceback.

0: fine. 1: found something wrong. 2: bad use. A reader that goes away (`| head`) is no mistake and
ends the command in silence. Mistakes of our own code are not caught here.
"""

import errno
import os
import sys
from traceback import extract_tb
from typing import Any, Final, NoReturn

import click

from engine.apply import MisfitError
from journal.errors import JournalError
from journal.format import Damage
from recovery.directory import RecoveryError
from recovery.fold import FoldError
from server.config import ConfigError
from server.users import UsersError

EXIT_WRONG: Final = 1
EXIT_BAD_USE: Final = 2


SENTENCES: Final = (JournalError, Damage, RecoveryError, FoldError, MisfitError, UsersError)
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


def run(group: click.Group, name: str) -> NoReturn:
    """Run a command line and exit. Also what is printed last may meet a reader that is gone."""
    try:
        group.main(prog_name=name)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
    raise AssertionError("click ends by SystemExit")


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
    """An error of the operating system as a sentence, with the path or the place it is about."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename:
        return f"{error.filename}: {reason}"
    frames = extract_tb(error.__traceback__)
    return f"{reason} (in {frames[-1].filename}, line {frames[-1].lineno})" if frames else reason
