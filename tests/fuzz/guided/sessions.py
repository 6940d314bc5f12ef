"""The laws of a broker with several connections of STOMP, whatever they send, in whatever chunks:
those of `play`, and that every connection hears frames of STOMP, and at most one ERROR, at the end.
"""

from random import Random
from typing import Final

from daybook.server.hub.turn_lengths import SLICE_UNITS
from tests.fuzz.guided import story
from tests.fuzz.guided.frames import answers
from tests.fuzz.guided.house import STOMP
from tests.fuzz.guided.play import Play, Wrong, judged
from tests.fuzz.guided.reference import Broken, Frame
from tests.fuzz.guided.story import crossed, encoded, shown, without
from tests.simulation.machine.network import Link

__all__ = ["crossed", "shown", "without"]

NAME: Final = "sessions"
SEEDS: Final = 25


def case_of(seed: int) -> bytes:
    """The story of a seed, for a search without a corpus."""
    return encoded(story.story(Random(seed), story.STOMP))


def mutated(case: bytes, chance: Random) -> bytes:
    """The story with a few changes."""
    return story.mutated(case, chance, story.STOMP)


class StompPlay(Play):
    """A story of STOMP."""

    input_max = 2 * (STOMP.max_frame_head + STOMP.max_data_length + STOMP.max_early_data)
    output_max = 4 * STOMP.room + 2 * STOMP.max_data_length + SLICE_UNITS * 1_000

    def connect(self) -> Link:
        """A new connection."""
        return self.house.connect()

    def settlement(self, link: Link, choice: int) -> bytes:
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

    def check_end(self, link: Link) -> None:
        """Its output is STOMP. Raises Wrong."""
        _check_output(bytes(self.house.said[link]), bytes(self.house.heard[link]))


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
    """Play a story and return the mistake that it shows, empty if there is none."""
    return judged(StompPlay, case)
