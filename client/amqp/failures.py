"""The errors of the client of AMQP 1.0. Must never know a frame but the one that names an error."""

from typing import Any, Final

from daybook.client.endpoint import ClientError
from daybook.protocols.amqp.faults import CODE, DROPPED
from daybook.protocols.amqp.wire.performatives import Error


class AmqpClientError(ClientError):
    """The broker refused, or the connection cannot be used; the text says why."""


class AmqpRefused(AmqpClientError):
    """The broker refused: a login, a link, a message, or the connection.

    `condition` is that of the specification, "" if it named none. `dropped` is the reason why a
    message went to no queue, "" if that is not what was refused.
    """

    def __init__(
        self, text: str, *, condition: str = "", code: str = "", dropped: str = ""
    ) -> None:
        super().__init__(text, code=code)
        self.condition: Final = condition
        self.dropped: Final = dropped


def refused(what: str, problem: Any) -> AmqpRefused:
    """Return the error for something that the peer refused, with the reason that it gave."""
    if not isinstance(problem, Error):
        return AmqpRefused(what)
    text = f"{what}: {problem.description or problem.condition}"
    return AmqpRefused(
        text,
        condition=problem.condition,
        code=_text(problem, CODE),
        dropped=_text(problem, DROPPED),
    )


def _text(problem: Error, key: str) -> str:
    """Return a text in the info of an error, "" if there is none."""
    found = (problem.info or {}).get(key, "")
    return found if type(found) is str else ""
