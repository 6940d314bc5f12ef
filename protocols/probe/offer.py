"""The probe's offer to the registry. Must never know where the values of options come from.

The modules for HTTP and metrics are imported only for an acceptor, so that the command line starts
fast.
"""

from collections.abc import Mapping
from typing import Final

from daybook.protocols.port import (
    Count,
    Duration,
    Offer,
    ProtocolOption,
    Size,
    Texts,
    Value,
    Watching,
)
from daybook.protocols.probe.hosts import KEY

OPTIONS: Final = (
    ProtocolOption(
        "max-queues",
        Count(0, 100_000),
        1_000,
        "Queues, and addresses, that have metrics of their own; the others are summed up as one.",
    ),
    ProtocolOption(
        "max-request-head",
        Size(1 << 10, 1 << 20),
        "8KiB",
        "Length of the request line and the headers of a request together.",
    ),
    ProtocolOption(
        "request-timeout",
        Duration(100),
        10_000,
        "How long a peer may take to send a request.",
    ),
    ProtocolOption(
        "idle-timeout",
        Duration(100),
        90_000,
        "How long a connection stays open without a request.",
    ),
    ProtocolOption(
        KEY,
        Texts(),
        [],
        "Names in the header Host that are answered, besides `localhost`, the name of this machine,"
        " the host in `listen`, and every IP address; `*`: any name.",
    ),
)


def watching(values: Mapping[str, Value]) -> Watching:
    """Return the protocol of an acceptor with these options."""
    from daybook.protocols.probe.session import Probe  # noqa: PLC0415

    return Probe(values)


def refusal(why: str) -> bytes:
    """Encode an answer with the reason why a connection is refused."""
    body = f"{why}\n".encode()
    return b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: %d\r\n%b\r\n%b" % (
        len(body), b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n", body,
    )  # fmt: skip


OFFER: Final = Offer(
    scheme="http",
    name="HTTP",
    listen="127.0.0.1:8161",
    connections=64,
    options=OPTIONS,
    refusal=refusal,
    watching=watching,
)
