"""The users: logins with salted, slow hashes of their passcodes, and their roles, in a file.

This module must never keep, log or write a passcode, and knows nothing of connections.

Fault model: the file is replaced as a whole (a new file is written, fsynced and renamed, then the
folder is fsynced), so a crash leaves the old file or the new one. Several processes may change it:
a lock on its folder serialises them. A damaged file is an error, never an empty list of users,
because an empty list would allow the guest.
"""

import fcntl
import hmac
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.names.names import UNKNOWN_HOST, wrong_with_host
from daybook.server.users import passcode_hashes, scram
from daybook.server.users.passcode_hashes import bytes_of
from daybook.server.users.scram import Verifier
from daybook.server.users.users_file import (
    ROLES_MAX,
    TOKEN_HASH_LENGTH,
    User,
    UsersError,
    UsersFile,
    read_users,
    replace_users,
    wrong_with_name,
)

UNKNOWN_HOSTS_MAX: Final = 10
"""How many virtual hosts that do not exist are warned of."""
GUEST: Final = "guest"
"""Login and passcode for the first steps; see `Users.allows_guest`."""

LOGIN_SHOWN_MAX: Final = 100
MARK: Final = "dbk_"
"""How every token begins, so that one that leaked is recognised."""
TOKEN_BYTES: Final = 32
_NO_TOKEN: Final = "-" * TOKEN_HASH_LENGTH


