"""Random input of a peer of AMQP 1.0 to a broker, and changes of it: frames, their fields, and
the bytes of both.

Must never know what a broker answers.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.writer import section_of
from daybook.protocols.amqp.wire.frames import AMQP, EMPTY_FRAME, SASL, frame, protocol_header
from daybook.protocols.amqp.wire.kinds import RECEIVER, SENDER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    Open,
    SaslInit,
    SaslResponse,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Coordinator,
    Declare,
    Discharge,
    Source,
    Target,
    TransactionalState,
)
from tests.support.amqp.frames_by_chance import STATES, TXN_IDS, a_frame
from tests.support.amqp.peer import message

HEAD: Final = 8
NAMES: Final = ("a", "b", "a.b", "full", "slow", "dead", "late", "topic://t", "a::q")
_NUMBERS: Final = (0, 1, 2, 5, 255, 256, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, None)


# ---- how a connection begins


def login(init: SaslInit, *more: bytes) -> bytes:
    """The bytes of a login, and what follows it."""
    return b"".join((protocol_header(SASL), frame(0, init), *more))


def sender(handle: int, target: Any) -> bytes:
    """A link to send by."""
    name = f"s{handle}"
    attach = Attach(name, handle, SENDER, source=Source(), target=target, initial_delivery_count=0)
    return frame(0, attach)


def receiver(handle: int, source: Source, mode: int = 2) -> bytes:
    """A link to receive by."""
    return frame(
        0, Attach(f"r{handle}", handle, RECEIVER, snd_settle_mode=mode, source=source,
                  target=Target())
    )  # fmt: skip


def credit(handle: int, most: int, **values: Any) -> bytes:
    """Credit for a link, as if nothing had come."""
    values = {"incoming_window": 1 << 20, "delivery_count": 0, **values}
    return frame(
        0, Flow(next_incoming_id=0, next_outgoing_id=0, outgoing_window=99, handle=handle,
                link_credit=most, **values)
    )  # fmt: skip


LINKS: Final = b"".join(
    (
        sender(0, Target(None)), sender(1, Coordinator()),
        receiver(2, Source("a")), credit(2, 5),
        receiver(3, Source("topic://t", durable=2, expiry_policy="never")), credit(3, 100),
    )
)  # fmt: skip
"""The links that most connections have; most random frames are about these."""


def opening(container: str, window: int, **values: Any) -> bytes:
    """The open of a connection, and two sessions."""
    begin = Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=99)
    return b"".join(
        (
            protocol_header(AMQP), frame(0, Open(container, **values)), frame(0, begin),
            frame(1, begin),
        )
    )  # fmt: skip


PLAIN: Final = SaslInit("PLAIN", b"\0guest\0guest")
CONNECTS: Final = (
    login(PLAIN, opening("c", 99), LINKS),
    login(SaslInit("ANONYMOUS"), opening("c", 1, max_frame_size=512), LINKS),
    opening("d", 5, idle_time_out=1000) + LINKS,
    login(SaslInit("PLAIN", b"\0late\0x"), opening("c", 99)),
    login(SaslInit("PLAIN", b"\0wrong\0x")),
    login(SaslInit("PLAIN"), frame(0, SaslResponse(b"\0guest\0guest")), opening("c", 9)),
    login(SaslInit("SCRAM-SHA-256", b"n,,n=guest,r=abc")),
)

# ---- its output


def attached(chance: Random) -> bytes:
    """A link in the place of another one."""
    handle = chance.randrange(4)
    closes = frame(0, Detach(handle, chance.random() < 0.5)) if chance.random() < 0.8 else b""
    address = chance.choice(NAMES)
    if handle < 2:
        target: Any = Coordinator() if handle else Target(chance.choice((address, None)))
        return closes + sender(handle, target)
    source = Source(
        address, durable=chance.choice((0, 0, 2)),
        expiry_policy=chance.choice(("session-end", "never", "link-detach")),
        timeout=chance.choice((0, 1)), dynamic=chance.random() < 0.1,
        distribution_mode=chance.choice((None, None, "copy")),
    )  # fmt: skip
    link = receiver(handle, source, chance.choice((1, 2, 2)))
    return closes + link + credit(handle, chance.choice((1, 5, 1000, 0xFFFF_FFFF)))


def sent(chance: Random, handle: int = 0) -> bytes:
    """A message, in one frame or in many; now and then it never ends, or is in a transaction."""
    size = chance.choice((0, 3, 3, 300, 5000, 15_000, 25_000))
    properties = {"n": chance.randrange(4)} if chance.random() < 0.3 else None
    payload = message(
        b"x" * size, to=chance.choice(NAMES), durable=chance.random() < 0.5, properties=properties
    )
    most = chance.choice((100, 1900)) if size < 1000 else 1900
    pieces = [payload[at : at + most] for at in range(0, len(payload), most)]
    first = Transfer(
        handle, chance.randrange(6), b"t", 0, chance.random() < 0.2,
        state=TransactionalState(chance.choice(TXN_IDS)) if chance.random() < 0.2 else None,
    )  # fmt: skip
    ends = chance.random() < 0.95
    frames = []
    for number, piece in enumerate(pieces):
        said = first if not number else Transfer(handle, aborted=chance.random() < 0.02)
        more = number + 1 < len(pieces) or not ends
        frames.append(frame(0, msgspec.structs.replace(said, more=more), piece))
    return b"".join(frames)


def in_transaction(chance: Random) -> bytes:
    """A transaction is declared and discharged, with something between; now and then a part."""
    txn_id = chance.choice(TXN_IDS[1:3])

    def asked(what: Any) -> bytes:
        body = section_of(0x77, COMPOSITES.encoded(what))
        return frame(0, Transfer(1, chance.randrange(6), b"t", 0), body)

    state = TransactionalState(txn_id, chance.choice(STATES[1:5]))
    settles = frame(0, Disposition(RECEIVER, 0, chance.randrange(4), True, state))
    parts = (
        asked(Declare()), sent(chance), chance.choice((settles, settles, b"")),
        asked(Discharge(txn_id, chance.random() < 0.5)),
    )  # fmt: skip
    return b"".join(each for each in parts if chance.random() < 0.9)


def flowed(chance: Random) -> bytes:
    """Credit, a drain, or windows."""
    return credit(
        chance.choice((0, 2, 2, 3, None)), chance.choice((0, 1, 5, 1000)),
        incoming_window=chance.choice((0, 1, 99, 1 << 31)),
        delivery_count=chance.choice((None, 0, 3)), drain=chance.random() < 0.2,
        echo=chance.random() < 0.2,
    )  # fmt: skip


def settled(chance: Random) -> bytes:
    """A range of deliveries that the peer settles."""
    first = chance.randrange(6)
    last = chance.choice((None, first, first + 3, first + 0x7FFF_FFFF))
    state = chance.choice(STATES)
    return frame(0, Disposition(RECEIVER, first, last, chance.random() < 0.8, state))


_SAID: Final[tuple[Callable[[Random], bytes], ...]] = (
    sent, sent, sent, sent, attached, in_transaction, flowed, flowed, settled, settled,
    lambda chance: EMPTY_FRAME,
)  # fmt: skip


def said(chance: Random) -> bytes:
    """One thing that a peer says."""
    if chance.random() < 0.08:
        return a_frame(chance)
    return chance.choice(_SAID)(chance)


# ---- changes


def cut(data: bytes) -> list[bytes]:
    """The headers and frames of a peer, as far as their sizes lead."""
    parts = []
    at = 0
    while at < len(data):
        size = HEAD if data[at : at + 4] == b"AMQP" else int.from_bytes(data[at : at + 4])
        size = max(size, HEAD)
        parts.append(data[at : at + size])
        at += size
    return parts


def changed(data: bytes, chance: Random) -> bytes:
    """The output of a peer with one change: of a frame, a field, a byte, or a size."""
    parts = cut(data)
    at = chance.randrange(len(parts) + 1)
    how = chance.randrange(9)
    if how < 2 or at == len(parts):
        parts.insert(at, said(chance))
    elif how < 5:
        parts[at] = refielded(parts[at], chance)
    elif how == 5:
        parts[at] = rebitten(parts[at], chance)
    elif how == 6:
        del parts[at]
    elif how == 7:
        parts.insert(chance.randrange(len(parts) + 1), parts[at])
    else:
        other = chance.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]
    return b"".join(parts)


def refielded(part: bytes, chance: Random) -> bytes:
    """A frame with another value in one field; one that cannot be read as bytes."""
    try:
        reader = Reader(part, 4 * part[4], len(part))
        performative = COMPOSITES.read(reader)
        row = COMPOSITES.row_of(performative)
        if row is None or not row.fields:
            return part
        field = chance.choice(row.fields).attribute
        made = msgspec.structs.replace(
            performative, **{field: _other(getattr(performative, field), chance)}
        )
        encoded = COMPOSITES.encoded(made)
    except (Malformed, IndexError, ValueError, TypeError, AttributeError, OverflowError):
        return rebitten(part, chance)
    head = part[4:8]
    body = head + encoded + part[reader.at :]
    return (len(body) + 4).to_bytes(4) + body


def _other(value: Any, chance: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return chance.choice((*NAMES, "", value + "x", "n" * 300))
    if isinstance(value, bytes):
        return chance.choice((*TXN_IDS, b"", value + b"x"))
    if isinstance(value, int):
        return chance.choice((*_NUMBERS, value + 1, value - 1))
    if isinstance(value, Sequence):
        return ()
    return chance.choice((None, 0, 1, 5))


def rebitten(part: bytes, chance: Random) -> bytes:
    """A frame with other bytes; its size is made right most of the time."""
    data = bytearray(part)
    at = chance.randrange(len(data) + 1)
    how = chance.randrange(4)
    if how == 0:
        data[at : at + 1] = bytes((chance.randrange(256),))
    elif how == 1:
        del data[at : at + chance.randint(1, 9)]
    elif how == 2:
        data[at:at] = data[at : at + chance.randint(1, 60)]
    else:
        data[at : at + 4] = chance.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff"))
    if len(data) >= HEAD and chance.random() < 0.8 and not data.startswith(b"AMQP"):
        data[:4] = len(data).to_bytes(4)
    return bytes(data)
