"""When to send a heart-beat and when a peer is silent. Must never know a clock: time is passed in.

All times are microseconds since 1970 UTC, all spans microseconds.
"""

from typing import Final

from daybook.protocols.stomp.wire.handshake import Handshake

_US_PER_MS: Final = 1000


class HeartBeats:
    """The agreed heart-beats in both directions; none before `start`."""

    __slots__ = ("_next_send", "_receive_within", "_send_every")

    def __init__(self) -> None:
        self._send_every: int = 0
        self._next_send: int = 0
        self._receive_within: int = 0

    def start(self, shake: Handshake, grace: float, now: int) -> None:
        """Begin with the agreed intervals; a peer may be silent for `grace` times its interval."""
        # Checked five times in two intervals, so that the broker's silence is never longer than
        # agreed.
        self._send_every = shake.send_ms * _US_PER_MS * 2 // 5
        self._next_send = now + self._send_every
        self._receive_within = int(shake.receive_ms * _US_PER_MS * grace)

    def clock_stepped(self, now: int) -> None:
        """The clock was set, so the time of the next heart-beat is unknown: send one now."""
        self._next_send = now

    def is_silent(self, heard: int, now: int) -> bool:
        """Return whether a peer that last sent at `heard` has been silent for too long."""
        return self._receive_within > 0 and now - heard >= self._receive_within

    def is_due(self, now: int) -> bool:
        """Return whether it is time to check for output; sets the time of the next check."""
        if not self._send_every or now < self._next_send:
            return False
        self._next_send = now + self._send_every
        return True

    def deadline(self, heard: int) -> int:
        """Return the time of the next check, 0 for never."""
        receive_by = heard + self._receive_within if self._receive_within else 0
        send_at = self._next_send if self._send_every else 0
        return min(receive_by, send_at) if receive_by and send_at else receive_by or send_at
