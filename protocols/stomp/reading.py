"""How a subscription reads: as a browser, from a sequence number on, with numbers in its messages.

Headers of SUBSCRIBE as Apollo has them. Must never know what a queue holds.
"""

import re
from typing import Final

from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.frames import Head, number, truth

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_OF_MESSAGE: Final = frozenset(
    {
        "ack", "browser", "content-length", "content-type", "delivery-count", "destination",
        "message-id", "receipt", "redelivered", "subscription",
    }
)  # fmt: skip
"""Headers of MESSAGE that mean something else."""


class Reading:
    """The headers `browser`, `browser-end`, `from-seq` and `include-seq` of a SUBSCRIBE.

    A browser that `listens` gets no end message. `from_sequence` is None without `from-seq`, and
    `sequence_header` empty without `include-seq`.
    """

    __slots__ = ("browses", "from_sequence", "listens", "sequence_header")

    def __init__(self, head: Head) -> None:
        values = head.values
        self.browses: bool = truth(head, "browser", False)
        ends = truth(head, "browser-end", True)
        self.listens: bool = self.browses and not ends
        self.from_sequence: int | None = _from_sequence(values.get("from-seq"))
        self.sequence_header: str = _header(values.get("include-seq"))

    @property
    def is_plain(self) -> bool:
        """Whether deliveries need nothing but the message."""
        return not self.browses and not self.sequence_header


def _from_sequence(given: str | None) -> int | None:
    if given is None:
        return None
    sequence = -1 if given == "-1" else number(given)
    if sequence is None:
        raise StompError(
            f"from-seq is {shortened(given)}",
            "give a sequence number, 0 for all messages that are there, or -1 for new ones only",
        )
    return sequence


def _header(given: str | None) -> str:
    if given is None:
        return ""
    if not _HEADER_NAME.fullmatch(given) or given in _OF_MESSAGE:
        raise StompError(
            f"include-seq is {shortened(given)}",
            "name the header of MESSAGE that is to have the sequence number, such as seq, in"
            " letters, digits, hyphens, underscores and dots; it must be none that MESSAGE has",
        )
    return given
