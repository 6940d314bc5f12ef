"""The keys of signatures, Ed25519 in PEM files. The only module that imports `cryptography`.

It is imported by the process that signs and by commands that are asked to check signatures, never
by the broker itself. Fault model: files may be missing, unreadable, damaged or of another kind,
which is an error with the file in it; texts never contain parts of a private key.
"""

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from daybook.errors import DaybookError
from daybook.recovery.signing.file_errors import naming
from daybook.recovery.signing.statements import key_id

FILE_BYTES_MAX: Final = 65_536


class SigningKeyError(DaybookError):
    """The file of a key cannot be used; the text says which and why."""


class PrivateKey:
    """A key that signs. `public` is its public half (32 bytes), `id` the id of that."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key: Final = key
        self.public: Final = key.public_key().public_bytes_raw()
        self.id: Final = key_id(self.public)

    def sign(self, message: bytes) -> str:
        """Return the signature, in hexadecimal."""
        return self._key.sign(message).hex()


def is_signed(public: bytes, signature: str, message: bytes) -> bool:
    """Return whether a public key (32 bytes) has made this signature (in hexadecimal)."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_private(path: Path) -> PrivateKey:
    """Read a private key. Raises SigningKeyError."""
    content = _read(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except TypeError:
        raise SigningKeyError(
            f"{path}: the key is protected by a passphrase, which a broker that starts by itself "
            "cannot type in; write it without one and make the file readable by its user alone"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise SigningKeyError(
            f"{path}: this is not a private key in PEM format; `journal keygen` makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyError(
            f"{path}: the key is of another kind than Ed25519; `journal keygen` makes one"
        )
    return PrivateKey(key)


def load_public(path: Path) -> bytes:
    """Read a public key; return its 32 bytes. Raises SigningKeyError."""
    content = _read(path)
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        hint = " (it is a private key, which is not needed here)" if b"PRIVATE" in content else ""
        raise SigningKeyError(f"{path}: this is not a public key in PEM format{hint}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyError(f"{path}: the key is of another kind than Ed25519")
    return key.public_bytes_raw()


def make_pair(path: Path) -> Path:
    """Write a new private key, and its public half beside it; return the path of that.

    Neither replaces a file. Raises OSError.
    """
    key = Ed25519PrivateKey.generate()
    public = path.with_name(path.name + ".pub")
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_new(public, shown, 0o644)
    try:
        _write_new(path, secret, 0o600)
    except BaseException:
        public.unlink(missing_ok=True)
        raise
    return public


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with naming(path), os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SigningKeyError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise SigningKeyError(f"{path} is longer than {FILE_BYTES_MAX:,} bytes")
    return content
