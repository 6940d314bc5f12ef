"""What goes wrong in a session, and becomes an ERROR frame. Must never know a socket."""

from daybook.engine.refusals import Code, Refusal


class StompError(Exception):
    """The peer asked for something that cannot be: `what` is wrong, `advice` says what is right.

    `versions` is set when the two sides have no version in common: the ERROR then lists ours.
    `code` is for programs, where they must know for certain what happened; it goes into the header
    `code`, and the ERROR then waits until everything that it speaks of is durable.
    """

    def __init__(self, what: str, advice: str = "", versions: bool = False, code: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.versions = versions
        self.code = code


class UndefinedEscape(StompError):
    """A header line has an escape that the version of the session does not have."""


class UnknownDelivery(StompError):
    """An ACK or NACK names a delivery that is not in flight."""


class Blocked(Exception):
    """The broker wants the same command again later, and nothing else until then."""


class Unfinished(Exception):
    """Others have their turn before the command goes on: the same one is to be given again."""


def refused(refusal: Refusal) -> StompError | Blocked | Unfinished:
    """The error that tells a refusal of the broker."""
    if refusal.code is Code.UNFINISHED:
        return Unfinished()
    if refusal.code is Code.BLOCKED:
        return Blocked()
    if refusal.code is Code.DUPLICATE:
        return StompError(
            refusal.text,
            "if it is the same transaction again, it was committed before: go on with the next; "
            "else give its messages ids of their own",
            code=refusal.code.value,
        )
    return StompError(refusal.text)


def shortened(text: str, limit: int = 100) -> str:
    """The text in quotes, cut so that a hostile one does not blow up the error."""
    return repr(text) if len(text) <= limit else repr(text[:limit]) + " (cut)"


def silent(silence_ms: int) -> StompError:
    """What to say to a peer that is given up for its silence."""
    return StompError(
        f"nothing was heard for {silence_ms} ms", "send the heart-beats that were agreed"
    )


def too_early(limit: int, moment: str) -> StompError:
    """What to say to a peer that sends too much before it is logged in."""
    return StompError(
        f"more than {limit} bytes before {moment}",
        "send CONNECT first and wait for CONNECTED, or raise max-early-data in the broker's"
        " configuration",
    )


def unchecked(timeout_ms: int) -> StompError:
    """What to say to a peer whose login the broker did not manage to check in time."""
    return StompError(
        f"the login could not be checked within {timeout_ms} ms: many others wait",
        "try again later",
    )


def stalled(timeout_ms: int) -> StompError:
    """What to say to a peer that does not go on with a body."""
    return StompError(
        f"the body of a SEND did not arrive: less than 64 KiB of it came within {timeout_ms} ms",
        "send bodies without such pauses, or raise body-timeout in the broker's configuration",
    )


def never_connected(timeout_ms: int) -> StompError:
    """What to say to a peer that did not log in."""
    return StompError(
        f"not connected within {timeout_ms} ms",
        "send CONNECT in time, or raise connect-timeout in the broker's configuration",
    )
