"""Asking the filters of an address about a message in slices, before anything is decided (ADR 73).

A message to thousands of subscriptions asks as many filters, and its `Routed` is one event. The
answer of a filter depends on the message alone. So the filters are asked first, each text once,
until the budget is spent; the send is then answered UNFINISHED, and its command keeps the answers.
When all filters have answered, the message is routed in one step, by the bindings at that time.
Filters that need facts known only at that time are asked then (`Cost.is_late`).

Volatile, and no decision: routing asks the filters without an answer here. Must never know which
queues are chosen.
"""

from typing import Final

from daybook.engine.commands import Send
from daybook.engine.core.core import Core
from daybook.engine.facts.events import PERSISTENT
from daybook.engine.filters.compiling import CompiledFilter
from daybook.engine.messages.message import Message
from daybook.engine.queues.queue import Address, SharedFilter
from daybook.engine.settings.expiry_rules import expires_of

AT_ONCE_CHARACTERS: Final = 1000
"""Filters with so many characters together are asked when the message is routed."""
KNOWN_SHIFT: Final = 7
"""Passing filters that were asked costs one unit of the budget for 2 to this power."""


class Judged:
    """What filters say about a message that is on its way to queues, by their texts."""

    __slots__ = ("known", "message")

    def __init__(self, message: Message) -> None:
        self.message: Final = message
        self.known: dict[str, bool] = {}

    def fits(self, message: Message) -> bool:
        """Whether a message that is routed now is the one that filters were asked about."""
        return (
            message.headers == self.message.headers
            and message.expires == self.message.expires
            and message.priority == self.message.priority
        )


def is_judged(core: Core, command: Send, address: Address | None) -> bool:
    """Ask the filters of where a message may go, as far as the budget allows, one at least.

    Return whether all have answered. `address` is that of the command, None if there is none yet.
    """
    if core.is_checked or command.queue is not None:
        return True
    places = [address] if address is not None else []
    if core.wildcards.count:
        places += (
            core.wildcards.of(address)
            if address is not None
            else core.wildcards.matching(command.address)
        )
    if sum([each.filter_characters for each in places]) <= AT_ONCE_CHARACTERS:
        return True
    judged: Judged | None = command.judged
    if judged is None:
        judged = command.judged = Judged(_message(core, command, address))
    known = judged.known
    for place in places:
        core.budget.spent += len(known) >> KNOWN_SHIFT
        for text, shared in place.filters.items():
            if text in known:
                continue
            if shared.matcher is None:
                shared.matcher = core.filters.get(text, core.now)
            if shared.matcher is None:
                return False
            if not _is_late(shared):
                known[text] = core.passes(shared.matcher, judged.message)
            if core.budget.is_spent:
                # If it was the last one, the next slice finds that out.
                return False
    return True


def known_of(command: Send, message: Message) -> dict[str, bool]:
    """Return what filters said about a message that is routed now, by their texts."""
    judged: Judged | None = command.judged
    return judged.known if judged is not None and judged.fits(message) else {}


def _is_late(shared: SharedFilter) -> bool:
    matcher = shared.matcher
    return isinstance(matcher, CompiledFilter) and matcher.cost.is_late


def _message(core: Core, command: Send, address: Address | None) -> Message:
    """Return the message as filters see it; its id is not known yet."""
    settings = core.state.settings.resolve(command.address)
    # A command that is given again keeps its times, as one that was blocked.
    command.expires = expires_of(settings, command.expires, core.now // 1000)
    flags = PERSISTENT | command.format if command.persistent else command.format
    message = Message(
        0, address.id if address is not None else 0, command.priority, flags, command.expires,
        command.headers, command.body,
    )  # fmt: skip
    if command.chunks:
        message.enlarge(command.chunks, command.body_bytes)
    return message
