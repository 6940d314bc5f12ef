"""What a session needs of the engine, and no more. Must never know how it is done."""

from typing import Protocol

from engine.commands import Command
from engine.refusals import Refusal


class BrokerPort(Protocol):
    """Takes commands: the answer is a Refusal or the LSN to wait for, 0 for none."""

    def handle(self, command: Command, now: int) -> int | Refusal:
        """Carry out a command at this time in microseconds."""
        ...


class DeliveredMessage(Protocol):
    """What a delivery needs of a message; `headers` is a block of `engine.headers`.

    One that has `chunks` is large: it has no body but these, of so many bytes together.
    """

    id: int
    headers: bytes
    body: bytes
    chunks: tuple[int, ...]

    @property
    def body_bytes(self) -> int:
        """Length of the body."""
        ...
