"""Deciding that consumers give up message groups because an administrator asked for it.

The next message of such a group goes to the consumer whose turn it is then. Which consumer has a
group is volatile; the event only says who reset what. Must never know how a consumer is chosen.
"""

from typing import Final

from daybook.engine import details, events, reasons
from daybook.engine.commands import ResetGroups
from daybook.engine.core import Core
from daybook.engine.groups import NAME_CHARACTERS_MAX, Groups, bucket_of_name
from daybook.engine.queue_names import find_queue
from daybook.engine.queues import Queue
from daybook.engine.refusals import Code, Refusal

GROUPS_SHIFT: Final = 6
"""Releasing message groups costs one unit for 2 to this power."""


def reset_groups(core: Core, command: ResetGroups) -> int | Refusal:
    """Release one group of a queue, or all of them; the answer is 0 if there are none."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    groups = queue.groups
    if not command.group:
        if groups is None or not groups.bound:
            return 0
        core.budget.spent += len(groups.bound) >> GROUPS_SHIFT
        groups.release_all(queue.consumers)
        _pause(queue, groups)
        return _record(core, queue, "")
    places = _places(queue, groups, command.group)
    if groups is None or not places:
        shown = command.group[:NAME_CHARACTERS_MAX]
        return Refusal(Code.NOT_FOUND, f"no consumer of queue '{queue.name}' has group '{shown}'")
    for place in places:
        groups.release(place, queue.consumers)
    _pause(queue, groups)
    return _record(core, queue, command.group)


def _places(queue: Queue, groups: Groups | None, name: str) -> list[int]:
    if groups is None or not queue.definition.group_buckets:
        return []
    return groups.places_of(bucket_of_name(queue.definition, name))


def _pause(queue: Queue, groups: Groups) -> None:
    """Wait for what is in flight, if the queue does so whenever it gives groups out again."""
    groups.pauses = groups.pauses or queue.definition.group_rebalance_pause_dispatch


def _record(core: Core, queue: Queue, group: str) -> int:
    core.touch(queue)
    return core.emit(
        events.row(
            events.GROUPS_RESET,
            reason=reasons.ADMINISTRATION, address=queue.address.id, queue=queue.id, time=core.now,
        ),
        events.encode_detail(details.GroupsResetDetail(group=group[:NAME_CHARACTERS_MAX])),
    )  # fmt: skip
