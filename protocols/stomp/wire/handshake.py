"""CONNECT and STOMP: the terms that client and broker agree on at the beginning. Must never check
users or passcodes: it passes them on.
"""

from typing import Final

from daybook.protocols.stomp.wire.errors import StompError, shortened
from daybook.protocols.stomp.wire.frames import BLANKS, Head, number
from daybook.protocols.stomp.wire.options import StompOptions
from daybook.protocols.stomp.wire.versions import ALL, NAMES, TEXTS, V10, escape
from daybook.protocols.stomp.wire.virtual_hosts import chosen

HEART_BEAT_MS_MAX: Final = 3_600_000
"""The longest useful interval: the broker sends at least this often, and expects nothing if the
client's interval is longer.
"""


class Handshake:
    """The request of a CONNECT and the result: version, virtual host, login, heart-beats in
    milliseconds.

    `send_ms` is how often the broker must send, `receive_ms` how often the client promised to send;
    0 for never.
    """

    __slots__ = (
        "client_id", "host", "login", "offer", "passcode", "receive_ms", "send_ms", "version",
    )  # fmt: skip

    def __init__(self, head: Head, options: StompOptions) -> None:
        values = head.values
        self.version: int = negotiate(values.get("accept-version"))
        if self.version == V10:
            # Blanks around values are customary in 1.0; later versions must not trim them.
            values = {name: value.strip(BLANKS) for name, value in values.items()}
        self.host: str = chosen(values.get("host"), self.version, options)
        self.login: str = values.get("login", "")
        self.passcode: str = values.get("passcode", "")
        self.client_id: str = values.get("client-id", "")
        self.send_ms: int = 0
        self.receive_ms: int = 0
        self.offer: str = f"{options.heart_beat_send_ms},{options.heart_beat_receive_ms}"
        if self.version != V10:
            can, wants = _heart_beat(values.get("heart-beat", "0,0"))
            if wants and options.heart_beat_send_ms:
                self.send_ms = min(max(wants, options.heart_beat_send_ms), HEART_BEAT_MS_MAX)
            # A promise to send very rarely is useless.
            if 0 < can <= HEART_BEAT_MS_MAX and options.heart_beat_receive_ms:
                self.receive_ms = max(can, options.heart_beat_receive_ms)

    def connected(self, session: str, server: str, user: str) -> bytes:
        """Make the frame CONNECTED; it is never escaped, so invalid characters are omitted."""
        frame = f"CONNECTED\nversion:{TEXTS[self.version]}\nsession:{session}\nserver:"
        encoded = frame.encode() + escape(server.encode(), V10) + b"\n"
        encoded += b"host-id:" + self.host.encode() + b"\n"
        if user:
            encoded += b"user-id:" + escape(user.encode(), V10) + b"\n"
        if self.version != V10:
            encoded += b"heart-beat:" + self.offer.encode() + b"\n"
        return encoded + b"\n\0"


def negotiate(accepted: str | None) -> int:
    """Return the highest common version; without `accept-version` 1.0. Raises StompError."""
    if accepted is None:
        return V10
    common = [NAMES[name.strip()] for name in accepted.split(",") if name.strip() in NAMES]
    if not common:
        raise StompError(
            f"no common version: accept-version is {shortened(accepted)}",
            f"the broker speaks {ALL}",
            versions=True,
        )
    return max(common)


def _heart_beat(given: str) -> tuple[int, int]:
    can, comma, wants = given.partition(",")
    sends, receives = number(can.strip()), number(wants.strip())
    if not comma or sends is None or receives is None:
        raise StompError(
            f"heart-beat is {shortened(given)}",
            "write heart-beat:X,Y with two numbers of milliseconds",
        )
    return sends, receives
