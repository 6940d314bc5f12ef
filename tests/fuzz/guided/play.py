"""Stories, played on a broker, and the laws that hold whatever its connections say.

- Nothing is raised.
- A bystander gets all of its messages, once and in order, and all its receipts.
- No call spends more than its slice of the budget; input and output in memory are bounded.
- The broker comes to rest. When the connections are gone, nothing of them is left, and a fold of
  the journal is the state.
- All this in any chunks.
"""

import traceback
from typing import Final

from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.server.hub.turn_lengths import DELIVERY_UNITS, SLICE_UNITS, TURN_UNITS
from tests.fuzz.guided import story
from tests.fuzz.guided.frames import answers
from tests.fuzz.guided.house import ADMIN, BY, NAMES, PASSCODE, House
from tests.fuzz.guided.reference import Frame
from tests.fuzz.guided.story import Step, decoded
from tests.simulation.machine.network import Link
from tests.support.world import fold

INPUT_UNITS: Final = 2 * SLICE_UNITS
TURN_UNITS_MAX: Final = 3 * TURN_UNITS + 2 * DELIVERY_UNITS
DIE_DELAY_US: Final = 750_000
"""Longer than a connection stays open behind its last words."""
PIECES_MAX: Final = 5_000
"""A story is cut into about so many pieces at most."""


class Wrong(AssertionError):
    """A law is broken."""


