"""What nodes say: one that leads or stands speaks, over a connection of its own, others answer.

Blocks are bytes of the journal; everything else is small.
"""

from typing import TypeAlias

import msgspec

from daybook.journal.places import Place
from daybook.replication.epochs import Beginning


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """A node that leads or stands in an epoch asks for a promise, and how far the other one is.
    While it stands, nobody has acknowledged anything of that epoch."""

    cluster: str
    epoch: int
    node: str
    is_standing: bool


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """The promise is given: nothing of an older epoch is taken any more. `place` is the end of the
    node's journal, `lsn` that of its last event; `data_id` is empty if it has no journal.
    `is_whole` says whether the node counts among those that know what was confirmed. `base` is the
    event behind which a journal without segments continues, 0 if none has left."""

    node: str
    epoch: int
    data_id: bytes
    epochs: tuple[Beginning, ...]
    place: Place
    lsn: int
    is_whole: bool
    base: int = 0


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """What was asked for is refused; `promised` is the newest epoch that the node knows, and `to`
    the node to which it is promised."""

    promised: int
    why: str
    to: str = ""


class Join(msgspec.Struct, frozen=True, tag="join"):
    """The journal of the follower is to end at a place, behind the block with a hash, and then to
    continue with what is sent."""

    data_id: bytes
    place: Place
    hash: bytes
    epochs: tuple[Beginning, ...]


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """The journal ends there, with an event."""

    lsn: int


class Offer(msgspec.Struct, frozen=True, tag="offer"):
    """The follower lacks segments that have left the leader. Up to `place` its journal is the same;
    it is to begin anew behind the base with this description, which comes in parts."""

    data_id: bytes
    place: Place
    description: bytes


class BasePart(msgspec.Struct, frozen=True, tag="part"):
    """A part of the base, from an offset on."""

    offset: int
    data: bytes


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """So many bytes of the base have arrived."""

    offset: int


class Segment(msgspec.Struct, frozen=True, tag="segment"):
    """The next segment begins with this header."""

    header: bytes


class Blocks(msgspec.Struct, frozen=True, tag="blocks"):
    """Whole blocks that follow at a place."""

    place: Place
    data: bytes


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """Everything up to a place, and to an event, is on the disk of the follower."""

    place: Place
    lsn: int


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """The leader is there, and everything up to an event is confirmed. `lsn` is the last event on
    its disk; so many bytes and microseconds is the follower behind it. `first` is the first event
    of its journal: what is before it may leave those who have all that is confirmed."""

    confirmed: int
    lsn: int = 0
    behind_bytes: int = 0
    behind_us: int = 0
    first: int = 0


class HandedOver(msgspec.Struct, frozen=True, tag="handed-over"):
    """The leader gives its lease back: one node is to stand for the lead at once, others later."""

    to: str


Said: TypeAlias = Ask | Join | Offer | BasePart | Segment | Blocks | Beat | HandedOver
"""From the node that leads or stands."""
Answer: TypeAlias = Standing | Refused | Joined | Taken | Ack
"""To it."""
