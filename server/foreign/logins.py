"""Users of another broker as they are taken over: login, roles, and a hash if there is one.

Must never keep a passcode longer than it takes to hash it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from daybook.engine.names.names import wrong_with_host
from daybook.server.foreign.findings import Findings
from daybook.server.users.passcode_hashes import hash_of_artemis
from daybook.server.users.users import hash_of
from daybook.server.users.users_file import ROLES_MAX, User, UsersError, wrong_with_name

USERS_MAX: Final = 100_000
_MASKED: Final = "ENC("


class ForeignUser(msgspec.Struct):
    """A user of another broker; `passcode` as its file has it, maybe hashed, empty for none."""

    login: str
    where: str
    passcode: str = ""
    roles: list[str] = []
    hosts: list[str] = []


def users_of(found: Iterable[ForeignUser], findings: Findings) -> dict[str, User]:
    """Return users as our file has them. Slow by design where passcodes are not hashed yet.

    Users that cannot be taken over are added to `findings`.
    """
    users: dict[str, User] = {}
    for each in found:
        wrong = _wrong_with(each)
        if wrong:
            findings.lose(each.where, f"a user is not taken over: {wrong}")
        elif len(users) >= USERS_MAX:
            findings.lose(each.where, f"there are more than {USERS_MAX:,} users")
            break
        else:
            users[each.login] = User(
                _hash(each, findings), tuple(dict.fromkeys(each.roles)),
                hosts=tuple(dict.fromkeys(each.hosts)),
            )  # fmt: skip
    return users


def note_users(found: Iterable[ForeignUser], findings: Findings) -> None:
    """Add users that cannot be taken over to `findings`, without hashing a passcode."""
    for each in found:
        wrong = _wrong_with(each)
        if wrong:
            findings.lose(each.where, f"a user is not taken over: {wrong}")
        elif each.passcode.startswith(_MASKED) and hash_of_artemis(each.passcode) is None:
            findings.lose(each.where, _masked(each.login))


def _masked(login: str) -> str:
    return (
        f"the passcode of user {login!r} is masked by a codec that only Artemis has; give it"
        f" another one with `daybook user passwd`"
    )


def _hash(user: ForeignUser, findings: Findings) -> str:
    """Return the hash of a passcode, empty if there is none that can be checked here."""
    if not user.passcode:
        return ""
    if user.passcode.startswith(_MASKED):
        known = hash_of_artemis(user.passcode)
        if known is None:
            findings.lose(user.where, _masked(user.login))
        return known or ""
    try:
        return hash_of(user.passcode)
    except UsersError as error:
        findings.lose(user.where, f"the passcode of user {user.login!r} is not taken over: {error}")
        return ""


def _wrong_with(user: ForeignUser) -> str | None:
    if len(user.roles) > ROLES_MAX:
        return f"the user {user.login!r} has more than {ROLES_MAX} roles"
    wrong = wrong_with_name("login", user.login)
    for role in user.roles:
        wrong = wrong or wrong_with_name("role", role)
    for host in user.hosts:
        wrong = wrong or wrong_with_host(host)
    return wrong
