"""Subscriptions with wildcards over queues: which queues they find, now and later (ADR 60).

A new queue is matched with a trie of all patterns; nobody walks over queues for it. A new
subscription is matched by a round over the addresses, for all that wait for one together, in
slices. Volatile, and no decision: queues that it finds are offered to
`engine.consumers.bundle_subscriptions`, which attaches. Must never know credit, permissions or
consumers.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from daybook.engine.facts.definitions import ANYCAST
from daybook.engine.limits.budget import Budget
from daybook.engine.limits.pools import PatternCharges
from daybook.engine.names.names import INTERNAL, TEMPORARY, plain
from daybook.engine.names.patterns import PatternTrie
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.queues.consumer import Bundle
from daybook.engine.queues.queue import Address, Queue
from daybook.engine.state.state import State

VISITED_SHIFT: Final = 3
"""Looking up a name costs one unit of the budget for 2 to this power of nodes of the trie."""
LOOKED_MASK: Final = 3
"""Looking at one address or queue more than this costs one unit of the budget."""
ROUND_BUNDLES: Final = 1_000
"""For how many bundles one round looks; further ones wait for the next."""


class WildcardSubscriptions:
    """All bundles that take from queues by patterns.

    `count` is how many patterns there are, so that a new queue costs nothing where there are none.
    `offered` is the queue that is offered now, to the bundles that are left in `offers`. `has_work`
    says that queues may have to be offered still.
    """

    __slots__ = (
        "_addresses",
        "_charges",
        "_fresh",
        "_looked",
        "_new",
        "_patterns",
        "_queues",
        "_round",
        "_seeking",
        "_standing",
        "_syntax",
        "count",
        "has_work",
        "offered",
        "offers",
    )  # fmt: skip

    def __init__(self, charges: PatternCharges) -> None:
        self._charges = charges
        self._syntax = DEFAULT
        self.count = 0
        self.has_work = False
        self.offered = 0
        self.offers: list[Bundle] = []
        self._patterns: PatternTrie[Bundle] = PatternTrie(DEFAULT, is_full=True)
        self._standing: set[int] = set()
        # Ids of queues that are new, and bundles that wait for a round.
        self._new: dict[int, None] = {}
        self._fresh: dict[int, Bundle] = {}
        # The round: its bundles, the ids of addresses and queues to look at, the last one first.
        self._round: PatternTrie[Bundle] = PatternTrie(DEFAULT, is_full=True)
        self._seeking: dict[int, Bundle] = {}
        self._addresses: list[int] = []
        self._queues: list[int] = []
        self._looked = 0

    def add(self, bundle: Bundle, syntax: Syntax) -> None:
        """Look for the queues of a bundle, from now on if it stays."""
        if not bundle.ends:
            if not self.count:
                self._patterns = PatternTrie(syntax, is_full=True)
                self._syntax = syntax
            self._standing.add(bundle.id)
            connection = bundle.connection
            for pattern in bundle.patterns:
                self._patterns.add(pattern, bundle)
                self._charges.add(pattern, self._syntax, connection.user, connection.id)
                self.count += 1
        self.look_again(bundle)

    def remove(self, bundle: Bundle) -> None:
        """Look no more for the queues of a bundle, if anybody does."""
        self._fresh.pop(bundle.id, None)
        self._seeking.pop(bundle.id, None)
        if bundle.id in self._standing:
            self._standing.discard(bundle.id)
            connection = bundle.connection
            for pattern in bundle.patterns:
                self._patterns.remove(pattern, bundle)
                self._charges.remove(pattern, self._syntax, connection.user, connection.id)
                self.count -= 1

    def look_again(self, bundle: Bundle) -> None:
        """Look again for queues that a bundle does not take from yet."""
        if bundle.patterns:
            bundle.is_short = False
            bundle.is_sought = True
            self._fresh[bundle.id] = bundle
            self.has_work = True

    def look_again_for_all(self, bundles: Iterable[Bundle]) -> None:
        """Look again for the queues of all bundles: some may take what they could not before, or
        may not any more."""
        for bundle in bundles:
            self.look_again(bundle)

    def note(self, queue: Queue) -> None:
        """Offer a queue that is new to the bundles that match."""
        self._new[queue.id] = None
        self.has_work = True

    @property
    def nodes(self) -> int:
        """How many nodes of tries they take."""
        return self._patterns.nodes + self._round.nodes

    @property
    def parts(self) -> int:
        """How many words of their patterns match in part."""
        return self._patterns.parts

    @property
    def regexes(self) -> int:
        """How many words of their patterns have regular expressions."""
        return self._patterns.regexes

    def next(self, state: State, budget: Budget) -> tuple[Queue | None, list[Bundle]]:
        """Return the next queue and the bundles that match it; without one, the bundles whose round
        is over.

        Looks as far as the budget allows.
        """
        while not budget.is_spent:
            if self._new:
                number = next(iter(self._new))
                del self._new[number]
                trie = self._patterns
            elif self._queues:
                number = self._queues.pop()
                trie = self._round
            elif self._addresses:
                self._look_at(state.addresses.get(self._addresses.pop()))
                self._spend(budget)
                continue
            elif self._seeking:
                done, self._seeking = self._seeking, {}
                self._round = PatternTrie(DEFAULT, is_full=True)
                return None, list(done.values())
            elif self._fresh:
                self._begin_round(state)
                budget.spent += len(self._seeking) >> VISITED_SHIFT
                continue
            else:
                self.has_work = False
                break
            self._spend(budget)
            queue = state.queues.get(number)
            if queue is not None and can_be_found(queue):
                found = trie.matching(queue.address.name)
                budget.spent += trie.visited >> VISITED_SHIFT
                if found:
                    return queue, found
        return None, []

    def _begin_round(self, state: State) -> None:
        self._seeking = dict(islice(self._fresh.items(), ROUND_BUNDLES))
        for number in self._seeking:
            del self._fresh[number]
        self._round = PatternTrie(state.settings.syntax, is_full=True)
        for bundle in self._seeking.values():
            for pattern in bundle.patterns:
                self._round.add(pattern, bundle)
        self._addresses = list(state.addresses)
        self._addresses.reverse()

    def _spend(self, budget: Budget) -> None:
        self._looked += 1
        if not self._looked & LOOKED_MASK:
            budget.spent += 1

    def _look_at(self, address: Address | None) -> None:
        """Look at the queues of an address next."""
        if address is not None and not address.is_wildcard and not _is_private(address.name):
            self._queues = [binding.queue.id for binding in address.anycast]
            self._queues.reverse()


def can_be_found(queue: Queue) -> bool:
    """Whether a queue may be one of those that patterns of queues mean: anycast, and neither of
    the broker itself nor temporary."""
    binding = queue.binding
    return (
        not queue.deleting
        and binding is not None
        and binding.routing_type == ANYCAST
        and not queue.definition.keeps
        and not queue.definition.temporary
        and not _is_private(queue.address.name)
    )


def _is_private(name: str) -> bool:
    return plain(name).startswith((INTERNAL, TEMPORARY))
