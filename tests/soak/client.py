"""A STOMP client on asyncio for thousands of connections in one process."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any, Final

from tests.interop.wire import Frame, cut_frame, frame

SECONDS: Final = 60.0
READ_BYTES: Final = 1 << 16


class Gone(Exception):
    """The broker closed the connection, or said ERROR, where a client did nothing wrong."""


class Client:
    """One connection; use it as an asynchronous context manager."""

    def __init__(self, port: int, **headers: str) -> None:
        self._port = port
        self._headers = {"accept_version": "1.2", "host": "soak", **headers}
        self._buffer = bytearray()
        self._serial = 0
        self.messages: list[Frame] = []

    async def __aenter__(self) -> "Client":
        await self.open()
        self.send("CONNECT", **self._headers)
        await self.expect("CONNECTED")
        return self

    async def open(self, receive_bytes: int = 0) -> None:
        """Connect, without a login."""
        plain = socket.socket()
        plain.setblocking(False)
        if receive_bytes:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._port))
        except BaseException:
            plain.close()
            raise
        self._reader, self._writer = await asyncio.open_connection(sock=plain, limit=READ_BYTES)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def reset(self) -> None:
        """Drop the connection so that the broker gets a reset."""
        plain = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    # ---- frames

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def flush(self) -> None:
        """Wait until the broker takes what was sent."""
        await self._writer.drain()

    def send(self, command: str, body: bytes = b"", **headers: Any) -> None:
        """Send a frame."""
        self.write(frame(command, body, **headers))

    async def confirmed(self, command: str, body: bytes = b"", **headers: Any) -> None:
        """Send a frame, and wait for its receipt; messages before it are kept."""
        self._serial += 1
        self.send(command, body, receipt=self._serial, **headers)
        await self.flush()
        found = await self.expect("RECEIPT")
        if found.headers["receipt-id"] != str(self._serial):
            raise Gone(f"another receipt: {found}")

    async def expect(self, command: str) -> Frame:
        """The next frame of this command; messages before it are kept."""
        while True:
            found = await self._read()
            if found.command == command:
                return found
            if found.command != "MESSAGE":
                raise Gone(f"{found.command} instead of {command}: {found}")
            self.messages.append(found)

    async def message(self) -> Frame:
        """The next message."""
        return self.messages.pop(0) if self.messages else await self.expect("MESSAGE")

    async def _read(self) -> Frame:
        while True:
            while self._buffer.startswith((b"\n", b"\r")):
                del self._buffer[:1]
            found = cut_frame(self._buffer)
            if found is not None:
                return found
            self._buffer += await self.some()

    async def some(self) -> bytes:
        """Some bytes of the broker, whatever they are. Raises Gone at the end."""
        try:
            data = await asyncio.wait_for(self._reader.read(READ_BYTES), SECONDS)
        except ConnectionError as error:
            raise Gone(str(error)) from error
        if not data:
            raise Gone("closed")
        return data
