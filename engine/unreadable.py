"""Queues whose content cannot be read for now: they rest, and all others go on (ADR 21).

The journal has the content of messages, and a part of it may be damaged, gone, or not to be opened
for want of descriptors. That is the matter of the queues that need it: nothing of them is delivered
for a while, then it is tried again. Nothing is decided about the messages. Volatile: no part of the
logical state.
"""

from typing import Final

from daybook.engine.core import Core
from daybook.engine.queues import ContentError, Queue

REST_US: Final = 5_000_000
"""How long a queue is let alone: reading what is damaged costs as much as what is not."""


def rests(core: Core, queue: Queue) -> bool:
    """Whether a queue is let alone for now."""
    resting = core.unreadable.get(queue.id)
    return resting is not None and core.now < resting[0]


def let_rest(core: Core, queue: Queue, error: ContentError) -> None:
    """Let a queue alone for a while, and say why, unless that was said before."""
    why = str(error)
    before = core.unreadable.get(queue.id)
    core.unreadable[queue.id] = (core.now + REST_US, why)
    if before is None or before[1] != why:
        core.notices.append(
            f"queue '{queue.name}' waits, for what is next in it cannot be read: {why}"
        )


def try_later(core: Core, error: ContentError) -> str:
    """Have a held message that cannot be moved unread tried again after a while; says why."""
    core.held_again = core.now + REST_US
    return f"its content cannot be read: {error}"


def read_again(core: Core, queue: Queue) -> None:
    """A queue was looked at without any trouble."""
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
    """Have the queues, and what is held, that rested long enough be looked at again."""
    if 0 < core.held_again <= core.now:
        core.held_again = 0
        core.held_changed = True
    for number, (until, _) in list(core.unreadable.items()):
        queue = core.state.queues.get(number)
        if queue is None:
            del core.unreadable[number]
        elif core.now >= until:
            if queue.consumers:
                core.touch(queue)
            else:
                _probe(core, queue)


def _probe(core: Core, queue: Queue) -> None:
    """See whether a queue that nobody asks for can be read again: until then people are told."""
    try:
        queue.head()
    except ContentError as error:
        let_rest(core, queue, error)
    else:
        read_again(core, queue)
