"""Reading history in this process, with what is being read held in place.

Retention leaves segments alone that a pin holds (ADR 13), for as long as the context lasts. Where
no pin can be made, as on a file system that is read-only, reading goes on without one, and a
segment that leaves is told as such. Must never know who asks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from daybook.journal.pins import Pin
from daybook.pipeline.planning import Plan, Source, check_source, make_plan
from daybook.pipeline.selection import EVERYTHING, Selection


@contextmanager
def reading(
    source: Source, selection: Selection = EVERYTHING, *, names: bool = True
) -> Iterator[Plan]:
    """A plan whose segments stay until the end of the context. Raises as `make_plan`."""
    check_source(source)
    with Pin(Path(source.directory)) if source.directory else nullcontext() as pin:
        plan = make_plan(source, selection, names=names)
        if pin is not None:
            held = plan.splits[0].first_lsn if plan.splits else plan.last_lsn + 1
            pin.advance(held)
        yield plan
