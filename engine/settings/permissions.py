"""Permissions: the actions of a user at an address, by its roles and the rule of the address (ADR
55).

A rule belongs to a match over names, like address settings (`engine.names.matches`), or to exactly
one queue (`ADDRESS::QUEUE`). Rules do not merge: the most specific one alone decides, and what it
does not grant is refused, as is everything where no rule applies. A rule may be for one virtual
host alone; such rules come before those for all hosts. Without any rule every user may do
everything. Pure functions of the rules: must never know a connection, a clock or the journal.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from daybook.engine.names.matches import Covering
from daybook.engine.names.names import DIVIDER, host_and_name, plain, unnumbered
from daybook.engine.names.syntax import DEFAULT, Syntax
from daybook.engine.settings.settings import check_match

SEND: Final = "send"
CONSUME: Final = "consume"
BROWSE: Final = "browse"
CREATE_ADDRESS: Final = "create-address"
DELETE_ADDRESS: Final = "delete-address"
CREATE_DURABLE_QUEUE: Final = "create-durable-queue"
DELETE_DURABLE_QUEUE: Final = "delete-durable-queue"
CREATE_NON_DURABLE_QUEUE: Final = "create-non-durable-queue"
DELETE_NON_DURABLE_QUEUE: Final = "delete-non-durable-queue"
MANAGE: Final = "manage"

PERMISSIONS: Final[dict[str, str]] = {
    SEND: "Who may send to the address.",
    CONSUME: "Who may consume from queues of the address, and subscribe to it.",
    BROWSE: "Who may look at messages of queues of the address without consuming them.",
    CREATE_ADDRESS: "Who may create the address, also by using it.",
    DELETE_ADDRESS: "Who may delete the address.",
    CREATE_DURABLE_QUEUE: "Who may create queues that survive a restart, also by using them:"
    " anycast queues and durable subscriptions.",
    DELETE_DURABLE_QUEUE: "Who may delete such queues, also by ending a durable subscription.",
    CREATE_NON_DURABLE_QUEUE: "Who may create other queues, as each subscription to a topic does.",
    DELETE_NON_DURABLE_QUEUE: "Who may delete other queues. A subscription that ends deletes its"
    " own queue without it.",
    MANAGE: "Who may administer the address and its queues over the network.",
}
"""All permissions, in the order in which they are shown, with their meaning."""

Rules: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Rules by match: for each permission the names of roles, of users behind `USER`, or ANYONE."""

USER: Final = "user:"
ANYONE: Final = "*"
QUEUE_MARK: Final = "::"
WHO_LENGTH_MAX: Final = 255
EVERYTHING: Final = "#"
"""In explanations: where a request about the whole broker belongs."""

ROLES_NONE: Final[frozenset[str]] = frozenset()
REMEMBERED_MAX: Final = 10_000
"""For how many users, names and permissions the answer is remembered."""
USERS_MAX: Final = 100
"""For how many users the matches that grant them something are remembered."""
MATCHES_MAX: Final = 20
"""How many matches are returned of those that grant a user a permission."""


class Right(NamedTuple):
    """Whether a user has a permission at a place, and why: the matches of the rules that decide,
    and which of the granted names is that of the user, if any."""

    permission: str
    allowed: bool
    matches: tuple[str, ...]
    by: str


class Actor(NamedTuple):
    """An administrator from the network: its user, from where it asks, and the virtual hosts that
    the user may use, none for all."""

    user: str
    peer: str
    hosts: tuple[str, ...] = ()


class Denial(NamedTuple):
    """A command that was refused: whose, which permission is missing where, and from where it
    came."""

    connection: int
    user: str
    permission: str
    address: str
    queue: str
    peer: str


def wrong_with_match(match: str, syntax: Syntax = DEFAULT) -> str | None:
    """Return the fault in the match of a rule, None if it has none."""
    if QUEUE_MARK not in match:
        return check_match(match, syntax)
    address, _, queue = match.partition(QUEUE_MARK)
    if not address or not queue or QUEUE_MARK in queue or match != match.strip():
        return f"the match {match!r} must be ADDRESS::QUEUE"
    if not match.isprintable():
        return f"the match {match!r} must not hold control characters"
    return None


