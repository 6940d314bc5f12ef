"""Queries in SQL as jobs: they need DuckDB, which the first one imports.

Without the extra `sql` each job is an error that says how to install it.
"""

from types import ModuleType
from typing import Any

from daybook.console.console_config import AskerError
from daybook.journal.extras import install_command


def _answers() -> ModuleType:
    try:
        # An extra, and slow to import.
        from daybook.console.jobs import answers  # noqa: PLC0415
    except ImportError as error:
        raise AskerError(
            f"SQL needs {error.name}; install it for the console, and start that again:"
            f" {install_command('sql')}"
        ) from error
    return answers


def answer(directory: str, sql: str, most: int) -> dict[str, Any]:
    """Return the first rows of an answer: see `console.jobs.answers`."""
    found: dict[str, Any] = _answers().answer(directory, sql, most)
    return found


def export(directory: str, sql: str, form: str) -> str:
    """Return an answer as CSV or JSON."""
    found: str = _answers().export(directory, sql, form)
    return found


def tables(directory: str) -> list[dict[str, Any]]:
    """Return the tables that queries read, which are those of each data directory."""
    found: list[dict[str, Any]] = _answers().tables()
    return found
