"""Queues whose content cannot be read for now: only these rest, all others are served (ADR 21).

The journal has the content of messages; a part of it may be damaged, missing, or impossible to open
because no descriptors are left. That affects only the queues that need it: they deliver nothing for
a while, then reading is tried again. Nothing is decided about the messages. Volatile: no part of
the logical state.
"""

from typing import Final

from daybook.engine.core.core import Core
from daybook.engine.queues.queue import ContentError, Queue

REST_US: Final = 5_000_000
"""How long a queue is left alone: reading damaged content costs as much as reading good content."""
UNREAD_MAX: Final = 1_000
"""How many messages that are due and cannot be read are remembered."""


def rests(core: Core, queue: Queue) -> bool:
    """Whether a queue is left alone for now."""
    resting = core.unreadable.get(queue.id)
    return resting is not None and core.now < resting[0]


def let_rest(core: Core, queue: Queue, error: ContentError) -> None:
    """Leave a queue alone for a while, and report why, unless that was reported before."""
    why = str(error)
    before = core.unreadable.get(queue.id)
    core.unreadable[queue.id] = (core.now + REST_US, why)
    if before is None or before[1] != why:
        core.notices.append(
            f"queue '{queue.name}' waits, for what is next in it cannot be read: {why}"
        )


def try_later(core: Core, error: ContentError) -> str:
    """Retry a held message later, whose content cannot be read; return the reason."""
    core.work.held_again = core.now + REST_US
    return f"its content cannot be read: {error}"


def wait_to_be_due(core: Core, queue: Queue, message: int, error: ContentError) -> None:
    """Leave a message that is due where it is for a while, and report why, unless it waits
    already."""
    waiting = core.work.unread_due
    if message not in waiting:
        core.notices.append(
            f"message {message} of queue '{queue.name}' is due and stays scheduled, for it cannot"
            f" be read: {error}"
        )
        if len(waiting) >= UNREAD_MAX:
            del waiting[next(iter(waiting))]
    waiting[message] = core.now + REST_US


def waits_to_be_due(core: Core, message: int) -> bool:
    """Whether a message that is due is left where it is for now."""
    return core.now < core.work.unread_due.get(message, 0)


def read_again(core: Core, queue: Queue) -> None:
    """Note that a queue was read without errors."""
    if core.unreadable.pop(queue.id, None) is not None:
        core.notices.append(f"queue '{queue.name}' can be read again")


def describe(core: Core) -> list[dict[str, str]]:
    """Which queues rest, and why."""
    queues = core.state.queues
    return [
        {"queue": queues[number].name, "why": why}
        for number, (_, why) in core.unreadable.items()
        if number in queues
    ]


def wake(core: Core) -> None:
    """Make the queues and the held messages that rested long enough be tried again."""
    if 0 < core.work.held_again <= core.now:
        core.work.held_again = 0
        core.work.held_changed = True
    for number, (until, _) in list(core.unreadable.items()):
        queue = core.state.queues.get(number)
        if queue is None:
            del core.unreadable[number]
        elif core.now >= until:
            if queue.is_used:
                core.touch(queue)
            else:
                _probe(core, queue)


def _probe(core: Core, queue: Queue) -> None:
    """Try to read a queue that no consumer takes from, so that reports about it can end."""
    try:
        queue.head()
    except ContentError as error:
        let_rest(core, queue, error)
    else:
        read_again(core, queue)
