"""Benchmark messages: building frames in advance and checking bodies afterwards.

Frames are built before the clock starts and all have the same length, so that a producer sends
slices of one buffer and does no work per message. A body names its producer and its sequence number
and has a checksum of its own text: the receiver can prove, after the clock has stopped, that it is
intact, without knowing the sent messages.

This module must never know a socket or a broker.
"""

import random
import zlib
from collections.abc import Callable
from typing import Final

BODY_BYTES_MIN: Final = 200
PRODUCERS_MAX: Final = 100
MESSAGES_MAX: Final = 100_000_000

_KEY_START: Final = b'{"key":"'
_CHECK_START: Final = b'","check":"'
_KEY_BYTES: Final = 11  # two digits of producer, a hyphen, eight digits of sequence
_CHECK_BYTES: Final = 8
_CHECK_AT: Final = len(_KEY_START) + _KEY_BYTES + len(_CHECK_START)
_TEXT_AT: Final = _CHECK_AT + _CHECK_BYTES

_CITIES: Final = ("Aberdeen", "Bergen", "Cadiz", "Delft", "Esbjerg", "Faro", "Genoa", "Hull")
_ITEMS: Final = ("anchor", "barometer", "compass", "dory", "ensign", "fid", "gimbal", "hawser")
_STATES: Final = ("new", "paid", "packed", "shipped", "returned", "refunded")
_WORDS: Final = (
    *("leave", "at", "the", "side", "door", "ring", "twice", "fragile", "keep", "dry", "gift"),
    *("wrapped", "invoice", "by", "post", "call", "before", "delivery", "second", "floor", "no"),
    *("signature", "needed", "weekend", "only", "customer", "collects", "part", "order", "back"),
    *("express", "customs", "cleared", "insured", "pallet", "of", "four", "returned", "once"),
)


class LoadError(Exception):
    """A measurement that must not be believed: the broker or the generator did something wrong."""


def make_body(producer: int, sequence: int, body_bytes: int, source: random.Random) -> bytes:
    """Return one JSON body of exactly `body_bytes` bytes with realistic variety."""
    text = (
        f'","customer":{source.randrange(10**7)},"city":"{source.choice(_CITIES)}",'
        f'"item":"{source.choice(_ITEMS)}-{source.randrange(1000):03d}",'
        f'"quantity":{source.randrange(1, 40)},"price":{source.randrange(10**6) / 100:.2f},'
        f'"state":"{source.choice(_STATES)}","at":"2026-{source.randrange(1, 13):02d}-'
        f'{source.randrange(1, 29):02d}T{source.randrange(24):02d}:{source.randrange(60):02d}",'
        f'"note":"'
    )
    missing = body_bytes - _TEXT_AT - len(text) - 2
    note = " ".join(source.choices(_WORDS, k=missing // 3 + 1))[:missing]
    tail = f'{text}{note}"}}'.encode()
    check = b"%08x" % zlib.crc32(tail)
    return b"%s%02d-%08d%s%s%s" % (_KEY_START, producer, sequence, _CHECK_START, check, tail)


def check_body(body: bytes, body_bytes: int) -> tuple[int, int]:
    """Return (producer, sequence) of a body that arrived; raise LoadError if it was harmed."""
    if len(body) != body_bytes:
        raise LoadError(
            f"a body of {len(body)} bytes arrived where {body_bytes} were sent: {body[:60]!r}"
        )
    key = body[len(_KEY_START) : len(_KEY_START) + _KEY_BYTES]
    if body[_CHECK_AT:_TEXT_AT] != b"%08x" % zlib.crc32(body[_TEXT_AT:]):
        raise LoadError(f"the body of message {key!r} does not match its checksum")
    return int(key[:2]), int(key[3:])


class SendFrames:
    """The frames of one producer's messages in one buffer, all of the same length."""

    __slots__ = ("count", "frame_bytes", "view")

    def __init__(
        self,
        message: Callable[[int, bytes], bytes],
        *,
        producer: int,
        count: int,
        body_bytes: int,
        seed: int,
    ) -> None:
        """Build `count` frames with `message`, which has a number and a body; deterministic for a
        `seed`.

        Raises LoadError for sizes that the fixed-width fields cannot hold.
        """
        if body_bytes < BODY_BYTES_MIN:
            raise LoadError(f"bodies have at least {BODY_BYTES_MIN} bytes, not {body_bytes}")
        if not 0 <= producer < PRODUCERS_MAX or not 0 < count < MESSAGES_MAX:
            raise LoadError(f"producer {producer} with {count} messages is out of range")
        source = random.Random(seed * PRODUCERS_MAX + producer)
        self.count = count
        parts = [
            message(number, make_body(producer, number, body_bytes, source))
            for number in range(count)
        ]
        self.frame_bytes = len(parts[0])
        joined = b"".join(parts)
        if len(joined) != count * self.frame_bytes:
            raise LoadError("the generator built frames of unequal length")
        self.view = memoryview(joined)


def check_answers(seen: bytearray) -> None:
    """Raise LoadError unless each message, of which this is the number of receipts, has one."""
    count = len(seen)
    if seen != b"\x01" * count:
        missing, doubled = seen.count(0), count - seen.count(0) - seen.count(1)
        raise LoadError(f"of {count} receipts {missing} never came, {doubled} came more than once")
