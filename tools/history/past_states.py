"""Moments that commands ask for: which event one is, and the state of the broker after it.

Shared by the commands `inspect --at`, `diff`, `fork` and `replay`. Must never know what is done
with a state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from daybook.engine.state.state import State
from daybook.history.moments import event_of
from daybook.journal.disk import Disk
from daybook.recovery.moments import state_at
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.printing import progress


def found(directory: Path, disk: Disk, asked: Moment) -> Moment:
    """Return the event of a moment with its time. Raises the errors of `event_of`."""
    return Moment(*event_of(directory, disk, asked.lsn, asked.time))


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
