"""What the documentation says of a message, for the referee: its expiry, and its group."""

from hashlib import sha256

from daybook.engine.facts import events
from daybook.engine.messages.content import codec_of
from daybook.engine.settings.setting_key import NO_LIMIT
from daybook.engine.settings.settings import AddressSettings
from tests.support.world import Event

UNKNOWN = -2
"""The group of a message whose headers are not journaled."""


def expires_by(settings: AddressSettings, sent: int, now: int) -> int:
    """When a message expires, by the words of the documentation on expiry."""
    if settings.no_expiry:
        return 0
    least, most = settings.min_expiry_delay, settings.max_expiry_delay
    if settings.expiry_delay >= 0:
        least = most = NO_LIMIT
        if sent == 0:
            return now + settings.expiry_delay
    if sent == 0:
        longest = most if most >= 0 else least
        return now + longest if longest >= 0 else 0
    if most >= 0 and sent > now + most:
        sent = now + most
    if least >= 0 and sent < now + least:
        sent = now + least
    return sent


def group_of(event: Event) -> tuple[int, bool]:
    """The number of the group of a message, and whether the message closes it."""
    if event.row[events.FLAGS] & events.BODY_OMITTED and not event.headers:
        return UNKNOWN, False
    codec = codec_of(event.row[events.FLAGS])
    name = str(codec.said(event.headers, "group_id"))
    number = int.from_bytes(sha256(name.encode()).digest()[:7], "big")
    sequence = codec.first(event.headers, "JMSXGroupSeq")
    return (number if name else -1), str(sequence or "").startswith("-")
