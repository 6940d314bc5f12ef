"""Frames by chance: mostly sensible, with headers and values that the code knows."""

from random import Random
from typing import Final

from daybook.protocols.stomp.wire.states import CLIENT_COMMANDS
from tests.fuzz.guided.dictionary import header_groups, words

COMMANDS: Final = tuple(name.encode() for name in CLIENT_COMMANDS)
USUAL: Final[dict[bytes, tuple[bytes, ...]]] = {
    b"CONNECT": (b"accept-version", b"host", b"client-id", b"heart-beat", b"login"),
    b"SEND": (b"destination", b"destination", b"receipt", b"transaction"),
    b"SUBSCRIBE": (b"destination", b"destination", b"id", b"id", b"ack", b"receipt"),
    b"UNSUBSCRIBE": (b"id", b"id", b"receipt"),
    b"ACK": (b"id", b"message-id", b"subscription", b"transaction"),
    b"NACK": (b"id", b"message-id", b"subscription", b"transaction"),
    b"BEGIN": (b"transaction", b"receipt"),
    b"COMMIT": (b"transaction", b"transaction", b"receipt"),
    b"ABORT": (b"transaction", b"transaction", b"receipt"),
    b"DISCONNECT": (b"receipt",),
}
"""Headers that such a frame has more often than others."""

PLACES: Final = (b"a", b"b", b"a.b", b"full", b"slow", b"dead", b"late", b"by", b"a.*", b"#", b"**")
NUMBERS: Final = (b"0", b"1", b"2", b"-1", b"5,0", b"0,3", b"70", b"1000", b"999999999999999999")
IDS: Final = (b"s", b"t", b"u", b"1-1", b"1-9", b"2-12", b"7")
ODD: Final = (
    b"", b" x ", b"a\\cb", b"\\n", b"\\\\", b"a\\tb", b"\xc3\xa4", b"\xff", b"a:b", b"x\ry", b"\\r",
    b"\xe2\x9c\x93", b"{a+}", b"%41", b"a" * 300,
)  # fmt: skip
PREFIXES: Final = tuple(word for word in words() if word[:1] == b"/" and word[-1:] == b"/")
BODIES: Final = (b"", b"", b"x", b"hello", b"a\0b", b"\0", b"\n\n", b"y" * 700, b"z" * 9000)


def destination(chance: Random) -> bytes:
    """A name behind a prefix, sometimes several."""
    names = [
        (chance.choice(PREFIXES) if chance.random() < 0.9 else b"") + chance.choice(PLACES)
        for _ in range(2 if chance.random() < 0.1 else 1)
    ]
    found = b",".join(names)
    return found + b"::" + chance.choice(PLACES) if chance.random() < 0.06 else found


def value(chance: Random, name: bytes) -> bytes:
    """A value for a header, of its kind in most frames."""
    kind = chance.random()
    if name in (b"destination", b"reply-to") and kind < 0.9:
        return destination(chance)
    if name == b"accept-version" and kind < 0.9:
        return chance.choice((b"1.0", b"1.1", b"1.2", b"1.0,1.1,1.2", b"2.0"))
    if name == b"ack" and kind < 0.9:
        return chance.choice((b"client", b"client-individual", b"auto"))
    if name == b"heart-beat" and kind < 0.8:
        return chance.choice((b"0,0", b"1000,1000", b"100,0", b"0,100"))
    if kind < 0.35:
        return chance.choice(IDS)
    if kind < 0.55:
        return chance.choice((b"true", b"false"))
    if kind < 0.75:
        return chance.choice(NUMBERS)
    if kind < 0.85:
        return chance.choice(ODD)
    return chance.choice(words())


def line(chance: Random, command: bytes = b"") -> bytes:
    """A header line."""
    usual = USUAL.get(command, ())
    kind = chance.random()
    if usual and kind < 0.3:
        name = chance.choice(usual)
    elif kind < 0.8:
        name = chance.choice(chance.choice(header_groups()))
    else:
        name = chance.choice(words() if kind < 0.95 else ODD)
    return name + b":" + value(chance, name)


