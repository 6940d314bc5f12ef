"""The state of a journal, folded from its first event in memory: what every other way is held
against."""

from pathlib import Path

from daybook.engine.state.state import State
from daybook.journal.segments.reader import read_blocks
from daybook.paging.tables.layout import LAYOUT
from daybook.recovery.fold import fold
from daybook.recovery.readonly import journal_disk


def folded_state(directory: Path, to_lsn: int | None = None) -> tuple[State, int]:
    """Return the state up to an event, with all entries in memory, and its last event."""
    state = State()
    return state, fold(read_blocks(journal_disk(directory), LAYOUT, to_lsn=to_lsn), state, to_lsn)
