"""How `journal replay` speaks to a broker: by STOMP or by AMQP 1.0.

Both say of each message when the broker has it, and whether it went to no queue: then it was there
already, or was dropped. Must never know where messages come from.
"""

from typing import Final, Protocol

from daybook.client.amqp.client import AmqpClient
from daybook.client.amqp.leaving import Place, leaving_of
from daybook.client.amqp.links import Sender
from daybook.client.bodies import Content
from daybook.client.endpoint import AMQP, Endpoint
from daybook.client.stomp import StompClient
from daybook.tools.terminal.failures import Failure

Lines = list[tuple[str, str]]


class ReplayChannel(Protocol):
    """A connection; a context manager. All methods raise ClientError."""

    def __enter__(self) -> "ReplayChannel": ...

    def __exit__(self, *failure: object) -> None: ...

    def send(self, lines: Lines, body: Content) -> int:
        """Send a message, whose first header is its destination; return its number."""
        ...

    def dropped(self, number: int) -> str:
        """Wait until the broker has a message; return why it went to no queue, "" if it went to
        one."""
        ...

    def disconnect(self) -> None:
        """Close the connection; the broker then has everything."""
        ...


def connected(endpoint: Endpoint) -> ReplayChannel:
    """Connect to a broker. Raises ClientError."""
    return AmqpReplay(endpoint) if endpoint.protocol == AMQP else StompReplay(endpoint)


class StompReplay:
    """A channel over STOMP."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._client: Final = StompClient(endpoint)
        self._receipts: Final[dict[int, str]] = {}
        self._count = 0

    def __enter__(self) -> "StompReplay":
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.__exit__()

    def send(self, lines: Lines, body: Content) -> int:
        """As `ReplayChannel.send`."""
        self._count += 1
        lines = [*lines, ("receipt-outcome", "true")]
        self._receipts[self._count] = self._client.send_with_receipt(lines, body)
        return self._count

    def dropped(self, number: int) -> str:
        """As `ReplayChannel.dropped`."""
        receipt = self._receipts.pop(number)
        self._client.wait_for(receipt)
        return self._client.outcomes.pop(receipt, {}).get("dropped", "")

    def disconnect(self) -> None:
        """As `ReplayChannel.disconnect`."""
        self._client.disconnect()


class AmqpReplay:
    """A channel over AMQP 1.0."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._client: Final = AmqpClient(endpoint)
        self._links: Final[dict[Place, Sender]] = {}

    def __enter__(self) -> "AmqpReplay":
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.__exit__()

    def send(self, lines: Lines, body: Content) -> int:
        """As `ReplayChannel.send`. Raises Failure for a broker that tells no drops."""
        message = leaving_of(lines[0][1], lines[1:])
        link = self._links.get(message.place)
        if link is None:
            link = self._client.sender(message.place, tells_drops=True)
            if not link.tells_drops:
                raise Failure(
                    f"{self._client.endpoint} does not say over AMQP which messages it had before;"
                    " use a URL with stomp://"
                )
            self._links[message.place] = link
        return self._client.send(link, message, body)

    def dropped(self, number: int) -> str:
        """As `ReplayChannel.dropped`."""
        return self._client.routed(number)

    def disconnect(self) -> None:
        """As `ReplayChannel.disconnect`."""
        self._client.disconnect()
