"""The output of a connection: what its session and its subscriptions write.

It must never know what is written, or for which peer.
"""

from daybook.engine.facts.reasons import LIMIT
from daybook.protocols.port import Body, DeliveredMessage, Pull
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import V10


class Output:
    """Frames to send, in the version and spelling of the peer.

    `out` is output to send once the LSN `gate` is durable; `bodies` are the places in it for bodies
    of large messages. `has_spoken` says that there was output since the last heart-beat.
    `keys_bytes` is the memory that subscriptions take, here and in the broker.
    """

    __slots__ = (
        "bodies",
        "gate",
        "has_spoken",
        "keys_bytes",
        "latest",
        "options",
        "out",
        "pulls",
        "unsent_bytes",
        "version",
    )

    def __init__(self, options: StompOptions) -> None:
        self.options: StompOptions = options
        self.version: int = V10
        self.out: list[bytes] = []
        self.bodies: list[Body] = []
        # Bodies are not framed, and what is delivered leaves: nothing is pulled, nothing waits.
        self.pulls: list[Pull] = []
        self.unsent_bytes: int = 0
        self.gate: int = 0
        self.has_spoken: bool = False
        self.keys_bytes: int = 0
        # In 1.0, the consumer of the subscription with the last MESSAGE; 0 for none.
        self.latest: int = 0

    def dismiss(self, what: str, advice: str, now: int, reason: int = LIMIT) -> None:
        """End the session on behalf of the broker, and send the peer the reason."""
        raise NotImplementedError

    def say_body(self, message: DeliveredMessage, consumer: int) -> None:
        """Note that the body of a large message follows the last output."""
        at = sum(map(len, self.out))
        self.bodies.append(Body(at, message.chunks, message.body_bytes, message.id, consumer))
