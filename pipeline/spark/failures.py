"""Translates Spark's errors into one sentence: that of our own code in a worker, or Spark's first.

Must never know the queries.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from sqlglot.errors import SqlglotError

from daybook.pipeline.selection import SelectionError
from daybook.pipeline.spark.session import SparkError

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_RAISED: Final = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_CONDITION: Final = re.compile(r"^\[[A-Z_.]+\] ")
_CALLING: Final = re.compile(r"^An error occurred while calling [^\n]*\n: (?:[\w.$]+: )?")
_OF_SELECTIONS: Final = ("SelectionError", "SchemaError")


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise SelectionError or SparkError with one sentence for any error of Spark."""
    try:
        yield
    except SqlglotError as error:
        raise SparkError(f"this is not SQL that Spark can run: {error}") from None
    except (PySparkException, Py4JError) as error:
        kind, text = sentence(str(error))
        raise (SelectionError if kind in _OF_SELECTIONS else SparkError)(text) from None


def sentence(message: str) -> tuple[str, str]:
    """Return class (empty if it is Spark's) and text of the error behind a message of Spark."""
    _, traceback, last = message.rpartition(_TRACEBACK)
    if traceback:
        return _raised(last)
    spoken = _CONDITION.sub("", _CALLING.sub("", _STATE.sub("", message).strip()))
    return "", spoken.partition("\n")[0].strip()


def _raised(last: str) -> tuple[str, str]:
    """Return the class and text of the exception at the end of a traceback."""
    for line in last.splitlines():
        found = None if line.startswith((" ", "\t")) else _RAISED.match(line)
        if found is not None:
            return found["kind"].rpartition(".")[2], found["text"] or found["kind"]
    return "", last.strip()
