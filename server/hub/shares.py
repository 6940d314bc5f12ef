"""The memory that each user holds, by kind, and which users hold more than their share.

One user may hold half of what a kind of memory has for all (`engine.limits.pools`), and of all
kinds together `max-memory-per-user`. The remedies for a user above its share are those for the kind
as a whole, applied only to the connections of that user: nobody else notices. The sums come from
the walks over all connections that recount them, so they are some tenths of a second old; the
limits of the kinds hold at every moment. Must never know connections, or what a remedy does.
"""

from typing import Final

from daybook.engine.limits.pools import MEMORY_USER_PART

OUTPUT: Final = "output"
INPUT: Final = "input"
UNACKNOWLEDGED: Final = "unacknowledged"
TRANSACTIONS: Final = "transactions"
OBJECTS: Final = "objects"
KINDS_OF_USERS: Final = (OUTPUT, INPUT, UNACKNOWLEDGED, TRANSACTIONS, OBJECTS)
"""The kinds of memory that belong to users. Messages have none: they page."""
ALL: Final = "all"


class Shares:
    """The memory of each user, and the kinds that each is short of. Users without a name have no
    share."""

    __slots__ = ("_counting", "of_user", "short")

    def __init__(self) -> None:
        self.of_user: dict[str, dict[str, int]] = {}
        self.short: dict[str, frozenset[str]] = {}
        self._counting: dict[str, dict[str, int]] = {}

    def count(self, user: str, **used: int) -> None:
        """Add the memory of some kinds that a connection of a user uses."""
        if not user:
            return
        known = self._counting.get(user)
        if known is None:
            known = self._counting[user] = dict.fromkeys(KINDS_OF_USERS, 0)
        for kind, size in used.items():
            known[kind] += size

    def complete(self, share: int, most: int) -> dict[str, frozenset[str]]:
        """End a walk: compare the counts with the limits. Return the users whose shortage changed,
        each with the kinds that it is short of.

        `share` is the limit of each kind, `most` what a user may hold in all.
        """
        self.of_user, self._counting = self._counting, {}
        before, self.short = self.short, {}
        for user, used in self.of_user.items():
            was_short = before.get(user, frozenset())
            limits = {kind: share // MEMORY_USER_PART for kind in KINDS_OF_USERS} | {ALL: most}
            sizes = used | {ALL: sum(used.values())}
            short = frozenset(
                kind
                for kind, limit in limits.items()
                # Until an eighth of it is free again.
                if sizes[kind] > (limit * 7 // 8 if kind in was_short else limit)
            )
            if short:
                self.short[user] = short
        return {
            user: self.short.get(user, frozenset())
            for user in {**before, **self.short}
            if self.short.get(user) != before.get(user)
        }

    def is_short(self, user: str, kind: str) -> bool:
        """Whether a user has more than its share of a kind, or of all kinds together."""
        short = self.short.get(user)
        return short is not None and (kind in short or ALL in short)

    def excess(self, user: str, share: int) -> int:
        """Return how much input of a user must go, so that an eighth of its share is free."""
        used = self.of_user.get(user, {}).get(INPUT, 0)
        return used - share // MEMORY_USER_PART * 7 // 8

    def largest(self, count: int) -> list[dict[str, str | int]]:
        """Describe the users that hold the most, for `daybook status`."""
        rows: list[dict[str, str | int]] = [
            {
                "user": user,
                "bytes": sum(used.values()),
                **used,
                "short_of": ", ".join(sorted(self.short.get(user, ()))),
            }
            for user, used in self.of_user.items()
        ]
        rows.sort(key=lambda row: -int(row["bytes"]))
        return rows[:count]
