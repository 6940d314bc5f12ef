"""The windows of a session (part 2, section 2.5.6): how many transfers either side may send.

Names of attributes are those of the specification. Must never know a link.
"""

from daybook.protocols.amqp.wire.errors import WINDOW_VIOLATION, AmqpError
from daybook.protocols.amqp.wire.performatives import Begin, Flow
from daybook.protocols.amqp.wire.serial import after, distance


class SessionWindows:
    """The windows of one session, as its broker counts them.

    `incoming_window` transfers may still come; `outgoing_room` may still leave.
    """

    __slots__ = (
        "incoming_window", "incoming_window_max", "next_incoming_id", "next_outgoing_id",
        "remote_incoming_window", "remote_outgoing_window",
    )  # fmt: skip

    def __init__(self, begin: Begin, incoming_window_max: int, initial_outgoing_id: int) -> None:
        """Take over what the peer says when it begins a session."""
        self.incoming_window_max = incoming_window_max
        self.incoming_window = incoming_window_max
        self.next_incoming_id = begin.next_outgoing_id
        self.next_outgoing_id = initial_outgoing_id
        self.remote_incoming_window = begin.incoming_window
        self.remote_outgoing_window = begin.outgoing_window

    @property
    def outgoing_room(self) -> int:
        """How many transfers the peer still takes."""
        return max(0, self.remote_incoming_window)

    def transfer_came(self) -> None:
        """Count a transfer of the peer. Raises AmqpError if its window has no room for it."""
        if self.incoming_window <= 0:
            raise AmqpError(WINDOW_VIOLATION, "a transfer is beyond the window of its session")
        self.incoming_window -= 1
        self.next_incoming_id = after(self.next_incoming_id)
        self.remote_outgoing_window = max(0, self.remote_outgoing_window - 1)

    def transfer_left(self) -> None:
        """Count a transfer of the broker."""
        assert self.remote_incoming_window > 0, "the peer has no room for a transfer"
        self.remote_incoming_window -= 1
        self.next_outgoing_id = after(self.next_outgoing_id)

    def flow_came(self, flow: Flow, initial_outgoing_id: int) -> None:
        """Take over what the peer says of the session.

        A peer that has seen nothing of the session yet names no id: it means the first one. Raises
        AmqpError for a peer that has seen transfers which never left.
        """
        seen = flow.next_incoming_id if flow.next_incoming_id is not None else initial_outgoing_id
        on_the_way = distance(seen, self.next_outgoing_id)
        if on_the_way < 0:
            raise AmqpError(WINDOW_VIOLATION, f"transfer {seen} was not sent yet")
        self.remote_incoming_window = flow.incoming_window - on_the_way
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window

    def widen(self) -> None:
        """Let the peer send as much as at the beginning; a flow says so."""
        self.incoming_window = self.incoming_window_max
