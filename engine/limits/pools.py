"""The pools that all clients share, and the share that one user or one connection may take.

`POOLS` is the one table of them: the checks read their limits from its rows, the pages are drawn
from it, and a test fills every pool as one user and asks for more as another. So no client can use
up what others need. A limit is a number, or the key of the configuration that has it. Must never
know what is kept in a pool.
"""

from typing import Final, TypeAlias, TypeVar

import msgspec

from daybook.engine.names.syntax import REGEX_START, Syntax
from daybook.engine.names.words import is_part, words_of

MEMORY_USER_PART: Final = 2
MEMORY_CONNECTION_PART: Final = 4
"""One user may take half of the memory of a kind, and one connection a quarter: where there is one
user, it must not be limited to little, and another one finds the rest."""

_K = TypeVar("_K", int, str)

Limit: TypeAlias = int | str
"""A number, or the key of the configuration with the number, or words about another limit."""

USER_PART: Final = 4
CONNECTION_PART: Final = 8
"""One user may take a quarter of a pool with a fixed size, and one connection an eighth."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: its units, its limits, the module that checks them, and the consequence beyond
    them."""

    name: str
    of_all: Limit
    of_user: Limit
    of_connection: Limit
    charged: str
    beyond: str

    def refusal(self, used: tuple[int, int, int], more: int, user: str) -> str | None:
        """Return why nobody gets so many more, None if they are granted.

        `used` is what the connection, the user and all have. Only for pools whose limits are
        numbers.
        """
        of_connection, of_user, of_all = used
        for whose, count, limit in (
            ("the connection has", of_connection, self.of_connection),
            (f"user '{user}' has", of_user, self.of_user),
            ("all clients together have", of_all, self.of_all),
        ):
            assert isinstance(limit, int)
            if count + more > limit:
                share = "" if limit == self.of_all else f" of {self.of_all:,} in all"
                return f"{whose} {count:,} {self.name}, and the limit is {limit:,}{share}"
        return None


def _fixed(name: str, most: int, charged: str, beyond: str) -> Pool:
    return Pool(
        name=name,
        of_all=most,
        of_user=most // USER_PART,
        of_connection=most // CONNECTION_PART,
        charged=charged,
        beyond=beyond,
    )


REFUSED: Final = "refused with an ERROR"

REGEXES: Final = _fixed(
    "regular expressions in names of subscriptions", 100, "engine.core.quotas", REFUSED
)
"""They take more time and memory than other words of patterns."""
PARTS: Final = _fixed(
    "words that match in part in names of subscriptions", 1_000, "engine.core.quotas", REFUSED
)
"""A name is compared with each of those that come next, so they cost time."""
GROUPS: Final = _fixed(
    "message groups",
    200_000,
    "engine.queues.groups",
    "further groups of the queue share 64 places, each in order and with one consumer",
)
"""Those that are known each by itself."""
CONNECTIONS: Final = Pool(
    name="connections",
    of_all="max-connections",
    of_user="max-connections-per-user",
    of_connection=1,
    charged="engine.core.quotas",
    beyond="the login is refused",
)
QUEUES: Final = Pool(
    name="queues that clients made by using them",
    of_all="max-memory",
    of_user="max-queues-per-user",
    of_connection="max-queues-per-user",
    charged="engine.core.quotas",
    beyond=REFUSED,
)
TRANSACTIONS: Final = Pool(
    name="bytes of open transactions",
    of_all="max-transactions-memory",
    of_user="half of it",
    of_connection="a quarter of it",
    charged="engine.consumers.transactions",
    beyond="those of the user's connection with the most are rolled back; if that is the one that"
    " asks, it is " + REFUSED,
)
POOLS: Final = (CONNECTIONS, QUEUES, REGEXES, PARTS, GROUPS, TRANSACTIONS)


class Charges:
    """How many units of a pool each user and each connection is charged for."""

    __slots__ = ("of_connection", "of_user")

    def __init__(self) -> None:
        self.of_user: dict[str, int] = {}
        self.of_connection: dict[int, int] = {}

    def add(self, user: str, connection: int, count: int = 1) -> None:
        """Count so many more for a user and a connection."""
        self.of_user[user] = self.of_user.get(user, 0) + count
        self.of_connection[connection] = self.of_connection.get(connection, 0) + count

    def remove(self, user: str, connection: int, count: int = 1) -> None:
        """Count so many less."""
        _count_down(self.of_user, user, count)
        _count_down(self.of_connection, connection, count)

    def of(self, user: str, connection: int) -> tuple[int, int]:
        """Return what a connection and its user have."""
        return self.of_connection.get(connection, 0), self.of_user.get(user, 0)


def _count_down(counts: dict[_K, int], key: _K, count: int) -> None:
    counts[key] -= count
    if not counts[key]:
        del counts[key]


class PatternCharges:
    """The words of patterns that match in part, and the regular expressions, of each client.

    Counted as a trie of patterns does: patterns of one holder that begin alike share a word.
    Patterns of the configuration and of administrators have no holder.
    """

    __slots__ = ("_uses", "parts", "regexes")

    def __init__(self) -> None:
        self.parts: Final = Charges()
        self.regexes: Final = Charges()
        self._uses: dict[tuple[str, int, str], int] = {}

    def add(self, pattern: str, syntax: Syntax, user: str, connection: int) -> None:
        """Count a pattern of a user's connection."""
        for beginning, is_regex in partial_words(pattern, syntax):
            place = user, connection, beginning
            uses = self._uses.get(place, 0)
            self._uses[place] = uses + 1
            if not uses:
                self.parts.add(user, connection)
                if is_regex:
                    self.regexes.add(user, connection)

    def remove(self, pattern: str, syntax: Syntax, user: str, connection: int) -> None:
        """Stop counting a pattern that was added."""
        for beginning, is_regex in partial_words(pattern, syntax):
            place = user, connection, beginning
            self._uses[place] -= 1
            if not self._uses[place]:
                del self._uses[place]
                self.parts.remove(user, connection)
                if is_regex:
                    self.regexes.remove(user, connection)


def partial_words(pattern: str, syntax: Syntax) -> list[tuple[str, bool]]:
    """Return the words of a pattern that match in part, each with those before it, and whether it
    has a regular expression; none for a name."""
    if not syntax.is_pattern(pattern):
        return []
    words = words_of(pattern, syntax.delimiter)
    return [
        (syntax.delimiter.join(words[: place + 1]), REGEX_START in word)
        for place, word in enumerate(words)
        if word not in (syntax.one_word, syntax.any_words) and is_part(word, syntax)
    ]
