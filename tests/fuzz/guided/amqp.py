"""The law of AMQP's reader: chunks do not matter, nothing is raised but AmqpError, all that is read
can be written and read again, and messages stay what they are.

A case is two bytes, which choose the protocol and the chunks, and the bytes after a header.
"""

import struct
import traceback
from contextlib import suppress
from random import Random
from typing import Any, Final

from daybook.engine.facts.values import Symbol, Timestamp, Uuid
from daybook.engine.messages.amqp.content_codec import SectionsCodec, leaving, stored, whole
from daybook.engine.messages.amqp.described import Described
from daybook.engine.messages.amqp.malformed import Malformed
from daybook.engine.messages.amqp.places import header_of, places_of
from daybook.engine.messages.amqp.reader import Reader
from daybook.engine.messages.amqp.sections import COMPOSITES as SECTIONS
from daybook.engine.messages.amqp.sections import HEADER, Header, Properties
from daybook.engine.messages.amqp.writer import array_of, encoded, map_of, section_of
from daybook.protocols.amqp.wire.errors import DECODE_ERROR, FRAMING_ERROR, AmqpError
from daybook.protocols.amqp.wire.frames import (
    AMQP,
    EMPTY_FRAME,
    SASL,
    Frame,
    FrameReader,
    frame,
    protocol_header,
)
from daybook.protocols.amqp.wire.kinds import FRAME
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Error,
    Flow,
    Open,
    SaslInit,
    Transfer,
)
from daybook.protocols.amqp.wire.table import COMPOSITES
from daybook.protocols.amqp.wire.termini import (
    Accepted,
    Coordinator,
    Modified,
    Rejected,
    Source,
    Target,
    TransactionalState,
)

NAME: Final = "amqp"
SEEDS: Final = 60
FRAME_SIZE: Final = 2048
CODEC: Final = SectionsCodec()

VALUES: Final[tuple[Any, ...]] = (
    None, True, 7, -300, 1 << 62, 0.5, "text", "é" * 130, b"bytes", Symbol("sym"), Timestamp(9),
    Uuid(b"\1" * 16), [1, [2, ["x"]]], {"k": {"n": [None]}}, Described(5, [1]),
    Described(Symbol("d"), Described(1, "x")),
)  # fmt: skip
ARRAYS: Final = (
    array_of("symbol", [Symbol("a"), Symbol("b")]), array_of("ubyte", [1, 2], b"\x53\x07"),
    bytes.fromhex("e0 0a 02 e0 03 01 50 07 03 01 50 08"), bytes.fromhex("e0 02 02 45"),
)  # fmt: skip
PERFORMATIVES: Final[tuple[Any, ...]] = (
    Open("c", "h", 1024, 9, 1000, offered_capabilities=("A",), properties={"p": "v"}),
    Begin(remote_channel=1, next_outgoing_id=1, incoming_window=2, outgoing_window=3),
    Attach("l", 0, True, source=Source("q", filter={"s": Described(Symbol("sel"), "a = 1")},
                                       outcomes=("amqp:accepted:list",)), target=Target("t")),
    Attach("l", 300, False, target=Coordinator(("x",)), unsettled={b"t": None},
           properties={"a": [1]}),
    Flow(next_incoming_id=0, incoming_window=2, next_outgoing_id=1, outgoing_window=3, handle=0,
         delivery_count=5, link_credit=100, drain=True),
    Disposition(True, 0, 9, True, Accepted()),
    Disposition(True, 300, None, True, Modified(True, message_annotations={"x": 1})),
    Disposition(False, 1, state=Rejected(Error("amqp:internal-error", "why"))),
    Disposition(True, 1, state=TransactionalState(b"t", Accepted())),
    Detach(0, True, Error("amqp:not-found")), Close(),
)  # fmt: skip


