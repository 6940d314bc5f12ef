"""Fuzz a STOMP session: either frames or one documented error, never any other exception.

Random and mutated frames in random chunking, and the same bytes whole: commands, output and end
must be the same. Run `python -m tests.fuzz.stomp --seconds N`; a failure prints the seed that
repeats it with `--seed`.
"""

import random
import sys
import traceback

from tests.fuzz.running import search
from tests.unit.protocols.stomp.streams import BROKEN, CONNECTS, FRAMES, cut, run


def mutated(stream: bytes, source: random.Random) -> bytes:
    """Change some bytes: overwrite, insert, remove, repeat or cut off."""
    data = bytearray(stream)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(data) + 1)
        how = source.randrange(6)
        if how == 0:
            data[at : at + 1] = bytes([source.randrange(256)])
        elif how == 1:
            data[at:at] = source.choice((b"\0", b"\n", b"\r", b"\r\n", b":", b"\\", b"\n\n"))
        elif how == 2:
            del data[at : at + source.randint(1, 8)]
        elif how == 3:
            data[at:at] = data[at : at + source.randint(1, 200)]
        elif how == 4:
            data[at:at] = source.choice(FRAMES + BROKEN)
        else:
            del data[at:]
    return bytes(data)


def stream_of(seed: int) -> tuple[bytes, list[bytes]]:
    """The bytes of this seed, and how they are cut."""
    source = random.Random(seed)
    parts = [source.choice((b"", *CONNECTS)) if source.random() < 0.1 else source.choice(CONNECTS)]
    for _ in range(source.randint(0, 12)):
        kind = source.random()
        if kind < 0.75:
            parts.append(source.choice(FRAMES))
        elif kind < 0.85:
            parts.append(source.choice(BROKEN))
        else:
            parts.append(source.randbytes(source.randint(0, 40)))
    stream = b"".join(parts)
    if source.random() < 0.7:
        stream = mutated(stream, source)
    places = [source.randrange(len(stream) + 1) for _ in range(source.randint(0, 40))]
    return stream, cut(stream, places)


def shortened(value: object) -> str:
    """The value for people: long bodies cut out of the middle."""
    text = repr(value)
    return text if len(text) < 4000 else f"{text[:1000]} ... {text[-3000:]}"


def check(seed: int) -> str:
    """What is wrong with the session under the bytes of this seed, empty if nothing is."""
    stream, chunks = stream_of(seed)
    try:
        whole, pieces = run([stream]), run(chunks)
    except Exception:
        return f"an exception left the session:\n{traceback.format_exc()}\n{shortened(stream)}"
    if whole != pieces:
        return f"cut differently, other results:\n{shortened(whole)}\n{shortened(pieces)}"
    if whole[1].count(b"ERROR\nmessage:") > 1:
        return f"more than one error\n{shortened(stream)}"
    return ""


if __name__ == "__main__":
    sys.exit(search("stomp", check, __doc__ or ""))
