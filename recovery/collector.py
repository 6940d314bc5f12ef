"""Python's garbage collector, where states are built: it looks rarely, and at little.

A state with 20,000 queues is some hundred thousand objects, and none of them is garbage. By default
the collector looks at each of them again and again while they are created, which takes a third of
the time to build it. An index that folds has a state of its own; its objects refer to each other,
so only the collector frees them, and it must do so before the next state takes as much memory
again. Where the collector is off, it stays off. Must never know states.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 100_000
"""How many objects may be created, and not freed, before the collector looks at these."""
YOUNG_ROUNDS: Final = 100
"""After so many looks at new objects only it looks at all that were created meanwhile: ten million
objects, about a gigabyte, if none was freed."""
WORKING_ROUNDS: Final = (10, 50)
"""The same for a process that is used for long, and after how many of these rounds it looks at
everything, which takes long if the process keeps states."""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Build a state: only a state with millions of objects is looked at twice meanwhile."""
    before = gc.get_threshold()
    gc.set_threshold(max(YOUNG, before[0]), max(YOUNG_ROUNDS, before[1]), before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def free_what_was_built() -> None:
    """Free what was created lately and is not used any more, without a look at older objects."""
    if gc.isenabled():
        gc.collect(1)


def keep_what_was_built() -> None:
    """Never look again at what there is now, until `free_all`."""
    if gc.isenabled():
        gc.freeze()


def free_all() -> None:
    """Free what is not used any more, however old, and kept or not."""
    if gc.isenabled():
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def begin_work() -> None:
    """Let the collector of a process that builds states look rarely from now on, and never at what
    the process has imported.

    Code that drops a state then calls `free_all`: nothing else would free it soon.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, *WORKING_ROUNDS)