def _message(chance: Random) -> bytes:
    parts = [
        SECTIONS.encoded(Header(durable=True, ttl=chance.randrange(1 << 20))),
        section_of(0x71, map_of({Symbol("d"): chance.choice(VALUES[:8])})),
        section_of(0x72, map_of({Symbol("x-opt-a"): chance.choice(VALUES)})),
        SECTIONS.encoded(Properties(message_id=5, to="a", subject="s", absolute_expiry_time=7)),
        section_of(0x74, map_of({"n": chance.choice(VALUES), "m": 1})),
    ]
    body = chance.choice(
        (
            section_of(0x75, encoded(b"d" * chance.choice((3, 300)))),
            section_of(0x75, encoded(b"d")) * 2,
            section_of(0x76, encoded([1, "x"])),
            section_of(0x77, encoded(chance.choice(VALUES))),
            section_of(0x77, chance.choice(ARRAYS)),
        )
    )
    footer = section_of(0x78, map_of({Symbol("f"): 1}))
    return b"".join([*(each for each in parts if chance.random() < 0.5), body,
                     footer if chance.random() < 0.3 else b""])  # fmt: skip


def a_frame(chance: Random) -> bytes:
    """A frame by chance, or one that is nearly right."""
    how = chance.random()
    if how < 0.4:
        transfer = Transfer(
            chance.choice((0, 7, 300)), chance.randrange(999),
            chance.randbytes(chance.randrange(40)), 0, chance.random() < 0.5,
            chance.random() < 0.1,
        )  # fmt: skip
        try:
            return frame(chance.randrange(3), transfer, _message(chance))
        except Malformed:
            return EMPTY_FRAME
    if how < 0.5:
        return frame(0, SaslInit("PLAIN", b"\0u\0p")) + protocol_header(AMQP)
    if how < 0.9:
        return frame(chance.randrange(3), chance.choice(PERFORMATIVES))
    body = b"\0\x53" + chance.choice((b"\x14", b"\x10", b"\x1d", b"\x29")) + chance.choice(ARRAYS)
    return chance.choice((EMPTY_FRAME, struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body))


def case_of(seed: int) -> bytes:
    """The case of a seed, for a search without a corpus."""
    chance = Random(seed)
    return chance.randbytes(2) + b"".join(a_frame(chance) for _ in range(chance.randint(1, 5)))


def mutated(case: bytes, chance: Random) -> bytes:
    """The case with a change or two; sizes of frames are made right again now and then."""
    head, data = bytearray(case[:2].ljust(2, b"\0")), bytearray(case[2:])
    if chance.random() < 0.1:
        head[chance.randrange(2)] = chance.randrange(256)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(7)
        if how == 0:
            data[at : at + 1] = bytes((chance.randrange(256),))
        elif how == 1:
            data[at:at] = chance.choice((*ARRAYS, *map(encoded, VALUES)))
        elif how == 2:
            del data[at : at + chance.randint(1, 9)]
        elif how == 3:
            data[at : at + 1] = bytes((chance.choice(CODES),))
        elif how == 4:
            data[at:at] = a_frame(chance)
        elif how == 5:
            data[at:at] = data[at : at + chance.randint(1, 60)]
        else:
            data[at : at + 4] = chance.choice(
                (b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\0\0\0\1")
            )
    if len(data) >= 4 and chance.random() < 0.7:
        data[:4] = min(len(data), FRAME_SIZE).to_bytes(4)
    return bytes(head) + bytes(data)


CODES: Final = bytes.fromhex(
    "00 40 41 43 45 52 53 56 70 80 a0 a1 a3 b0 c0 c1 d0 d1 e0 f0 70 71 72 73 74 75 76 77 78"
)


def crossed(one: bytes, other: bytes, chance: Random) -> bytes:
    """The beginning of a case and the end of another."""
    return (
        one[: chance.randrange(2, len(one) + 2)].ljust(2, b"\0")
        + other[chance.randrange(2, len(other) + 2) :]
    )


def without(case: bytes, at: int, count: int) -> bytes:
    """The case without some bytes."""
    return case[: at + 2] + case[at + 2 + count :]


def shown(case: bytes) -> str:
    """The case for people."""
    return case[:2].hex() + " " + case[2:].hex()


# ---- the law


class Wrong(Exception):
    """A law that was broken."""


def check(case: bytes) -> str:
    """Return the mistake of the reader for the bytes of this case, empty if there is none."""
    if len(case) < 2:
        return ""
    stream = protocol_header(SASL if case[0] & 1 else AMQP) + case[2:]
    chance = Random(case[1])
    places = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.choice((1, 3, 40))))
    chunks = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
    if case[0] & 2 and len(stream) < 600:
        chunks = [stream[at : at + 1] for at in range(len(stream))]
    try:
        together, pieces = _read([stream]), _read(chunks)
        if together != pieces:
            return f"cut differently, other results:\n{together}\n{pieces}"
    except Wrong as error:
        return str(error)
    except Exception:
        return f"an exception left the reader:\n{traceback.format_exc()}"
    return ""


