"""Recording what a notary signed of the history (ADR 66).

A statement says which history there is up to an event. Verification of the journal finds out
whether it is true, and who signed it. Must never know keys, nor how anything is signed.
"""

from daybook.engine.commands import Command
from daybook.engine.core.core import Core
from daybook.engine.facts import details, events
from daybook.engine.refusals import Code, Refusal


class RecordSignature(Command):
    """Record a signed statement about history up to the event `lsn`."""

    lsn: int
    statement: details.SignedDetail


class RecordKeyChange(Command):
    """Record that another key signs from now on; the former and the new one have signed that."""

    change: details.KeyChangeDetail


def record_signature(core: Core, command: RecordSignature) -> int | Refusal:
    """Record a signed statement."""
    if not 0 < command.lsn < core.next_lsn:
        return Refusal(Code.INVALID, f"event {command.lsn} has not been decided")
    return core.emit(
        events.row(events.SIGNED, related=command.lsn, time=core.now),
        events.encode_detail(command.statement),
    )


def record_key_change(core: Core, command: RecordKeyChange) -> int:
    """Record a change of the key."""
    return core.emit(
        events.row(events.SIGNING_KEY_CHANGED, time=core.now), events.encode_detail(command.change)
    )
