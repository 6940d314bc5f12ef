"""The errors of a session, which become ERROR frames. Must never know a socket."""

from daybook.engine.names.names import qualified
from daybook.engine.refusals import Code, Refusal


class StompError(Exception):
    """An invalid request of the peer: `what` is wrong, `advice` says what to do.

    `versions` is set when the two sides have no version in common: the ERROR then lists ours.
    `code` is for programs that must know for certain what happened; it is sent in the header
    `code`, and the ERROR then waits until everything that it reports is durable.
    """

    def __init__(self, what: str, advice: str = "", versions: bool = False, code: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.versions = versions
        self.code = code

    @property
    def sentence(self) -> str:
        """The problem and the advice in one line: many clients show no more of an ERROR."""
        return f"{self.what}; {self.advice}" if self.advice else self.what


class UndefinedEscape(StompError):
    """A header line has an escape that the version of the session does not have."""


class UnknownDelivery(StompError):
    """An ACK or NACK names a delivery that is not in flight."""


class Blocked(Exception):
    """The session must repeat the command later, and send no other command until then."""


class Unfinished(Exception):
    """The command needs more turns: the session must repeat it in its next turn."""


def refused(refusal: Refusal) -> StompError | Blocked | Unfinished:
    """Return the error for a refusal of the broker."""
    if refusal.code is Code.UNFINISHED:
        return Unfinished()
    if refusal.code is Code.BLOCKED:
        return Blocked()
    if refusal.code is Code.DUPLICATE:
        return StompError(
            refusal.text,
            "if this repeats a transaction, that one was committed before: continue with the "
            "next; otherwise give its messages new ids",
            code=refusal.code.value,
        )
    return StompError(refusal.text)


def on_its_host(error: StompError, host: str) -> StompError:
    """Return an error as clients of a virtual host see it: with names as they spell them."""
    prefix = qualified(host, "")
    if not prefix or prefix not in error.sentence:
        return error
    return StompError(
        error.what.replace(prefix, ""),
        error.advice.replace(prefix, ""),
        code=error.code,
        versions=error.versions,
    )


def shortened(text: str, limit: int = 100) -> str:
    """Return the text in quotes, shortened so that a hostile one does not inflate the error."""
    return repr(text) if len(text) <= limit else repr(text[:limit]) + " (cut)"


def silent(silence_ms: int) -> StompError:
    """Return the error for a peer that was silent for too long."""
    return StompError(
        f"nothing was heard for {silence_ms} ms", "send the heart-beats that were agreed"
    )


def too_early(limit: int, moment: str) -> StompError:
    """Return the error for a peer that sends too much before its login."""
    return StompError(
        f"more than {limit} bytes before {moment}",
        "send CONNECT first and wait for CONNECTED, or raise max-early-data in the broker's"
        " configuration",
    )


def unchecked(timeout_ms: int) -> StompError:
    """Return the error for a peer whose login was not checked in time."""
    return StompError(
        f"the login could not be checked within {timeout_ms} ms: many others wait",
        "try again later",
    )


def stalled(timeout_ms: int) -> StompError:
    """Return the error for a peer that stops in the middle of a body."""
    return StompError(
        f"the body of a SEND did not arrive: less than 64 KiB of it came within {timeout_ms} ms",
        "send bodies without such pauses, or raise body-timeout in the broker's configuration",
    )


def never_connected(timeout_ms: int) -> StompError:
    """Return the error for a peer that did not log in in time."""
    return StompError(
        f"not connected within {timeout_ms} ms",
        "send CONNECT in time, or raise connect-timeout in the broker's configuration",
    )
