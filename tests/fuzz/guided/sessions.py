"""The laws of a broker with several connections, whatever they send, in whatever chunks.

- Nothing is raised; every connection hears frames of STOMP, and at most one ERROR, at the end.
- A bystander gets all of its messages, once and in order, and all its receipts.
- No call spends more than its slice of the budget; input and output in memory are bounded.
- The broker comes to rest. When the connections are gone, nothing of them is left, and a fold of
  the journal is the state.
- All this in any chunks.
"""

import traceback
from random import Random
from typing import Final

from daybook.engine.state.digest import digest
from daybook.engine.state.invariants import check as check_invariants
from daybook.server.hub.turn_lengths import DELIVERY_UNITS, SLICE_UNITS, TURN_UNITS
from tests.fuzz.guided import story
from tests.fuzz.guided.frames import answers
from tests.fuzz.guided.house import ADMIN, BY, NAMES, PASSCODE, STOMP, House
from tests.fuzz.guided.reference import Broken, Frame
from tests.fuzz.guided.story import Step, decoded, encoded
from tests.simulation.machine.network import Link
from tests.support.world import fold

NAME: Final = "sessions"
SEEDS: Final = 25
INPUT_UNITS: Final = 2 * SLICE_UNITS
TURN_UNITS_MAX: Final = 3 * TURN_UNITS + 2 * DELIVERY_UNITS
INPUT_MAX: Final = 2 * (STOMP.max_frame_head + STOMP.max_data_length + STOMP.max_early_data)
OUTPUT_MAX: Final = 4 * STOMP.room + 2 * STOMP.max_data_length + SLICE_UNITS * 1_000
HOUR_US: Final = 3_600_000_000


def case_of(seed: int) -> bytes:
    """The story of a seed, for a search without a corpus."""
    return encoded(story.story(Random(seed)))


def mutated(case: bytes, chance: Random) -> bytes:
    """The story with a few changes."""
    steps = decoded(case)
    for _ in range(chance.choice((1, 1, 2, 4))):
        steps = story.changed_story(steps, chance)
    return encoded(steps)


def crossed(one: bytes, other: bytes, chance: Random) -> bytes:
    """The beginning of a story and the end of another."""
    first, last = decoded(one), decoded(other)
    return encoded(
        first[: chance.randrange(len(first) + 1)] + last[chance.randrange(len(last) + 1) :]
    )