def plain(chance: Random) -> bytes:
    """A frame that most sessions accept."""
    place, name = chance.choice(PLACES[:7]), chance.choice((b"s", b"t", b"u"))
    kind = chance.choice((b"/queue/", b"/topic/", b"/temp-queue/"))
    mode = chance.choice((b"client", b"client-individual", b"auto"))
    return chance.choice(
        (
            b"SEND\ndestination:%b%b\n\n%b\0" % (kind, place, name * 3),
            b"SEND\ndestination:%b%b\nreceipt:%b\n\nx\0" % (kind, place, name),
            b"SEND\ndestination:/queue/%b\ntransaction:%b\n\nx\0" % (place, name),
            b"SUBSCRIBE\nid:%b\ndestination:%b%b\nack:%b\n\n\0" % (name, kind, place, mode),
            b"SUBSCRIBE\nid:%b\ndestination:/queue/%b\nack:client\ncredit:1,0\n\n\0"
            % (name, place),
            b"SUBSCRIBE\nid:%b\ndestination:/queue/%b\nbrowser:true\n\n\0" % (name, place),
            b"UNSUBSCRIBE\nid:%b\n\n\0" % name,
            b"BEGIN\ntransaction:%b\n\n\0" % name,
            b"COMMIT\ntransaction:%b\nreceipt:%b\n\n\0" % (name, name),
            b"ABORT\ntransaction:%b\n\n\0" % name,
        )
    )


def frame(chance: Random) -> bytes:
    """A frame, complete."""
    if chance.random() < 0.4:
        return plain(chance)
    command = chance.choice(COMMANDS) if chance.random() < 0.7 else b"SEND"
    lines = [command]
    for name in dict.fromkeys(USUAL.get(command, ())):
        share = 0.5 + 0.45 * (USUAL[command].count(name) > 1)
        if chance.random() < share:
            lines.append(name + b":" + value(chance, name))
    lines += [line(chance, command) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3, 8)))]
    body = chance.choice(BODIES) if command == b"SEND" or chance.random() < 0.05 else b""
    if b"\0" in body or chance.random() < 0.2:
        length = len(body) + (chance.choice((-1, 1, 5)) if chance.random() < 0.1 else 0)
        lines.append(b"content-length:%d" % length)
    end = b"\r\n" if chance.random() < 0.1 else b"\n"
    return end.join(lines) + end * 2 + body + b"\0" + (b"\n" if chance.random() < 0.2 else b"")


def changed(data: bytes, chance: Random) -> bytes:
    """The bytes of frames with one change: of a byte, a line, a frame, a place to cut."""
    text = bytearray(data)
    at = chance.randrange(len(text) + 1)
    how = chance.randrange(9)
    if how == 0:
        text[at:at] = chance.choice((b"\0", b"\n", b"\r", b"\r\n", b":", b"\\", b"\n\n", b","))
    elif how == 1:
        del text[at : at + chance.choice((1, 1, 2, 5, 50))]
    elif how == 2 and text:
        text[at - 1] = chance.randrange(256)
    elif how == 3:
        nul = text.find(b"\0", at) + 1
        text[nul:nul] = frame(chance)
    elif how == 4:
        text += frame(chance)
    elif how == 5:
        begin = text.rfind(b"\0", 0, at) + 1
        del text[begin : text.find(b"\0", at) + 1]
    elif how == 6:
        feed = text.find(b"\n", at) + 1
        text[feed:feed] = line(chance) + b"\n"
    elif how == 7:
        colon = text.find(b":", at) + 1
        feed = text.find(b"\n", colon)
        name = bytes(text[text.rfind(b"\n", 0, colon) + 1 : max(0, colon - 1)])
        if colon and feed > 0:
            text[colon:feed] = value(chance, name)
    else:
        begin = text.rfind(b"\0", 0, at) + 1
        text += text[begin : text.find(b"\0", at) + 1]
    return bytes(text)
