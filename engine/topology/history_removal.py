"""Ending histories that no address keeps any more, in slices (`engine.entries.retroactive`).

Whenever settings changed, and when a broker starts. Must never know what a history keeps.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.entries.retroactive import is_kept
from daybook.engine.facts import reasons
from daybook.engine.topology.topology import delete_queue

LOOK_SHIFT: Final = 3
"""Looking at histories costs one unit of the budget for 2 to this power."""


def review_all(core: Core) -> None:
    """Make the turns to come look at all histories: the settings may have changed."""
    core.work.histories_to_review = list(core.state.histories)


def review(core: Core) -> None:
    """Look at some of them: end those that are not kept any more, and trim the others."""
    looked = 0
    while core.work.histories_to_review and not core.budget.is_spent:
        history = core.state.histories.get(core.work.histories_to_review.pop())
        looked += 1
        if not looked & ((1 << LOOK_SHIFT) - 1):
            core.budget.spent += 1
        if history is None or history.retains:
            continue
        kept_for = core.state.address_by_name.get(history.definition.keeps)
        if kept_for is not None and is_kept(core, kept_for):
            core.touch(history)
        else:
            delete_queue(core, history, reasons.NOT_RETROACTIVE, 0)
