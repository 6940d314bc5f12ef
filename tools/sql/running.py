"""Running `journal sql`: one question, or a shell. Imports Arrow and DuckDB."""

import re
import sys
from pathlib import Path
from typing import Final

import click
import duckdb
import msgspec

from daybook.pipeline.engines import History
from daybook.pipeline.planning import Source
from daybook.pipeline.selection import SelectionError
from daybook.pipeline.sql.asking import Asking
from daybook.pipeline.sql.errors import SqlError, explained
from daybook.tools.sql.output import write
from daybook.tools.terminal.exit_codes import EXIT_BAD_USE


class Request(msgspec.Struct, frozen=True):
    """The options of `journal sql`; without a question it starts the shell."""

    data: str
    archive: str
    parquet: str
    question: str
    form: str
    output: Path | None
    limit: int | None
    memory: int


INTERRUPTED: Final = re.compile("KeyboardInterrupt|interrupted", re.IGNORECASE)
"""The text of DuckDB's error if Ctrl-C came while it called this program."""


class BadQuestion(click.ClickException):
    """A question that cannot be answered: wrong usage, but the usage line would not help."""

    exit_code = EXIT_BAD_USE


def run(request: Request, text: str) -> None:
    """Answer the question of the request, else the one in the text; without any, run the shell.

    Raises BadQuestion for a question that cannot be answered, JournalError, OSError and
    KeyboardInterrupt.
    """
    history = History(Source(request.data, request.archive), request.parquet)
    question = request.question or text
    try:
        with Asking(history, request.memory) as asking:
            if question:
                with asking.answer(question) as answer:
                    write(answer, request.form, request.output, request.limit)
            else:
                # Imported here because it needs packages that questions do not.
                from daybook.tools.sql.shell import Shell  # noqa: PLC0415

                Shell(asking, request.form, request.output, request.limit).run()
    except duckdb.Error as error:
        if INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from error
        raise BadQuestion(explained(error)) from error
    except (SqlError, SelectionError) as error:
        raise BadQuestion(str(error)) from error
    finally:
        sys.stdout.flush()