class Users:
    """The current users, read from a file. `verify` may run in any thread; changes only in one.

    `allow_guest` allows the guest from this machine even if there is a users file. `has_verifiers`
    says whether any user can log in by SCRAM.
    """

    def __init__(self, path: Path | str) -> None:
        """Without any user; see `load`."""
        self.path = Path(os.path.realpath(path))
        self.allow_guest = False
        self.has_verifiers = False
        self._has_file = False
        self._users: dict[str, User] = {}
        self._secret = b""
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, tuple[str, bytes]] = {}
        self._nobody = passcode_hashes.hash_of_nobody()

    @classmethod
    def load(cls, path: Path | str) -> "Users":
        """Read the users file; one that does not exist has no users. Raises UsersError."""
        users = cls(path)
        users.reload()
        return users

    def reload(self) -> None:
        """Read the file again. Raises UsersError, and then the users stay as they were.

        A file that was there and is gone is an error: without one, guests are let in.
        """
        content = read_users(self.path)
        if content is None and self._has_file:
            raise UsersError(
                f"{self.path}: the users file is gone; put it back, or restart the broker to run"
                " without users"
            )
        self._has_file = content is not None
        self._take(content or UsersFile())
        # A login that was accepted with a hash that is still valid need not be hashed again.
        self._verified = {
            login: verified
            for login, verified in self._verified.items()
            if self._hash(login) == verified[0]
        }

    def _take(self, content: UsersFile) -> None:
        """Have the users of a file. Without verifiers there is no secret to be had from it."""
        self._users = content.users
        self._secret = content.secret or self._key
        self.has_verifiers = any(user.scram for user in content.users.values())

    def verifier(self, login: str) -> Verifier:
        """Return the verifier of a user, a made-up one if there is no such user or it has none."""
        user = self._users.get(login)
        # Made in any case: how long this takes must not tell whether there is a user.
        made_up = scram.made_up(login, self._secret)
        return scram.parse(user.scram if user is not None else "") or made_up

    def has_verifier(self, login: str) -> bool:
        """Return whether there is such a user and it can log in by SCRAM."""
        user = self._users.get(login)
        return user is not None and bool(user.scram)

    def _hash(self, login: str) -> str:
        """Return the hash of the passcode of a user, empty if there is none."""
        user = self._users.get(login)
        return user.hash if user is not None else ""

    def logins(self) -> list[str]:
        """All logins, in order."""
        return sorted(self._users)

    def records(self) -> Iterable[tuple[str, User]]:
        """Return all users with their logins, in no order."""
        return self._users.items()

    def find(self, login: str) -> User | None:
        """Return the record of a user, None if there is no such user."""
        return self._users.get(login)

    def may_use(self, login: str, host: str) -> bool:
        """Whether a user may use a virtual host; the guest is in no file, and may use any.

        Nobody may use one that does not exist.
        """
        if host == UNKNOWN_HOST:
            return False
        hosts = self.hosts_of(login)
        return not hosts or host in hosts

    def hosts_of(self, login: str) -> tuple[str, ...]:
        """Return the virtual hosts that a user may use, none for all."""
        user = self._users.get(login)
        return user.hosts if user is not None else ()

    def roles(self) -> dict[str, frozenset[str]]:
        """Return the roles of each user."""
        return {login: frozenset(user.roles) for login, user in self._users.items()}

    def warnings(self, hosts: Collection[str] = ()) -> list[str]:
        """Warnings about the file; `hosts` are the existing virtual hosts, none if they are not
        known.
        """
        try:
            mode = self.path.stat().st_mode & 0o777
        except OSError:
            mode = 0
        found = []
        if mode & 0o077:
            found.append(f"{self.path}: others may use it (mode {mode:04o}); `chmod 600` it")
        add = f"add a user with `daybook user add LOGIN --users-file {self.path}`, then send SIGHUP"
        if self.allows_guest(peer_is_loopback=True):
            why = "allow-guest is set" if self._has_file else f"{self.path} does not exist"
            found.append(f"{why}: {GUEST} with passcode {GUEST} is let in from this machine; {add}")
        elif not self._users:
            found.append(f"{self.path} has no users, so every login is refused; {add}")
        unknown = {
            host: login
            for login in reversed(self.logins())
            for host in self._users[login].hosts
            if hosts and host not in hosts
        }
        found += [
            f"{self.path}: user {login!r} may use virtual host {host!r}, which the configuration"
            f" does not list; list it, or correct it with `daybook user hosts {login} HOST`"
            for host, login in sorted(unknown.items())[:UNKNOWN_HOSTS_MAX]
        ]
        return found

    def add(
        self,
        login: str,
        passcode: str | None,
        roles: Sequence[str] = (),
        hosts: Sequence[str] = (),
    ) -> None:
        """Add a user and write the file; without a passcode for other proofs than one. Slow by
        design. Raises UsersError."""
        _check_name("login", login)
        for role in roles:
            _check_name("role", role)
        hashed, verifier = _secrets_of(login, passcode) if passcode is not None else ("", "")
        with self._changing() as users:
            if login in users:
                raise UsersError(f"the user {login!r} exists already in {self.path}")
            users[login] = User(
                hashed, tuple(dict.fromkeys(roles)), hosts=_checked_hosts(login, hosts),
                scram=verifier,
            )  # fmt: skip

    def take_over(self, others: Mapping[str, User]) -> list[str]:
        """Add users of another broker and write the file; return the logins of those that were
        there already, which stay as they are. Raises UsersError."""
        with self._changing() as users:
            known = sorted(others.keys() & users.keys())
            users |= {login: user for login, user in others.items() if login not in known}
        return known

    @property
    def has_file(self) -> bool:
        """Whether there is a users file."""
        return self._has_file

    def remove(self, login: str) -> None:
        """Remove a user and write the file. Raises UsersError."""
        with self._changing_one(login) as (users, _):
            del users[login]

    def change_passcode(self, login: str, passcode: str) -> None:
        """Give a user another passcode. Slow by design. Raises UsersError."""
        hashed, verifier = _secrets_of(login, passcode)
        with self._changing_one(login) as (users, user):
            users[login] = msgspec.structs.replace(user, hash=hashed, scram=verifier)

    def set_disabled(self, login: str, disabled: bool) -> None:
        """Disable a user, which then cannot log in by any means, or enable it again."""
        with self._changing_one(login) as (users, user):
            users[login] = msgspec.structs.replace(user, disabled=disabled)

    def change_roles(self, login: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Give a user roles and take others from it. Raises UsersError."""
        for role in add:
            _check_name("role", role)
        with self._changing_one(login) as (users, user):
            missing = [role for role in remove if role not in user.roles]
            if missing:
                raise UsersError(f"the user {login!r} has no role {missing[0]!r}")
            kept = [role for role in (*user.roles, *add) if role not in remove]
            if len(set(kept)) > ROLES_MAX:
                raise UsersError(f"a user has at most {ROLES_MAX} roles")
            users[login] = msgspec.structs.replace(user, roles=tuple(dict.fromkeys(kept)))

    def set_hosts(self, login: str, hosts: Sequence[str]) -> None:
        """Let a user use these virtual hosts only, or all if none is given. Raises UsersError."""
        with self._changing_one(login) as (users, user):
            checked = _checked_hosts(login, hosts)
            users[login] = msgspec.structs.replace(user, hosts=checked)

    def new_token(self, login: str) -> str:
        """Give a user a token for administration over the network and return it.

        Only its hash is kept, so it cannot be shown again. Raises UsersError.
        """
        token = MARK + secrets.token_urlsafe(TOKEN_BYTES)
        with self._changing_one(login) as (users, user):
            users[login] = msgspec.structs.replace(user, token=_token_hash(token))
        return token

    def remove_token(self, login: str) -> None:
        """Take the token from a user. Raises UsersError."""
        with self._changing_one(login) as (users, user):
            if not user.token:
                raise UsersError(f"the user {login!r} has no token")
            users[login] = msgspec.structs.replace(user, token="")

    def verify(self, login: str, passcode: str) -> bool:
        """Return whether the passcode is that of the user.

        Blocks for some 20 ms, or not at all if the same passcode was right before. A login that
        does not exist takes as long as a wrong passcode.
        """
        hashed = self._hash(login)
        if self._was_right(login, passcode):
            return True
        if not passcode_hashes.verify(hashed, self._nobody, passcode):
            return False
        # Kept with the hash that it was checked against: if the file was reloaded meanwhile, or
        # will be, the remembered passcode no longer fits and is not used.
        self._verified[login] = (hashed, self.digest(passcode))
        return True

    def digest(self, passcode: str) -> bytes:
        """Return a keyed hash of a passcode, which is useless outside of this process."""
        return blake2b(bytes_of(passcode), key=self._key).digest()

    def _was_right(self, login: str, passcode: str) -> bool:
        verified = self._verified.get(login)
        return (
            verified is not None
            and verified[0] == self._hash(login)
            and hmac.compare_digest(verified[1], self.digest(passcode))
        )

    def allows_guest(self, peer_is_loopback: bool) -> bool:
        """Return whether guest/guest may log in: only from this machine, and only without a users
        file or with `allow-guest`.
        """
        return peer_is_loopback and (self.allow_guest or not self._has_file)

    def admits_at_once(self, login: str, passcode: str, *, peer_is_loopback: bool) -> bool:
        """Return whether a login is accepted without hashing: that of the guest, or one whose
        passcode was accepted before. Never blocks; False does not mean that the passcode is wrong.
        """
        if self.allows_guest(peer_is_loopback) and (login, passcode) == (GUEST, GUEST):
            return True
        return self._was_right(login, passcode) and not self.is_disabled(login)

    def is_disabled(self, login: str) -> bool:
        """Return whether there is such a user and it may not log in."""
        user = self._users.get(login)
        return user is not None and user.disabled

    def why_not_let_in(self, login: str) -> str:
        """Return why a user cannot log in from this machine, whatever its passcode is; empty if it
        can."""
        is_guest = login == GUEST and login not in self._users
        if is_guest and self.allows_guest(peer_is_loopback=True):
            return ""
        return self.why_not_proven(login)

    def why_not_proven(self, login: str) -> str:
        """Return why a peer that proved its login otherwise than by a passcode, as by a
        certificate, is refused; empty if it is let in."""
        if login not in self._users:
            return f"there is no user '{_shown(login)}'"
        return f"the user '{_shown(login)}' is disabled" if self.is_disabled(login) else ""

    def user_of_token(self, token: str) -> str | None:
        """Return the user whom a token belongs to, None if there is none or it is disabled.

        Every token is compared, in constant time, so that the time does not depend on them.
        """
        hashed = _token_hash(token)
        found = None
        for login, user in self._users.items():
            if hmac.compare_digest(user.token or _NO_TOKEN, hashed) and not user.disabled:
                found = login
        return found

    def can_be_right(self, login: str) -> bool:
        """Return whether a passcode of a login could be right that is not accepted at once.

        It distinguishes only the guest and a broker without users: finding out which users exist
        must take as long as guessing a passcode.
        """
        return bool(self._users) and (login != GUEST or GUEST in self._users)

    def has(self, login: str) -> bool:
        """Return whether there is such a user."""
        return login in self._users

    def why_not_act(self, login: str, host: str) -> str:
        """Return why nobody may act on a virtual host with the rights of a user, "" if they may."""
        if not self.has(login):
            return f"there is no user {login!r} here"
        if self.is_disabled(login):
            return f"the user {login!r} is disabled"
        return "" if self.may_use(login, host) else f"the user {login!r} may not use {host!r}"

    def changed_since(self, before: dict[str, User]) -> set[str]:
        """Return the logins of a `snapshot` that were removed, are disabled, have another passcode
        now, or may not use a virtual host any more."""
        return {
            login
            for login, user in before.items()
            if login not in self._users
            or self._hash(login) != user.hash
            or self._users[login].scram != user.scram
            or (self.is_disabled(login) and not user.disabled)
            or _has_lost_hosts(user, self._users[login])
        }

    def altered_since(self, before: dict[str, User]) -> set[str]:
        """Return the logins of which anything is other than in a `snapshot`."""
        logins = before.keys() | self._users.keys()
        return {login for login in logins if before.get(login) != self._users.get(login)}

    def snapshot(self) -> dict[str, User]:
        """Return the current users, for `changed_since`."""
        return dict(self._users)

    def why_not(self, login: str, peer_is_loopback: bool) -> str:
        """Return why a peer with this login (maybe "") is refused; the text is for the peer."""
        if login in ("", GUEST) and GUEST not in self._users:
            if self.allows_guest(peer_is_loopback=True) and not peer_is_loopback:
                return f"{GUEST} is allowed from this machine only; log in as a user of the broker"
            if not self.allows_guest(peer_is_loopback):
                if not login:
                    return "the broker wants a login and a passcode"
                return f"{GUEST} is not allowed; log in as a user of the broker"
        return f"login or passcode of '{_shown(login)}' is wrong; give a valid login and passcode"

    @contextmanager
    def _changing(self) -> Iterator[dict[str, User]]:
        """Give the current content of the file for a change, and write it afterwards."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise UsersError(f"{self.path}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            content = read_users(self.path) or UsersFile()
            yield content.users
            replace_users(self.path, folder, content)
        finally:
            os.close(folder)
        self._take(content)
        self._has_file = True

    @contextmanager
    def _changing_one(self, login: str) -> Iterator[tuple[dict[str, User], User]]:
        """The same, with a user that must be there. Raises UsersError."""
        with self._changing() as users:
            user = users.get(login)
            if user is None:
                raise UsersError(f"there is no user {login!r} in {self.path}")
            yield users, user


def hash_of(passcode: str) -> str:
    """Return a salted, slow hash of a new passcode. Raises UsersError."""
    if not passcode:
        raise UsersError("the passcode is empty; give one that is hard to guess")
    if passcode != passcode.strip(" \t"):
        raise UsersError(
            "the passcode begins or ends with a blank, which does not count in CONNECT;"
            " give one without"
        )
    return passcode_hashes.hash_of(passcode)


def _secrets_of(login: str, passcode: str) -> tuple[str, str]:
    """Return hash and verifier of a new passcode, no verifier if SCRAM cannot be used with it.
    Raises UsersError."""
    hashed = hash_of(passcode)
    verifier = scram.verifier_of(login, passcode)
    return hashed, verifier.text if verifier is not None else ""


def _check_name(what: str, name: str) -> None:
    wrong = wrong_with_name(what, name)
    if wrong:
        raise UsersError(wrong)


def _shown(login: str) -> str:
    return login if len(login) <= LOGIN_SHOWN_MAX else login[:LOGIN_SHOWN_MAX] + "..."


def _token_hash(token: str) -> str:
    """Return the hash of a token; it is random and long, so a fast hash is enough."""
    return blake2b(
        bytes_of(token), digest_size=TOKEN_HASH_LENGTH // 2, person=b"daybook"
    ).hexdigest()


def _checked_hosts(login: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return virtual hosts, each once. Raises UsersError."""
    for host in hosts:
        wrong = wrong_with_host(host)
        if wrong:
            raise UsersError(f"the virtual host {host!r} of the user {login!r} is wrong: {wrong}")
    return tuple(dict.fromkeys(hosts))


def _has_lost_hosts(before: User, now: User) -> bool:
    """Whether a user may have used a virtual host before that it may not use now."""
    return bool(now.hosts) and (not before.hosts or not set(before.hosts) <= set(now.hosts))
