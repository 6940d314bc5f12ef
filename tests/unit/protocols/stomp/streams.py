"""Streams of frames for laws and fuzzing: valid ones, broken ones, and how they are fed."""

from itertools import pairwise

import msgspec

from daybook.engine.limits.budget import NO_LIMIT
from daybook.protocols.stomp.wire.options import StompOptions
from tests.unit.protocols.stomp.fakes import FakeMessage, Peer

OPTIONS = StompOptions(
    max_header_length=200,
    max_headers=12,
    max_frame_head=600,
    max_data_length=40_000,
    max_early_data=1_000_000,
)
"""Small limits, so that random streams reach them."""

LARGE_OPTIONS = msgspec.structs.replace(OPTIONS, min_large_message_size=4, max_data_length=70)
"""Nearly everything is large, and much is too large."""

LARGE_FRAMES = (
    b"SEND\ndestination:/queue/a\nreceipt:1\ncontent-length:12\n\n" + b"abc\0" * 3 + b"\0",
    b"SEND\ndestination:/queue/a\n\n12345\0",
    b"SEND\ndestination:/queue/a\nreceipt:x\\cy\nttl:5\n\n12345678\0",
    b"SEND\r\ndestination:a\r\nreceipt:3\r\ntransaction:t\r\n\r\nbody\r\n\0",
    b"SEND\ndestination:/queue/a\n\n" + b"x" * 70 + b"\0",
    b"SEND\ndestination:/queue/a\n\n" + b"x" * 71 + b"\0",
    b"SEND\ndestination:/queue/a\nreceipt:r\ncontent-length:9\n\n123456789!\0",
    b"SEND\ndestination:/queue/a\nreceipt:r\ncontent-length:71\n\n",
)

CONNECTS = (
    b"CONNECT\n\n\0",
    b"CONNECT\naccept-version:1.1\nhost:h\n\n\0",
    b"STOMP\naccept-version:1.0,1.2\nhost:h\nheart-beat:1000,1000\n\n\0",
    b"STOMP\r\naccept-version:1.2\r\nhost:h\r\n\r\n\0\r\n",
)
FRAMES = (
    b"SEND\ndestination:/queue/a\nreceipt:1\n\nhello\0",
    b"SEND\ndestination:/queue/a\nreceipt:a-b\ncontent-length:5\n\nhe\0lo\0",
    b"SEND\nreceipt:x\\cy\ndestination:/topic/b\nttl:5\nx:a\\nb\n\n\0",
    b"SEND\r\ndestination:a\r\nreceipt:3\r\n\r\nbody\r\n\0",
    b"SEND\ndestination:/queue/big\n\n" + b"x" * 20_000 + b"\0",
    b"SEND\ndestination:/queue/big\nreceipt:big\ncontent-length:30000\n\n"
    + b"\0y" * 15_000
    + b"\0",
    b"SUBSCRIBE\nid:s\ndestination:/queue/a\nack:client\nreceipt:sub\n\n\0",
    b"SUBSCRIBE\nid:t\ndestination:/topic/b\n\n\0",
    b"ACK\nid:1-5\n\n\0",
    b"ACK\nid:1-6\n\n\0ACK\nid:1-7\n\n\0",
    b"ACK\nid:1-5\nreceipt:ack\n\n\0",
    b"ACK\nsubscription:s\nmessage-id:5\n\n\0",
    b"NACK\nid:1-5\ntransaction:t\n\n\0",
    b"UNSUBSCRIBE\nid:s\n\n\0",
    b"BEGIN\ntransaction:t\n\n\0",
    b"COMMIT\ntransaction:t\nreceipt:c\n\n\0",
    b"ABORT\ntransaction:t\n\n\0",
    b"\n",
    b"\r\n\n\n",
)
BROKEN = (
    b"DISCONNECT\nreceipt:bye\n\n\0",
    b"SEND\nnocolon\n\n\0",
    b"SEND\ndestination:/queue/a\nreceipt:r\0x\n\n\0",
    b"SEND\ndestination:/queue/a\nreceipt:r\ncontent-length:2\n\nhello\0",
    b"SEND\ndestination:/queue/a\n" + b"a:b\n" * 200 + b"\n\0",
    b"SEND\ndestination:/queue/a\nx:" + b"y" * 300 + b"\n\n\0",
    b"SEND\ndestination:/queue/a\n\n" + b"x" * 40_001 + b"\0",
    b"SEND\ndestination:/queue/a\ncontent-length:40001\n\nx",
    b"SEND\ndestination:/queue/a\nx:\\t\n\n\0",
    b"SEND\ndestination:/queue/a\nx:\xff\n\n\0",
    b"BEGIN\ntransaction:t\n\nbody\0",
    b"DISCONNECT\n\0",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"A" * 700,
)


def run(
    chunks: list[bytes], options: StompOptions = OPTIONS, units: int = NO_LIMIT
) -> tuple[list[str], bytes, bool]:
    """Feed chunks to a session, with a login when it asks; return its commands, output and end.

    The session has a budget of `units` for each call, as if other sessions had turns between them.
    """
    peer = Peer(options)
    output = []
    budget = peer.broker.budget
    for chunk in chunks:
        budget.allow(units)
        output.append(peer.send(chunk))
        if peer.session.login_request is not None:
            peer.log_in()
            output.append(peer.taken())
        while peer.session.has_more:
            budget.allow(units)
            peer.session.proceed(peer.now)
            output.append(peer.taken())
    commands = [
        repr(command) if not hasattr(command, "receiver") else command.subscription
        for command in peer.broker.commands
    ]
    for command in peer.broker.commands:
        receiver = getattr(command, "receiver", None)
        if receiver is not None:
            receiver.deliver(FakeMessage(5, b"destination:a\nx:\\n\n", b"y"), 2, True, 9)
    output.append(peer.taken())
    return commands, b"".join(output), peer.session.closing


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces, cut at these places."""
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(edges)]
