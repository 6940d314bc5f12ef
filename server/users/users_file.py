"""The users file: a record for each user, read and replaced as a whole.

A user with nothing but a hash is a line `login = "HASH"`; any other is a line with a table: `login
= { hash = "HASH", roles = ["ROLE"], disabled = true, token = "HASH", hosts = ["HOST"], scram =
"VERIFIER" }`. A file with verifiers also has the secret of those that are made up
(`server.users.scram.made_up`). Must never know a passcode or a token.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daybook.engine.names.names import wrong_with_host
from daybook.engine.settings.permissions import ANYONE, USER
from daybook.errors import DaybookError
from daybook.server.config_keys.option import unknown
from daybook.server.config_keys.toml_source import TomlError, TomlMissing, TomlSource, read_toml
from daybook.server.users import scram
from daybook.server.users.passcode_hashes import is_damaged

ROLES_MAX: Final = 100
NAME_LENGTH_MAX: Final = 255
TOKEN_HASH_LENGTH: Final = 64
_HEADER: Final = """\
# The users of this broker with hashes of their passcodes, written by `daybook user`.
# The broker reads it at its start and on SIGHUP.

"""
_KEY: Final = "scram-secret"


class UsersError(DaybookError):
    """The users file or a change to it is wrong; the text names the fault, its place, and the
    remedy.
    """


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A user: the hash of its passcode, empty for none; its roles; whether it is disabled; the hash
    of its token for administration over the network, empty for none; the virtual hosts that it may
    use, none for all; and the verifier of its passcode for SCRAM, empty for none."""

    hash: str = ""
    roles: tuple[str, ...] = ()
    disabled: bool = False
    token: str = ""
    hosts: tuple[str, ...] = ()
    scram: str = ""


def wrong_with_name(what: str, name: str) -> str | None:
    """Return the fault of a new login or the name of a role, None without one."""
    if not name or len(name) > NAME_LENGTH_MAX or name != name.strip():
        return (
            f"the {what} {name!r} must have 1 to {NAME_LENGTH_MAX} characters and neither begin nor"
            " end with a space"
        )
    if not name.isprintable():
        return f"the {what} {name!r} must not hold control characters"
    if what == "role" and (name == ANYONE or name.startswith(USER)):
        return f"the role {name!r} must neither be {ANYONE!r} nor begin with {USER!r}"
    return None


class UsersFile(msgspec.Struct):
    """The content of the file: the users, and the secret behind verifiers that are made up, empty
    for none yet."""

    users: dict[str, User] = {}
    secret: bytes = b""


def read_users(path: Path) -> UsersFile | None:
    """Read the file, None if there is none. Raises UsersError."""
    try:
        source = read_toml(path)
    except TomlMissing:
        return None
    except TomlError as error:
        raise UsersError(f"{error}; the users file is damaged or not readable") from None
    for key in source.data:
        if key not in ("users", _KEY):
            raise UsersError(f"{source.where((key,))}: unknown key {key!r}; there is only [users]")
    try:
        secret = bytes.fromhex(str(source.data.get(_KEY, "")))
    except ValueError:
        raise UsersError(
            f"{source.where((_KEY,))}: {_KEY} is damaged; remove the line, and the next"
            " change by `daybook user` makes another"
        ) from None
    # A file that is truncated before its table must not count as one without users.
    users = source.data.get("users")
    if not isinstance(users, dict):
        raise UsersError(f"{path}: the section [users] is missing; the users file is damaged")
    return UsersFile({login: _user(source, login, value) for login, value in users.items()}, secret)


def _user(source: TomlSource, login: str, value: object) -> User:
    """Return the user of a line. Raises UsersError."""
    where = source.where(("users", login))
    if isinstance(value, dict):
        for key in value:
            if key not in User.__struct_fields__:
                raise UsersError(f"{where}: {unknown('key', key, User.__struct_fields__)}")
    try:
        user = msgspec.convert(value, User) if isinstance(value, dict) else User(str(value))
    except msgspec.ValidationError as error:
        raise UsersError(f"{where}: the user {login!r} is damaged: {error}") from None
    wrong = next(filter(None, (wrong_with_name("role", role) for role in user.roles)), None)
    if wrong:
        raise UsersError(f"{where}: {wrong}")
    wrong = next(filter(None, map(wrong_with_host, user.hosts)), None)
    if wrong:
        raise UsersError(f"{where}: a virtual host of the user {login!r} is wrong: {wrong}")
    if user.token and len(user.token) != TOKEN_HASH_LENGTH:
        raise UsersError(
            f"{where}: the hash of the token of the user {login!r} is damaged; make another with"
            " `daybook user token`"
        )
    if user.scram and scram.parse(user.scram) is None:
        raise UsersError(
            f"{where}: the verifier for SCRAM of the user {login!r} is damaged; remove it, and make"
            " another with `daybook user passwd`"
        )
    if not user.hash and isinstance(value, dict):
        return user
    if is_damaged(user.hash):
        raise UsersError(
            f"{where}: the hash of the user {login!r} is damaged; remove the line and add the user"
            " again with `daybook user add`"
        )
    return user


def replace_users(path: Path, folder: int, content: UsersFile) -> None:
    """Write the file so that a crash leaves either the old one or the new one. Raises UsersError.

    `folder` is the descriptor of its folder.
    """
    if not content.secret and any(user.scram for user in content.users.values()):
        content.secret = secrets.token_bytes(scram.SECRET_BYTES)
    secret = f"{_KEY} = {_quoted(content.secret.hex())}\n\n" if content.secret else ""
    lines = [f"{_quoted(name)} = {_line(user)}\n" for name, user in sorted(content.users.items())]
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        owner = (path if path.exists() else path.parent).stat()
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            if os.geteuid() == 0:
                # An administrator's change must leave the file readable by the broker's user.
                os.fchown(file, owner.st_uid, owner.st_gid)
            stream.write(_HEADER + secret + "[users]\n" + "".join(lines))
            stream.flush()
            os.fsync(file)
        temporary.replace(path)
        os.fsync(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsersError(f"{path}: cannot be written: {error.strerror}") from None


def _line(user: User) -> str:
    if user == User(user.hash) and user.hash:
        return _quoted(user.hash)
    pairs = [f"{key} = {_shown(value)}" for key, value in msgspec.to_builtins(user).items()]
    return "{ " + ", ".join(pairs) + " }" if pairs else "{ }"


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _quoted(text: str) -> str:
    """A TOML string. Logins and hashes are printable, for which JSON's escapes are TOML's."""
    return msgspec.json.encode(text).decode()