def without(case: bytes, at: int, count: int) -> bytes:
    """The story without a step, or with less in one."""
    steps = decoded(case)
    if count > 64:
        number = at * len(steps) // max(1, len(case))
        few = max(1, count * len(steps) // max(1, len(case)))
        return encoded(steps[:number] + steps[number + few :])
    for number, step in enumerate(steps):
        size = 5 + len(step.data)
        if at < size:
            place = max(0, at - 5)
            shorter = step._replace(data=step.data[:place] + step.data[place + count :])
            return encoded(steps[:number] + ([shorter] if at >= 5 else []) + steps[number + 1 :])
        at -= size
    return case


def shown(case: bytes) -> str:
    """The story for people."""
    return "\n".join(str(step) for step in decoded(case))


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
        """What came on a connection."""
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
    """A story that is played."""

    def __init__(self, chunk_bytes: int = 1 << 20) -> None:
        self.house = House()
        self.bystander = Bystander(self.house)
        self.chunk_bytes = chunk_bytes
        self.all: list[Link] = []
        self.links = [self._connect() for _ in range(story.CONNECTIONS)]

    def _connect(self) -> Link:
        link = self.house.connect()
        self.all.append(link)
        return link

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
            times = max(1, (step.choice - story.ONCE) * story.TIMES)
            house.feed(link, (step.data * times)[: story.DATA_MAX], self.chunk_bytes)
        elif step.kind == story.TIME:
            house.answer_late()
            house.sleep(1 << (10 + step.number % 24))
        elif step.kind == story.LOSE:
            house.lose(link)
            self.links[number] = self._connect()
        elif step.kind == story.SETTLE:
            house.feed(link, self._settlement(link, step.choice), self.chunk_bytes)
        elif step.kind == story.STALL:
            link.stalled = not link.stalled
        elif step.kind == story.DISK:
            house.writer.slow = not house.writer.slow
        else:
            name = NAMES[step.choice % len(NAMES)]
            house.hub.request(ADMIN[step.number % len(ADMIN)](name))

    def _settlement(self, link: Link, choice: int) -> bytes:
        """ACK or NACK of something that was delivered."""
        output = bytes(self.house.said[link])
        found = [one for one in _frames(output) if one.command == b"MESSAGE"]
        if not found:
            return b""
        message = found[-1 - choice // 8 % len(found)]
        command = b"NACK" if choice & 1 else b"ACK"
        lines = [b"id:" + (message.first(b"ack") or b"?")]
        for name in (b"message-id", b"subscription"):
            lines.append(name + b":" + (message.first(name) or b"?"))
        if choice & 2:
            lines.append(b"transaction:t")
        if choice & 4:
            lines.append(b"receipt:settled")
        if choice == 4 and message.first(b"ack") is not None:
            lines = lines[:1]
        return command + b"\n" + b"\n".join(lines) + b"\n\n\0"

    def _check_bounds(self) -> None:
        house = self.house
        if house.stuck:
            raise Wrong("the broker does not come to rest")
        if house.most_input > INPUT_UNITS or house.most_turn > TURN_UNITS_MAX:
            raise Wrong(f"one call spent {house.most_input}, one turn {house.most_turn} units")
        for peer in house.hub.peers:
            if peer.session.buffered_bytes > INPUT_MAX + 0xFFFF:
                raise Wrong(f"{peer.session.buffered_bytes} bytes of input are buffered")
            if peer.output_bytes() > OUTPUT_MAX:
                raise Wrong(f"{peer.output_bytes()} bytes of output wait")

    def _end(self) -> None:
        house = self.house
        house.writer.slow = False
        house.answer_late()
        house.rest()
        for link in self.all:
            house.lose(link)
        house.rest()
        house.sleep(STOMP.die_delay_ms * 3_000)
        for _ in range(3):
            self.bystander.acknowledge()
            house.rest()
        self._check_bounds()
        self.bystander.check()
        self._check_nothing_is_left()
        self._check_journal()
        for link in self.all:
            _check_output(bytes(house.said[link]), bytes(house.heard[link]))

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


def _frames(output: bytes) -> list[Frame]:
    """The frames of an output in the version that it says; without a login there are no escapes."""
    head = output.partition(b"\n\n")[0].split(b"\n")
    versions = [line[8:].decode() for line in head if line.startswith(b"version:")]
    is_connected = head[0] == b"CONNECTED" and versions
    return answers(output, versions[0] if is_connected else "1.0")


def _check_output(output: bytes, heard: bytes) -> None:
    try:
        frames = _frames(output)
    except Broken as error:
        raise Wrong(f"the output is no STOMP: {error} in {output[-2000:]!r}") from error
    except IndexError as error:
        raise Wrong(f"the output is cut off: {output[-200:]!r}") from error
    for one in frames:
        if one.command == b"ERROR" and not (one.first(b"message") and one.body):
            raise Wrong(f"an ERROR without a reason: {one}")
        receipt = one.first(b"receipt-id")
        if receipt is not None and receipt.isalnum() and receipt not in heard:
            raise Wrong(f"a receipt that nobody asked for: {receipt!r}")


def check(case: bytes) -> str:
    """What is wrong when this story is played, empty if nothing is."""
    steps = decoded(case)
    try:
        Play().run(steps)
        if sum(case) % 4 == 0:
            Play(1 + sum(case) % 29).run(steps)
    except Wrong as error:
        return str(error)
    except Exception:
        return f"an exception left the broker:\n{traceback.format_exc()}"
    return ""
