"""Moments that commands ask for: which event one is, and the state of the broker after it.

Shared by the commands `inspect --at`, `diff`, `fork` and `replay`. Must never know what is done
with a state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from daybook.engine.facts.events import TIME
from daybook.engine.state.state import State
from daybook.history.event_finder import EventFinder
from daybook.history.initial_state import before_the_first
from daybook.history.moments import last_lsn, lsn_at
from daybook.journal.disk import Disk
from daybook.journal.segments.segment import first_lsn_of
from daybook.recovery.moments import state_at
from daybook.texts import moment
from daybook.tools.terminal.failures import Failure
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.printing import progress


def found(directory: Path, disk: Disk, asked: Moment) -> Moment:
    """Return the event of a moment with its time. Raises Failure, ExportError and JournalError."""
    lsn = lsn_at(disk, asked.time) if asked.time is not None else asked.lsn
    event = EventFinder(disk).at(lsn) if lsn else None
    if event is None and lsn < first_lsn_of(disk):
        raise Failure(
            f"the journal begins with event {first_lsn_of(disk)}, after "
            f"{moment(asked.time) if asked.time is not None else f'event {lsn}'}; "
            f"{before_the_first(directory, disk)}"
        )
    if event is None:
        raise Failure(f"the journal ends with event {last_lsn(disk)}, before event {lsn}")
    return Moment(lsn, event.row[TIME])


@contextmanager
def opened(directory: Path, disk: Disk, lsn: int) -> Iterator[State]:
    """Yield the state after an event. Raises the errors of `state_at`."""

    def note(text: str) -> None:
        click.echo(text, err=True)

    with progress("folding", 100) as advance:

        def folded(done: int, total: int) -> None:
            advance(100 * done // total)

        with state_at(directory, disk, lsn, note=note, progress=folded) as state:
            yield state
