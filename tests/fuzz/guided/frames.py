"""The law of one session: chunks and turns do not matter, nothing is raised, frames mean what STOMP
says.

A case is two bytes, which choose version, options, chunks and slices, and the bytes after CONNECT.
They are fed whole, in other chunks, and in slices: commands, output and end must be the same. A
reader of its own (`reference`) says what the frames are.
"""

import re
import traceback
from random import Random
from typing import Any, Final

from daybook.engine.commands import Chunk, Send, SendToAll
from daybook.engine.limits.budget import NO_LIMIT
from daybook.engine.messages.headers import parse
from daybook.protocols.stomp.sending import NOT_STORED
from daybook.protocols.stomp.wire.options import StompOptions
from tests.fuzz.guided.grammar import changed, frame
from tests.fuzz.guided.reference import Broken, Frame, Limits, read, unescape
from tests.unit.protocols.stomp.fakes import FakeMessage, Peer
from tests.unit.protocols.stomp.streams import LARGE_OPTIONS, OPTIONS, cut

NAME: Final = "frames"
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
"""Where an object is in memory, as its description has it."""
CONNECTS: Final = (
    ("1.0", b"CONNECT\n\n\0"),
    ("1.1", b"CONNECT\naccept-version:1.1\nhost:h\n\n\0"),
    ("1.2", b"STOMP\r\naccept-version:1.2\r\nhost:h\r\n\r\n\0"),
    ("1.2", b"CONNECT\naccept-version:1.0,1.2\nhost:h\nheart-beat:1000,1000\n\n\0\n"),
)
SEEDS: Final = 40
LIMITS: Final = Limits(
    OPTIONS.max_header_length, OPTIONS.max_headers, OPTIONS.max_frame_head, OPTIONS.max_data_length
)
BUFFERED_MAX: Final = OPTIONS.max_frame_head + OPTIONS.max_data_length + OPTIONS.max_early_data


class Run:
    """The commands and answers of a session that gets bytes in these chunks."""

    def __init__(self, chunks: list[bytes], options: StompOptions, units: int) -> None:
        self.peer = peer = Peer(options)
        self.parts: list[bytes] = []
        self.wrong = ""
        budget = peer.broker.budget
        most = max(map(len, chunks), default=0)
        for chunk in chunks:
            budget.allow(units)
            self.parts.append(peer.send(chunk))
            if peer.session.login_request is not None:
                peer.log_in()
            while peer.session.has_more:
                before = budget.spent
                budget.allow(units)
                peer.session.proceed(peer.now)
                if budget.spent - before > units + 2 * OPTIONS.max_headers + 100:
                    self.wrong = f"{budget.spent - before} units, {units} allowed"
            if peer.session.buffered_bytes > BUFFERED_MAX + most:
                self.wrong = f"{peer.session.buffered_bytes} bytes of input are buffered"
        self.commands = [_shown(command) for command in peer.broker.commands]
        for command in peer.broker.commands:
            receiver = getattr(command, "receiver", None)
            if receiver is not None:
                receiver.deliver(FakeMessage(5, b"destination:a\nx:\\n\\cb\n", b"y"), 2, True, 9)
        self.parts.append(peer.taken())

    @property
    def result(self) -> tuple[Any, ...]:
        """The results that must not depend on chunks."""
        return self.commands, b"".join(self.parts), self.peer.session.closing


def _shown(command: Any) -> str:
    return _ADDRESS.sub("", repr(command))


def case_of(seed: int) -> bytes:
    """The case of a seed, for a search without a corpus."""
    chance = Random(seed)
    return chance.randbytes(2) + b"".join(frame(chance) for _ in range(chance.randint(1, 6)))


def mutated(case: bytes, chance: Random) -> bytes:
    """The case with a change or two."""
    head, data = bytearray(case[:2].ljust(2, b"\0")), case[2:]
    if chance.random() < 0.1:
        head[chance.randrange(2)] = chance.randrange(256)
    for _ in range(chance.choice((1, 1, 2, 4))):
        data = changed(data, chance)
    return bytes(head) + data


def crossed(one: bytes, other: bytes, chance: Random) -> bytes:
    """The first frames of a case and the last ones of another."""
    first = one.split(b"\0")
    last = other[2:].split(b"\0")
    return b"\0".join(first[: chance.randrange(len(first) + 1)]).ljust(2, b"\0") + b"\0".join(
        last[chance.randrange(len(last)) :]
    )


def without(case: bytes, at: int, count: int) -> bytes:
    """The case without some bytes."""
    return case[: at + 2] + case[at + 2 + count :]


def shown(case: bytes) -> str:
    """The case for people."""
    return repr(case)


