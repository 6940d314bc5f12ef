"""Fuzz a session of the probe: answers or one refusal, never an exception.

Random and mutated requests in random chunking, and the same bytes whole: what is said and how it
ends must be the same. Run `python -m tests.fuzz.probe --seconds N`; a failure prints the seed that
repeats it with `--seed`.
"""

import random
import sys
import traceback

from tests.fuzz.running import search
from tests.unit.protocols.probe.streams import BROKEN, REQUESTS, cut, run

PIECES = (b"\r\n", b"\n", b"\0", b":", b" ", b"\r\n\r\n", b"chunked", b"Content-Length: 3\r\n")


def mutated(stream: bytes, source: random.Random) -> bytes:
    """Change some bytes: overwrite, insert, remove, repeat or cut off."""
    data = bytearray(stream)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(data) + 1)
        how = source.randrange(6)
        if how == 0:
            data[at : at + 1] = bytes([source.randrange(256)])
        elif how == 1:
            data[at:at] = source.choice(PIECES)
        elif how == 2:
            del data[at : at + source.randint(1, 8)]
        elif how == 3:
            data[at:at] = data[at : at + source.randint(1, 200)]
        elif how == 4:
            data[at:at] = source.choice(REQUESTS)
        else:
            del data[at:]
    return bytes(data)


def stream_of(seed: int) -> tuple[bytes, list[bytes]]:
    """The bytes of this seed, and how they are cut."""
    source = random.Random(seed)
    parts = [
        source.choice(REQUESTS) if source.random() < 0.85 else source.choice(BROKEN)
        for _ in range(source.randint(1, 12))
    ]
    stream = b"".join(parts)
    if source.random() < 0.7:
        stream = mutated(stream, source)
    places = [source.randrange(len(stream) + 1) for _ in range(source.randint(0, 40))]
    return stream, cut(stream, places)


def check(seed: int) -> str:
    """Return the mistake of the session for the bytes of this seed, empty if there is none."""
    stream, chunks = stream_of(seed)
    try:
        whole, pieces = run([stream]), run(chunks)
    except Exception:
        return f"an exception left the session:\n{traceback.format_exc()}\n{stream[:4000]!r}"
    if whole != pieces:
        return f"cut differently, other results:\n{whole!r}\n{pieces!r}\n{stream[:4000]!r}"
    return ""


if __name__ == "__main__":
    sys.exit(search("probe", check, __doc__ or ""))
