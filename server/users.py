"""Who may log in: logins with salted, slow hashes of their passcodes, in a file.

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
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import argon2
import msgspec

from daybook.errors import DaybookError
from daybook.server.toml_source import TomlError, TomlMissing, TomlSource, read_toml

GUEST: Final = "guest"
"""Login and passcode for the first steps; see `Users.allows_guest`."""

LOGIN_LENGTH_MAX: Final = 255
LOGIN_SHOWN_MAX: Final = 100
_HEADER: Final = """\
# The users of this broker with hashes of their passcodes, written by `daybook user`.
# The broker reads it at its start and on SIGHUP.

[users]
"""

# One verification takes 19 MiB and about 20 ms, the minimum that OWASP recommends: enough to make
# guessing expensive, and little enough that many clients do not use up the broker's memory.
_HASHER: Final = argon2.PasswordHasher(
    time_cost=2, memory_cost=19_456, parallelism=1, hash_len=32, salt_len=16
)


class UsersError(DaybookError):
    """The users file or a change to it is wrong; the text says what and where, and what to do."""


class CannotCheck(Exception):
    """A passcode could not be hashed for lack of memory, so it is unknown whether it is right."""


class Users:
    """The current users, read from a file. `verify` may run in any thread; changes only in one.

    `allow_guest` allows the guest from this machine even if there is a users file.
    """

    def __init__(self, path: Path | str) -> None:
        """Without any user; see `load`."""
        self.path = Path(os.path.realpath(path))
        self.allow_guest = False
        self._has_file = False
        self._hashes: dict[str, str] = {}
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, tuple[str, bytes]] = {}
        self._nobody = _hash_of_nobody()

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
        hashes = _read(self.path)
        if hashes is None and self._has_file:
            raise UsersError(
                f"{self.path}: the users file is gone; put it back, or restart the broker to run"
                " without users"
            )
        self._has_file = hashes is not None
        self._hashes = hashes or {}
        # A login that was accepted with a hash that is still valid need not be hashed again.
        self._verified = {
            login: verified
            for login, verified in self._verified.items()
            if self._hashes.get(login) == verified[0]
        }

    def logins(self) -> list[str]:
        """All logins, in order."""
        return sorted(self._hashes)

    def warnings(self) -> list[str]:
        """What an operator should know about the file, in sentences."""
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
        elif not self._hashes:
            found.append(f"{self.path} has no users: nobody is let in; {add}")
        return found

    def add(self, login: str, passcode: str) -> None:
        """Add a user and write the file. Slow by design. Raises UsersError."""
        if not login or len(login) > LOGIN_LENGTH_MAX or login != login.strip():
            raise UsersError(
                f"the login {login!r} must have 1 to {LOGIN_LENGTH_MAX} characters"
                " and neither begin nor end with a space"
            )
        if not login.isprintable():
            raise UsersError(f"the login {login!r} must not hold control characters")
        if not passcode:
            raise UsersError("the passcode is empty; give one that is hard to guess")
        if passcode != passcode.strip(" \t"):
            raise UsersError(
                "the passcode begins or ends with a blank, which does not count in CONNECT;"
                " give one without"
            )
        hashed = _HASHER.hash(_bytes(passcode))
        with self._changing() as hashes:
            if login in hashes:
                raise UsersError(f"the user {login!r} exists already in {self.path}")
            hashes[login] = hashed

    def remove(self, login: str) -> None:
        """Remove a user and write the file. Raises UsersError."""
        with self._changing() as hashes:
            if login not in hashes:
                raise UsersError(f"there is no user {login!r} in {self.path}")
            del hashes[login]

    def verify(self, login: str, passcode: str) -> bool:
        """Return whether the passcode is that of the user.

        Blocks for some 20 ms, or not at all if the same passcode was right before. A login that
        does not exist takes as long as a wrong passcode.
        """
        hashed = self._hashes.get(login)
        if self._was_right(login, passcode):
            return True
        try:
            _HASHER.verify(hashed or self._nobody, _bytes(passcode))
        except argon2.exceptions.VerifyMismatchError:
            return False
        except argon2.exceptions.VerificationError as error:
            raise CannotCheck(str(error)) from None
        if hashed is None:
            return False
        # Kept with the hash that it was checked against: if the file was reloaded meanwhile, or
        # will be, what is remembered here no longer fits and is not used.
        self._verified[login] = (hashed, self.digest(passcode))
        return True

    def digest(self, passcode: str) -> bytes:
        """Return a keyed hash of a passcode, which is useless outside of this process."""
        return blake2b(_bytes(passcode), key=self._key).digest()

    def _was_right(self, login: str, passcode: str) -> bool:
        verified = self._verified.get(login)
        return (
            verified is not None
            and verified[0] == self._hashes.get(login)
            and hmac.compare_digest(verified[1], self.digest(passcode))
        )

    def allows_guest(self, peer_is_loopback: bool) -> bool:
        """Return whether guest/guest may log in: only from this machine, and only without a users
        file or with `allow-guest`.
        """
        return peer_is_loopback and (self.allow_guest or not self._has_file)

    def admits_at_once(self, login: str, passcode: str, *, peer_is_loopback: bool) -> bool:
        """Return whether a login is accepted without hashing: that of the guest, or one whose
        passcode was accepted before. Never blocks; False says nothing about the passcode.
        """
        if self.allows_guest(peer_is_loopback) and (login, passcode) == (GUEST, GUEST):
            return True
        return self._was_right(login, passcode)

    def can_be_right(self, login: str) -> bool:
        """Return whether a passcode of a login could be right that is not accepted at once.

        It distinguishes only the guest and a broker without users: finding out which users exist
        must take as long as guessing a passcode.
        """
        return bool(self._hashes) and (login != GUEST or GUEST in self._hashes)

    def has(self, login: str) -> bool:
        """Return whether there is such a user."""
        return login in self._hashes

    def changed_since(self, before: dict[str, str]) -> set[str]:
        """Return the logins of a `snapshot` that were removed or have another passcode now."""
        return {login for login, hashed in before.items() if self._hashes.get(login) != hashed}

    def snapshot(self) -> dict[str, str]:
        """Return the current users, for `changed_since`."""
        return dict(self._hashes)

    def why_not(self, login: str, peer_is_loopback: bool) -> str:
        """Return why a peer with this login (maybe "") is refused; the text is for the peer."""
        if login in ("", GUEST) and GUEST not in self._hashes:
            if self.allows_guest(peer_is_loopback=True) and not peer_is_loopback:
                return f"{GUEST} is allowed from this machine only; log in as a user of the broker"
            if not self.allows_guest(peer_is_loopback):
                if not login:
                    return "the broker wants a login and a passcode"
                return f"{GUEST} is not allowed; log in as a user of the broker"
        shown = login if len(login) <= LOGIN_SHOWN_MAX else login[:LOGIN_SHOWN_MAX] + "..."
        return f"login or passcode of '{shown}' is wrong"

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Give the current content of the file for a change, and write it afterwards."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise UsersError(f"{self.path}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            hashes = _read(self.path) or {}
            yield hashes
            _replace(self.path, folder, hashes)
        finally:
            os.close(folder)
        self._hashes = hashes
        self._has_file = True


def _bytes(passcode: str) -> bytes:
    return passcode.encode("utf-8", "surrogatepass")


def _hash_of_nobody() -> str:
    """Return a hash that takes as long to check as a real one, and that no passcode matches."""
    salt = b64encode(secrets.token_bytes(_HASHER.salt_len)).decode().rstrip("=")
    digest = b64encode(secrets.token_bytes(_HASHER.hash_len)).decode().rstrip("=")
    costs = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


def _read(path: Path) -> dict[str, str] | None:
    """Read the file, None if there is none. Raises UsersError."""
    try:
        source = read_toml(path)
    except TomlMissing:
        return None
    except TomlError as error:
        raise UsersError(f"{error}; the users file is damaged or not readable") from None
    for key in source.data:
        if key != "users":
            raise UsersError(f"{source.where((key,))}: unknown key {key!r}; there is only [users]")
    # A file that is truncated before its table must not count as one without users.
    users = source.data.get("users")
    if not isinstance(users, dict):
        raise UsersError(f"{path}: the section [users] is missing; the users file is damaged")
    for login, hashed in users.items():
        _check_hash(source, login, hashed)
    return dict(users)


def _check_hash(source: TomlSource, login: str, hashed: object) -> None:
    try:
        argon2.extract_parameters(str(hashed))
    except argon2.exceptions.InvalidHashError:
        where = source.where(("users", login))
        raise UsersError(
            f"{where}: the hash of the user {login!r} is damaged; remove the line and add the user"
            " again with `daybook user add`"
        ) from None


def _replace(path: Path, folder: int, hashes: dict[str, str]) -> None:
    """Write the file so that a crash leaves either the old one or the new one."""
    lines = [f"{_quoted(login)} = {_quoted(hashed)}\n" for login, hashed in sorted(hashes.items())]
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        owner = (path if path.exists() else path.parent).stat()
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            if os.geteuid() == 0:
                # An administrator's change must leave the file readable by the broker's user.
                os.fchown(file, owner.st_uid, owner.st_gid)
            stream.write(_HEADER + "".join(lines))
            stream.flush()
            os.fsync(file)
        temporary.replace(path)
        os.fsync(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsersError(f"{path}: cannot be written: {error.strerror}") from None


def _quoted(text: str) -> str:
    """A TOML string. Logins and hashes are printable, for which JSON's escapes are TOML's."""
    return msgspec.json.encode(text).decode()
