"""What became of a message that was just sent, according to the events decided about it.

Reads the open batch and changes nothing. Costs nothing for senders that do not ask.
"""

from typing import NamedTuple, cast

from daybook.engine import details, events
from daybook.engine.events import KIND, QUEUE, REASON
from daybook.engine.names import plain
from daybook.engine.pending import Pending
from daybook.engine.reasons import REASONS, SENT
from daybook.engine.rows import unpack_wide
from daybook.engine.state import State


class Outcome(NamedTuple):
    """The queues that a message was routed to; if there are none, why it was dropped."""

    queues: tuple[str, ...]
    reason: str = ""


def outcome_of(state: State, pending: Pending, since: int) -> Outcome | None:
    """Return what became of the message in the open batch after an LSN, None if there is none.

    For a message that diverts took completely that is the first copy; for one that went to several
    destinations, the queues of all of them.
    """
    queues: list[str] = []
    reason: str | None = None
    rows = [unpack_wide(row) for row in pending.rows[since + 1 - pending.first_lsn :]]
    count = sum(detail_bytes > 0 for _, (detail_bytes, _, _) in rows)
    encoded = iter(pending.details[len(pending.details) - count :])
    for row, (detail_bytes, _, _) in rows:
        detail = next(encoded) if detail_bytes else b""
        if row[KIND] == events.DROPPED and reason is None:
            reason = REASONS[row[REASON]][0]
        if row[KIND] == events.ROUTED and (row[REASON] == SENT or (not queues and reason is None)):
            ids: tuple[int, ...] = (row[QUEUE],)
            if not row[QUEUE]:
                ids = cast(details.RoutedDetail, events.decode_detail(events.ROUTED, detail)).queues
            queues += [plain(state.queues[number].name) for number in ids]
    if queues:
        return Outcome(tuple(queues))
    return Outcome((), reason) if reason is not None else None
