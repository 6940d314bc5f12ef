"""The control socket of a node: `daybook cluster`, `daybook lead` and the console ask here, also
while no broker runs.

A unix socket in the data directory that only its owner may use; the protocol is that of the
broker's own (`server.administration.control`): a line of JSON each way. Fault model: a peer may
send anything, and may be slow; it is dropped after a while, or after its first line.
"""

import asyncio
import os
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from daybook.engine.refusals import Refusal
from daybook.errors import DaybookError
from daybook.journal.data_directory import NODE_SOCKET
from daybook.server.administration.acting import ActAs, LogIn
from daybook.server.administration.request_rows import Answer

REQUEST_BYTES_MAX: Final = 64 * 1024
SECONDS: Final = 10.0
CLIENTS_MAX: Final = 32
ANSWER_BYTES_MAX: Final = 1 << 20
ASK: Final = {"do": "cluster"}
ABOUT_USERS: Final = ("log-in", "act-as")
ANSWERED: Final = "'cluster', 'lead', 'log-in' and 'act-as' alone"


class Asked(Protocol):
    """What answers."""

    def status(self) -> dict[str, Any]:
        """Return what is shown."""
        ...

    async def hand_over(self, to: str, by: str) -> dict[str, Any]:
        """Let another node lead, "" for the one that has most; return which one does. `by` is the
        user of a console that asks, "" for the command line. Raises DaybookError."""
        ...

    async def about_user(self, asked: LogIn | ActAs) -> Answer | Refusal:
        """Return the user of a login, or what a user may see now."""
        ...


class NodeSocket:
    """Answers while the node runs."""

    def __init__(self, data: Path, asked: Asked) -> None:
        self._data: Final = data
        self._asked: Final = asked
        self._clients = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        folder = os.open(self._data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The path of a socket is limited to 107 bytes, that of a directory is not.
            path = Path(f"/proc/self/fd/{folder}/{NODE_SOCKET}")
            path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(
                self._serve, path, limit=REQUEST_BYTES_MAX
            )
        finally:
            os.close(folder)

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
        (self._data / NODE_SOCKET).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= CLIENTS_MAX:
                async with asyncio.timeout(SECONDS):
                    line = await reader.readline()
                # A hand-over has limits of its own.
                writer.write(await self._answer(line))
                async with asyncio.timeout(SECONDS):
                    await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            return _refused("invalid", f"no request: {error}")
        if request == ASK:
            return _packed({"result": self._asked.status()})
        if request.get("do") in ABOUT_USERS:
            return await self._answer_about_user(line)
        to, by = request.get("to"), request.get("by", "")
        is_lead = request.get("do") == "lead" and request.keys() <= {"do", "to", "by"}
        if not is_lead or not isinstance(to, str) or not isinstance(by, str):
            do = request.get("do")
            return _refused("invalid", f"a node answers {ANSWERED}, not {do!r} with {[*request]}")
        try:
            return _packed({"result": await self._asked.hand_over(to, by)})
        except DaybookError as error:
            return _refused("refused", str(error))

    async def _answer_about_user(self, line: bytes) -> bytes:
        try:
            answer = await self._asked.about_user(msgspec.json.decode(line, type=LogIn | ActAs))
        except msgspec.ValidationError as error:
            return _refused("invalid", f"no request: {error}")
        if isinstance(answer, Refusal):
            return _refused(answer.code.value, answer.text)
        return _packed({"result": answer})


def _refused(code: str, text: str) -> bytes:
    return _packed({"error": {"code": code, "text": text[:500]}})


async def state_of(data: Path) -> dict[str, Any]:
    """Return what the node of a data directory says of itself. Raises OSError, ValueError and
    TimeoutError."""
    folder = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_unix_connection(
                f"/proc/self/fd/{folder}/{NODE_SOCKET}", limit=ANSWER_BYTES_MAX
            )
            try:
                writer.write(_packed(ASK))
                answer = msgspec.json.decode(await reader.readline(), type=dict[str, Any])
            finally:
                writer.close()
    finally:
        os.close(folder)
    found: dict[str, Any] = answer.get("result", {})
    return found


def _packed(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
