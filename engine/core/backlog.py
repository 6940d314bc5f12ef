"""The backlog of dispatch: queues that were touched and were not looked at yet.

A message to a topic with very many subscribers touches very many queues at once. Looking at them is
cut into turns, and a queue of somebody else must not wait behind all of them. So they wait in
lines, one for each connection that gets something from its queues, and the lines take turns.
Volatile, and no part of the state: it only decides the order of work. Must never know budgets, or
what is looked at in a queue.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from daybook.engine.queues.queue import Queue

Line: TypeAlias = OrderedDict[int, Queue]
"""The queues of one connection, by id, in the order in which they were touched."""

NOBODY: Final = 0
"""The line of queues without consumers."""


class Backlog:
    """Queues in lines. The line whose turn it is comes first."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: OrderedDict[int, Line] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __len__(self) -> int:
        return sum(len(line) for line in self._lines.values())

    def add(self, queues: Iterable[Queue]) -> None:
        """Put queues at the ends of their lines, except those that are in one already."""
        lines = self._lines
        for queue in queues:
            owner = owner_of(queue)
            line = lines.get(owner)
            if line is None:
                line = lines[owner] = OrderedDict()
            line[queue.id] = queue

    def begin(self) -> tuple[int, Line]:
        """Take the first line out of the backlog, which must have one; see `end`."""
        return self._lines.popitem(last=False)

    def end(self, owner: int, line: Line) -> None:
        """Put what is left of a line behind the others."""
        added = self._lines.pop(owner, None)
        if added is not None:
            line.update(added)
        if line:
            self._lines[owner] = line

    def clear(self) -> None:
        """Forget all queues."""
        self._lines.clear()


def owner_of(queue: Queue) -> int:
    """Return the connection in whose line a queue waits."""
    if queue.definition.owner:
        return queue.definition.owner
    return queue.consumers[0].connection_id if queue.consumers else NOBODY
