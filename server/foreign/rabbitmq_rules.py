"""Permissions of RabbitMQ as rules of ours.

There three regular expressions select the objects that a user may configure, write and read. Here a
rule belongs to an address, and the most specific one alone decides. So users whose expressions
match everything are in the rule for all addresses, and where any user has another expression, each
address of the file gets a rule of its own. Must never know a file.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import re2

from daybook.engine.settings.permissions import (
    BROWSE,
    CONSUME,
    CREATE_ADDRESS,
    CREATE_DURABLE_QUEUE,
    CREATE_NON_DURABLE_QUEUE,
    DELETE_ADDRESS,
    DELETE_DURABLE_QUEUE,
    DELETE_NON_DURABLE_QUEUE,
    MANAGE,
    SEND,
    USER,
)
from daybook.server.users.users_file import wrong_with_name

EVERYTHING: Final = (".*", "^.*$", "^.*", ".*$")
_NOTHING: Final = ("", "^$")
GRANTED: Final[dict[str, tuple[str, ...]]] = {
    "configure": (
        CREATE_ADDRESS, DELETE_ADDRESS, CREATE_DURABLE_QUEUE, DELETE_DURABLE_QUEUE,
        CREATE_NON_DURABLE_QUEUE, DELETE_NON_DURABLE_QUEUE,
    ),
    "write": (SEND,),
    "read": (CONSUME, BROWSE),
}  # fmt: skip
"""The permissions here for each of the three."""


def compiled_pattern(pattern: str) -> Any:
    """Return an expression that searches in linear time. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def rules_on(
    permissions: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    managers: Sequence[str],
    lose: Callable[[str], None],
) -> list[dict[str, object]]:
    """Return the rules of a virtual host, as values of [[security-setting]].

    `names` are its addresses, `managers` users who may administer; `lose` records permissions that
    are not taken over.
    """
    patterns: list[tuple[str, str, Any]] = []
    for each in permissions:
        user = str(each.get("user", ""))
        if wrong_with_name("login", user):
            continue
        for verb in GRANTED:
            pattern = str(each.get(verb, ""))
            if pattern in _NOTHING:
                continue
            try:
                compiled = None if pattern in EVERYTHING else compiled_pattern(pattern)
            except re2.error as error:
                lose(f"{verb} of user {user!r} is not taken over: {pattern!r}: {error}")
                continue
            patterns.append((user, verb, compiled))
    if not patterns:
        return []
    users = {user for user, _, _ in patterns}
    managing = [user for user in managers if user in users]
    rules = [_rule("#", [(user, verb) for user, verb, regex in patterns if not regex], managing)]
    if all(regex is None for _, _, regex in patterns):
        return rules
    lose("permissions with expressions hold for the addresses of this file, not for those to come")
    for name in names:
        granted = [
            (user, verb) for user, verb, regex in patterns if regex is None or regex.search(name)
        ]
        rules.append(_rule(name, granted, managing))
    return rules


def _rule(
    match: str, granted: Sequence[tuple[str, str]], managers: Sequence[str]
) -> dict[str, object]:
    rule: dict[str, object] = {"match": match}
    for verb, names in GRANTED.items():
        users = [USER + user for user, given in granted if given == verb]
        if users:
            rule |= {name: list(dict.fromkeys(users)) for name in names}
    if managers:
        rule[MANAGE] = [USER + user for user in managers]
    return rule
