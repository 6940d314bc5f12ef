"""States whose ids of addresses and queues begin just below the largest that has four bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from daybook.engine.facts.events import SHORT_ID_MAX
from daybook.engine.queues.queue import Store
from daybook.engine.state.state import State

NEAR = SHORT_ID_MAX - 1
"""The first id: the second has four bytes too, and the third does not."""


@contextmanager
def ids_from(first: int = NEAR) -> Iterator[None]:
    """Have every new state give this id to its first address and its first queue."""
    begin = State.__init__

    def begin_high(state: State, store: Store | None = None) -> None:
        begin(state, store)
        state.next_address = state.next_queue = first

    with patch.object(State, "__init__", begin_high):
        yield
