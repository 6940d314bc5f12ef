"""Reads history in this process, protected from retention.

Retention does not remove segments that a pin protects (ADR 13), as long as the context lasts. If no
pin can be created, for example on a read-only file system, reading continues without one, and a
segment that is removed meanwhile is reported as an error. Must never know its caller.
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
    """Make a plan whose segments stay until the end of the context. Raises as `make_plan` does."""
    check_source(source)
    with Pin(Path(source.directory)) if source.directory else nullcontext() as pin:
        plan = make_plan(source, selection, names=names)
        if pin is not None:
            first_lsn = plan.splits[0].first_lsn if plan.splits else plan.last_lsn + 1
            pin.advance(first_lsn)
        yield plan
