"""The rules of administrators' requests: each covers what it asked for.

The request is in the event as it came, in JSON; one that was cut, or that this version does not
know, may have asked for anything. Must never know who may ask for what.
"""

from typing import Final, cast

import msgspec

from daybook.engine.facts import details, events
from daybook.engine.facts.events import KIND, RELATED, Row
from daybook.engine.facts.kinds import ENDING_A_DELIVERY, LEAVING, OF_ENTRIES, changing
from daybook.engine.facts.life import ADDRESS as OF_ADDRESS
from daybook.engine.facts.life import BEGINS, CHANGES, ENDS
from daybook.engine.facts.life import CONSUMER as OF_CONSUMER
from daybook.engine.facts.life import QUEUE as OF_QUEUE
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

_ENDING_QUEUES: Final = (
    changing({OF_ADDRESS, OF_QUEUE, OF_CONSUMER}, {CHANGES, ENDS}) | LEAVING | ENDING_A_DELIVERY
)
ASKED: Final[dict[str, frozenset[int]]] = {
    "pause-queue": frozenset((events.QUEUE_PAUSED,)),
    "resume-queue": frozenset((events.QUEUE_RESUMED,)),
    "pause-address": frozenset((events.ADDRESS_UPDATED,)),
    "resume-address": frozenset((events.ADDRESS_UPDATED,)),
    "create-address": changing({OF_ADDRESS}, {BEGINS, CHANGES}),
    "update-address": frozenset((events.ADDRESS_UPDATED,)),
    "delete-address": _ENDING_QUEUES,
    "create-queue": changing({OF_QUEUE}, {BEGINS, CHANGES}),
    "update-queue": frozenset((events.QUEUE_UPDATED,)),
    "delete-queue": _ENDING_QUEUES,
    "purge-queue": frozenset((events.REMOVED,)),
    "release-queue": frozenset((events.RELEASED,)),
    "deliver-scheduled": frozenset((events.DUE,)),
    "forget-retained": frozenset((events.REMOVED,)),
    "clear-id-cache": frozenset((events.DUPLICATE_IDS_CLEARED,)),
    "reset-groups": frozenset((events.GROUPS_RESET,)),
    "create-divert": frozenset((events.DIVERT_CREATED,)),
    "delete-divert": frozenset((events.DIVERT_DELETED,)),
    "set-settings": frozenset((events.SETTINGS_CHANGED,)),
    "remove-settings": frozenset((events.SETTINGS_CHANGED,)),
    "act-on-messages": OF_ENTRIES,
}
"""The kinds of events that a request may have; it has at least one of them."""


class _Request(msgspec.Struct):
    do: str = ""


_decoder = msgspec.json.Decoder(_Request)


@checks(events.ADMINISTERED)
def requested(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a request covers events of its block, and among them what it asked for."""
    first = context.events[0][0]
    if not first <= row[RELATED] < context.lsn:
        why = f"it covers events from {row[RELATED]} on, of another block"
        return rules.REQUESTED, why, ()
    decoded = cast(
        details.AdministeredDetail, events.decode_detail(events.ADMINISTERED, context.detail)
    )
    try:
        asked = _decoder.decode(decoded.request).do
    except msgspec.MsgspecError:
        return None
    kinds = ASKED.get(asked)
    covered = context.events[row[RELATED] - first : context.at]
    if kinds is None or any(event[1][KIND] in kinds for event in covered):
        return None
    return rules.REQUESTED, f"it asked for {asked}, and nothing like that was done", (row[RELATED],)
