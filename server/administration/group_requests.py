"""The requests of the control socket about message groups.

Must never know how they are transported.
"""

from typing import Annotated, Any

import msgspec

from daybook.engine.commands import Command, ResetGroups
from daybook.engine.core.queue_names import find_queue
from daybook.engine.queues.consumer import Consumer, as_consumer
from daybook.engine.queues.groups import Grouping
from daybook.engine.refusals import Refusal
from daybook.engine.state.state import State
from daybook.server.process.slices import Slices, page_of, rows_of


class GroupsOf(msgspec.Struct, frozen=True, tag="groups", tag_field="do"):
    """Request a page of the message groups that consumers of a queue have."""

    queue: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


class GroupsReset(msgspec.Struct, frozen=True, tag="reset-groups", tag_field="do"):
    """Make consumers of a queue give up a group, or with an empty name all groups."""

    queue: str
    group: str = ""

    def command(self) -> Command:
        """Return the command for this request."""
        return ResetGroups(self.queue, self.group)


def listing_groups(state: State, request: GroupsOf) -> Slices[dict[str, Any] | Refusal]:
    """A page of the groups of a queue with their consumers, in the order in which they were bound;
    with `group-hashing` those that have messages in flight.

    A group without a place of its own is named by the place, a bucket by its number.
    """
    queue = find_queue(state, request.queue)
    if isinstance(queue, Refusal):
        return queue
    found = queue.groups
    if found is None:
        return {"queue": queue.name, "groups": [], "next_offset": None}
    page, following = page_of(found.bound.items(), request.offset)
    rows = yield from rows_of(page, lambda each: _group(found, each[0], as_consumer(each[1])))
    return {"queue": queue.name, "groups": rows, "next_offset": following}


def _group(groups: Grouping, key: int, consumer: Consumer) -> dict[str, Any]:
    return {
        "group": groups.names.get(key, ""),
        "bucket": key if groups.buckets > 0 and key >= 0 else None,
        "shared_place": -1 - key if key < 0 else None,
        "consumer": consumer.id,
        "connection": consumer.connection_id,
        "user": consumer.connection.user,
        "peer": consumer.connection.peer,
    }
