"""STOMP frames as a client sees them: written and read independently of `protocols.stomp`."""

from typing import NamedTuple


class Frame(NamedTuple):
    """A frame: command, headers (of repeated ones the first), body."""

    command: str
    headers: dict[str, str]
    body: bytes


class FrameReader:
    """Bytes cut anywhere in, frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes; return the frames that they complete."""
        buffer = self._buffer
        buffer += data
        frames = []
        position = 0
        while True:
            while position < len(buffer) and buffer[position] == 10:
                position += 1
            end = buffer.find(b"\n\n", position)
            if end < 0:
                break
            command, *lines = buffer[position:end].decode().split("\n")
            headers: dict[str, str] = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers.setdefault(name, value)
            body_at = end + 2
            if "content-length" in headers:
                stop = body_at + int(headers["content-length"])
            else:
                stop = buffer.find(b"\0", body_at)
            if stop < 0 or stop >= len(buffer):
                break
            assert buffer[stop] == 0, "a frame does not end in NUL"
            frames.append(Frame(command, headers, bytes(buffer[body_at:stop])))
            position = stop + 1
        del buffer[:position]
        return frames


def encode(command: str, headers: list[tuple[str, str]], body: bytes = b"") -> bytes:
    """Write a frame. The values that the simulator uses need no escapes."""
    lines = [command, *(f"{name}:{value}" for name, value in headers)]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"
