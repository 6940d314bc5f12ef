"""Moments that commands ask for: which event one is, and the state of the broker after it.

Shared by the commands `inspect --at`, `diff`, `fork` and `replay`. Must never know what is done
with a state.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import click

from daybook.engine.state.state import State
from daybook.history.moments import event_of
from daybook.journal.disk import Disk
from daybook.recovery.moments import Reached, course_at
from daybook.tools.terminal.moments import Moment
from daybook.tools.terminal.printing import progress


def found(directory: Path, disk: Disk, asked: Moment) -> Moment:
    """Return the event of a moment with its time. Raises the errors of `event_of`."""
    return Moment(*event_of(directory, disk, asked.lsn, asked.time))


@contextmanager
def opened(directory: Path, disk: Disk, lsn: int) -> Iterator[State]:
    """Yield the state after an event. Raises the errors of `state_at`."""
    with closing(states(directory, disk, [lsn])) as only:
        yield next(only)


def states(directory: Path, disk: Disk, lsns: Sequence[int]) -> Generator[State]:
    """Yield the states after some events, each for use until the next one is asked for.

    A later one begins with the index of the one before it, unless a snapshot is nearer. Raises the
    errors of `state_at`.
    """
    earlier: Reached | None = None
    with ExitStack() as kept:
        for lsn in lsns:
            course = kept.enter_context(
                course_at(directory, disk, lsn, note=_note, earlier=earlier)
            )
            with (
                progress("folding", 100) as advance,
                course.state_at(lsn, _percent(advance)) as state,
            ):
                yield state
            earlier = course.reached


def _note(text: str) -> None:
    click.echo(text, err=True)


def _percent(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    return lambda done, total: advance(100 * done // total)
