"""Frames: a length of four bytes, then a msgpack array that begins with the name of the frame, with
values of all types (`tests.support.worlds.second_format`)."""

from typing import Any, Final

import msgspec

from tests.support.worlds.second_format import pack, unpack

FRAME_BYTES_MAX: Final = 1 << 20


class BadFrame(Exception):
    """The peer sent something that is not a frame."""


def frame(name: str, *parts: Any) -> bytes:
    """Encode a frame."""
    encoded = pack([name, *parts])
    return len(encoded).to_bytes(4) + encoded


class Cutter:
    """Cuts a stream into frames, however it was split."""

    def __init__(self) -> None:
        self.rest = b""

    def put(self, data: bytes) -> None:
        """Take bytes."""
        self.rest += data

    def next(self) -> list[Any] | None:
        """Return the next whole frame, None if there is none. Raises BadFrame."""
        if len(self.rest) < 4:
            return None
        length = int.from_bytes(self.rest[:4])
        if length > FRAME_BYTES_MAX:
            raise BadFrame(f"a frame of {length} bytes")
        if len(self.rest) < 4 + length:
            return None
        encoded, self.rest = self.rest[4 : 4 + length], self.rest[4 + length :]
        try:
            found = unpack(encoded)
        except msgspec.DecodeError as error:
            raise BadFrame(str(error)) from None
        if not isinstance(found, list) or not found or not isinstance(found[0], str):
            raise BadFrame("a frame without a name")
        return found
