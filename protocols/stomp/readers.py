"""Subscriptions that read: browsers, and those that want sequence numbers (`include-seq`).

Must never know queues: which messages come, and which is the last one, was decided.
"""

from typing import Final

from daybook.protocols.port import DeliveredMessage
from daybook.protocols.stomp.output import Output
from daybook.protocols.stomp.subscribing import SubscribeRequest
from daybook.protocols.stomp.subscription import Subscription

_END: Final = b"destination:\nmessage-id:\nbrowser:end\n\n\0"
"""The rest of the frame behind the last message, as Apollo has it."""


class Reader(Subscription):
    """A subscription that writes sequence numbers, or the end of a browse, or both."""

    __slots__ = ("_before", "_browses", "_sequence")

    def __init__(self, output: Output, serial: int, request: SubscribeRequest) -> None:
        super().__init__(output, serial, request)
        name = request.reading.sequence_header
        self._before: bytes = self._before_id.removesuffix(b"message-id:")
        self._browses: bool = request.reading.browses
        self._sequence: bytes = f"{name}:".encode() if name else b""

    def deliver(self, message: DeliveredMessage, count: int, marks: int, gate: int) -> None:
        """Write MESSAGE, with its sequence number."""
        if self._sequence:
            self._before_id = b"%b%b%d\nmessage-id:" % (self._before, self._sequence, message.id)
        super().deliver(message, count, marks, gate)

    def detached(self, reason: int, text: str, gate: int, now: int) -> None:
        """End a browse with its queue; other readers are as all subscriptions."""
        if not self._browses:
            super().detached(reason, text, gate, now)
        elif not self.is_over:
            if self.is_open:
                self.output.gate = max(self.output.gate, gate)
            self.browsed()

    def browsed(self) -> None:
        """Write the end of a browse: the broker has nothing more for this subscription."""
        self.is_over = True
        if self.is_open:
            self.output.out.append(self._before + _END)
            self.output.has_spoken = True
