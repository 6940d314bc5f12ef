"""Finds the protocol of a peer by its first bytes, where an acceptor speaks several.

Each protocol says how its peers begin (`port.Offer`). At most the longest of these beginnings is
ever looked at. Must never know a single protocol.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from daybook.protocols.port import Offer


class Unclear(Enum):
    """Why no protocol is known: more bytes may say it, or none of them is spoken."""

    SO_FAR = "so far"
    FOREIGN = "foreign"


NEEDS_MORE: Final = Unclear.SO_FAR
FOREIGN: Final = Unclear.FOREIGN


def recognised(offers: Sequence[Offer], data: bytes) -> Offer | Unclear:
    """Return whose peer begins so; bytes that need more are shorter than the longest beginning."""
    found: Offer | Unclear = FOREIGN
    for offer in offers:
        for beginning in offer.beginnings:
            if data.startswith(beginning):
                return offer
            if beginning.startswith(data):
                found = NEEDS_MORE
    return found


def of_subprotocol(offers: Sequence[Offer], subprotocol: str) -> Offer:
    """Return the protocol that has this name for WebSocket."""
    return next(offer for offer in offers if subprotocol in offer.subprotocols)
