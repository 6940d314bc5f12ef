"""Wildcard addresses: which of them a name matches (ADR 40).

A *wildcard address* has a pattern as its name. Nothing is sent to it; its queues get every message
sent to an address that the pattern matches, and hold it as messages of that address. So the address
of a queue decides about its limits and settings, and the address of a message says where it was
sent. Derived from the addresses that exist, and no part of the state. Must never know queues.
"""

from collections.abc import Iterable
from typing import Final

from daybook.engine.limits.budget import Budget
from daybook.engine.limits.pools import PatternCharges
from daybook.engine.names.names import is_temporary
from daybook.engine.names.patterns import PatternTrie
from daybook.engine.names.syntax import syntax_of
from daybook.engine.queues.queue import Address

VISITED_SHIFT: Final = 3
"""Looking up a name costs one unit of the budget for 2 to this power of nodes of the trie."""


class Wildcards:
    """All wildcard addresses; `of` remembers what each address matches until they change.

    `count` is how many there are, so that routing need not ask where there are none.
    """

    __slots__ = (
        "_all", "_budget", "_charges", "_makers", "_none", "_tries", "_version", "count",
    )  # fmt: skip

    def __init__(
        self, addresses: Iterable[Address], budget: Budget, charges: PatternCharges
    ) -> None:
        self.count = 0
        self._charges = charges
        # The connection that made each, 0 for those from before a restart.
        self._makers: dict[int, int] = {}
        self._all: dict[int, Address] = {}
        self._budget = budget
        # By the syntax of the patterns; there is one, unless that of the configuration changed.
        self._tries: dict[str, PatternTrie[Address]] = {}
        self._version = 0
        self._none: tuple[int, tuple[Address, ...]] = 0, ()
        for address in addresses:
            self.add(address)

    def add(self, address: Address, connection: int = 0) -> None:
        """Add an address that a connection created, if it is a wildcard address."""
        if address.is_wildcard:
            syntax = address.definition.syntax
            trie = self._tries.get(syntax)
            if trie is None:
                trie = self._tries[syntax] = PatternTrie(syntax_of(syntax), is_full=True)
            trie.add(address.name, address)
            self._all[address.id] = address
            user = address.definition.user
            if user:
                self._makers[address.id] = connection
                self._charges.add(address.name, syntax_of(syntax), user, connection)
            self._change()

    def remove(self, address: Address) -> None:
        """Remove an address that was deleted."""
        if address.is_wildcard:
            syntax = address.definition.syntax
            self._tries[syntax].remove(address.name, address)
            del self._all[address.id]
            user = address.definition.user
            if user:
                maker = self._makers.pop(address.id)
                self._charges.remove(address.name, syntax_of(syntax), user, maker)
            self._change()

    def of(self, address: Address) -> tuple[Address, ...]:
        """Return the wildcard addresses that an address matches, in the order of their ids.

        A wildcard address matches none: nothing is sent to it.
        """
        version, found = address.matched
        if version != self._version:
            found = () if address.is_wildcard else self.matching(address.name)
            address.matched = (self._version, found) if found else self._none
        return found

    def matching(self, name: str) -> tuple[Address, ...]:
        """Return the wildcard addresses that a name matches, in the order of their ids.

        A temporary destination matches none: it is for its connection alone.
        """
        found: list[Address] = []
        if is_temporary(name):
            return ()
        for trie in self._tries.values():
            found += trie.matching(name)
            self._budget.spent += trie.visited >> VISITED_SHIFT
        return tuple(sorted(found, key=_by_id))

    @property
    def parts(self) -> int:
        """How many words match in part."""
        return sum([trie.parts for trie in self._tries.values()])

    @property
    def regexes(self) -> int:
        """How many words have regular expressions."""
        return sum([trie.regexes for trie in self._tries.values()])

    def all(self) -> list[Address]:
        """Return all wildcard addresses, as a list: work on them may create and delete some."""
        return list(self._all.values())

    @property
    def nodes(self) -> int:
        """How many nodes of a trie they take."""
        return sum(trie.nodes for trie in self._tries.values())

    def _change(self) -> None:
        self.count = len(self._all)
        self._version += 1
        self._none = self._version, ()


def _by_id(address: Address) -> int:
    return address.id
