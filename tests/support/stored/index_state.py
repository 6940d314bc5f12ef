"""The state of an index, as its readers would load it."""

from daybook.engine.state.state import State
from daybook.paging.fold.index import Index
from daybook.paging.tables.loading import load_state


def state_of(index: Index) -> State:
    """Load the state at the indexed LSN; ready entries are in its gaps."""
    with index.tables.read() as txn:
        return load_state(index.tables, txn, None)
