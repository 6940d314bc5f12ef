"""The offer of the control protocol to the registry. Must never know where values come from."""

from collections.abc import Mapping
from typing import Final

from daybook.protocols.control.session import Control, error_line
from daybook.protocols.port import Administering, Duration, Offer, ProtocolOption, Value

OPTIONS: Final = (
    ProtocolOption(
        "token-timeout",
        Duration(100),
        10_000,
        "How long a peer may take to send its token.",
    ),
    ProtocolOption(
        "idle-timeout",
        Duration(100),
        60_000,
        "How long a connection stays open without a request, or while its answer is not read.",
    ),
)


def administering(values: Mapping[str, Value]) -> Administering:
    """Return the protocol of an acceptor with these options."""
    return Control(values)


def refusal(why: str) -> bytes:
    """Encode the reason why a connection is refused."""
    return error_line("limit", f"{why}; try again later")


OFFER: Final = Offer(
    scheme="control",
    name="control",
    listen="127.0.0.1:61612",
    connections=32,
    options=OPTIONS,
    refusal=refusal,
    administering=administering,
)
