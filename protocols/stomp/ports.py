"""What a session needs of the engine, and no more. Must never know how it is done."""

from collections.abc import Sequence
from typing import Protocol

from daybook.engine.budget import Budget
from daybook.engine.commands import Command
from daybook.engine.outcomes import Outcome
from daybook.engine.refusals import Refusal


class BrokerPort(Protocol):
    """Takes commands: the answer is a Refusal or the LSN to wait for, 0 for none.

    `budget` says how much may be done before others have their turn.
    """

    budget: Budget

    def handle(self, command: Command, now: int) -> int | Refusal:
        """Carry out a command at this time in microseconds."""
        ...

    def holders(self, connection: int, message: int) -> Sequence[int]:
        """Ids of the consumers of a connection, opened to be asked this, that have a message."""
        ...

    @property
    def lsn(self) -> int:
        """LSN of the last event decided."""
        ...

    def outcome(self, since: int) -> Outcome | None:
        """Say what became of the message that was just sent; `since` is the LSN before it."""
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
