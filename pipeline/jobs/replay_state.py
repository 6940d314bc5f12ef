"""The request of a replay, and its progress. A killed replay resumes from it.

Its file is replaced after each transaction. It may be one transaction behind, which does no harm:
transactions are built from it, so the same one is sent again, and the broker recognises its id.
Must never know a broker.
"""

import re
from pathlib import Path
from typing import Final

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from daybook.engine.names.names import HOST
from daybook.history.replays.progress_file import ProgressFile
from daybook.pipeline.schema import check_columns
from daybook.pipeline.selection import Selection, SelectionError

VERSION: Final = 1
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
DIALECT: Final = "duckdb"


class Request(msgspec.Struct, frozen=True):
    """Which messages to replay, and how.

    `where` is a condition in SQL on columns of their Routed events, "" for none. `into` is a
    destination, "" for each message's own. `copies` includes messages that the broker copied (dead
    letters, expired messages). `rows` is the maximum number of messages in a transaction. `broker`
    is the receiving broker as HOST:PORT, with another virtual host than the default one also that.
    """

    selection: Selection
    broker: str
    where: str = ""
    into: str = ""
    copies: bool = False
    keep_expiry: bool = False
    rows: int = 1000
    virtual_host: str = HOST


class State(msgspec.Struct):
    """The progress of a replay: all up to `done_lsn` is published, and it ends with `end_lsn`.

    `end_lsn` is 0 before the history was first read. Counts are the totals of all runs.
    """

    id: str
    request: Request
    done_lsn: int = 0
    end_lsn: int = 0
    published: int = 0
    bytes: int = 0
    incomplete: int = 0
    version: int = VERSION

    @property
    def is_done(self) -> bool:
        """Whether everything that was found when the history was last read is published."""
        return 0 < self.end_lsn <= self.done_lsn


def state_file(path: Path) -> ProgressFile[State]:
    """Return the file of a state."""
    return ProgressFile(path, State, VERSION, "start again with another --id")


def check_id(name: str) -> None:
    """Raise SelectionError if this cannot be the name of a replay."""
    if not NAME.fullmatch(name):
        raise SelectionError(
            f"'{name}' cannot name a replay: use letters, digits, dots, hyphens and underscores, "
            "at most 100"
        )


def check_same(state: State, given: Request, path: Path) -> None:
    """Raise SelectionError if a replay would be resumed with another request.

    Fields that are not given (for `rows`: 0) stay as they were.
    """
    if state.request.broker != given.broker:
        raise SelectionError(
            f"replay {state.id} goes to {state.request.broker} ({path}): name that broker to "
            "resume, or start another replay with another --id"
        )
    unset = Request(Selection(), "", rows=0)
    _compare(state.request, given, unset, state.id, path)
    _compare(state.request.selection, given.selection, unset.selection, state.id, path)


def _compare(
    begun: msgspec.Struct, given: msgspec.Struct, unset: msgspec.Struct, name: str, path: Path
) -> None:
    for field in begun.__struct_fields__:
        wanted = getattr(given, field)
        if field in ("selection", "broker") or wanted == getattr(unset, field):
            continue
        if wanted != getattr(begun, field):
            raise SelectionError(
                f"replay {name} was begun with another {field.replace('_', ' ')} "
                f"({getattr(begun, field)!r}, not {wanted!r}; see {path}): leave it out to "
                "resume, or start another one with another --id"
            )


class Condition(msgspec.Struct, frozen=True):
    """A condition in SQL, and the columns of events that it needs."""

    sql: str
    columns: tuple[str, ...]


def condition_of(where: str) -> Condition:
    """Check a condition; raises SelectionError if it is invalid."""
    if not where.strip():
        return Condition("TRUE", ())
    try:
        parsed = sqlglot.parse_one(where, into=exp.Condition, dialect=DIALECT)
    except SqlglotError:
        raise SelectionError(
            f"'{where}' is not a condition in SQL; write it like priority > 4 AND "
            "headers['stock'] = 'apples'"
        ) from None
    if parsed.find(exp.Query, exp.AggFunc, exp.Window):
        raise SelectionError(
            f"'{where}' asks about more than one event; ask about the columns of each alone"
        )
    names = []
    for column in parsed.find_all(exp.Column):
        if column.table:
            raise SelectionError(
                f"the condition names {column.sql(DIALECT)}; write a column alone, and a header "
                "like headers['stock']"
            )
        names.append(column.name)
    columns = check_columns(dict.fromkeys(names)) if names else ()
    return Condition(parsed.sql(DIALECT), columns)
