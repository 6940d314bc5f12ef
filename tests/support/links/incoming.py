"""A link by which the peer sends. It alone waits when its address is full."""

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from daybook.engine.commands import Chunk, Command, GiveUpSend, Send
from daybook.engine.refusals import Code, Refusal
from tests.support.links.wire import frame
from tests.support.worlds.second_format import MAPS, encode, encode_typed

if TYPE_CHECKING:
    from tests.support.links.session import LinksSession

CREDIT: Final = 4
"""How many messages a link may send before it is given more."""


class Message:
    """A message that arrives, in one frame or in several."""

    def __init__(self, tag: str, send: Send) -> None:
        self.tag: Final = tag
        self.send: Final = send
        self.pieces: Final[deque[bytes]] = deque()
        self.chunks: Final[list[int]] = []
        self.is_whole = False

    def next(self) -> Command | None:
        """Return the next command for it, None if more has to arrive."""
        if self.pieces and (self.chunks or not self.is_whole or len(self.pieces) > 1):
            return Chunk(self.send, self.pieces[0], self.chunks[-1] if self.chunks else 0)
        if not self.is_whole:
            return None
        if self.chunks:
            self.send.chunks = tuple(self.chunks)
        elif self.pieces:
            self.send.body, self.send.body_bytes = self.pieces[0], 0
        return self.send


class Incoming:
    """The link. `is_waiting` is set while its command waits for room, `is_unfinished` while it is
    partly done."""

    def __init__(self, session: "LinksSession", number: int, address: str) -> None:
        self.session: Final = session
        self.number: Final = number
        self.address: Final = address
        self.credit = CREDIT
        self.is_waiting = False
        self.is_unfinished = False
        self._messages: Final[deque[Message]] = deque()

    @property
    def first_chunk(self) -> int:
        """LSN of the first chunk of a message that is not sent yet; 0 if none."""
        return min((each.chunks[0] for each in self._messages if each.chunks), default=0)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of input that are kept."""
        return sum(len(piece) for each in self._messages for piece in each.pieces)

    def transfer(self, tag: str, headers: dict[str, Any], piece: bytes, more: bool) -> str:
        """Take a frame of a message; return its fault, "" if it has none."""
        last = self._messages[-1] if self._messages else None
        if last is None or last.is_whole:
            if not self.credit:
                return "no credit"
            self.credit -= 1
            standard, properties = headers.get("standard", {}), headers.get("properties", {})
            make = encode_typed if headers.get("typed") else encode
            last = Message(
                tag,
                Send(
                    self.session.connection, self.address, make(properties, **standard), b"",
                    format=MAPS, link=self.number,
                ),
            )  # fmt: skip
            self._messages.append(last)
        last.pieces.append(piece)
        last.send.body_bytes += len(piece)
        last.is_whole = not more
        return ""

    def finish(self, now: int) -> None:
        """Continue with a command that is unfinished."""
        self.is_unfinished = False
        self.push(now)

    def push(self, now: int) -> None:
        """Give the broker what has arrived."""
        session = self.session
        while self._messages and not (self.is_waiting or self.is_unfinished):
            message = self._messages[0]
            command = message.next()
            if command is None:
                return
            answer = session.broker.handle(command, now)
            if isinstance(answer, Refusal):
                if answer.code is Code.BLOCKED:
                    self.is_waiting = True
                    return
                if answer.code is Code.UNFINISHED:
                    self.is_unfinished = session.has_unfinished = True
                    return
                self._messages.popleft()
                session.say(frame("rejected", self.number, message.tag, answer.code.value))
            elif isinstance(command, Chunk):
                message.pieces.popleft()
                message.chunks.append(answer)
                continue
            else:
                self._messages.popleft()
                session.say(frame("accepted", self.number, message.tag), answer)
            self.credit += 1
            session.say(frame("credit", self.number, 1))

    def detach(self, now: int) -> None:
        """End the link; messages that were not accepted are forgotten."""
        self._messages.clear()
        self.session.broker.handle(GiveUpSend(self.session.connection, self.number), now)
