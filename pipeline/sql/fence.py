"""Decides what a query may use: the tables of history, and functions that compute.

DuckDB itself refuses files, network and settings (`Catalog`, `DuckEngine.close_off`). The fence
stands before it: functions and tables that are not of history are refused by name before anything
is bound, so that no query reaches a function of DuckDB which forgets to ask for permission.

DuckDB parses the query and says in JSON what it understood. The names are found in that text
without making objects of it, since a query may be nested deeper than a parser of JSON goes: inside
of a value each quote is escaped, so a key with its quotes is always a key. Must never know what a
query is for.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

import duckdb
import msgspec

from daybook.pipeline.sql.errors import SqlError, shown_place
from daybook.pipeline.views import EVENTS, MILESTONES, VIEWS

TABLES: Final = (EVENTS, MILESTONES, *(view.name for view in VIEWS))
MAKING_ROWS: Final = frozenset(
    {
        "duckdb_functions", "duckdb_keywords", "duckdb_types", "generate_series", "histogram",
        "histogram_values", "json_each", "json_tree", "range", "repeat", "repeat_row", "summary",
        "unnest",
    }
)  # fmt: skip
"""The functions that may stand for a table: they make rows from values, or list what SQL has."""
REFUSED: Final = frozenset(
    {
        "combine", "current_setting", "currval", "finalize", "getenv", "getvariable",
        "json_deserialize_sql", "json_serialize_plan", "json_serialize_sql", "nextval", "setval",
        "to_aggregate_state", "write_log",
    }
)  # fmt: skip
"""Functions of values that read settings or write, take another query, or trust bytes to be a state
of DuckDB's own."""
INTERNAL: Final = "__internal"
"""The beginning of the names of functions that only DuckDB's optimizer may call."""
READING: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
SHOWN: Final = frozenset({"", '"tables"', "__show_tables_expanded"})
"""What DESCRIBE and SHOW TABLES have for the name of a table."""
SCHEMAS: Final = frozenset({"", "main", "memory", "temp"})

_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_FUNCTION: Final = re.compile(rf'[{{,]"function_name":{_TEXT}')
_TABLE: Final = re.compile(rf'[{{,]"table_name":{_TEXT}')
_SCHEMA: Final = re.compile(rf'[{{,]"(?:schema|catalog)_name":{_TEXT}')
_NAMED: Final = re.compile(rf'\{{"key":{_TEXT},"value":\{{"aliases":')
_NODE: Final = re.compile(r'[{,]"type":"([A-Z_]+_NODE)"')


class Fence:
    """Checks queries; knows the functions of the DuckDB that runs here."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection: Final = connection
        rows = connection.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions()"
            " WHERE function_type NOT IN ('scalar', 'aggregate', 'macro')"
        ).fetchall()
        self._of_tables: Final = frozenset(name for (name,) in rows) - MAKING_ROWS

    def check(self, question: str) -> None:
        """Raise SqlError if a query, of one SELECT, uses more than history."""
        (text,) = self._connection.execute(
            "SELECT json_serialize_sql(?)", [question]
        ).fetchone() or ("",)
        nodes = set(_NODE.findall(text))
        if not nodes or not nodes <= READING:
            raise SqlError("history can be read, not changed; a query can only select")
        for name in _values(_FUNCTION, text):
            if name in self._of_tables or name in REFUSED or name.startswith(INTERNAL):
                raise SqlError(
                    f"the function {name} is not possible here: queries can read only history, and"
                    f" compute{_pointed(question, name)}"
                )
        known = {*TABLES, *SHOWN, *_values(_NAMED, text)}
        for name in _values(_TABLE, text):
            if name not in known:
                close = get_close_matches(name, TABLES, n=1)
                hint = f'Did you mean "{close[0]}"?' if close else f"Tables: {', '.join(TABLES)}"
                raise SqlError(
                    f"there is no table with the name {name}: queries can read only history\n"
                    f"{hint}{_pointed(question, name)}"
                )
        for name in _values(_SCHEMA, text):
            if name not in SCHEMAS:
                raise SqlError(
                    f"the schema {name} is not possible here: queries can read only history"
                    f"{_pointed(question, name)}"
                )


def _values(key: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the values of a key, in lower case, as DuckDB compares names."""
    for found in key.finditer(text):
        yield msgspec.json.decode(f'"{found[1]}"', type=str).lower()


def _pointed(question: str, name: str) -> str:
    """Return where a query has a name, as DuckDB shows it; "" if it is written in another way."""
    for number, line in enumerate(question.splitlines(), 1):
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line, re.IGNORECASE)
        if found:
            return f"\n\n{shown_place(number, line, found.start(), len(name))}"
    return ""
