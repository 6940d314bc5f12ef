"""The state machine of a connection: the action of each command in each state, and the transitions.
The session reports a command that is not in the table as unknown. docs/stomp.md shows both tables.
Must never know how an action is executed.
"""

from typing import Final

NEW: Final = "new"
AUTHENTICATING: Final = "authenticating"
CONNECTED: Final = "connected"
CLOSED: Final = "closed"

STATES: Final = (NEW, AUTHENTICATING, CONNECTED, CLOSED)

# The triggers of transitions.
LOGIN: Final = "login"  # a CONNECT that can be understood
OPENED: Final = "opened"  # the login is right, and the engine has opened the connection
ENDED: Final = "ended"  # DISCONNECT, an error, a deadline, or the peer is gone

TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    (NEW, LOGIN): AUTHENTICATING,
    (AUTHENTICATING, OPENED): CONNECTED,
    **{(state, ENDED): CLOSED for state in STATES},
}

CLIENT_COMMANDS: Final = (
    "CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK",
    "BEGIN", "COMMIT", "ABORT", "DISCONNECT",
)  # fmt: skip
SERVER_COMMANDS: Final = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")
COMMANDS: Final = frozenset(name.encode() for name in CLIENT_COMMANDS + SERVER_COMMANDS)

# Actions that are not commands.
HOLD: Final = "hold"  # kept until the login is decided
IGNORE: Final = "ignore"  # the connection is over
TOO_EARLY: Final = "too-early"  # not logged in yet
TWICE: Final = "twice"  # logged in already
NOT_FOR_CLIENTS: Final = "not-for-clients"  # a frame that only brokers send

TABLE: Final[dict[tuple[str, str], str]] = {
    (NEW, "CONNECT"): "CONNECT",
    (NEW, "STOMP"): "CONNECT",
    (NEW, "SEND"): TOO_EARLY,
    (NEW, "SUBSCRIBE"): TOO_EARLY,
    (NEW, "UNSUBSCRIBE"): TOO_EARLY,
    (NEW, "ACK"): TOO_EARLY,
    (NEW, "NACK"): TOO_EARLY,
    (NEW, "BEGIN"): TOO_EARLY,
    (NEW, "COMMIT"): TOO_EARLY,
    (NEW, "ABORT"): TOO_EARLY,
    (NEW, "DISCONNECT"): TOO_EARLY,
    (CONNECTED, "CONNECT"): TWICE,
    (CONNECTED, "STOMP"): TWICE,
    (CONNECTED, "SEND"): "SEND",
    (CONNECTED, "SUBSCRIBE"): "SUBSCRIBE",
    (CONNECTED, "UNSUBSCRIBE"): "UNSUBSCRIBE",
    (CONNECTED, "ACK"): "ACK",
    (CONNECTED, "NACK"): "NACK",
    (CONNECTED, "BEGIN"): "BEGIN",
    (CONNECTED, "COMMIT"): "COMMIT",
    (CONNECTED, "ABORT"): "ABORT",
    (CONNECTED, "DISCONNECT"): "DISCONNECT",
    **{
        (state, command): NOT_FOR_CLIENTS
        for state in (NEW, CONNECTED)
        for command in SERVER_COMMANDS
    },
    **{
        (state, command): action
        for state, action in ((AUTHENTICATING, HOLD), (CLOSED, IGNORE))
        for command in CLIENT_COMMANDS + SERVER_COMMANDS
    },
}  # fmt: skip
