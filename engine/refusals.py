"""Refusals: the answers to commands that the broker does not carry out.

A refusal is a value, decided before any event exists, so it leaves no trace in the state. Protocols
translate the code; people read the text, which states the problem and the remedy.
"""

from enum import Enum
from typing import Final

import msgspec

NAME_SHOWN_MAX: Final = 100


class Code(Enum):
    """The kinds of refusal, each with a meaning that every protocol can express.

    BLOCKED is not an error: the same command must be given again when its turn comes
    (`engine.limits.waiting_senders`), and its sender gives no other command before. DUPLICATE says
    for certain that a message with an id of the transaction was routed before: protocols must
    report it in a form that programs understand. UNFINISHED is not an error either: a part of the
    command is done, and others have their turn; the same command must be given again soon. Its
    sender, a link of the connection, gives no other command before.
    """

    NOT_FOUND = "not-found"
    ALREADY_EXISTS = "already-exists"
    NOT_ALLOWED = "not-allowed"
    INVALID = "invalid"
    LIMIT = "limit"
    BLOCKED = "blocked"
    DUPLICATE = "duplicate-id"
    UNFINISHED = "unfinished"


class Refusal(msgspec.Struct, frozen=True):
    """Why a command was refused: a code for programs and a sentence for people."""

    code: Code
    text: str


def is_denial(refusal: Refusal) -> bool:
    """Whether a refusal is for want of a permission, which its text says then."""
    return refusal.code is Code.NOT_ALLOWED and "permission" in refusal.text


def no_queue(name: str) -> Refusal:
    """Return the answer to who names a queue that is not there, or not theirs (ADR 77)."""
    return Refusal(
        Code.NOT_FOUND, f"there is no queue '{name}'; check the name, or create the queue"
    )


def no_address(name: str) -> Refusal:
    """Return the answer to who names an address that is not there."""
    return Refusal(
        Code.NOT_FOUND, f"there is no address '{name}'; check the name, or create the address"
    )


def bad_name(what: str, name: str, wrong: str | None) -> Refusal | None:
    """Return the refusal of a name that has a fault (`engine.names.names.wrong_with`), None if it
    has none; `what` it would be the name for."""
    if wrong is None:
        return None
    shown = repr(name if len(name) <= NAME_SHOWN_MAX else name[:NAME_SHOWN_MAX] + "...")
    return Refusal(Code.INVALID, f"{shown} is not a name for {what}: {wrong}")


UNFINISHED: Final = Refusal(Code.UNFINISHED, "a part of it is done; give the command again")
"""The answer to a command that takes longer than one turn."""
