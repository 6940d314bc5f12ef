"""The state of an index, as its readers would load it."""

from daybook.engine.state import State
from daybook.paging.index import Index
from daybook.paging.loading import load_state


def state_of(index: Index) -> State:
    """Load the state at the indexed LSN; ready entries are in its gaps."""
    with index.tables.read() as txn:
        return load_state(index.tables, txn, None)
