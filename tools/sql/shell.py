"""The shell of `journal sql`: reads questions from a terminal, with history and completion.

A question may span several lines until a semicolon. Ctrl-C ends a question, not the shell. Must
never know how questions are answered.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from daybook.engine.facts.events import BY_NAME as KINDS
from daybook.errors import describe
from daybook.journal.errors import JournalError
from daybook.pipeline.sql.asking import Asking
from daybook.pipeline.sql.errors import SqlError
from daybook.pipeline.sql.planning import Catalog
from daybook.pipeline.sql.tables import TABLES, columns_of
from daybook.tools.sql.forms import FORMAT_OF
from daybook.tools.sql.output import write
from daybook.tools.terminal.printing import show_table

STATE_HOME: Final = "XDG_STATE_HOME"
HISTORY_FILE: Final = "sql-history"
PROMPT: Final = "journal> "
MORE: Final = "     ...> "
KEYWORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "WITH", "AS", "AND", "OR",
    "NOT", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END",
    "DISTINCT", "JOIN", "LEFT JOIN", "USING", "ON", "UNION ALL", "FILTER", "OVER", "PARTITION BY",
    "DESC", "INTERVAL", "count(*)", "sum(", "min(", "max(", "avg(", "quantile_cont(", "now()",
    "date_trunc(", "DESCRIBE", "SUMMARIZE",
)  # fmt: skip
HELP: Final = """\
Write a question in SQL and end it with a semicolon; Tab completes, Ctrl-C ends a question.

  .help            this text
  .tables          the tables and views
  .schema TABLE    the columns of one, and their meaning
  .output FILE     write answers to FILE (.csv, .json, .jsonl, .parquet), each in place of the last
  .output          show answers here again
  .quit            leave; so does Ctrl-D"""


class Words(Completer):
    """Completes tables, columns, kinds of events, keywords and commands of the shell."""

    def __init__(self, catalog: Catalog) -> None:
        columns = {name for table in TABLES for name, _ in catalog.columns(table)}
        self._words: Final = (*TABLES, *sorted(columns), *KEYWORDS)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Return completions of the word before the cursor."""
        before = document.text_before_cursor
        if before.startswith("."):
            yield from self._of_commands(before)
            return
        start = len(before)
        while start and (before[start - 1].isalnum() or before[start - 1] in "_."):
            start -= 1
        word = before[start:].rpartition(".")[2]
        if not word:
            return
        in_text = before.count("'") % 2 == 1
        for candidate in KINDS if in_text else self._words:
            if candidate.lower().startswith(word.lower()):
                yield Completion(candidate, -len(word))

    def _of_commands(self, before: str) -> Iterable[Completion]:
        name, space, argument = before.partition(" ")
        if not space:
            found = [each for each in COMMANDS if each.startswith(name)]
            yield from (Completion(each, -len(name)) for each in found)
        elif name == ".schema":
            found = [each for each in TABLES if each.startswith(argument)]
            yield from (Completion(each, -len(argument)) for each in found)


class Shell:
    """Reads questions and shows answers until the user leaves."""

    def __init__(self, asking: Asking, form: str, output: Path | None, limit: int | None) -> None:
        self._asking: Final = asking
        self._limit: Final = limit
        self._form = form
        self._output = output

    def run(self) -> None:
        """Read questions until Ctrl-D or `.quit`."""
        session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=Words(self._asking.catalog),
            lexer=PygmentsLexer(SqlLexer),
            auto_suggest=AutoSuggestFromHistory(),
            multiline=True,
            prompt_continuation=MORE,
            key_bindings=_keys(),
            complete_while_typing=False,
        )
        click.echo("SQL over history; .help explains, .quit leaves")
        going_on = True
        while going_on:
            # Ctrl-C at the prompt, or again while a question is ending.
            with suppress(KeyboardInterrupt):
                going_on = self._next(session)

    def _next(self, session: PromptSession[str]) -> bool:
        """Read one question or command; return False if the shell is to end."""
        try:
            text = session.prompt(PROMPT).strip()
        except EOFError:
            return False
        if text.startswith("."):
            return self.command(text)
        if text.rstrip(";").strip():
            self.ask(text)
        return True

    def ask(self, text: str) -> None:
        """Answer a question; report errors and keep the shell running."""
        try:
            with self._asking.answer(text) as answer:
                write(answer, self._form, self._output, self._limit)
        except KeyboardInterrupt:
            click.echo("ended", err=True)
        except (SqlError, JournalError, duckdb.Error) as error:
            click.secho(str(error), fg="red", err=True)
        except OSError as error:
            click.secho(describe(error), fg="red", err=True)

    def command(self, text: str) -> bool:
        """Run a command of the shell; return False if the shell is to end."""
        name, _, argument = text.rstrip(";").strip().partition(" ")
        if name in (".quit", ".exit"):
            return False
        do = COMMANDS.get(name)
        if do is None:
            click.echo(f"there is no command {name}; .help lists all commands", err=True)
        else:
            do(self, argument.strip())
        return True

    def help(self, argument: str) -> None:
        """Explain the shell."""
        click.echo(HELP)

    def tables(self, argument: str) -> None:
        """Show tables and views."""
        show_table(("table", "what it has"), sorted(TABLES.items()))

    def schema(self, argument: str) -> None:
        """Show the columns of a table."""
        table = argument.strip('"').lower()
        if table not in TABLES:
            names = ", ".join(sorted(TABLES))
            click.echo(f"name one of these: .schema {names}", err=True)
            return
        show_table(("column", "type", "what it is"), columns_of(self._asking.catalog, table))

    def output(self, argument: str) -> None:
        """Write answers to a file from now on, or show them again."""
        if not argument:
            self._form, self._output = "table", None
            return
        path = Path(argument.strip("'\"")).expanduser()
        if path.suffix.lower() not in FORMAT_OF:
            click.echo("end the name with .csv, .json, .jsonl or .parquet", err=True)
            return
        self._form, self._output = FORMAT_OF[path.suffix.lower()], path
        click.echo(f"answers go to {path}; .output shows them here again")


COMMANDS: Final[dict[str, Callable[[Shell, str], None] | None]] = {
    ".help": Shell.help, ".tables": Shell.tables, ".schema": Shell.schema,
    ".output": Shell.output, ".quit": None,
}  # fmt: skip


def _keys() -> KeyBindings:
    """Enter ends a complete question; otherwise it begins a new line."""
    keys = KeyBindings()

    @Condition
    def is_whole() -> bool:
        text = get_app().current_buffer.text.strip()
        return not text or text.startswith(".") or text.endswith(";")

    @keys.add("enter", filter=is_whole)
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _history() -> History:
    """Questions asked before in all shells; only in this one where no file can be written."""
    home = Path(os.environ.get(STATE_HOME) or Path.home() / ".local" / "state") / "daybook"
    file = home / HISTORY_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))
