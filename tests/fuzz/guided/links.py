"""The laws of a broker with several connections of AMQP, whatever they send, in whatever chunks.

Those of `play`, and:

- Every connection hears AMQP: a header before its frames, sessions that have begun, links that are
  attached, deliveries whose numbers follow each other, no frame longer than may be, and nothing
  behind a close.
- A connection that is gone holds nothing: no bytes of input, of links, of deliveries for windows.
"""

from random import Random
from typing import Any, Final

from daybook.protocols.amqp.connection import AmqpConnection
from daybook.protocols.amqp.sessions import INCOMING_WINDOW
from daybook.protocols.amqp.wire.errors import AmqpError
from daybook.protocols.amqp.wire.frames import Frame, FrameReader, frame
from daybook.protocols.amqp.wire.kinds import RECEIVER
from daybook.protocols.amqp.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from daybook.server.hub.turn_lengths import SLICE_UNITS
from tests.fuzz.guided import story
from tests.fuzz.guided.house import AMQP
from tests.fuzz.guided.play import Play, Wrong, judged
from tests.fuzz.guided.story import crossed, encoded, shown, without
from tests.simulation.machine.network import Link
from tests.support.amqp.frames_by_chance import STATES

__all__ = ["crossed", "shown", "without"]

NAME: Final = "links"
SEEDS: Final = 25


def case_of(seed: int) -> bytes:
    """The story of a seed, for a search without a corpus."""
    return encoded(story.story(Random(seed), story.AMQP))


def mutated(case: bytes, chance: Random) -> bytes:
    """The story with a few changes."""
    return story.mutated(case, chance, story.AMQP)


class AmqpPlay(Play):
    """A story of AMQP."""

    input_max = 2 * AMQP.max_frame_size + AMQP.max_links * (2 * AMQP.max_message_size + 2000)
    output_max = 4 * AMQP.room + 2 * AMQP.max_message_size + SLICE_UNITS * 1_000

    def connect(self) -> Link:
        """A new connection."""
        return self.house.connect(AMQP)

    def settlement(self, link: Link, choice: int) -> bytes:
        """A disposition of something that was delivered."""
        found = [
            (each.channel, each.performative.delivery_id)
            for each in _frames(bytes(self.house.said[link]))
            if isinstance(each.performative, Transfer) and each.performative.delivery_id is not None
        ]
        if not found:
            return b""
        channel, delivery = found[-1 - choice // 8 % len(found)]
        state = STATES[choice % len(STATES)]
        return frame(channel, Disposition(RECEIVER, delivery, None, choice % 5 > 0, state))

    def check_end(self, link: Link) -> None:
        """Its output is AMQP, and its session holds nothing. Raises Wrong."""
        assert link.peer is not None
        session = link.peer.session
        assert isinstance(session, AmqpConnection)
        held = {
            "input": session.input_bytes, "windows": session.unsent_bytes,
            "links": session.links_bytes, "attached": session.attached,
            "chunks": session.first_chunk,
        }  # fmt: skip
        if any(held.values()):
            raise Wrong(f"a connection that is gone holds {held}")
        Listener().hear(bytes(self.house.said[link]))


def _frames(output: bytes) -> list[Frame]:
    """The frames of an output. Raises Wrong."""
    reader = FrameReader(AMQP.max_frame_size)
    reader.receive(output)
    found = []
    try:
        while (each := reader.next()) is not None:
            if isinstance(each, Frame):
                found.append(each)
    except AmqpError as error:
        raise Wrong(f"the output is no AMQP: {error.text} in {output[-2000:].hex()}") from error
    if reader.buffered_bytes:
        raise Wrong(f"the output is cut off: {output[-200:].hex()}")
    return found


class Listener:
    """A peer that judges what the broker says, without knowing what it was asked."""

    def __init__(self) -> None:
        self._is_open = self._is_closed = False
        # By the channel: handles that are attached, and the number of the last delivery.
        self._sessions: dict[int, dict[int, bool]] = {}
        self._deliveries: dict[int, int] = {}
        # Links on which a delivery has begun and is not whole: channel and handle.
        self._begun: set[tuple[int, int]] = set()

    def hear(self, output: bytes) -> None:
        """Judge all that a connection said. Raises Wrong."""
        for each in _frames(output):
            said = each.performative
            problem = self._judge(each.channel, said)
            if problem:
                raise Wrong(f"{problem}: {said} on channel {each.channel}")

    def _judge(self, channel: int, said: Any) -> str:
        if said is None or not isinstance(
            said, Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
        ):
            return ""
        if self._is_closed:
            return "said behind the close"
        if isinstance(said, Open):
            again, self._is_open = self._is_open, True
            return "opened twice" if again else ""
        if not self._is_open:
            return "said before the open"
        if isinstance(said, Close):
            self._is_closed = True
            return ""
        return self._judge_session(channel, said)

    def _judge_session(self, channel: int, said: Any) -> str:
        if isinstance(said, Begin):
            if channel in self._sessions:
                return "begun twice"
            self._sessions[channel] = {}
            self._deliveries[channel] = -1
            return ""
        handles = self._sessions.get(channel)
        if handles is None:
            return "said on a channel without a session"
        if isinstance(said, End):
            del self._sessions[channel]
            self._begun = {each for each in self._begun if each[0] != channel}
        elif isinstance(said, Attach):
            if said.handle in handles:
                return "attached twice"
            handles[said.handle] = said.role
        elif isinstance(said, Detach):
            self._begun.discard((channel, said.handle))
            if handles.pop(said.handle, None) is None:
                return "detached twice"
        elif isinstance(said, Flow):
            if said.incoming_window > INCOMING_WINDOW:
                return "a window that is too wide"
            if said.handle is not None and said.handle not in handles:
                return "a flow for no link"
        elif isinstance(said, Transfer):
            return self._judge_transfer(channel, said, handles)
        return ""

    def _judge_transfer(self, channel: int, said: Transfer, handles: dict[int, bool]) -> str:
        if handles.get(said.handle) is not False:
            return "a transfer on no link of a sender"
        key = channel, said.handle
        if (said.delivery_id is None) is not (key in self._begun):
            return "a delivery in the middle of another one, or without a number"
        self._begun.discard(key)
        if said.more:
            self._begun.add(key)
        if said.delivery_id is not None:
            self._deliveries[channel] += 1
            if said.delivery_id != self._deliveries[channel]:
                return "deliveries do not follow each other"
        return ""


def check(case: bytes) -> str:
    """Play a story and return the mistake that it shows, empty if there is none."""
    return judged(AmqpPlay, case)
