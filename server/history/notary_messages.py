"""The messages between the broker and its notary: one JSON object on each line.

Must never know the reaction of either.
"""

from typing import Final

import msgspec

from daybook.engine.facts.details import KeyChangeDetail
from daybook.recovery.signing.statements import Statement


class Configure(msgspec.Struct, frozen=True, tag=True):
    """Sign with the key in this file from now on, and keep anchors in these places."""

    key: str
    anchors: list[str]


class Sign(msgspec.Struct, frozen=True, tag=True):
    """Sign history up to a durable event that ends a block; the digest of the state, if known.

    `after` is where a journal without a statement begins to be covered. With `last` the broker has
    ended and cannot journal any more; the notary ends when it has anchored this.
    """

    lsn: int
    digest: str
    after: int
    last: bool = False


class Kept(msgspec.Struct, frozen=True, tag=True):
    """The statement about history up to this event is journaled, durably."""

    lsn: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The key is in use. `warnings` are for the operator."""

    key: str
    warnings: list[str] = []


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The new key cannot be used, for this reason; the one before, if any, still is."""

    why: str
    key: str = ""


class Signed(msgspec.Struct, frozen=True, tag=True):
    """A statement, to be journaled."""

    statement: Statement


class Changed(msgspec.Struct, frozen=True, tag=True):
    """The key was changed, to be journaled."""

    change: KeyChangeDetail


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The notary could not sign, for this reason."""

    why: str


class Anchored(msgspec.Struct, frozen=True, tag=True):
    """An anchor up to this event was kept at a place, or could not be, for this reason."""

    place: str
    lsn: int
    why: str = ""


Request = Configure | Sign | Kept
Answer = Ready | Refused | Signed | Changed | Failed | Anchored
REQUESTS: Final = msgspec.json.Decoder(Request)
ANSWERS: Final = msgspec.json.Decoder(Answer)
