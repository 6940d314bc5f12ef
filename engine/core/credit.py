"""The credit of takers: of consumers of queues, and of receivers of direct addresses."""

from daybook.engine.commands import Credit
from daybook.engine.facts.settlements import BY_GRANT
from daybook.engine.queues.entry import Taker
from daybook.engine.refusals import Code, Refusal


def grant(taker: Taker, command: Credit) -> Refusal | None:
    """Change the credit of a taker as a command says, unless that is refused."""
    if command.in_all >= 0 or command.drains:
        if taker.credit_policy != BY_GRANT:
            return Refusal(
                Code.INVALID,
                f"the credit of subscription '{taker.subscription}' returns by itself, so it can be"
                " neither set nor drained; grant it",
            )
        if command.in_all >= 0:
            taker.credit_messages = command.in_all - taker.handed - taker.drained
    taker.credit_messages += command.messages
    taker.credit_bytes += command.bytes
    return None


def take_back(taker: Taker) -> int:
    """Take back the credit that a drain left; return how many messages it was for."""
    left = max(taker.credit_messages, 0)
    taker.credit_messages -= left
    taker.credit_bytes = min(taker.credit_bytes, 0)
    taker.drained += left
    return left
