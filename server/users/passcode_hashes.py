"""Hashes of passcodes: Argon2 for new ones, and PBKDF2 as other brokers have made them.

A hash is a text that names its method, its cost and its salt. Checking one takes some 20 ms, also
one of PBKDF2, so that the time does not tell which users came from elsewhere. Must never know a
user.
"""

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from typing import Final

import argon2

# One verification takes 19 MiB and about 20 ms, the minimum that OWASP recommends: enough to make
# guessing expensive, and little enough that many clients do not use up the broker's memory.
_HASHER: Final = argon2.PasswordHasher(
    time_cost=2, memory_cost=19_456, parallelism=1, hash_len=32, salt_len=16
)
_PBKDF2: Final = "$pbkdf2-sha1$"
_ROUNDS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 1024
_FORM: Final = re.compile(r"\$pbkdf2-sha1\$i=(\d{1,9})\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)")
_ARTEMIS: Final = re.compile(r"ENC\((\d{1,9}):([0-9A-Fa-f]+):([0-9A-Fa-f]+)\)")


class CannotCheck(Exception):
    """A passcode could not be hashed for lack of memory, so it is unknown whether it is right."""


def hash_of(passcode: str) -> str:
    """Return a salted, slow hash of a new passcode."""
    return _HASHER.hash(bytes_of(passcode))


def hash_of_artemis(text: str) -> str | None:
    """Return the hash in `ENC(ITERATIONS:SALT:HASH)`, the form in which Artemis keeps passcodes.

    None for any other text: only Artemis can read the output of its other codecs.
    """
    found = _ARTEMIS.fullmatch(text)
    if found is None:
        return None
    try:
        salt, digest = bytes.fromhex(found[2]), bytes.fromhex(found[3])
    except ValueError:
        return None
    made = f"{_PBKDF2}i={int(found[1])}${_base64(salt)}${_base64(digest)}"
    return None if is_damaged(made) else made


def is_damaged(hashed: str) -> bool:
    """Return whether `verify` cannot check a text as a hash."""
    if hashed.startswith(_PBKDF2):
        return _parts(hashed) is None
    try:
        argon2.extract_parameters(hashed)
    except argon2.exceptions.InvalidHashError:
        return True
    return False


def verify(hashed: str, nobody: str, passcode: str) -> bool:
    """Return whether a passcode has a hash; `nobody` is the one that no passcode has.

    Slow by design. Raises CannotCheck.
    """
    given = bytes_of(passcode)
    parts = _parts(hashed) if hashed.startswith(_PBKDF2) else None
    is_right = False
    if parts is not None:
        rounds, salt, digest = parts
        found = hashlib.pbkdf2_hmac("sha1", given, salt, rounds, len(digest))
        is_right = hmac.compare_digest(found, digest)
    try:
        _HASHER.verify(nobody if parts is not None else hashed or nobody, given)
    except argon2.exceptions.VerifyMismatchError:
        return is_right
    except argon2.exceptions.VerificationError as error:
        raise CannotCheck(str(error)) from None
    return bool(hashed)


def hash_of_nobody() -> str:
    """Return a hash that takes as long to check as a real one, and that no passcode matches."""
    salt = _base64(secrets.token_bytes(_HASHER.salt_len)).rstrip("=")
    digest = _base64(secrets.token_bytes(_HASHER.hash_len)).rstrip("=")
    costs = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


def bytes_of(passcode: str) -> bytes:
    """Return a passcode as it is hashed."""
    return passcode.encode("utf-8", "surrogatepass")


def _parts(hashed: str) -> tuple[int, bytes, bytes] | None:
    """Return rounds, salt and digest of a hash of PBKDF2; None if they are damaged."""
    found = _FORM.fullmatch(hashed)
    if found is None:
        return None
    try:
        salt, digest = b64decode(found[2], validate=True), b64decode(found[3], validate=True)
    except binascii.Error:
        return None
    is_sound = 1 <= int(found[1]) <= _ROUNDS_MAX and 16 <= len(digest) <= _BYTES_MAX
    return (int(found[1]), salt, digest) if is_sound and salt else None


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
