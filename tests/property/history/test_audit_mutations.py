"""Does the audit bite? Mistakes are planted in the engine, and the audit must see what they do.

The engine is patched while it decides, and is itself again when its journal is judged.
"""

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from daybook.engine.administration import message_moves
from daybook.engine.core.core import Core
from daybook.engine.dispatch import consumer_choice, dispatch
from daybook.engine.entries import placement, rings
from daybook.engine.facts.settlements import End
from daybook.engine.messages.message import Message
from daybook.engine.queues.entry import Entry
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.routing import departures, routing
from daybook.engine.settling import non_destructive, settlement
from tests.support.compiled import replaces_parts
from tests.support.scenario import RESTART, Step, play
from tests.support.worlds.auditing import DoorWorld, judged

SEEDS_MAX = 150

Mutation = tuple[str, Any, str, Callable[..., Any], str]
"""A planted mistake: the module or class, its function, the wrong one, and the rule."""

_select = placement.select
_is_used_up = departures.is_used_up
_copy_for = departures.copy_for
_size_of = rings.size_of
_head = Queue.head


def _delivers(queue: Queue) -> bool:
    return bool(queue.consumers) and queue.ready_count > 0 and queue.recall is None


def _select_all_but_one(core: Core, address: Address, *args: Any, **values: Any) -> list[Queue]:
    found = _select(core, address, *args, **values)
    return found[:-1] if len(found) > 2 else found


def _used_up_before(core: Core, queue: Queue, count: int) -> bool:
    return _is_used_up(core, queue, count + 1)


def _used_up_after(core: Core, queue: Queue, count: int) -> bool:
    return _is_used_up(core, queue, count - 1)


def _copy_without_body(core: Core, queue: Queue, message: Message, *args: Any) -> Message:
    copy = _copy_for(core, queue, message, *args)
    copy.body = b"" if not copy.chunks else copy.body
    return copy


def _copy_of_low_priority(core: Core, queue: Queue, message: Message, *args: Any) -> Message:
    copy = _copy_for(core, queue, message, *args)
    copy.priority = 0
    return copy


def _smaller(core: Core, queue: Queue) -> int:
    size = _size_of(core, queue)
    return size - 1 if size > 0 else size


def _newest(queue: Queue) -> Entry | None:
    first = _head(queue)
    ready = [each for each in queue.entries.values() if each.state == 0 and each.level < 10]
    return max(ready, key=lambda each: each.position) if first is not None and ready else first


def _never(*args: Any) -> bool:
    return False


def _no_delay(core: Core, queue: Queue, entry: Entry, end: End, count: int) -> int:
    return 0


MUTATIONS: tuple[Mutation, ...] = (
    ("a paused queue delivers", dispatch, "_delivers", _delivers, "paused"),
    ("a fan-out forgets its last queue", placement, "select", _select_all_but_one, "routing"),
    ("filters of queues let everything pass", Core, "accepts", lambda *_: True, "routing"),
    ("the last attempt is one too early", settlement, "is_used_up", _used_up_before, "too-early"),
    ("the last attempt is one too late", settlement, "is_used_up", _used_up_after, "ending"),
    ("expired messages are delivered", consumer_choice, "is_expired", _never, "expired"),
    ("expired messages are shown", non_destructive, "is_expired", _never, "expired"),
    ("a failed delivery is repeated at once", settlement, "delay_after", _no_delay, "ending"),
    ("dead letters lose their body", departures, "copy_for", _copy_without_body, "copy"),
    ("dead letters lose their priority", departures, "copy_for", _copy_of_low_priority, "copy"),
    ("rings are too small by one", rings, "size_of", _smaller, "removal"),
    ("the newest message is delivered first", Queue, "head", _newest, "order"),
)


@replaces_parts
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation[0])
def test_a_mistake_of_the_engine_is_found(mutation: Mutation) -> None:
    _, where, name, wrong, rule = mutation
    users = [where, *_importing(where, name)]
    for seed in range(SEEDS_MAX):
        world = DoorWorld()
        patches = [patch.object(user, name, wrong) for user in users]
        for each in patches:
            each.start()
        try:
            _play(world, seed)
        finally:
            patch.stopall()
        if rule in {breach.rule for breach in judged(world.journal, world.ends)}:
            return
    pytest.fail(f"not found in {SEEDS_MAX} stories")


def _importing(where: Any, name: str) -> list[Any]:
    """Return the modules of the engine that have the function by its name, too."""
    own = getattr(where, name)
    others = (
        consumer_choice,
        dispatch,
        departures,
        message_moves,
        placement,
        rings,
        routing,
        settlement,
        non_destructive,
    )
    return [each for each in others if each is not where and getattr(each, name, None) is own]


def _play(world: DoorWorld, seed: int) -> None:
    draw = random.Random(seed)
    story: list[Step] = [
        (draw.randint(0, RESTART - 1), *(draw.randint(0, 20) for _ in range(3)))
        for _ in range(draw.randint(60, 160))
    ]
    play(world, story)