def wrong_with_who(who: str) -> str | None:
    """Return the fault in the name of a role or user in a rule, None if it has none."""
    name = who.removeprefix(USER)
    if not name or name != name.strip() or not name.isprintable() or len(name) > WHO_LENGTH_MAX:
        return (
            f"{who!r} is neither a role nor {USER}LOGIN; it must have 1 to {WHO_LENGTH_MAX}"
            " characters and neither begin nor end with a space"
        )
    return None


class Permissions:
    """The rules in force, and the roles of users. Immutable: other rules are a new object."""

    def __init__(
        self,
        rules: Rules,
        roles: Mapping[str, frozenset[str]] | None = None,
        syntax: Syntax = DEFAULT,
        of_hosts: Mapping[str, Rules] | None = None,
    ) -> None:
        """Accept rules that were checked before; `roles` are those of each user, `of_hosts` rules
        for one virtual host each."""
        self.rules: Final = rules
        self._of_hosts: Final = {
            host: Permissions(own, roles, syntax) for host, own in (of_hosts or {}).items()
        }
        # How many there are, for all hosts and for one alone.
        self.count: Final[int] = len(rules) + sum(map(len, (of_hosts or {}).values()))
        self.syntax: Final = syntax
        self._roles: Final = dict(roles or {})
        self._covering: Final = Covering(
            (match for match in rules if QUEUE_MARK not in match), syntax
        )
        # The matches of rules that are for one queue each.
        self._of_queues: Final[tuple[str, ...]] = (
            *(match for match in rules if QUEUE_MARK in match),
            *(host + DIVIDER + match for host, own in self._of_hosts.items()
              for match in own._of_queues),
        )  # fmt: skip
        self._is_by_name_alone: Final = not (self._of_hosts or self._of_queues)
        self._remembered: dict[tuple[str, str, str, str | None], bool] = {}
        self._somewhere: dict[tuple[str, str], tuple[str, ...]] = {}
        self._of_users: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}

    def roles_of(self, user: str) -> frozenset[str]:
        """Return the roles of a user."""
        return self._roles.get(user, ROLES_NONE)

    def allows(self, user: str, permission: str, address: str, queue: str | None = None) -> bool:
        """Return whether a user has a permission at an address, or at one of its queues.

        An address with wildcards stands for all names that match it: the user must have the
        permission at each of them. Remembered for a bounded number of questions.
        """
        key = (user, permission, address, queue)
        found = self._remembered.get(key)
        if found is None:
            found = self.explain(user, permission, address, queue).allowed
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def explain(self, user: str, permission: str, address: str, queue: str | None = None) -> Right:
        """Return whether a user has a permission, and which rules decide it."""
        if not self.count:
            return Right(permission, True, (), "")
        deciding, is_complete = self._deciding_anywhere(address, queue)
        by = ""
        for rules, prefix, match in deciding:
            by = rules._grants(match, user, permission)
            if not by:
                return Right(permission, False, (prefix + match,), "")
        matches = tuple(prefix + match for _, prefix, match in deciding)
        return Right(permission, is_complete, matches, by if is_complete else "")

    def allows_any(
        self, user: str, permissions: tuple[str, ...], address: str, queue: str | None = None
    ) -> bool:
        """Return whether a user has one of several permissions at a place; for a look at very many
        places, so only the answers about wildcards are remembered, and the rules that grant."""
        name = plain(address)
        if self._stands_for_many(name):
            return any(self.allows(user, each, address, queue) for each in permissions)
        if not self.count:
            return True
        granting = self._granting(user, permissions)
        if self._is_by_name_alone:
            return self._covering.first(name) in granting
        deciding, _ = self._deciding_anywhere(address, queue)
        # One rule decides about a name.
        return any(prefix + match in granting for _, prefix, match in deciding)

    def closes_queues(self, user: str, permissions: tuple[str, ...]) -> bool:
        """Return whether the rule of some queue alone gives a user none of several permissions."""
        return not self._granting(user, permissions).issuperset(self._of_queues)

    def _granting(self, user: str, permissions: tuple[str, ...]) -> frozenset[str]:
        """Return the matches of all rules that grant a user one of several permissions."""
        found = self._of_users.get((user, permissions))
        if found is None:
            found = frozenset(
                match
                for match, granted in self.every_rule()
                if any(self._among(granted.get(each, ()), user) for each in permissions)
            )
            if len(self._of_users) >= USERS_MAX:
                self._of_users.clear()
            self._of_users[user, permissions] = found
        return found

    def exception(self, user: str, permission: str) -> str:
        """Return the rule that denies a user at some addresses what the rule for all of them gives,
        empty if there is none."""
        everything = self.syntax.any_words
        if everything not in self.rules or not self._grants(everything, user, permission):
            return ""
        right = self.explain(user, permission, everything)
        return "" if right.allowed else ", ".join(right.matches)

    def grants_somewhere(self, user: str, permission: str) -> bool:
        """Return whether any rule grants a user a permission, at whatever address."""
        return not self.count or bool(self.matches_of(user, permission))

    def matches_of(self, user: str, permission: str) -> tuple[str, ...]:
        """Return the first matches whose rules grant a user a permission; those for one virtual
        host begin with the host. A more specific rule may take it away at a place."""
        key = user, permission
        found = self._somewhere.get(key)
        if found is None:
            granted = (
                match
                for match, granted in self.every_rule()
                if self._among(granted.get(permission, ()), user)
            )
            found = tuple(islice(granted, MATCHES_MAX))
            if len(self._somewhere) >= REMEMBERED_MAX:
                self._somewhere.clear()
            self._somewhere[key] = found
        return found

    def every_rule(self) -> Iterator[tuple[str, Mapping[str, tuple[str, ...]]]]:
        """Yield each rule with its match; those for one virtual host begin with the host."""
        yield from self.rules.items()
        for host, own in self._of_hosts.items():
            for match, granted in own.rules.items():
                yield f"{host}{DIVIDER}{match}", granted

    def allots(self, address: str, queue: str) -> bool:
        """Return whether the rule that decides about a queue is for this queue alone."""
        host, name = host_and_name(address)
        match = f"{name}{QUEUE_MARK}{unnumbered(plain(queue))}"
        own = self._of_hosts.get(host)
        if own is not None and (match in own.rules or own._deciding(name, None)[1]):
            return match in own.rules
        return match in self.rules

    def holders(self, permission: str, address: str, queue: str | None = None) -> tuple[str, ...]:
        """Return whom the deciding rules give a permission at a place: roles, `user:LOGIN`, `*`.

        Of several rules, as for an address with wildcards, those whom all of them name.
        """
        deciding, is_complete = self._deciding_anywhere(address, queue)
        if not is_complete:
            return ()
        first, *others = [rules.rules[match].get(permission, ()) for rules, _, match in deciding]
        return tuple(who for who in first if all(who in each for each in others))

    def _deciding_anywhere(
        self, address: str, queue: str | None
    ) -> tuple[list[tuple["Permissions", str, str]], bool]:
        """Return the matches whose rules decide about a place, those for its host first, each
        behind its rules and the prefix of its host; and whether there is one for every name in
        it."""
        host, name = host_and_name(address)
        queue = unnumbered(plain(queue)) if queue is not None else None
        found: list[tuple[Permissions, str, str]] = []
        is_complete = False
        own = self._of_hosts.get(host)
        if own is not None:
            matches, is_complete = own._deciding(name, queue)
            found = [(own, host + DIVIDER, match) for match in matches]
        if not is_complete:
            matches, is_complete = self._deciding(name, queue)
            found += [(self, "", match) for match in matches]
        return found, is_complete

    def _deciding(self, address: str, queue: str | None) -> tuple[list[str], bool]:
        """Return the matches whose rules decide about a place, and whether there is one for every
        name in it."""
        if queue is not None:
            match = f"{address}{QUEUE_MARK}{queue}"
            if match in self.rules:
                return [match], True
        if self._stands_for_many(address):
            return self._covering.within(address)
        first = self._covering.first(address)
        return ([first], True) if first is not None else ([], False)

    def _stands_for_many(self, name: str) -> bool:
        """Whether a name on a host stands for all names that it matches."""
        return self.syntax.is_pattern(name) or name == self.syntax.any_words

    def _grants(self, match: str, user: str, permission: str) -> str:
        """Return the name in a rule that gives a user a permission, empty if none does."""
        return self._among(self.rules[match].get(permission, ()), user)

    def _among(self, names: tuple[str, ...], user: str) -> str:
        """Return the name that means a user, empty if none does."""
        roles = self.roles_of(user)
        means = (who for who in names if who == ANYONE or who in roles or who == USER + user)
        return next(means, "")
