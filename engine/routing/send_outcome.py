"""What became of a message that was just sent, according to the events decided about it.

Only reads the open batch. Costs nothing for senders that do not ask.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from daybook.engine.facts import events
from daybook.engine.facts.events import KIND, QUEUE, REASON
from daybook.engine.facts.pending import Pending
from daybook.engine.facts.reasons import REASONS, SENT
from daybook.engine.facts.rows import unpack_wide
from daybook.engine.names.names import plain, unnumbered
from daybook.engine.queues.queue import Queue
from daybook.engine.state.state import State

NAMES_MAX: Final = 100
"""How many queues are named at most."""


class Outcome(NamedTuple):
    """The queues that a message was routed to, by the names that its sender may know, and how many
    others there are; if there are none at all, why it was dropped."""

    queues: tuple[str, ...]
    reason: str = ""
    others: int = 0


def outcome_of(
    state: State, pending: Pending, since: int, may_know: Callable[[Queue], bool]
) -> Outcome | None:
    """Return what became of the message in the open batch after an LSN, None if there is none.

    Of its queues the first NAMES_MAX are named, as far as the sender `may_know` them.

    For a message that exclusive diverts took, those are the queues of all copies; for one that went
    to several destinations, the queues of all of them.
    """
    sent: list[Queue] = []
    copied: list[Queue] = []
    reason: str | None = None
    rows = [unpack_wide(row) for row in pending.rows[since + 1 - pending.first_lsn :]]
    count = sum(detail_bytes > 0 for _, (detail_bytes, _, _) in rows)
    encoded = iter(pending.details[len(pending.details) - count :])
    for row, (detail_bytes, _, _) in rows:
        detail = next(encoded) if detail_bytes else b""
        if row[KIND] == events.DROPPED and reason is None:
            reason = REASONS[row[REASON]][0]
        if row[KIND] == events.ROUTED:
            ids: tuple[int, ...] = (row[QUEUE],)
            if not row[QUEUE]:
                ids = events.routed_detail(detail).queues
            if row[REASON] == SENT:
                sent += [state.queues[number] for number in ids]
            elif copied or reason is None:
                copied += [state.queues[number] for number in ids]
    queues = sent or copied
    if queues:
        names = tuple(plain(unnumbered(each.name)) for each in queues[:NAMES_MAX] if may_know(each))
        return Outcome(names, others=len(queues) - len(names))
    return Outcome((), reason) if reason is not None else None
