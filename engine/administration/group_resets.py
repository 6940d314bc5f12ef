"""Deciding that consumers give up message groups because an administrator asked for it.

The next message of such a group goes to the consumer whose turn it is then. Which consumer has a
group is volatile; the event only says who reset what. Must never know how a consumer is chosen.
"""

from daybook.engine.commands import ResetGroups
from daybook.engine.core.core import Core
from daybook.engine.core.queue_names import find_queue
from daybook.engine.facts import details, events, reasons
from daybook.engine.queues.groups import NAME_CHARACTERS_MAX, Grouping, Groups, bucket_of_name
from daybook.engine.queues.queue import Queue
from daybook.engine.refusals import Code, Refusal
from daybook.engine.state.group_rules import units_of


def reset_groups(core: Core, command: ResetGroups) -> int | Refusal:
    """Release one group of a queue, or all of them; the answer is 0 if there are none."""
    queue = find_queue(core.state, command.queue)
    if isinstance(queue, Refusal):
        return queue
    if queue.definition.group_hashing:
        return Refusal(
            Code.NOT_ALLOWED,
            f"queue '{queue.name}' has group-hashing: which consumer has a group follows from its"
            " name and the consumers, so that no group can be reset",
        )
    groups = queue.groups
    if not command.group:
        if groups is None or not groups.bound:
            return 0
        core.budget.spent += units_of(queue)
        groups.release_all(queue.consumers)
        _pause(queue, groups)
        return _record(core, queue, "")
    places = _places(queue, groups, command.group)
    if not isinstance(groups, Groups) or not places:
        shown = command.group[:NAME_CHARACTERS_MAX]
        return Refusal(Code.NOT_FOUND, f"no consumer of queue '{queue.name}' has group '{shown}'")
    for place in places:
        groups.release(place, queue.consumers)
    _pause(queue, groups)
    return _record(core, queue, command.group)


def _places(queue: Queue, groups: Grouping | None, name: str) -> list[int]:
    if not isinstance(groups, Groups) or not queue.definition.group_buckets:
        return []
    return groups.places_of(bucket_of_name(queue.definition, name))


def _pause(queue: Queue, groups: Grouping) -> None:
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