def _read(chunks: list[bytes]) -> list[str]:
    """Describe the values that a reader finds, with the error at the end."""
    reader = FrameReader(FRAME_SIZE)
    most = max(map(len, chunks)) + FRAME_SIZE
    stream, at = b"".join(chunks), 0
    found = []
    try:
        for chunk in chunks:
            reader.receive(chunk)
            while (each := reader.next()) is not None:
                if isinstance(each, Frame):
                    found.append(f"{each.channel} {each.performative!r} {each.payload.hex()}")
                    after = at + int.from_bytes(stream[at : at + 4])
                    _check_frame(each, stream[at:after])
                    at = after
                else:
                    found.append(f"header {each.protocol}")
                    at += len(protocol_header(AMQP))
            if reader.buffered_bytes > most:
                raise Wrong(f"{reader.buffered_bytes} bytes are held")
    except AmqpError as error:
        if error.condition not in (DECODE_ERROR, FRAMING_ERROR) or reader.buffered_bytes:
            raise Wrong(f"an error that leaves something: {error.condition}") from error
        found.append(f"{error.condition} {error.text}")
    return found


def _check_frame(found: Frame, raw: bytes) -> None:
    """Both readers agree; the value can be written, and is read again."""
    performative = found.performative
    table = Reader(raw, 4 * raw[4], len(raw))
    if performative is None:
        return
    if repr(COMPOSITES.read(table)) != repr(performative) or raw[table.at :] != found.payload:
        raise Wrong(f"the table does not read {performative} in {raw.hex()}")
    data = COMPOSITES.encoded(performative)
    again = COMPOSITES.read(Reader(data, 0, len(data)))
    if repr(again) != repr(performative):
        raise Wrong(f"{performative} became {again}")
    row = COMPOSITES.row_of(performative)
    if row is not None and FRAME in row.provides and found.payload:
        _check_message(found.payload)


def _check_message(data: bytes) -> None:
    """A message is stored, read and leaves as it came; nothing is raised whatever is inside."""
    try:
        places = places_of(data)
    except Malformed:
        return
    headers, body = stored(data, places)
    bare = b"".join(data[each.at : each.end] for each in places if each.code > 0x71)
    if whole(headers, body) != data or b"".join(leaving(headers, body, b"")) != bare:
        raise Wrong(f"the message is another one: {data.hex()}")
    if places and places[0].code == HEADER:
        with suppress(Malformed):
            header_of(data, places[0])
    CODEC.standard(headers)
    CODEC.body(headers, body)
    for name, value in CODEC.properties(headers).items():
        if repr(CODEC.first(headers, name)) != repr(value):
            raise Wrong(f"{name} has two values")
    copy = CODEC.marked(CODEC.copied(headers, ["n"], {"z": 1}), "mark")
    if CODEC.first(copy, "mark") is not True or CODEC.first(copy, "n") is not None:
        raise Wrong(f"a copy is wrong: {copy.hex()}")
    if repr(CODEC.body(copy, body)) != repr(CODEC.body(headers, body)):
        raise Wrong(f"a copy has another body: {copy.hex()}")
    places_of(whole(copy, body))
