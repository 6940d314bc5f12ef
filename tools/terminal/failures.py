"""How the command lines report errors: with a sentence and an exit code, never with a traceback.

0: fine. 1: found something wrong. 2: wrong usage. 130: interrupted, without a message. If the
reader of the output closes it (`| head`), that is not an error and ends the command without a
message; an output that was closed from the start (`>&-`) is treated as /dev/null. Characters that
the encoding of the terminal lacks are escaped. Programming errors are not caught here.
"""

import codecs
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import click

from daybook.errors import DaybookError, describe
from daybook.journal.blocks.trust import BYTES_MAX, VARIABLE, limit_blocks
from daybook.tools.terminal.exit_codes import EXIT_BAD_USE, EXIT_INTERRUPTED, EXIT_WRONG

_ESCAPES: Final = "daybook-escapes"
"""The name of the registered handler for characters that cannot be encoded."""

STANDARD_OUTPUT: Final = "standard output"
_SUMMARY_MAX: Final = 1000
"""Longer than any first sentence: click cuts what does not fit into one line."""


class Failure(click.ClickException):
    """Something other than the usage is wrong: exit code 1."""

    exit_code = EXIT_WRONG


class Commands(click.Group):
    """A group of commands that turns errors of disks, peers and configurations into sentences.

    The commands in `places` (name, and place of the command as MODULE:NAME) are imported when they
    are called or described: so a command line starts without the packages of other commands.
    """

    def __init__(self, *args: Any, places: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._places: Final = dict(places or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._places and cmd_name not in self.commands:
            module, _, name = self._places[cmd_name].partition(":")
            try:
                self.add_command(getattr(importlib.import_module(module), name), cmd_name)
            except KeyboardInterrupt:
                # No work has begun; click would print an empty line.
                sys.exit(EXIT_INTERRUPTED)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their whole first sentences, in as many lines as they take."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(limit=_SUMMARY_MAX))
            for name, command in found
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            failure = _as_failure(ctx, error)
            if failure is None:
                raise
            raise failure from error


def _as_failure(ctx: click.Context, error: Exception) -> click.ClickException | None:
    """Return the message for an error; None for programming errors."""
    # Slow to import, and only needed when something fails.
    from daybook.server.configuration.config import ConfigError  # noqa: PLC0415

    if isinstance(error, ConfigError):
        return _bad_use(ctx, str(error))
    if isinstance(error, DaybookError):
        return Failure(str(error))
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            _close_stdout()
            ctx.exit(0)
        return Failure(describe(error))
    return None


class Output(io.TextIOWrapper):
    """Standard output whose errors name it: those of the operating system name no file."""

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
    """Run a command line and exit. The reader may also be gone when the last output is flushed."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_standard_files()
    _name_standard_output()
    limit_blocks(_bytes_max(os.environ.get(VARIABLE, "")))
    code = EXIT_INTERRUPTED
    try:
        code = _carry_out(group, name)
    except (KeyboardInterrupt, click.Abort):
        # Output that was not printed yet is useless without its end.
        _close_stdout()
    refused = _refused_output()
    if refused:
        click.echo(f"Error: {refused}", err=True)
        code = EXIT_WRONG
    sys.exit(code)


def _bytes_max(given: str) -> int:
    """Return the limit on the size of a block from the environment."""
    if not given:
        return BYTES_MAX
    if not given.isascii() or not given.isdigit():
        click.echo(f"Error: {VARIABLE} is {given!r}; it must be a number of bytes", err=True)
        sys.exit(EXIT_BAD_USE)
    return int(given)


def _carry_out(group: click.Group, name: str) -> int:
    """Run the requested command and return its exit code. Raises click.Abort."""
    try:
        code = group.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return code if isinstance(code, int) else 0


def _open_standard_files() -> None:
    """Open standard files that the caller closed, as /dev/null.

    Otherwise the next opened file, perhaps a segment, would get the number of standard output.
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
    encoding, by_line = stream.encoding, stream.line_buffering
    sys.stdout = Output(stream.detach(), encoding, _ESCAPES, line_buffering=by_line)


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Escape characters that an encoding lacks as JSON and Python do; keep bytes that were no text.

    JSON stays JSON in any locale: a character beyond the first 65,536 becomes two escapes.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    written = bytearray()
    for each in error.object[error.start : error.end]:
        number = ord(each)
        if 0xDC80 <= number <= 0xDCFF:
            written.append(number - 0xDC00)
        elif number < 0x10000:
            written += b"\\u%04x" % number
        else:
            number -= 0x10000
            written += b"\\u%04x\\u%04x" % (0xD800 + (number >> 10), 0xDC00 + (number & 0x3FF))
    return bytes(written), error.end


codecs.register_error(_ESCAPES, _escape)


def _refused_output() -> str:
    """Try to print the remaining output; return the error of standard output, "" without one."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
    except OSError as error:
        _close_stdout()
        return describe(error)
    return ""


def _close_stdout() -> None:
    """Discard the remaining output without a message."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _bad_use(ctx: click.Context, text: str) -> click.UsageError:
    problem = click.UsageError(text)
    problem.ctx = None  # The usage line would not help: the problem is in a file or in a value.
    assert problem.exit_code == EXIT_BAD_USE
    return problem
