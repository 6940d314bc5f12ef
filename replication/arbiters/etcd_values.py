"""Requests to the gateway of etcd, and its answers, as JSON.

Numbers of 64 bits are texts there, keys and values are in base64, and what is zero is left out; see
api/etcdserverpb/rpc.proto of etcd.
"""

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import msgspec

Answer = TypeVar("Answer", bound="Answered")
Request: TypeAlias = dict[str, object]


class Header(msgspec.Struct, frozen=True):
    """What all answers have: the cluster that answers, and its revision."""

    cluster_id: int = 0
    revision: int = 0


class Answered(msgspec.Struct, frozen=True):
    """An answer."""

    header: Header = Header()


class Authenticated(Answered, frozen=True):
    """A login was right; the token is shown with each further request."""

    token: str = ""


class Granted(Answered, frozen=True):
    """A lease of etcd: its number, and for how many seconds."""

    ID: int = 0
    TTL: int = 0


class KeptAlive(msgspec.Struct, frozen=True):
    """One of a stream of answers: a lease of etcd counts from the beginning, or is gone (0)."""

    result: Granted


class KeyValue(msgspec.Struct, frozen=True):
    """A key, with the revisions that created it and changed it last, and its lease."""

    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    lease: int = 0


class Range(Answered, frozen=True):
    """The keys that were asked for, those that exist."""

    kvs: tuple[KeyValue, ...] = ()


class _Response(msgspec.Struct, frozen=True):
    response_range: Range | None = None


class Transacted(Answered, frozen=True):
    """The result of a transaction: its first operations if it succeeded, else the second ones."""

    succeeded: bool = False
    responses: tuple[_Response, ...] = ()

    def value(self, key: bytes) -> KeyValue | None:
        """Return what the transaction read of a key, None if it does not exist."""
        for each in self.responses:
            for found in each.response_range.kvs if each.response_range else ():
                if found.key == key:
                    return found
        return None


class Failed(msgspec.Struct, frozen=True):
    """Why a request failed."""

    error: str
    message: str = ""


def read(key: bytes) -> Request:
    """Return the operation that reads a key."""
    return {"requestRange": {"key": key}}


def put(key: bytes, value: bytes, lease: int = 0) -> Request:
    """Return the operation that writes a key, which ends with a lease of etcd if there is one."""
    return {"requestPut": {"key": key, "value": value, "lease": str(lease)}}


def created_at(key: bytes, revision: int) -> Request:
    """Return the condition that a revision created a key; 0: that it does not exist."""
    return {"target": "CREATE", "key": key, "createRevision": str(revision)}


def changed_at(key: bytes, revision: int) -> Request:
    """Return the condition that a revision changed a key last; 0: that it does not exist."""
    return {"target": "MOD", "key": key, "modRevision": str(revision)}


def ends_with(key: bytes, lease: int) -> Request:
    """Return the condition that a key ends with this lease of etcd."""
    return {"target": "LEASE", "key": key, "lease": str(lease)}


def transaction(
    compare: Sequence[Request], success: Sequence[Request], failure: Sequence[Request] = ()
) -> Request:
    """Return the request that does one or the other."""
    return {"compare": compare, "success": success, "failure": failure}
