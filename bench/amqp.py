"""The cost of AMQP's codec: `python -m bench.amqp`.

Takes a transfer with a header, properties, application properties and 1 KiB of data out of a frame,
finds its sections, reads its header, stores it, and encodes the frame in which it leaves. Prints
the processor time of each step. One process, no broker. Exits with 1 if the gate does not hold,
which is for the compiled build (`make build-compiled`).
"""

import sys
import time
from collections.abc import Callable
from typing import Final

import click

from daybook.engine.messages.amqp import reader
from daybook.engine.messages.amqp.content_codec import leaving, stored
from daybook.engine.messages.amqp.places import header_of, places_of
from daybook.engine.messages.amqp.sections import COMPOSITES, Header, Properties
from daybook.engine.messages.amqp.writer import map_of, of_type, section_of
from daybook.protocols.amqp.wire.frames import AMQP, Frame, FrameReader, protocol_header
from daybook.protocols.amqp.wire.hot import transfer_frames

GATE_US: Final = 4.0
"""How long a message in and out may take, compiled."""
FRAME_SIZE: Final = 65_536
ROUNDS: Final = 7
HEADER: Final = COMPOSITES.encoded(Header(durable=True, ttl=60_000))
MESSAGE: Final = b"".join(
    (
        HEADER,
        COMPOSITES.encoded(
            Properties(message_id="id-1", to="orders", content_type="text/plain", group_id="g")
        ),
        section_of(0x74, map_of({"color": "blue", "weight": 2600})),
        section_of(0x75, of_type("binary", b"x" * 1024)),
    )
)


def framed(parts: list[bytes]) -> bytes:
    """Return the frame of a delivery."""
    (frame,) = transfer_frames(1, 0, 5, b"\0\0\0\5", False, parts, FRAME_SIZE)
    return frame


def received(frames: FrameReader, data: bytes) -> bytes:
    """Return the payload of a frame."""
    frames.receive(data)
    found = frames.next()
    assert isinstance(found, Frame)
    return found.payload


def in_and_out(frames: FrameReader, data: bytes) -> bytes:
    """Return the frame in which a message leaves."""
    payload = received(frames, data)
    places = places_of(payload)
    assert header_of(payload, places[0]).durable
    headers, body = stored(payload, places)
    return framed(leaving(headers, body, HEADER))


def time_us(work: Callable[[], object], times: int) -> float:
    """Return the processor time of one call, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - began)
    return best / times * 1e6


@click.command()
@click.option("--times", default=20_000, show_default=True, help="calls of each round")
def main(times: int) -> None:
    """Measure the codec of AMQP."""
    frames = FrameReader(FRAME_SIZE)
    frames.receive(protocol_header(AMQP))
    frames.next()
    data = framed([MESSAGE])
    assert in_and_out(frames, data) == data
    places = places_of(MESSAGE)
    headers, body = stored(MESSAGE, places)
    steps: dict[str, Callable[[], object]] = {
        "read the frame": lambda: received(frames, data),
        "find the sections": lambda: places_of(MESSAGE),
        "read the header": lambda: header_of(MESSAGE, places[0]),
        "store": lambda: stored(MESSAGE, places),
        "put the message together": lambda: leaving(headers, body, HEADER),
        "write the frame": lambda: framed([MESSAGE]),
    }
    for name, work in steps.items():
        click.echo(f"{name:26} {time_us(work, times):6.2f} us")
    whole = time_us(lambda: in_and_out(frames, data), times)
    is_compiled = not str(reader.__file__).endswith(".py")
    click.echo(f"{'a message in and out':26} {whole:6.2f} us, compiled: {is_compiled}")
    sys.exit(is_compiled and whole > GATE_US)


if __name__ == "__main__":
    main()
