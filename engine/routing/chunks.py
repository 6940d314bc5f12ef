"""Deciding about the pieces of large messages, which are journaled before their message.

A piece becomes part of a message by the send that lists it. Must never know who gets the message.
"""

from daybook.engine.commands import Chunk
from daybook.engine.core import capacity
from daybook.engine.core.core import Core
from daybook.engine.facts import events
from daybook.engine.limits.waiting_senders import sender_of
from daybook.engine.refusals import Refusal
from daybook.engine.routing.send_plan import check_send, known_at, targets_of


def take_chunk(core: Core, command: Chunk) -> int | Refusal:
    """Record a piece of a body."""
    send = command.send
    refusal = check_send(core, send) if not command.previous else None
    if refusal is None and _is_passed_over(core, command):
        return 0
    sender = sender_of(send)
    is_asked = not command.previous and send.transaction is None
    if refusal is None and (core.room.disk_full or core.room.behind):
        refusal = capacity.check_piece(core, sender, targets_of(core, send))
    elif refusal is None and is_asked:
        refusal = capacity.check(core, sender, targets_of(core, send))
    return record(core, command) if refusal is None else refusal


def record(core: Core, command: Chunk) -> int:
    """Record a piece of a body that may be there."""
    return core.emit(
        events.row(
            events.CHUNK_RECEIVED,
            connection=command.send.connection, related=command.previous, time=core.now,
        ),
        body=command.body,
    )  # fmt: skip


def _is_passed_over(core: Core, command: Chunk) -> bool:
    """Whether a piece belongs to a message that will be dropped as a duplicate.

    Not in a transaction, where the commit is refused instead.
    """
    send = command.send
    if not send.duplicate_id or send.transaction is not None or command.previous:
        return False
    return known_at(core, send) is not None
