"""What ends a session or a link alone, and how refusals of the broker are said in AMQP.

A fault of the connection is an `AmqpError` (`wire.errors`). Must never know a frame.
"""

from typing import Any, Final

from daybook.engine.facts import reasons
from daybook.engine.refusals import Code, Refusal, is_denial
from daybook.protocols.amqp.wire.errors import (
    DETACH_FORCED,
    INTERNAL_ERROR,
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_DELETED,
    RESOURCE_LIMIT_EXCEEDED,
    STOLEN,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from daybook.protocols.amqp.wire.performatives import Error

TEXT_BYTES_MAX: Final = 300
"""Length of a description, so that every peer can take the frame."""

CODE: Final = "daybook:code"
"""The key of the code of a refusal in the info of an error."""
DIRECT: Final = "daybook:direct"
"""The capability that a link to a direct address offers its sender, which has credit only while
somebody receives there."""
DROPPED: Final = "daybook:dropped"
"""The capability of a link whose sender hears of a message that went to no queue: it is rejected
with this condition, and with the reason under this key of the info."""

_CONDITIONS: Final = {
    Code.NOT_FOUND: NOT_FOUND,
    Code.ALREADY_EXISTS: PRECONDITION_FAILED,
    Code.NOT_ALLOWED: NOT_ALLOWED,
    Code.INVALID: INVALID_FIELD,
    Code.LIMIT: RESOURCE_LIMIT_EXCEEDED,
    Code.DUPLICATE: PRECONDITION_FAILED,
}
_DETACHED: Final = {
    reasons.QUEUE_REMOVED: RESOURCE_DELETED, reasons.UNUSED: RESOURCE_DELETED,
    reasons.STOLEN: STOLEN,
}  # fmt: skip


class SessionFault(AmqpError):
    """A fault that ends its session."""


class LinkFault(AmqpError):
    """A fault that ends its link."""


def error(condition: str, text: str, info: dict[str, Any] | None = None) -> Error:
    """Return an error as a frame says it."""
    cut = text.encode()[:TEXT_BYTES_MAX].decode("utf-8", "ignore")
    return Error(condition, cut or None, info)


def words_of(problem: Error | None) -> str:
    """Return an error of a peer in words, empty for none."""
    if problem is None:
        return ""
    return ": ".join(each for each in (problem.condition, problem.description or "") if each)


def condition_of(refusal: Refusal) -> str:
    """Return the condition for a refusal; the text says that a permission is missing."""
    if is_denial(refusal):
        return UNAUTHORIZED_ACCESS
    return _CONDITIONS.get(refusal.code, INTERNAL_ERROR)


def refused(refusal: Refusal) -> LinkFault:
    """Return the fault of a link for a refusal."""
    return LinkFault(condition_of(refusal), refusal.text)


def error_of(refusal: Refusal) -> Error:
    """Return a refusal as an error. That a message was routed before is also said for programs."""
    info = {CODE: refusal.code.value} if refusal.code is Code.DUPLICATE else None
    return error(condition_of(refusal), refusal.text, info)


def dropped(reason: str) -> Error:
    """Return the error of a message that went to no queue, for those that want to hear of it."""
    return error(DROPPED, f"the message went to no queue: {reason}", {DROPPED: reason})


def detached(reason: int, text: str) -> Error:
    """Return the error of a link that the broker ends."""
    return error(_DETACHED.get(reason, DETACH_FORCED), text)