class Bystander:
    """An honest client: a connection that sends, and one that receives and acknowledges."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.sent = 0
        self.acknowledged = 0
        self.sender, self.receiver = house.connect(), house.connect()
        login = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{BY}\npasscode:{PASSCODE}\n\n\0"
        for link in (self.sender, self.receiver):
            house.feed(link, login.encode())
        subscribe = f"SUBSCRIBE\nid:{BY}\ndestination:/queue/{BY}\nack:client-individual\n\n\0"
        house.feed(self.receiver, subscribe.encode())
        house.rest()

    def act(self) -> None:
        """Send a message, and acknowledge what came."""
        frame = f"SEND\ndestination:/queue/{BY}\nreceipt:{self.sent}\n\n{self.sent}\0"
        self.sent += 1
        self.house.feed(self.sender, frame.encode())
        self.acknowledge()

    def acknowledge(self) -> None:
        """Acknowledge what came."""
        messages = self.frames(self.receiver, b"MESSAGE")
        for message in messages[self.acknowledged :]:
            found = message.first(b"ack") or b""
            self.house.feed(self.receiver, b"ACK\nid:" + found + b"\n\n\0")
        self.acknowledged = len(messages)

    def frames(self, link: Link, command: bytes) -> list[Frame]:
        """The frames that arrived on a connection."""
        found = answers(bytes(self.house.said[link]), "1.2")
        return [one for one in found if one.command == command]

    def check(self) -> None:
        """All of it came, in order."""
        wanted = [b"%d" % number for number in range(self.sent)]
        bodies = [one.body for one in self.frames(self.receiver, b"MESSAGE")]
        if bodies != wanted:
            raise Wrong(f"the bystander sent {self.sent} messages and got {bodies}")
        receipts = [one.first(b"receipt-id") for one in self.frames(self.sender, b"RECEIPT")]
        if receipts != wanted:
            raise Wrong(f"the bystander sent {self.sent} messages and got receipts {receipts}")


class Play:
    """A story that is played, in one protocol. Must never know which one."""

    input_max = 0
    """How many bytes of input a connection may hold."""
    output_max = 0
    """How many bytes of output may wait in memory for it."""

    def __init__(self, chunk_bytes: int = 1 << 20) -> None:
        self.house = House()
        self.bystander = Bystander(self.house)
        self.chunk_bytes = chunk_bytes
        self.all: list[Link] = []
        self.links = [self._connect() for _ in range(story.CONNECTIONS)]

    def _connect(self) -> Link:
        link = self.connect()
        self.all.append(link)
        return link

    def connect(self) -> Link:
        """A new connection of this protocol."""
        raise NotImplementedError

    def settlement(self, link: Link, choice: int) -> bytes:
        """What settles something that was delivered to a connection."""
        raise NotImplementedError

    def check_end(self, link: Link) -> None:
        """Judge a connection that is gone: its output, and what its session still holds. Raises
        Wrong."""
        raise NotImplementedError

    def run(self, steps: list[Step]) -> None:
        """Play the story to its end. Raises Wrong."""
        for step in steps:
            self._do(step)
            if step.kind != story.BIT:
                self.house.rest()
                self.bystander.act()
                self.house.rest()
            self._check_bounds()
        self._end()

    def _do(self, step: Step) -> None:
        house, number = self.house, step.number % story.CONNECTIONS
        link = self.links[number]
        if step.kind in (story.SEND, story.BIT):
            house.feed(link, (step.data * _times(step))[: story.DATA_MAX], self.chunk_bytes)
        elif step.kind == story.TIME:
            house.answer_late()
            house.sleep(1 << (10 + step.number % 24))
        elif step.kind == story.LOSE:
            house.lose(link)
            self.links[number] = self._connect()
        elif step.kind == story.SETTLE:
            house.feed(link, self.settlement(link, step.choice), self.chunk_bytes)
        elif step.kind == story.STALL:
            link.stalled = not link.stalled
        elif step.kind == story.DISK:
            house.writer.slow = not house.writer.slow
        else:
            name = NAMES[step.choice % len(NAMES)]
            house.hub.request(ADMIN[step.number % len(ADMIN)](name))

    def _check_bounds(self) -> None:
        house = self.house
        if house.stuck:
            raise Wrong("the broker does not come to rest")
        if house.most_input > INPUT_UNITS or house.most_turn > TURN_UNITS_MAX:
            raise Wrong(f"one call spent {house.most_input}, one turn {house.most_turn} units")
        for peer in house.hub.peers:
            if peer.session.buffered_bytes > self.input_max + story.DATA_MAX:
                raise Wrong(f"{peer.session.buffered_bytes} bytes of input are buffered")
            if peer.output_bytes() > self.output_max:
                raise Wrong(f"{peer.output_bytes()} bytes of output wait")

    def _end(self) -> None:
        house = self.house
        house.writer.slow = False
        house.answer_late()
        house.rest()
        for link in self.all:
            house.lose(link)
        house.rest()
        house.sleep(DIE_DELAY_US)
        for _ in range(3):
            self.bystander.acknowledge()
            house.rest()
        self._check_bounds()
        self.bystander.check()
        self._check_nothing_is_left()
        self._check_journal()
        for link in self.all:
            self.check_end(link)

    def _check_nothing_is_left(self) -> None:
        house, hub = self.house, self.house.hub
        if len(hub.peers) != 2 or len(house.broker.state.connections) != 2:
            raise Wrong(f"{len(hub.peers)} peers, {len(house.broker.state.connections)} opened")
        kept = {**hub.turns.waiting, **hub.blocked.stopped}
        if (
            any(peer.closed for peer in kept)
            or house.broker.work.closing
            or house.broker.work.emptying
        ):
            raise Wrong("something of a connection that ended is left")
        if len(house.broker.state.consumers) != 1:
            raise Wrong(f"consumers are left: {house.broker.state.consumers}")

    def _check_journal(self) -> None:
        house, state = self.house, self.house.broker.state
        folded = fold(house.writer.events)
        wrong = check_invariants(state) + check_invariants(folded)
        if wrong:
            raise Wrong(f"a state that contradicts itself: {wrong}")
        if digest(folded) != digest(state):
            raise Wrong("the fold of the journal is another state")


def _times(step: Step) -> int:
    """How many times the bytes of a step are sent."""
    return max(1, (step.choice - story.ONCE) * story.TIMES)


def _fed(step: Step) -> int:
    """How many bytes a step sends."""
    if step.kind not in (story.SEND, story.BIT):
        return 0
    return min(len(step.data) * _times(step), story.DATA_MAX)


def judged(play: type[Play], case: bytes) -> str:
    """Play a story and return the mistake that it shows, empty if there is none."""
    steps = decoded(case)
    try:
        play().run(steps)
        if sum(case) % 4 == 0:
            play(max(1 + sum(case) % 29, sum(map(_fed, steps)) // PIECES_MAX)).run(steps)
    except Wrong as error:
        return str(error)
    except Exception:
        return f"an exception left the broker:\n{traceback.format_exc()}"
    return ""
