"""A STOMP frame and the view of its message agree, and its bytes stay as they are."""

from hypothesis import assume, given
from hypothesis import strategies as st

from daybook.engine.broker import Broker
from daybook.engine.commands import OpenConnection, Send, Start
from daybook.engine.messages.content import View, view_of
from daybook.engine.messages.headers import as_dict
from daybook.engine.state.state import State
from daybook.journal.disk import MemoryDisk
from daybook.journal.journal import Journal
from daybook.journal.segments.reader import read_blocks
from daybook.paging.content.content import ContentReader
from daybook.paging.tables.layout import LAYOUT
from daybook.protocols.stomp.sending import NOT_STORED
from daybook.protocols.stomp.wire.frames import BLANKS, parse_head
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import NAMES, V10
from daybook.recovery.fold import fold_block
from tests.unit.protocols.stomp.fakes import NOW, connected

names = st.sampled_from(
    [
        b"destination", b"content-type", b"reply-to", b"correlation-id", b"timestamp", b"type",
        b"expires", b"priority", b"stock", b"s\\cx", b"message-id", b"redelivered", b"ttl",
    ]
)  # fmt: skip
pieces = st.sampled_from(
    [b"a", b"7", b" ", b"\t", b":", b"\\n", b"\\c", b"\\\\", b"\\r", b"\\", b"\r", b"\xc3\xbc"]
)
values = st.lists(pieces, max_size=5).map(b"".join) | st.integers(0, 9).map(b"%d".__mod__)
heads = st.lists(st.tuples(names | values, values), max_size=8)
versions = st.sampled_from([None, "1.1", "1.2"])


def sent(version: str | None, pairs: list[tuple[bytes, bytes]]) -> tuple[bytes, Send | None]:
    """The head of a SEND, and the command that a session makes of it, if it takes it."""
    lines = [b"SEND", b"destination:/queue/q", *(name + b":" + value for name, value in pairs)]
    peer = connected(version)
    peer.send(b"\n".join(lines) + b"\n\nbody\0")
    found = peer.broker.of(Send)
    return b"\n".join(lines), found[0] if found else None  # type: ignore[return-value]


@given(versions, heads)
def test_the_view_says_what_the_session_understood(
    version: str | None, pairs: list[tuple[bytes, bytes]]
) -> None:
    raw, command = sent(version, pairs)
    assume(command is not None and b"\r" not in raw)
    assert command is not None
    number = NAMES[version or "1.0"]
    head = parse_head(raw, number, StompOptions())
    left_out = {*NOT_STORED, *(("expires",) if "ttl" in head.values else ())}
    understood: dict[str, str] = {}
    for line in head.lines:
        if line.name not in left_out:
            understood.setdefault(line.name, line.value)
    view = View(command.format, command.headers)
    # STOMP 1.0 does not count blanks around a value, and stores them.
    blanks = BLANKS if number == V10 else ""
    said = {
        name: value.strip(blanks) if blanks else value
        for name, value in as_dict(view.lines()).items()
    }
    if "ttl" in head.values:
        said.pop("expires", None)
    assert said == understood
    standard = view.standard
    for name, found in (
        ("destination", standard.destination), ("content-type", standard.content_type),
        ("reply-to", standard.reply_to), ("correlation-id", standard.correlation_id),
        ("type", standard.type),
    ):  # fmt: skip
        assert found.strip(blanks) == understood.get(name, "")
    for name, value in view.properties.items():
        assert isinstance(value, str)
        assert value.strip(blanks) == understood[name]
        assert view.get(name) == value


@given(versions, heads)
def test_bytes_stay_as_they_are_in_journal_and_fold(
    version: str | None, pairs: list[tuple[bytes, bytes]]
) -> None:
    _, command = sent(version, pairs)
    assume(command is not None)
    assert command is not None
    command.expires, command.transaction, command.routing_type = 0, None, None
    disk = MemoryDisk()
    journal = Journal.create(disk, LAYOUT, data_id=bytes(16), segment_bytes=1 << 16)
    broker = Broker(State())
    broker.handle(Start(version="test"), NOW)
    answer = broker.handle(OpenConnection("STOMP", "peer", "user"), NOW)
    assert isinstance(answer, int)
    command.connection = answer
    command.persistent = True
    message = broker.handle(command, NOW)
    assert isinstance(message, int)
    batch = broker.take()
    assert batch is not None
    journal.append(batch)
    journal.close()
    assert ContentReader(disk, LAYOUT).fetch([message]) == [(command.headers, b"body")]
    state = State()
    for block in read_blocks(disk, LAYOUT):
        fold_block(block, state)
    [entry] = [e for queue in state.queues.values() for e in queue.entries.values()]
    assert entry.message.headers == command.headers
    assert view_of(entry.message).lines() == command.headers
    assert (entry.message.flags, entry.message.resident) == (1, True)
