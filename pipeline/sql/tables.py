"""The tables that queries read, and their columns, each with its meaning."""

from typing import Final

from daybook.pipeline.schema import BY_NAME as COLUMNS
from daybook.pipeline.sql.planning import Catalog
from daybook.pipeline.views import EVENTS, MILESTONES, VIEWS

TABLES: Final = {
    EVENTS: "one row for each event",
    MILESTONES: "restarts, and events of queues and addresses as a whole",
} | {view.name: view.doc for view in VIEWS}
"""Each table or view, and what its rows are."""


def columns_of(catalog: Catalog, table: str) -> list[tuple[str, str, str]]:
    """Return name, type and meaning of the columns of one of the tables."""
    docs = {name: column.doc for name, column in COLUMNS.items()}
    for view in VIEWS:
        if view.name == table:
            docs = {column.name: column.doc for column in view.columns}
    return [(name, _short(kind), docs[name]) for name, kind in catalog.columns(table)]


def _short(kind: str) -> str:
    return "TIMESTAMPTZ" if kind == "TIMESTAMP WITH TIME ZONE" else kind