def check(case: bytes) -> str:
    """Return the mistake of the session for the bytes of this case, empty if there is none."""
    if len(case) < 2:
        return ""
    version, connect = CONNECTS[case[0] % len(CONNECTS)]
    is_large = bool(case[0] & 16)
    stream = connect + case[2:]
    chance = Random(case[1])
    places = [chance.randrange(len(stream) + 1) for _ in range(chance.choice((1, 3, 40)))]
    chunks = [stream[at : at + 1] for at in range(len(stream))] if case[0] & 32 else []
    chunks = chunks if 0 < len(chunks) < 500 else cut(stream, places)
    options = LARGE_OPTIONS if is_large else OPTIONS
    try:
        whole = Run([stream], options, NO_LIMIT)
        pieces = Run(chunks, options, NO_LIMIT if case[0] & 64 else 1 + case[1] % 5)
    except Exception:
        return f"an exception left the session:\n{traceback.format_exc()}"
    if whole.wrong or pieces.wrong:
        return whole.wrong or pieces.wrong
    if whole.result != pieces.result:
        return f"cut differently, other results:\n{whole.result!r}\n{pieces.result!r}"
    return compare(case[2:], version, whole, is_large=is_large)


# ---- the right answer


def compare(data: bytes, version: str, run: Run, *, is_large: bool) -> str:
    """Compare what the session did and said with what the frames are."""
    frames, end = read(data, version, LIMITS)
    output = b"".join(run.parts)
    try:
        said = answers(output, version)
    except Broken as error:
        return f"the output is no STOMP: {error} in {output!r}"
    failed = said[-1].command == b"ERROR" if said else False
    closed = run.peer.session.closing
    if end == "broken" and not closed:
        return f"bytes that are not a frame of STOMP were accepted after {len(frames)} frames"
    receipts = [_receipt(one.first(b"receipt"), version) for one in frames]
    wanted = [receipt for receipt in receipts if receipt is not None]
    given = [one.first(b"receipt-id") for one in said if one.command == b"RECEIPT"]
    if given != wanted[: len(given)] or (not closed and given != wanted):
        return f"receipts {given!r} instead of {wanted!r}"
    if closed and not failed and b"DISCONNECT" not in data:
        return "closed without an ERROR"
    return "" if is_large else _compare_sends(frames, version, run, closed=closed)


def _receipt(value: bytes | None, version: str) -> bytes | None:
    return value.strip(b" \t") if value is not None and version == "1.0" else value


def _compare_sends(frames: list[Frame], version: str, run: Run, *, closed: bool) -> str:
    expected = [one for one in frames if one.command == b"SEND"]
    several = [one for one in expected if b"," in (one.first(b"destination") or b"")]
    if any(one.first(b"transaction") is not None for one in several):
        # Each destination is a send of its own in the transaction.
        return ""
    sends = [one for one in run.peer.broker.commands if isinstance(one, (Send, SendToAll))]
    assert not any(isinstance(one, Chunk) for one in run.peer.broker.commands)
    if len(sends) > len(expected) or (not closed and len(sends) < len(expected)):
        return f"{len(sends)} sends of {len(expected)}"
    for wanted, command in zip(expected, sends, strict=False):
        done = command.sends[0] if isinstance(command, SendToAll) else command
        if done.body != wanted.body:
            return f"body {done.body!r} instead of {wanted.body!r}"
        stored = parse(done.headers)
        for name, value in wanted.headers:
            pair = name.decode(), value.decode()
            if pair[0] in _CHANGED or pair in stored:
                continue
            return f"header {pair} is not among {stored}"
        place = (wanted.first(b"destination") or b"").decode()
        if place.removeprefix("/queue/").isalnum() and done.address != place.removeprefix(
            "/queue/"
        ):
            return f"address {done.address!r} instead of {place!r}"
    return ""


_CHANGED: Final = NOT_STORED | {
    "destination", "content-length", "reply-to", "expires", "priority", "persistent",
    "_AMQ_VALIDATED_USER", "_AMQ_ROUTING_TYPE", "_AMQ_SCHED_DELIVERY", "AMQ_SCHEDULED_TIME",
    "_AMQ_DUPL_ID", "destination-type", "JMSXGroupID", "_AMQ_GROUP_ID", "message_group",
}  # fmt: skip
"""Headers that the broker understands; all others travel as they are."""


def answers(output: bytes, version: str) -> list[Frame]:
    """The frames of a broker. Raises Broken if it says anything else."""
    frames: list[Frame] = []
    at = 0
    while at < len(output):
        if output[at : at + 1] == b"\n":
            at += 1
            continue
        end = output.find(b"\n\n", at)
        if end < 0:
            raise Broken("no end of a head")
        command, *lines = output[at:end].split(b"\n")
        if command not in (b"CONNECTED", b"MESSAGE", b"RECEIPT", b"ERROR"):
            raise Broken(f"command {command!r}")
        if frames and frames[-1].command == b"ERROR":
            raise Broken("something after an ERROR")
        spoken = "1.0" if command == b"CONNECTED" else version
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or (spoken != "1.0" and b":" in value) or b"\0" in line:
                raise Broken(f"line {line!r}")
            headers.append((unescape(name, spoken), unescape(value, spoken)))
        found = Frame(command, headers, b"")
        length = found.first(b"content-length")
        stop = end + 2 + int(length) if length is not None else output.find(b"\0", end)
        if output[stop : stop + 1] != b"\0":
            raise Broken("no NUL")
        frames.append(found._replace(body=output[end + 2 : stop]))
        at = stop + 1
    return frames
