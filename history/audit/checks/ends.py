"""The rules of ends: consumers, deliveries and transactions end for the reason for which their
connection does, or for one of their own.

Must never know what a delivery's end means for its message.
"""

from typing import Final, cast

from daybook.engine.facts import details, events, reasons
from daybook.engine.facts.events import CONNECTION, CONSUMER, KIND, REASON, Row
from daybook.engine.facts.settlements import OUTCOMES
from daybook.history.audit import rules
from daybook.history.audit.context import AuditContext
from daybook.history.audit.registry import checks
from daybook.history.audit.rules import Wrong

OF_CONSUMERS: Final = frozenset(
    (
        reasons.CLOSED, reasons.END_OF_BROWSE, reasons.LEFT_OUT, reasons.QUEUE_REMOVED,
        reasons.STOLEN, reasons.UNREADABLE,
    )
)  # fmt: skip
"""Why a consumer ends although its connection does not."""
OF_TRANSACTIONS: Final = frozenset((reasons.ROLLBACK, reasons.COMMIT_REFUSED, reasons.LIMIT))
"""Why a transaction does."""
OF_DELIVERIES: Final = frozenset((*OUTCOMES.values(), reasons.UNREADABLE))
"""Why a delivery does."""


def noted(context: AuditContext, row: Row) -> Wrong | None:
    """Note that something ends because its connection does."""
    connection, reason = row[CONNECTION], row[REASON]
    known = context.ending.setdefault(connection, (reason, context.lsn))
    return None if known[0] == reason else another(known)


def another(known: tuple[int, int]) -> Wrong:
    """Return the breach of what ends for another reason than this, which an event said."""
    name = reasons.REASONS.get(known[0], ("",))[0]
    return rules.ENDED, f"this ended for another reason: {name}", (known[1],)


def wrong_attached(context: AuditContext, row: Row) -> Wrong | None:
    """Check that the connection of a new consumer was not ending."""
    known = context.ending.get(row[CONNECTION])
    if known is None:
        return None
    return rules.ENDED, f"connection {row[CONNECTION]} was ending", (known[1],)


def wrong_detached(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a consumer ends for the reason for which its deliveries did."""
    reason = row[REASON]
    known = context.detaching.pop(row[CONSUMER], None)
    if known is not None and known[0] != reason and not _may_follow(known[0], reason):
        return another(known)
    before = context.previous
    if before is not None and before[1][KIND] == events.RETURNED:
        other = before[1]
        is_own = other[CONSUMER] == row[CONSUMER] and other[REASON] not in OF_DELIVERIES
        if is_own and other[REASON] != reason:
            return another((other[REASON], before[0]))
    return noted(context, row) if reason not in OF_CONSUMERS else None


def _may_follow(before: int, reason: int) -> bool:
    """Whether what ends in parts may do so for two reasons: its connection was lost meanwhile."""
    return before in OF_CONSUMERS and reason not in OF_CONSUMERS


def wrong_return(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a delivery ends by its consumer's word, or because that ends."""
    reason, consumer = row[REASON], row[CONSUMER]
    known = context.detaching.get(consumer)
    if known is not None and known[0] != reason and not _may_follow(known[0], reason):
        return another(known)
    if reason in OF_DELIVERIES:
        return None
    context.detaching[consumer] = reason, context.lsn
    if reason in OF_CONSUMERS:
        return None
    return wrong_of_connection(context, row[CONNECTION], reason)


def wrong_of_connection(context: AuditContext, connection: int, reason: int) -> Wrong | None:
    """Check that a connection that is ending does so for this reason."""
    known = context.ending.get(connection)
    return another(known) if known is not None and known[0] != reason else None


def wrong_delivery(context: AuditContext, consumer: int) -> Wrong | None:
    """Check that a consumer that is handed something, or acknowledges it, was not leaving."""
    known = context.detaching.get(consumer)
    if known is None:
        return None
    return rules.ENDED, f"consumer {consumer} was leaving", (known[1],)


@checks(events.CONNECTION_CLOSED)
def closed(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a connection ends for the reason for which what it had did."""
    wrong = wrong_of_connection(context, row[CONNECTION], row[REASON])
    context.ending.pop(row[CONNECTION], None)
    left = context.direct.links.of_connection.get(row[CONNECTION])
    if wrong is None and left:
        first = next(iter(left))
        return rules.FITS, f"link {first} of it is attached", (first,)
    return wrong


@checks(events.TRANSACTION_ROLLED_BACK)
def rolled_back(context: AuditContext, row: Row) -> Wrong | None:
    """Check that a transaction that left nothing was of an open connection."""
    found = cast(
        details.TransactionDetail,
        events.decode_detail(events.TRANSACTION_ROLLED_BACK, context.detail),
    )
    if row[CONNECTION] not in context.state.connections:
        return rules.SENDER, f"connection {row[CONNECTION]} is not open", ()
    if found.first or found.events:
        return rules.COMMIT, "it was rolled back, and names events", ()
    return noted(context, row) if row[REASON] not in OF_TRANSACTIONS else None
